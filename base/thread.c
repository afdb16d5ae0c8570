#include "base/thread.h"

#include "base/check.h"
#include "base/lack.h"

#include <signal.h>
#include <stdio.h>

enum {
    STACK_SIZE = 1 << 20
};

static void *run(void *arg)
{
    struct thread *thread = arg;

    (void)pthread_setname_np(pthread_self(), thread->name);
    thread->body(thread->arg);
    return NULL;
}

void thread_start(struct thread *thread, const char *name, void (*body)(void *arg), void *arg)
{
    pthread_attr_t attr;
    sigset_t all;
    sigset_t before;

    *thread = (struct thread){.body = body, .arg = arg};
    (void)snprintf(thread->name, sizeof(thread->name), "%s", name);

    /* A thread inherits the signal mask of the thread that creates it. Signals are blocked before
     * the creation, so the new thread never runs without the mask. */
    int failed = sigfillset(&all);

    failed |= pthread_sigmask(SIG_SETMASK, &all, &before);
    failed |= pthread_attr_init(&attr);
    failed |= pthread_attr_setstacksize(&attr, STACK_SIZE);
    ASSERT(!failed);
    if (pthread_create(&thread->handle, &attr, run, thread) != 0) {
        lack_failed("the thread %s could not be started", name);
    }
    failed |= pthread_attr_destroy(&attr);
    failed |= pthread_sigmask(SIG_SETMASK, &before, NULL);
    ASSERT(!failed);
}

void thread_join(struct thread *thread)
{
    int failed = pthread_join(thread->handle, NULL);

    ASSERT(!failed);
}
