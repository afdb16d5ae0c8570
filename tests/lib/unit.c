#include "tests/lib/unit.h"

#include "base/mem.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_TESTS_MAX = 200,
    TEST_NAME_MAX = 256
};

static struct unit_test *first;
static struct unit_test *last;
static const struct unit_group *begun;   /* The last group that was begun, or NULL. */
static const struct unit_group *running; /* The group whose tests run now, or NULL. */

void unit_begin_group(const struct unit_group *group)
{
    begun = group;
}

void unit_add(struct unit_test *test)
{
    test->group = begun && strcmp(begun->file, test->file) == 0 ? begun : NULL;
    if (last) {
        last->next = test;
    } else {
        first = test;
    }
    last = test;
}

/* "test_prep:a_name" of tests/unit/test_prep.c; without `name` the part before the colon. */
static void name_of(const struct unit_test *test, bool with_name, char text[TEST_NAME_MAX])
{
    const char *slash = strrchr(test->file, '/');
    const char *base = slash ? slash + 1 : test->file;

    (void)snprintf(text, TEST_NAME_MAX, "%.*s%s%s", (int)strcspn(base, "."), base,
                   with_name ? ":" : "", with_name ? test->name : "");
}

/* Selected by one of the words: the name of a file or a test, as a shell pattern. */
static bool matches(const struct unit_test *test, const char *word)
{
    char name[TEST_NAME_MAX];

    name_of(test, strchr(word, ':') != NULL, name);
    return fnmatch(word, name, 0) == 0;
}

static bool is_chosen(const struct unit_test *test, int count, char **words)
{
    for (int i = 0; i < count; i++) {
        if (matches(test, words[i])) {
            return true;
        }
    }
    return count == 0;
}

static const char *unknown_word(int count, char **words)
{
    for (int i = 0; i < count; i++) {
        const struct unit_test *test = first;

        while (test && !matches(test, words[i])) {
            test = test->next;
        }
        if (!test) {
            return words[i];
        }
    }
    return NULL;
}

/* ---- The form that cmocka calls. ---- */

static int set_up(void **state)
{
    struct unit_test *test = *state;

    if (test->size > 0) {
        test->fixture = mem_zalloc(1, test->size);
    }
    test->take(UNIT_SET_UP, test->fixture);
    return 0;
}

static void run(void **state)
{
    const struct unit_test *test = *state;

    test->take(UNIT_RUN, test->fixture);
}

static int tear_down(void **state)
{
    struct unit_test *test = *state;

    test->take(UNIT_TEAR_DOWN, test->fixture);
    if (test->size > 0) {
        mem_free(test->fixture);
        test->fixture = NULL;
    }
    return 0;
}

static int set_up_group(void **unused)
{
    (void)unused;
    running->set_up();
    return 0;
}

static int tear_down_group(void **unused)
{
    (void)unused;
    running->tear_down();
    return 0;
}

/* Runs the selected tests of the group of `test`, or of its file; returns the first one after it.
 */
static struct unit_test *run_group(struct unit_test *test, int count, char **words,
                                   int *inout_failed)
{
    struct CMUnitTest tests[FILE_TESTS_MAX];
    const struct unit_test *from = test;
    char name[TEST_NAME_MAX];
    size_t chosen = 0;

    name_of(test, false, name);
    for (; test && strcmp(test->file, from->file) == 0 && test->group == from->group;
         test = test->next) {
        if (is_chosen(test, count, words)) {
            assert_true(chosen < FILE_TESTS_MAX);
            tests[chosen++] = (struct CMUnitTest){.name = test->name,
                                                  .test_func = run,
                                                  .setup_func = set_up,
                                                  .teardown_func = tear_down,
                                                  .initial_state = test};
        }
    }
    running = from->group;
    if (chosen > 0) {
        *inout_failed += _cmocka_run_group_tests(name, tests, chosen, running ? set_up_group : NULL,
                                                 running ? tear_down_group : NULL);
    }
    return test;
}

static int list(int count, char **words)
{
    for (const struct unit_test *test = first; test; test = test->next) {
        char name[TEST_NAME_MAX];

        name_of(test, true, name);
        if (is_chosen(test, count, words)) {
            (void)puts(name);
        }
    }
    return EXIT_SUCCESS;
}

static int usage(const char *program)
{
    (void)printf("usage: %s [--list] [FILE[:TEST]]...\n"
                 "Runs or lists the named tests; without a name, all of them. Names may contain\n"
                 "shell wildcards: test_prep, test_prep:a_lock_is_released, 'test_ws*:*ping*'.\n",
                 program);
    return EXIT_SUCCESS;
}

int unit_run(int count, char **args)
{
    bool lists = count > 1 && strcmp(args[1], "--list") == 0;
    int skipped = lists ? 2 : 1;
    char **words = args + skipped;
    int failed = 0;

    if (count > 1 && strcmp(args[1], "--help") == 0) {
        return usage(args[0]);
    }
    count -= count > skipped ? skipped : count;

    const char *unknown = unknown_word(count, words);

    if (unknown) {
        (void)fprintf(stderr, "%s: no test is named %s; --list shows all\n", args[0], unknown);
        return 2;
    }
    if (lists) {
        return list(count, words);
    }
    for (struct unit_test *test = first; test;) {
        test = run_group(test, count, words, &failed);
    }
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
