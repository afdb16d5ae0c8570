/*
 * unit.h - TEST: a test is written once, where it stands, and the program that is linked with it
 * finds it. Below are the assertions of cmocka.
 *
 *     TEST(a_name_that_is_a_sentence)                     nothing around it
 *     TEST(name, set_up, tear_down)                       set_up() before, tear_down() after
 *     TEST(name, bench, set_up, tear_down)                the same, with a `struct bench *bench`
 *
 *     TEST_GROUP(set_up, tear_down)                       set_up() once before all tests that
 * follow in this file, tear_down() after them
 *
 * The runner allocates the struct of the last form, zeroed, for each test; set_up, test and
 * tear_down get it. A set-up fails by an assertion: then neither the test nor the tear-down runs.
 *
 * The main function of a program without one is tests/lib/unit_main.c.
 */
#ifndef TESTS_LIB_UNIT_H
#define TESTS_LIB_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* clang-format on */

enum unit_step {
    UNIT_SET_UP,
    UNIT_RUN,
    UNIT_TEAR_DOWN
};

struct unit_test {
    const char *file; /* As given to the compiler. */
    const char *name;
    size_t size; /* Of its fixture; 0: none. */
    void (*take)(enum unit_step step, void *fixture);
    void *fixture;                  /* While it runs. */
    const struct unit_group *group; /* NULL: none. */
    struct unit_test *next;
};

/* Consecutive tests of one file. */
struct unit_group {
    const char *file;
    void (*set_up)(void);
    void (*tear_down)(void);
};

/* Called before main, for each TEST. */
void unit_add(struct unit_test *test);
void unit_begin_group(const struct unit_group *group);

/* Runs the tests that `args` names; without a name, all of them. The exit code: 0, 1 when a test
 * failed, 2 when an argument names no test. `args[0]` is the program. */
int unit_run(int count, char **args);

/* For fixtures that the test itself opens. */
static inline void no_set_up(void *fixture)
{
    (void)fixture;
}

#define TEST_GROUP(begin, end)                                        \
    __attribute__((constructor)) static void unit_begin_##begin(void) \
    {                                                                 \
        static const struct unit_group group = {                      \
            .file = __FILE__, .set_up = begin, .tear_down = end};     \
                                                                      \
        unit_begin_group(&group);                                     \
    }

#define TEST(...) \
    UNIT_PICK(__VA_ARGS__, UNIT_WITH_FIXTURE, UNIT_AROUND, UNIT_WRONG, UNIT_PLAIN, 0)(__VA_ARGS__)
#define UNIT_PICK(name, a, b, c, chosen, ...) chosen

#define UNIT_PLAIN(name)                                            \
    static void test_##name(void);                                  \
    static void unit_take_##name(enum unit_step step, void *unused) \
    {                                                               \
        (void)unused;                                               \
        if (step == UNIT_RUN) {                                     \
            test_##name();                                          \
        }                                                           \
    }                                                               \
    UNIT_ADD(name, 0)                                               \
    static void test_##name(void)

#define UNIT_AROUND(name, set_up, tear_down)                        \
    static void test_##name(void);                                  \
    static void unit_take_##name(enum unit_step step, void *unused) \
    {                                                               \
        (void)unused;                                               \
        if (step == UNIT_SET_UP) {                                  \
            set_up();                                               \
        } else if (step == UNIT_RUN) {                              \
            test_##name();                                          \
        } else {                                                    \
            tear_down();                                            \
        }                                                           \
    }                                                               \
    UNIT_ADD(name, 0)                                               \
    static void test_##name(void)

#define UNIT_WITH_FIXTURE(name, kind, set_up, tear_down)                     \
    static void test_##name(struct kind *kind);                              \
    static void unit_take_##name(enum unit_step step, void *fixture_of_test) \
    {                                                                        \
        if (step == UNIT_SET_UP) {                                           \
            set_up(fixture_of_test);                                         \
        } else if (step == UNIT_RUN) {                                       \
            test_##name(fixture_of_test);                                    \
        } else {                                                             \
            tear_down(fixture_of_test);                                      \
        }                                                                    \
    }                                                                        \
    UNIT_ADD(name, sizeof(struct kind))                                      \
    static void test_##name(struct kind *kind __attribute__((unused)))

#define UNIT_ADD(test, bytes)                                                            \
    __attribute__((constructor)) static void unit_add_##test(void)                       \
    {                                                                                    \
        static struct unit_test entry = {                                                \
            .file = __FILE__, .name = #test, .size = (bytes), .take = unit_take_##test}; \
                                                                                         \
        unit_add(&entry);                                                                \
    }

#endif
