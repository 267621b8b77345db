/* log.h: the one way the library says something that is no error of a call. The default sink
 * drops everything; the command line installs one that writes to stderr. */
#ifndef HG_BASE_LOG_H
#define HG_BASE_LOG_H

enum hg_log_level { HG_LOG_ERROR, HG_LOG_WARN, HG_LOG_INFO, HG_LOG_DEBUG };

typedef void hg_log_sink(enum hg_log_level level, const char *text);

/* Not thread-safe: call before threads start. NULL = drop. */
void hg_log_set(hg_log_sink *sink, enum hg_log_level most);
void hg_log(enum hg_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
