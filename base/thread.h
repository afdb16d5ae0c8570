/* thread.h - named threads with signals blocked; the process handles signals in one place. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

struct thread {
    pthread_t handle;
    void (*body)(void *arg);
    void *arg;
    char name[16]; /* Shown by ps and in crash reports. */
};

/* Starts `body(arg)`; `thread` must live until thread_join. Ends the process if it cannot. */
void thread_start(struct thread *thread, const char *name, void (*body)(void *arg), void *arg);
void thread_join(struct thread *thread);

#endif
