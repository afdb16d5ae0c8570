/* Patterns of names. */
#include "base/os_clock.h"
#include "server/read/glob.h"
#include "tests/lib/unit.h"

#include <string.h>

static bool match(const char *pattern, const char *text)
{
    return glob_match(slice_str(pattern), slice_str(text), false);
}

static bool match_any_case(const char *pattern, const char *text)
{
    return glob_match(slice_str(pattern), slice_str(text), true);
}

TEST(plain_text_matches_anywhere)
{
    assert_true(match("", "anything"));
    assert_true(match("", ""));
    assert_true(match("lock", "lock-0000000001"));
    assert_true(match("000", "lock-0000000001"));
    assert_true(match("1", "lock-0000000001"));
    assert_false(match("Lock", "lock-0000000001"));
    assert_false(match("lock-00000000012", "lock-0000000001"));
    assert_true(match("[a]", "x[a]y"));
}

TEST(a_glob_matches_the_whole_name)
{
    assert_true(match("*", ""));
    assert_true(match("*", "a"));
    assert_true(match("**", "ab"));
    assert_true(match("lock-*", "lock-"));
    assert_true(match("lock-*", "lock-7"));
    assert_false(match("lock-*", "a-lock-7"));
    assert_true(match("*-lock-*", "a-lock-7"));
    assert_false(match("*-lock", "a-lock-7"));
    assert_true(match("*a*b*c*", "xxaxxbxxcxx"));
    assert_false(match("*a*b*c*", "xxaxxcxxbxx"));
    assert_true(match("*ab", "aab"));
    assert_true(match("a*a*a", "aaaa"));
    assert_false(match("?", ""));
    assert_true(match("?", "a"));
    assert_false(match("?", "ab"));
    assert_true(match("a?c*", "abcd"));
}

TEST(a_question_mark_matches_one_character)
{
    assert_true(match("?", "\xc3\xa9"));
    assert_true(match("?", "\xf0\x9f\x8d\x80"));
    assert_false(match("??", "\xc3\xa9"));
    assert_true(match("*?", "\xc3\xa9"));
    assert_true(match("caf?", "caf\xc3\xa9"));
}

TEST(letters_match_in_any_case_on_request)
{
    assert_true(match_any_case("LOCK", "my-lock-7"));
    assert_true(match_any_case("lock", "LOCK"));
    assert_true(match_any_case("", ""));
    assert_true(match_any_case("", "a"));
    assert_false(match_any_case("a", ""));
    assert_false(match_any_case("lock8", "lock-8"));
    assert_true(match_any_case("L?CK-*", "lock-7"));
    assert_true(match_any_case("\\A*", "abc"));
    assert_false(match_any_case("L?CK", "lock-7"));
    assert_false(match_any_case("[", "{")); /* As far apart as A and a. */
    assert_false(match_any_case("\xc3\x89", "\xc3\xa9"));
}

TEST(a_backslash_escapes_the_next_character)
{
    assert_true(match("a\\*", "a*"));
    assert_false(match("a\\*", "ab"));
    assert_true(match("\\?", "?"));
    assert_true(match("\\\\", "\\"));
    assert_true(match("a\\", "a\\"));
    assert_false(match("a\\", "a"));
}

TEST(bytes_are_found_in_data)
{
    assert_true(glob_holds(slice_make("a\0bc", 4), slice_make("\0b", 2)));
    assert_false(glob_holds(slice_make("a\0bc", 4), slice_make("\0c", 2)));
    assert_true(glob_holds(slice_make(NULL, 0), slice_make(NULL, 0)));
    assert_false(glob_holds(slice_make(NULL, 0), slice_str("a")));
}

/* A pattern that makes a naive matcher take exponential time. */
TEST(a_hostile_pattern_takes_bounded_time)
{
    static char pattern[257];
    static char text[4097];

    for (size_t i = 0; i + 2 < sizeof(pattern); i += 2) {
        memcpy(pattern + i, "*a", 2);
    }
    pattern[254] = 'b';
    memset(text, 'a', sizeof(text) - 1);

    uint64_t start_ms = os_now_ms();

    assert_false(match(pattern, text));
    assert_true(os_now_ms() - start_ms < 5000);
}
