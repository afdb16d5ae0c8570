/* Failed credentials: what counts as a failure, when further attempts are slowed, what is logged.
 */
#include "base/mem.h"
#include "server/op/acl.h"
#include "server/process/guard.h"
#include "tests/lib/unit.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    NS_PER_MS = 1000000,
    START_NS = 1000000000,
    MADE_UP = 20000 /* Users or addresses: more than all tables hold. */
};

/* Of root:secret. */
static const char super[] = "root:J1scEM42CKaLPP5+ElgpgGsuONg=";

struct fixture {
    struct guard *guard;
    struct buf acl; /* alice:right may do everything, all other users nothing. */
    uint64_t now_ns;
};

static struct op_principal show(const char *address, const char *credential)
{
    struct op_principal who = {.auth = NULL};

    (void)snprintf(who.address, sizeof(who.address), "%s", address);
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str(credential), super, &who.auth),
                     ERR_OK);
    return who;
}

static void setup(struct fixture *fixture)
{
    struct op_principal alice = show("", "alice:right");

    *fixture =
        (struct fixture){.guard = mem_zalloc(1, sizeof(*fixture->guard)), .now_ns = START_NS};
    guard_init(fixture->guard, super);
    buf_init(&fixture->acl, ACL_BYTES_MAX);
    acl_put(&fixture->acl, &(struct acl_entry){.perms = ACL_ALL,
                                               .scheme = slice_str("digest"),
                                               .id = alice.auth->ids[0].id});
    principal_release(&alice);
}

static void teardown(struct fixture *fixture)
{
    guard_release(fixture->guard);
    mem_free(fixture->guard);
    buf_release(&fixture->acl);
}

/* One request as a front end handles it: the ms to wait, or 0 and whether the list allows it. */
static uint32_t request(struct fixture *fixture, const char *address, const char *credential,
                        bool *ret_allowed)
{
    struct op_principal who = show(address, credential);
    uint32_t wait_ms = guard_wait(fixture->guard, &who, 0, fixture->now_ns);

    *ret_allowed = false;
    if (wait_ms == 0) {
        *ret_allowed = acl_allows(buf_slice(&fixture->acl), &who, ACL_READ);
        guard_seen(fixture->guard, &who, fixture->now_ns);
    }
    principal_release(&who);
    return wait_ms;
}

/* How many of `count` guesses for that user are evaluated. */
static uint32_t guess(struct fixture *fixture, const char *address, const char *user,
                      uint32_t count)
{
    uint32_t evaluated = 0;

    for (uint32_t i = 0; i < count; i++) {
        char credential[64];
        bool allowed = false;

        (void)snprintf(credential, sizeof(credential), "%s:guess%u", user, i);
        evaluated += request(fixture, address, credential, &allowed) == 0 ? 1 : 0;
        assert_false(allowed);
    }
    return evaluated;
}

static uint64_t failed(const struct fixture *fixture, enum gate_failure kind)
{
    return metric_get(&fixture->guard->failed[kind]);
}

TEST(guesses_are_slowed_after_ten, fixture, setup, teardown)
{
    assert_int_equal(guess(fixture, "10.0.0.7", "alice", 1000), GUARD_FAILURES);
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), GUARD_FAILURES);
    assert_int_equal(metric_get(&fixture->guard->slowed), 1000 - GUARD_FAILURES);
    /* One more after each interval. */
    for (int i = 0; i < 5; i++) {
        fixture->now_ns += (uint64_t)GUARD_AGAIN_MS * NS_PER_MS;
        assert_int_equal(guess(fixture, "10.0.0.7", "alice", 1000), 1);
    }
    /* A clock that goes back adds nothing. */
    fixture->now_ns = START_NS / 2;
    assert_int_equal(guess(fixture, "10.0.0.7", "alice", 100), 0);
}

TEST(the_answer_reveals_nothing_while_slowed, fixture, setup, teardown)
{
    bool allowed = false;

    (void)guess(fixture, "10.0.0.7", "alice", 100);
    assert_true(request(fixture, "10.0.0.7", "alice:right", &allowed) > 0);
    assert_false(allowed);
}

TEST(other_addresses_are_not_affected, fixture, setup, teardown)
{
    bool allowed = false;

    (void)guess(fixture, "10.0.0.7", "alice", 1000);
    assert_int_equal(request(fixture, "10.0.0.8", "alice:right", &allowed), 0);
    assert_true(allowed);
    assert_int_equal(request(fixture, "10.0.0.7", "bob:any", &allowed), 0);
    /* A /64 counts as one host. */
    assert_int_equal(guess(fixture, "2001:db8::1", "alice", 100), GUARD_FAILURES);
    assert_int_equal(guess(fixture, "2001:db8::2", "alice", 100), 0);
    assert_int_equal(guess(fixture, "2001:db8:0:1::2", "alice", 100), GUARD_FAILURES);
}

TEST(a_confirmed_identity_passes_from_its_address, fixture, setup, teardown)
{
    bool allowed = false;

    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    (void)guess(fixture, "10.0.0.7", "alice", 1000);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
        assert_true(allowed);
    }
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), GUARD_FAILURES);
}

/* A request that a list of the attacker's own allows. */
static void confirm(struct fixture *fixture, const char *address, const char *credential)
{
    struct op_principal who = show(address, credential);

    auth_note(&who.auth->right, 0);
    guard_seen(fixture->guard, &who, fixture->now_ns);
    principal_release(&who);
}

/* A request that was in flight together with others and that a list refuses: it was not slowed. */
static void refuse(struct fixture *fixture, const char *address, const char *credential)
{
    struct op_principal who = show(address, credential);

    auth_note(&who.auth->wrong, 0);
    guard_seen(fixture->guard, &who, fixture->now_ns);
    principal_release(&who);
}

static uint32_t wait_of(struct fixture *fixture, const char *address, const char *credential)
{
    struct op_principal who = show(address, credential);
    uint32_t wait_ms = guard_wait(fixture->guard, &who, 0, fixture->now_ns);

    principal_release(&who);
    return wait_ms;
}

__attribute__((format(printf, 2, 3))) static const char *numbered(char out[64], const char *format,
                                                                  ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(out, 64, format, args);
    va_end(args);
    return out;
}

/* The attacker's own lists confirm guesses, but only a few at a time. */
TEST(own_lists_give_no_extra_guesses, fixture, setup, teardown)
{
    char text[64];

    for (uint32_t i = 100; i < 200; i++) {
        confirm(fixture, "10.0.0.7", numbered(text, "alice:guess%u", i));
    }
    assert_int_equal(guess(fixture, "10.0.0.7", "alice", 200), GUARD_FAILURES + CONFIRMED_OF_USER);
}

/* Another identity of alice, which the attacker's own list names, does not affect hers. */
TEST(a_confirmed_identity_is_not_replaced_by_another_of_its_name, fixture, setup, teardown)
{
    char text[64];
    bool allowed = false;

    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    for (uint32_t i = 0; i < 100; i++) {
        confirm(fixture, "10.0.0.7", numbered(text, "alice:evil%u", i));
    }
    (void)guess(fixture, "10.0.0.7", "alice", 100);
    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    assert_true(allowed);
}

/* The least recently used identity is replaced, and only when it has been idle. */
TEST(an_idle_identity_gives_way_to_another_of_its_name, fixture, setup, teardown)
{
    char text[64];

    for (uint32_t i = 0; i < CONFIRMED_OF_USER; i++) {
        confirm(fixture, "10.0.0.7", numbered(text, "alice:old%u", i));
    }
    fixture->now_ns += (uint64_t)CONFIRMED_IDLE_MS * NS_PER_MS;
    confirm(fixture, "10.0.0.7", "alice:old1");
    confirm(fixture, "10.0.0.7", "alice:old2");
    confirm(fixture, "10.0.0.7", "alice:new0");
    confirm(fixture, "10.0.0.7", "alice:new1"); /* No place is free for it. */
    (void)guess(fixture, "10.0.0.7", "alice", 100);
    assert_true(wait_of(fixture, "10.0.0.7", "alice:old0") > 0);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "alice:old1"), 0);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "alice:old2"), 0);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "alice:new0"), 0);
    assert_true(wait_of(fixture, "10.0.0.7", "alice:new1") > 0);
}

/* This holds however long the super user is idle, and even when lists took all places of the name
 * first. */
TEST(lists_do_not_replace_the_super_user, fixture, setup, teardown)
{
    char text[64];

    confirm(fixture, "10.0.0.7", "root:secret");
    fixture->now_ns += (uint64_t)CONFIRMED_IDLE_MS * NS_PER_MS * 10;
    for (uint32_t i = 0; i < 100; i++) {
        confirm(fixture, "10.0.0.7", numbered(text, "root:evil%u", i));
        confirm(fixture, "10.0.0.8", numbered(text, "root:evil%u", i));
    }
    confirm(fixture, "10.0.0.8", "root:secret");
    (void)guess(fixture, "10.0.0.7", "root", 100);
    (void)guess(fixture, "10.0.0.8", "root", 100);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "root:secret"), 0);
    assert_int_equal(wait_of(fixture, "10.0.0.8", "root:secret"), 0);
    assert_true(wait_of(fixture, "10.0.0.9", "root:secret") == 0);
}

/* However many names an address confirms, its earlier names and other addresses keep their places.
 */
TEST(made_up_users_do_not_replace_confirmed_identities, fixture, setup, teardown)
{
    char text[64];
    bool allowed = false;

    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    for (uint32_t i = 0; i < MADE_UP; i++) {
        confirm(fixture, "10.0.0.7", numbered(text, "made-up%u:x", i));
    }
    (void)guess(fixture, "10.0.0.7", "alice", 100);
    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    assert_true(allowed);
    for (uint32_t i = 0; i < 50; i++) {
        char address[64];

        (void)numbered(address, "10.2.0.%u", i);
        assert_int_equal(request(fixture, address, "alice:right", &allowed), 0);
        (void)guess(fixture, address, "alice", 20);
        assert_int_equal(request(fixture, address, "alice:right", &allowed), 0);
        assert_true(allowed);
    }
}

/* ---- Many users, many addresses. ---- */

static uint32_t places_taken(const struct fixture *fixture)
{
    uint32_t taken = 0;

    for (size_t i = 0; i < (size_t)BUCKETS_SETS * BUCKETS_WAYS; i++) {
        const struct bucket_set *set = &fixture->guard->users.sets[i / BUCKETS_WAYS];

        taken += set->ways[i % BUCKETS_WAYS].full_ns > fixture->now_ns ? 1 : 0;
    }
    return taken;
}

TEST(made_up_users_of_one_address_do_not_slow_others, fixture, setup, teardown)
{
    char text[64];

    for (uint32_t i = 0; i < MADE_UP; i++) {
        refuse(fixture, "10.0.0.7", numbered(text, "made-up%u:x", i));
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(
            wait_of(fixture, numbered(text, "10.2.%u.%u", i / 200, i % 200), "alice:right"), 0);
    }
    assert_int_equal(guess(fixture, "10.0.0.8", "alice", 100), GUARD_FAILURES);
}

TEST(users_are_spread_over_the_whole_table, fixture, setup, teardown)
{
    char text[64];
    uint32_t used = 0;

    for (uint32_t i = 0; i < 4 * BUCKETS_SETS; i++) {
        refuse(fixture, numbered(text, "10.3.%u.%u", i / 200, i % 200), "alice:wrong");
    }
    for (size_t i = 0; i < BUCKETS_SETS; i++) {
        const struct bucket *ways = fixture->guard->users.sets[i].ways;

        for (size_t j = 0; j < BUCKETS_WAYS; j++) {
            if (ways[j].key != 0) {
                used++;
                break;
            }
        }
    }
    assert_true(used > BUCKETS_SETS * 9 / 10);
}

/* Then further users wait for the address; a user that failed before waits as always. */
TEST(an_address_can_add_few_users, fixture, setup, teardown)
{
    char text[64];

    refuse(fixture, "10.0.0.7", "alice:wrong");
    for (uint32_t i = 1; i < GUARD_ADDRESS_FAILURES; i++) {
        assert_int_equal(wait_of(fixture, "10.0.0.7", "bob:right"), 0);
        refuse(fixture, "10.0.0.7", numbered(text, "made-up%u:x", i));
    }
    assert_in_range(wait_of(fixture, "10.0.0.7", "bob:right"), 1, GUARD_ADDRESS_AGAIN_MS + 1);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "alice:right"), 0);
    for (uint32_t i = 0; i < MADE_UP; i++) {
        refuse(fixture, "10.0.0.7", numbered(text, "further%u:x", i));
    }
    assert_int_equal(places_taken(fixture), GUARD_ADDRESS_FAILURES);
    uint32_t wait_ms = wait_of(fixture, "10.0.0.7", "bob:right");

    assert_in_range(wait_ms, 1, GUARD_ADDRESS_DEBT_MAX_MS + GUARD_ADDRESS_AGAIN_MS + 1);
    assert_int_equal(wait_of(fixture, "10.0.0.7", "alice:right"), 0);
    fixture->now_ns += (uint64_t)wait_ms * NS_PER_MS;
    assert_int_equal(wait_of(fixture, "10.0.0.7", "bob:right"), 0);
}

/* Many addresses fill the table of users: from then on the address alone decides. */
TEST(a_full_table_of_users_slows_no_other_address, fixture, setup, teardown)
{
    char address[64];
    char text[64];
    uint32_t more = 0;

    for (uint32_t i = 0; i < 2 * MADE_UP; i++) {
        (void)numbered(address, "10.4.%u.%u", i / 40 / 200, i / 40 % 200);
        refuse(fixture, address, numbered(text, "made-up%u:x", i));
    }
    assert_true(places_taken(fixture) > BUCKETS_SETS * BUCKETS_WAYS * 99 / 100);
    for (uint32_t i = 0; i < 20; i++) {
        (void)numbered(address, "10.5.0.%u", i);
        uint32_t evaluated = guess(fixture, address, "alice", 100);

        assert_in_range(evaluated, GUARD_FAILURES, GUARD_ADDRESS_FAILURES);
        more += evaluated > GUARD_FAILURES ? 1 : 0;
    }
    assert_true(more > 0);
}

/* With more failing addresses than the table holds, other addresses are as free as before, and one
 * with a large debt is not. */
TEST(many_failing_addresses_slow_no_other_address, fixture, setup, teardown)
{
    char address[64];

    for (uint32_t i = 0; i < GUARD_ADDRESS_FAILURES; i++) {
        refuse(fixture, "10.0.0.7", numbered(address, "made-up%u:x", i));
    }
    for (uint32_t i = 0; i < MADE_UP; i++) {
        refuse(fixture, numbered(address, "10.%u.0.%u", 10 + i / 200, i % 200), "alice:wrong");
    }
    for (uint32_t i = 0; i < 1000; i++) {
        (void)numbered(address, "10.6.%u.%u", i / 200, i % 200);
        assert_int_equal(wait_of(fixture, address, "alice:right"), 0);
    }
    assert_true(wait_of(fixture, "10.0.0.7", "bob:right") > 0);
}

TEST(the_super_user_is_guarded, fixture, setup, teardown)
{
    bool allowed = false;

    assert_int_equal(guess(fixture, "10.0.0.7", "root", 100), GUARD_FAILURES);
    assert_int_equal(failed(fixture, GATE_FAILED_SUPER), GUARD_FAILURES);
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), 0);
    assert_true(request(fixture, "10.0.0.7", "root:secret", &allowed) > 0);
    assert_int_equal(request(fixture, "10.0.0.8", "root:secret", &allowed), 0);
    assert_true(allowed);
    assert_int_equal(guess(fixture, "10.0.0.8", "root", 100), GUARD_FAILURES);
    assert_int_equal(request(fixture, "10.0.0.8", "root:secret", &allowed), 0);
    assert_true(allowed);
}

/* An identity that the list does not name is not wrong: it is never slowed. */
TEST(a_user_that_no_list_names_does_not_fail, fixture, setup, teardown)
{
    assert_int_equal(guess(fixture, "10.0.0.7", "bob", 1000), 1000);
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), 0);
}

/* A socket shows an identity once, so it counts once, however often it is refused. */
TEST(an_identity_of_a_socket_counts_once, fixture, setup, teardown)
{
    struct op_principal who = show("10.0.0.7", "alice:wrong");

    for (int i = 0; i < 100; i++) {
        assert_false(acl_allows(buf_slice(&fixture->acl), &who, ACL_WRITE));
        assert_int_equal(acl_perms(buf_slice(&fixture->acl), &who), 0);
        guard_seen(fixture->guard, &who, fixture->now_ns);
    }
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), 1);
    struct auth *more = NULL;

    assert_int_equal(
        auth_add(who.auth, slice_str("digest"), slice_str("alice:other"), super, &more), ERR_OK);
    principal_release(&who);
    who.auth = more;
    (void)acl_allows(buf_slice(&fixture->acl), &who, ACL_WRITE);
    guard_seen(fixture->guard, &who, fixture->now_ns);
    assert_int_equal(failed(fixture, GATE_FAILED_PASSWORD), 2);
    principal_release(&who);
}

/* Guesses that arrive together become a debt, and the debt is bounded. */
TEST(a_debt_is_bounded, fixture, setup, teardown)
{
    bool allowed = false;

    for (uint32_t i = 0; i < 5000; i++) {
        struct op_principal who = show("10.0.0.7", "alice:wrong");

        (void)acl_allows(buf_slice(&fixture->acl), &who, ACL_READ);
        guard_seen(fixture->guard, &who, fixture->now_ns);
        principal_release(&who);
    }
    uint32_t wait_ms = request(fixture, "10.0.0.7", "alice:right", &allowed);

    assert_true(wait_ms > GUARD_DEBT_MAX_MS / 2 &&
                wait_ms <= GUARD_DEBT_MAX_MS + GUARD_AGAIN_MS + 1);
    fixture->now_ns += (uint64_t)wait_ms * NS_PER_MS;
    assert_int_equal(request(fixture, "10.0.0.7", "alice:right", &allowed), 0);
    assert_true(allowed);
}

/* ---- The log. ---- */

TEST(an_address_is_logged_once_a_minute, fixture, setup, teardown)
{
    uint64_t now_ms = 5000;
    struct logfmt line;
    uint32_t lines = 0;

    assert_false(guard_line(fixture->guard, now_ms, &line));
    for (uint32_t second = 0; second < 120; second++) {
        (void)guess(fixture, "10.0.0.7", "alice", 10);
        while (guard_line(fixture->guard, now_ms, &line)) {
            lines++;
            assert_non_null(strstr(line.text, "address=10.0.0.7 user=alice"));
        }
        now_ms += 1000;
        fixture->now_ns += UINT64_C(1000) * NS_PER_MS;
    }
    assert_int_equal(lines, 2);
    assert_non_null(strstr(line.text, "password=10 super=0 malformed=0 session=0 slowed=590"));
    /* The log reports what has come since, and then nothing more. */
    assert_true(guard_line(fixture->guard, now_ms, &line));
    assert_false(guard_line(fixture->guard, now_ms + 600000, &line));
    assert_false(guard_line(fixture->guard, now_ms + 600001, &line));
}

TEST(names_cannot_forge_lines, fixture, setup, teardown)
{
    struct logfmt line;
    bool allowed = false;
    struct op_principal evil =
        show("10.0.0.7", "x\n user=\"root\" \xc3\xa4 a very long name it is:p");

    acl_put(&fixture->acl, &(struct acl_entry){.perms = ACL_ALL,
                                               .scheme = slice_str("digest"),
                                               .id = evil.auth->ids[0].id});
    principal_release(&evil);
    (void)request(fixture, "10.0.0.7", "x\n user=\"root\" \xc3\xa4 a very long name it is:q",
                  &allowed);
    assert_true(guard_line(fixture->guard, 1, &line));
    assert_non_null(strstr(line.text, " user=x??user??root?????a?very "));
}

TEST(many_addresses_share_a_line, fixture, setup, teardown)
{
    struct logfmt line;
    uint32_t lines = 0;
    bool others = false;

    for (uint32_t i = 0; i < 5000; i++) {
        struct op_principal who = {.auth = NULL};

        (void)snprintf(who.address, sizeof(who.address), "10.1.%u.%u", i / 250, i % 250);
        guard_failed(fixture->guard, &who, GATE_FAILED_SESSION);
    }
    while (guard_line(fixture->guard, 7, &line)) {
        lines++;
        others = others || strstr(line.text, "address=others user=- password=0 super=0 malformed=0 "
                                             "session=4744 slowed=0");
    }
    assert_int_equal(lines, GUARD_ADDRESSES_MAX + 1);
    assert_true(others);
    assert_int_equal(failed(fixture, GATE_FAILED_SESSION), 5000);
}

/* A certificate is no guess: a list that names another one of its name is only a refusal. */
TEST(certificates_are_neither_counted_nor_slowed, fixture, setup, teardown)
{
    buf_clear(&fixture->acl);
    acl_put(&fixture->acl, &(struct acl_entry){.perms = ACL_ALL,
                                               .scheme = slice_str("x509"),
                                               .id = slice_str("spiffe://a/one")});
    for (int i = 0; i < 3 * GUARD_FAILURES; i++) {
        struct op_principal who = {.address = "10.0.0.1",
                                   .auth = auth_certificate("spiffe://a/two", "")};

        assert_int_equal(guard_wait(fixture->guard, &who, 0, fixture->now_ns), 0);
        assert_false(acl_allows(buf_slice(&fixture->acl), &who, ACL_READ));
        assert_int_equal(atomic_load(&who.auth->wrong), 0);
        guard_seen(fixture->guard, &who, fixture->now_ns);
        principal_release(&who);
    }
    assert_int_equal(metric_get(&fixture->guard->failed[GATE_FAILED_PASSWORD]), 0);
    assert_int_equal(metric_get(&fixture->guard->slowed), 0);
}
