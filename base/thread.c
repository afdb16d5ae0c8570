#include "base/thread.h"

#include "base/check.h"
#include "base/lack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

enum {
    STACK_SIZE = 1 << 20,
    MS_PER_S = 1000,
    NS_PER_MS = 1000000
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

void thread_step_back(int nice)
{
    /* Of the calling thread alone, on Linux. */
    (void)setpriority(PRIO_PROCESS, 0, nice);
}

void thread_wait(pthread_cond_t *changed, pthread_mutex_t *held, uint64_t ms)
{
    struct timespec end;
    int failed = clock_gettime(CLOCK_MONOTONIC, &end);
    uint64_t end_ms = (uint64_t)end.tv_nsec / NS_PER_MS + 1 + ms;

    end.tv_sec += (time_t)(end_ms / MS_PER_S);
    end.tv_nsec = (long)(end_ms % MS_PER_S * NS_PER_MS);
    ASSERT(!failed);
    failed = pthread_cond_clockwait(changed, held, CLOCK_MONOTONIC, &end);
    ASSERT(!failed || failed == ETIMEDOUT);
}
