#include "base/thread.h"
#include "tests/lib/unit.h"

#include <signal.h>
#include <stdbool.h>

struct seen {
    char name[16];
    bool term_blocked;
    bool ran;
};

static void look(void *arg)
{
    struct seen *seen = arg;
    sigset_t mask;

    pthread_getname_np(pthread_self(), seen->name, sizeof(seen->name));
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    seen->term_blocked = sigismember(&mask, SIGTERM) == 1;
    seen->ran = true;
}

TEST(a_thread_has_its_name_and_no_signals)
{
    struct thread thread;
    struct seen seen = {.ran = false};
    sigset_t mask;

    thread_start(&thread, "core", look, &seen);
    thread_join(&thread);
    assert_true(seen.ran);
    assert_string_equal(seen.name, "core");
    assert_true(seen.term_blocked);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0); /* The starter's mask is unchanged. */
}

TEST(a_long_name_is_cut)
{
    struct thread thread;
    struct seen seen = {.ran = false};

    thread_start(&thread, "a-name-longer-than-the-kernel-keeps", look, &seen);
    thread_join(&thread);
    assert_string_equal(seen.name, "a-name-longer-t");
}
