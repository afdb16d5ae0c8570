#include "base/mailbox.h"
#include "base/mem.h"
#include "base/thread.h"
#include "tests/lib/unit.h"

enum {
    WAIT_MS = 60000,
    SENDERS = 2,
    MESSAGES = 20000,
    BOXES = 500
};

struct message {
    struct list link;
    int sender;
    int number;
};

TEST(order_bound_and_wake)
{
    struct mailbox box;
    struct message messages[3];
    struct list got;

    mailbox_init(&box, 2);
    assert_false(mailbox_wait(&box, 0));
    assert_int_equal(mailbox_post(&box, &messages[0].link), ERR_OK);
    assert_int_equal(mailbox_post(&box, &messages[1].link), ERR_OK);
    assert_int_equal(mailbox_post(&box, &messages[2].link), ERR_FULL);
    assert_int_equal(mailbox_post_always(&box, &messages[2].link), ERR_OK);
    assert_int_equal(mailbox_count(&box), 3);
    assert_true(mailbox_wait(&box, 0));

    assert_int_equal(mailbox_drain(&box, &got), 3);
    assert_false(mailbox_wait(&box, 0));
    for (int i = 0; i < 3; i++) {
        assert_ptr_equal(got.next, &messages[i].link);
        list_remove(got.next);
    }
    assert_true(list_empty(&got));
    assert_int_equal(mailbox_drain(&box, &got), 0);
    assert_true(list_empty(&got));
    mailbox_release(&box);
}

TEST(close_refuses_and_wakes)
{
    struct mailbox box;
    struct message messages[2];
    struct list got;

    mailbox_init(&box, 2);
    mailbox_post(&box, &messages[0].link);
    mailbox_drain(&box, &got);
    mailbox_post(&box, &messages[0].link);
    mailbox_close(&box);
    mailbox_close(&box);
    assert_true(mailbox_wait(&box, 0));
    assert_int_equal(mailbox_post(&box, &messages[1].link), ERR_CLOSED);
    assert_int_equal(mailbox_post_always(&box, &messages[1].link), ERR_CLOSED);
    assert_int_equal(mailbox_drain(&box, &got), 1); /* Its contents are not lost. */
    assert_int_equal(mailbox_drain(&box, &got), 0);
    mailbox_release(&box);
}

struct sender {
    struct thread thread;
    struct mailbox *box;
    struct message *messages;
};

static void send_all(void *arg)
{
    struct sender *sender = arg;

    for (int i = 0; i < MESSAGES; i++) {
        mailbox_post_always(sender->box, &sender->messages[i].link);
    }
}

static void send_one(void *arg)
{
    struct sender *sender = arg;

    mailbox_post(sender->box, &sender->messages[0].link);
}

/* Every message arrives once, in the order of its sender, and no wake-up is lost. */
TEST(many_senders)
{
    static struct message messages[SENDERS][MESSAGES];
    struct sender senders[SENDERS];
    struct mailbox box;
    int next[SENDERS] = {0};
    int left = SENDERS * MESSAGES;

    mailbox_init(&box, 1);
    for (int s = 0; s < SENDERS; s++) {
        for (int i = 0; i < MESSAGES; i++) {
            messages[s][i] = (struct message){.sender = s, .number = i};
        }
        senders[s].box = &box;
        senders[s].messages = messages[s];
        thread_start(&senders[s].thread, "sender", send_all, &senders[s]);
    }
    while (left > 0) {
        struct list got;

        assert_true(mailbox_wait(&box, WAIT_MS));
        left -= (int)mailbox_drain(&box, &got);
        list_for_each (it, &got) {
            struct message *message = list_entry(it, struct message, link);

            assert_int_equal(message->number, next[message->sender]++);
        }
    }
    for (int s = 0; s < SENDERS; s++) {
        thread_join(&senders[s].thread);
    }
    assert_int_equal(left, 0);
    mailbox_release(&box);
}

/* The receiver of the message may release the box, even while the sender is still in its post. */
TEST(release_at_once)
{
    static struct message messages[MESSAGES];

    for (int i = 0; i < BOXES; i++) {
        struct mailbox *box = mem_zalloc(1, sizeof(*box));
        struct sender sender = {.box = box, .messages = messages};
        struct list got;

        mailbox_init(box, 1);
        thread_start(&sender.thread, "sender", send_one, &sender);
        while (mailbox_drain(box, &got) == 0) {
            (void)mailbox_wait(box, WAIT_MS);
        }
        mailbox_release(box);
        mem_free(box);
        thread_join(&sender.thread);
    }
}
