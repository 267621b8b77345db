#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

static hg_log_sink *log_sink;
static enum hg_log_level log_most = HG_LOG_INFO;

void hg_log_set(hg_log_sink *sink, enum hg_log_level most)
{
    log_sink = sink;
    log_most = most;
}

void hg_log(enum hg_log_level level, const char *fmt, ...)
{
    if (!log_sink || level > log_most) return;
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log_sink(level, text);
}
