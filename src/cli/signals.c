/* signals.c: SIGINT and SIGTERM as calls on an ordinary thread, where locks may be taken. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "cli/cli.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cli_signal_fn *handler;
static void *handler_ctx;
static sigset_t signals;

static void *wait_for_signals(void *arg)
{
    (void)arg;
    for (;;) {
        int sig;
        if (sigwait(&signals, &sig)) continue;
        pthread_mutex_lock(&lock);
        if (!handler) _exit(128 + sig); /* as a shell reports a death by signal */
        handler(handler_ctx, sig);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

void cli_on_signal(cli_signal_fn *fn, void *ctx)
{
    static bool started;
    if (!started) {
        pthread_t thread;
        sigemptyset(&signals);
        sigaddset(&signals, SIGINT);
        sigaddset(&signals, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &signals, NULL);
        started = true;
        if (pthread_create(&thread, NULL, wait_for_signals, NULL) == 0)
            pthread_detach(thread);
        else
            pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
    }
    pthread_mutex_lock(&lock);
    handler = fn;
    handler_ctx = ctx;
    pthread_mutex_unlock(&lock);
}
