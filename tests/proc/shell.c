#include "tests/proc/shell.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

char shell_output[SHELL_OUTPUT_MAX];

static void offer_await(void)
{
    char lib[SHELL_LINE_MAX];

    (void)snprintf(lib, sizeof(lib),
                   "await() { n=0; while ! eval \"$1\" >/dev/null 2>&1; do n=$((n+1)); "
                   "[ $n -lt %d ] || { echo \"never: $1\"; return 1; }; sleep 0.05; done; }\n",
                   (int)SHELL_AWAIT_LOOPS);
    assert_int_equal(setenv("LIB", lib, 1), 0);
}

/* Makes the tested program the `zabra` of the shell. The rest of PATH stays as it is, whatever its
 * length: a test opens the shell for each of its ensembles. */
static void lead_path(void)
{
    static const char program[] = ZABRA_BINARY;
    size_t folder_len = (size_t)(strrchr(program, '/') - program);
    const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): no thread changes it. */
    size_t size = 0;
    char *longer = NULL;

    assert_non_null(path);
    if (strncmp(path, program, folder_len) == 0 && path[folder_len] == ':') {
        return;
    }
    size = folder_len + strlen(path) + sizeof(":");
    longer = mem_alloc(size);
    (void)snprintf(longer, size, "%.*s:%s", (int)folder_len, program, path);
    assert_int_equal(setenv("PATH", longer, 1), 0);
    mem_free(longer);
}

void shell_open(const struct ensemble *ensemble)
{
    char text[SHELL_LINE_MAX] = "";
    size_t len = 0;

    for (uint32_t i = 0; i < ensemble->count; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s127.0.0.1:%u", i ? "," : "",
                                ensemble->replicas[i].client_port);
    }
    assert_int_equal(setenv("ZABRA_ENDPOINTS", text, 1), 0);
    lead_path();
    assert_int_equal(setenv("D", ensemble->dir, 1), 0);
    assert_int_equal(setenv("HOME", ensemble->dir, 1), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", ensemble->dir, 1), 0);
    assert_int_equal(setenv("XDG_STATE_HOME", ensemble->dir, 1), 0);
    assert_int_equal(unsetenv("ZABRA_OUTPUT"), 0);
    offer_await();
}

/* Reads until the line has ended; returns its exit code. */
static int collect(FILE *pipe)
{
    size_t len = fread(shell_output, 1, SHELL_OUTPUT_MAX - 1, pipe);
    int status = pclose(pipe);

    shell_output[len] = '\0';
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int shell(const char *format, ...)
{
    char line[SHELL_LINE_MAX];
    va_list list;

    va_start(list, format);
    assert_true(vsnprintf(line, sizeof(line), format, list) < SHELL_LINE_MAX);
    va_end(list);

    FILE *pipe = popen(line, "r");

    assert_non_null(pipe);
    return collect(pipe);
}

static void compare(const char *line, int got, int code, const char *said)
{
    if (got != code || !strstr(shell_output, said)) {
        fail_msg("%s: exit code %d, not %d, and \"%s\" expected in: %s", line, got, code, said,
                 shell_output);
    }
}

void shell_expect(const char *line, int code, const char *said)
{
    compare(line, shell("{ %s\n} 2>&1", line), code, said);
}

void shell_expect_json(const char *line, int code, const char *filter)
{
    char whole[SHELL_LINE_MAX];
    int len = snprintf(whole, sizeof(whole),
                       "%s >$D/json; c=$?; jq -e '%s' $D/json >/dev/null || "
                       "{ cat $D/json; exit 99; }; exit $c",
                       line, filter);

    assert_in_range(len, 1, SHELL_LINE_MAX - 1);
    shell_expect(whole, code, "");
}

void shell_start(struct shell_job *job, const char *format, ...)
{
    char all[SHELL_JOB_MAX + 16];
    va_list list;

    va_start(list, format);
    assert_true(vsnprintf(job->line, sizeof(job->line), format, list) < SHELL_JOB_MAX);
    va_end(list);
    (void)snprintf(all, sizeof(all), "{ %s\n} 2>&1", job->line);
    job->pipe = popen(all, "r");
    assert_non_null(job->pipe);
}

void shell_finish(struct shell_job *job, int code, const char *said)
{
    compare(job->line, collect(job->pipe), code, said);
    job->pipe = NULL;
}
