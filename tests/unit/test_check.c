#include "base/check.h"
#include "tests/lib/unit.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_true_expression_passes)
{
    int evaluated = 0;

    ASSERT(++evaluated == 1);
    assert_int_equal(evaluated, 1);
}

TEST(a_false_expression_names_its_place_and_aborts)
{
    int ends[2];
    int status;
    char text[256] = "";

    assert_int_equal(pipe(ends), 0);

    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        const struct sigaction by_default = {.sa_handler = SIG_DFL};

        sigaction(SIGABRT, &by_default, NULL); /* Sanitizers may catch it. */
        dup2(ends[1], STDERR_FILENO);
        ASSERT(1 + 1 == 3);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_non_null(strstr(text, "test_check.c:"));
    assert_non_null(strstr(text, "assertion failed: 1 + 1 == 3\n"));
    close(ends[0]);
    close(ends[1]);
}
