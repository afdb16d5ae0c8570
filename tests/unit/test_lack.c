/* How a process ends when the machine gives it too little memory or too few descriptors. */
#include "base/lack.h"
#include "base/loop.h"
#include "base/mailbox.h"
#include "base/mem.h"
#include "tests/lib/unit.h"

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    REPORTED = 77
};

/* The address sanitizer would end the process with its own message. The sanitizer finds this
 * function by its name. */
const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

static void report(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));

    (void)written;
    _exit(REPORTED);
}

/* Runs `body` in a child process; returns its exit code, or -1, and what it wrote. */
static int run_apart(void (*body)(void), char *text, size_t size)
{
    int ends[2];
    int status = 0;

    assert_int_equal(pipe(ends), 0);

    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        body();
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);

    ssize_t got = read(ends[0], text, size - 1);

    text[got > 0 ? got : 0] = '\0';
    close(ends[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void ask_for_too_much(void)
{
    mem_free(mem_alloc(SIZE_MAX / 4));
}

static void ask_for_a_product_that_wraps(void)
{
    mem_free(mem_zalloc(SIZE_MAX / 2, 4));
}

static void ask_for_too_much_with_a_reporter(void)
{
    lack_setup(report);
    ask_for_too_much();
}

static void open_a_loop_without_descriptors(void)
{
    const struct rlimit none = {0};
    struct loop loop;

    (void)setrlimit(RLIMIT_NOFILE, &none);
    loop_init(&loop);
}

static void open_a_mailbox_without_descriptors(void)
{
    const struct rlimit none = {0};
    struct mailbox box;

    (void)setrlimit(RLIMIT_NOFILE, &none);
    mailbox_init(&box, 1);
}

TEST(the_missing_resource_is_named)
{
    static const struct {
        void (*body)(void);
        int code;
        const char *text;
    } cases[] = {
        {ask_for_too_much, 1,
         "zabra: there is no memory left: an allocation of 4611686018427387903 bytes"},
        {ask_for_a_product_that_wraps, 1, "zabra: there is no memory left"},
        {ask_for_too_much_with_a_reporter, REPORTED, "there is no memory left"},
        {open_a_loop_without_descriptors, 1, "zabra: no file descriptor is left for an event loop"},
        {open_a_mailbox_without_descriptors, 1, "zabra: no file descriptor is left for a queue"},
    };

    char text[1024];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run_apart(cases[i].body, text, sizeof(text)), cases[i].code);
        assert_non_null(strstr(text, cases[i].text));
    }
}
