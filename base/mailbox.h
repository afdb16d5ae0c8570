/*
 * mailbox.h - a bounded queue from many threads to one, with an eventfd to wait on.
 *
 * The receiver drains the queue in batches: many messages, one wake. Messages are intrusive nodes;
 * the mailbox owns each message until the receiver takes it.
 */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include "base/err.h"
#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>

struct mailbox {
    pthread_mutex_t mutex;
    struct list queue; /* The list nodes embedded in the messages. */
    size_t count;
    size_t count_max;
    int event_fd; /* Readable while the queue may hold messages. */
    bool closed;
    atomic_uint wakers; /* Threads that have posted and still have to wake the receiver. */
};

/* `count_max` bounds the queue, except for mailbox_post_always and mailbox_must_post. */
void mailbox_init(struct mailbox *box, size_t count_max);

/* The mailbox must be empty. Waits for threads that are still within a post. */
void mailbox_release(struct mailbox *box);

/* Any thread. Takes over the message unless the result is ERR_FULL or ERR_CLOSED. */
enum err mailbox_post(struct mailbox *box, struct list *take_node);

/* Like mailbox_post, but ignores the bound: for messages whose number is bounded elsewhere, such as
 * completions (at most one per request). */
enum err mailbox_post_always(struct mailbox *box, struct list *take_node);

/* Like mailbox_post_always, for a mailbox that must be open. */
void mailbox_must_post(struct mailbox *box, struct list *take_node);

/* Receiver only: moves all messages to `ret_list` (initialised here) and clears the eventfd.
 * Returns their number. */
size_t mailbox_drain(struct mailbox *box, struct list *ret_list);

/* Receiver only: waits at most `timeout_ms` (-1 for ever) for a message; true if there may be
 * one. */
bool mailbox_wait(struct mailbox *box, int timeout_ms);

/* Returns the number of waiting messages (a hint, for metrics). Any thread. */
size_t mailbox_count(struct mailbox *box);

/* Makes later posts fail with ERR_CLOSED, and wakes the receiver. Any thread. */
void mailbox_close(struct mailbox *box);
bool mailbox_is_closed(struct mailbox *box);

#endif
