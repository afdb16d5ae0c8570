/* The probes exist only in the test-only build, so this program compiles their code itself. */
#ifndef ZABRA_TESTING
#define ZABRA_TESTING
#endif

#include "base/probe.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/lib/unit.h"

#include <string.h>

static void rare_branch(void)
{
    PROBE("rare branch");
}

TEST(a_probe_counts_and_is_listed_once)
{
    int listed = 0;

    PROBE("here");
    assert_string_equal(probe_first()->name, "here");
    rare_branch();
    rare_branch();
    for (const struct probe *probe = probe_first(); probe; probe = probe->next) {
        if (strcmp(probe->name, "rare branch") == 0) {
            listed++;
            assert_true(probe->hits == 2);
        }
    }
    assert_int_equal(listed, 1);
}

TEST(one_mutant_at_a_time)
{
    assert_false(MUTANT(7));
    mutant_select(7);
    assert_true(MUTANT(7));
    assert_false(MUTANT(8));
    mutant_select(0);
    assert_false(MUTANT(7));
}
