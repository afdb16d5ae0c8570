#include "base/check.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STUCK_S = 20
};

TEST(a_true_expression_passes)
{
    int evaluated = 0;

    ASSERT(++evaluated == 1);
    assert_int_equal(evaluated, 1);
}

/* Runs a failing assertion in a child process with this stderr; returns the signal that ended it.
 */
static int fail_with(int error_fd)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct sigaction by_default = {.sa_handler = SIG_DFL};

        sigaction(SIGABRT, &by_default, NULL); /* Sanitizers may catch it. */
        dup2(error_fd, STDERR_FILENO);
        (void)alarm(STUCK_S);
        ASSERT(1 + 1 == 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(a_false_expression_names_its_place_and_aborts)
{
    int ends[2];
    char text[256] = "";

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fail_with(ends[1]), SIGABRT);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "test_check.c:"));
    assert_non_null(strstr(text, "assertion failed: 1 + 1 == 3\n"));
    close(ends[0]);
    close(ends[1]);
}

TEST(it_aborts_when_the_reader_of_stderr_is_frozen)
{
    static const char text[4096];
    int ends[2];

    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    while (write(ends[1], text, sizeof(text)) > 0) {
    }
    assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
    assert_int_equal(fail_with(ends[1]), SIGABRT);
    close(ends[0]);
    close(ends[1]);
}
