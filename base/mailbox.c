#include "base/mailbox.h"

#include "base/check.h"
#include "base/lack.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Wakes the receiver. The counter of the eventfd cannot overflow: it grows when the empty queue
 * gets a message and when the mailbox is closed, and each drain that empties the queue clears it. A
 * post calls this after it has released the lock: otherwise the receiver, woken at once on another
 * processor, would wait for the lock. */
static void wake(const struct mailbox *box)
{
    uint64_t one = 1;
    ssize_t written = write(box->event_fd, &one, sizeof(one));

    ASSERT(written == (ssize_t)sizeof(one));
}

static void clear_wake(const struct mailbox *box)
{
    uint64_t count;
    ssize_t got = read(box->event_fd, &count, sizeof(count));

    ASSERT(got == (ssize_t)sizeof(count) || errno == EAGAIN);
}

void mailbox_init(struct mailbox *box, size_t count_max)
{
    ASSERT(count_max > 0);

    *box = (struct mailbox){.count_max = count_max};
    list_init(&box->queue);
    box->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (box->event_fd < 0) {
        lack_failed("no file descriptor is left for a queue between threads");
    }
    mutex_init(&box->mutex);
}

void mailbox_release(struct mailbox *box)
{
    ASSERT(list_empty(&box->queue));

    while (atomic_load(&box->wakers) > 0) {
        (void)sched_yield();
    }
    close(box->event_fd);
    mutex_destroy(&box->mutex);
}

static enum err post(struct mailbox *box, struct list *take_node, bool bounded)
{
    enum err err = ERR_OK;
    bool first = false;

    mutex_lock(&box->mutex);
    if (box->closed) {
        err = ERR_CLOSED;
    } else if (bounded && box->count >= box->count_max) {
        err = ERR_FULL;
    } else {
        list_push_back(&box->queue, take_node);
        first = box->count++ == 0;
        (void)atomic_fetch_add(&box->wakers, first ? 1 : 0);
    }
    mutex_unlock(&box->mutex);
    if (first) {
        wake(box);
        (void)atomic_fetch_sub(&box->wakers, 1); /* The box may be gone after this. */
    }
    return err;
}

enum err mailbox_post(struct mailbox *box, struct list *take_node)
{
    return post(box, take_node, true);
}

enum err mailbox_post_always(struct mailbox *box, struct list *take_node)
{
    return post(box, take_node, false);
}

void mailbox_must_post(struct mailbox *box, struct list *take_node)
{
    enum err err = mailbox_post_always(box, take_node);

    ASSERT(err == ERR_OK);
}

/* Clears the eventfd even when the queue is empty: a wake may come after its message was taken. */
size_t mailbox_drain(struct mailbox *box, struct list *ret_list)
{
    MUTEX_HOLD(&box->mutex);
    size_t count = box->count;

    list_init(ret_list);
    list_move_all(ret_list, &box->queue);
    box->count = 0;
    clear_wake(box);
    return count;
}

bool mailbox_wait(struct mailbox *box, int timeout_ms)
{
    struct pollfd poll_fd = {.fd = box->event_fd, .events = POLLIN};
    int ready = poll(&poll_fd, 1, timeout_ms);

    ASSERT(ready >= 0 || errno == EINTR);
    return ready != 0;
}

size_t mailbox_count(struct mailbox *box)
{
    MUTEX_HOLD(&box->mutex);
    return box->count;
}

void mailbox_close(struct mailbox *box)
{
    MUTEX_HOLD(&box->mutex);
    if (!box->closed) {
        box->closed = true;
        wake(box);
    }
}

bool mailbox_is_closed(struct mailbox *box)
{
    MUTEX_HOLD(&box->mutex);
    return box->closed;
}
