/*
 * thread.h - named threads with signals blocked, because the process handles signals in one place;
 * and mutexes whose calls fail only by a bug.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include "base/check.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct thread {
    pthread_t handle;
    void (*body)(void *arg);
    void *arg;
    char name[16]; /* Shown by ps and in crash reports. */
};

/* Starts `body(arg)`; `thread` must live until thread_join. Ends the process when no thread can be
 * started. */
void thread_start(struct thread *thread, const char *name, void (*body)(void *arg), void *arg);
void thread_join(struct thread *thread);

/* Lets other threads go first where processors are short: `nice` as in nice(2), above 0. Without
 * the right to do so nothing changes. Called by the thread itself. */
void thread_step_back(int nice);

/* Waits for the condition for `ms` at most. Like every wait for a condition it may return early.
 * The mutex is held before and after. */
void thread_wait(pthread_cond_t *changed, pthread_mutex_t *held, uint64_t ms);

static inline void mutex_init(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_init(mutex, NULL) == 0);
}

static inline void mutex_destroy(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_destroy(mutex) == 0);
}

static inline void mutex_lock(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_lock(mutex) == 0);
}

static inline void mutex_unlock(pthread_mutex_t *mutex)
{
    ASSERT(pthread_mutex_unlock(mutex) == 0);
}

static inline pthread_mutex_t *mutex_enter(pthread_mutex_t *mutex)
{
    mutex_lock(mutex);
    return mutex;
}

static inline void mutex_leave(pthread_mutex_t **mutex)
{
    mutex_unlock(*mutex);
}

/* Holds the mutex from here to the end of the block, also when the block is left early.
 * NOLINTBEGIN(*-parentheses): the macro declares a variable. */
#define MUTEX_HOLD(mutex) \
    pthread_mutex_t *mutex_held __attribute__((cleanup(mutex_leave), unused)) = mutex_enter(mutex)
/* NOLINTEND(*-parentheses) */

#endif
