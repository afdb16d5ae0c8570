/* The leader completes the configuration with what its host knows of the members' addresses. */
#include "tests/lib/unit.h"
#include "tests/lib/zab_drive.h"
#include "zab/level.h"
#include "zab/zab_int.h"

#include <stdio.h>

enum {
    SELF = 3,
    VOTERS = 3,
    MINUTE_MS = 60000
};

struct fixture {
    struct drive drive;
    struct zab_fact facts[VOTERS];
};

static void set_fact(struct fixture *f, uint32_t id, const char *host, const char *client)
{
    struct zab_fact *fact = &f->facts[id - 1];

    *fact = (struct zab_fact){.id = id, .port = host[0] ? 7000 : 0};
    (void)snprintf(fact->host, sizeof fact->host, "%s", host);
    (void)snprintf(fact->client, sizeof fact->client, "%s", client);
}

static void lead(struct fixture *f, uint16_t level)
{
    drive_init(&f->drive, SELF, VOTERS);
    f->drive.init.level_max = ZAB_LEVEL_TEXTS;
    f->drive.peer_level = ZAB_LEVEL_TEXTS;
    f->drive.init.config.level = level;
    drive_start(&f->drive);
    drive_lead(&f->drive);
    set_fact(f, 1, "zk1", "c1:1");
    set_fact(f, 2, "zk2", "c2:1");
    set_fact(f, 3, "zk3", "c3:1");
}

static void setup(struct fixture *f)
{
    lead(f, ZAB_LEVEL_TEXTS);
}

static void teardown(struct fixture *f)
{
    drive_release(&f->drive);
}

/* A short time in which both learners are heard. */
static void turn(struct fixture *f)
{
    drive_pong(&f->drive, 1);
    drive_pong(&f->drive, 2);
    drive_tick(&f->drive, 10);
}

static void tell(struct fixture *f)
{
    zab_set_facts(f->drive.zab, f->facts, VOTERS);
    turn(f);
}

static bool is_proposed(const struct fixture *f)
{
    return f->drive.zab->config.has_pending;
}

static void acknowledge(struct fixture *f)
{
    zxid_t last = f->drive.zab->trail.last;

    drive_persist(&f->drive);
    drive_learner_says(&f->drive, 1, ZAB_ACK, last);
    drive_learner_says(&f->drive, 2, ZAB_ACK, last);
}

static void commit(struct fixture *f)
{
    acknowledge(f);
    acknowledge(f); /* The proof. */
    assert_false(is_proposed(f));
}

static void wait(struct fixture *f, uint32_t ms)
{
    for (uint32_t i = 0; i < ms / 500; i++) {
        drive_pong(&f->drive, 1);
        drive_pong(&f->drive, 2);
        drive_tick(&f->drive, 500);
    }
}

static void expect(const struct fixture *f, uint32_t id, const char *host, const char *client)
{
    struct zab_texts texts;

    assert_true(zab_config_texts(zab_config_bytes(f->drive.zab), id, &texts));
    assert_true(slice_eq(texts.host, slice_str(host)));
    assert_true(slice_eq(texts.client, slice_str(client)));
}

TEST(all_addresses_are_written_at_once, fixture, setup, teardown)
{
    turn(fixture);
    assert_false(is_proposed(fixture));
    tell(fixture);
    assert_true(is_proposed(fixture));
    commit(fixture);
    expect(fixture, 1, "zk1", "c1:1");
    expect(fixture, 2, "zk2", "c2:1");
    expect(fixture, 3, "zk3", "c3:1");
    tell(fixture); /* Nothing is new. */
    wait(fixture, 2 * MINUTE_MS);
    assert_false(is_proposed(fixture));
}

static void setup_before(struct fixture *f)
{
    lead(f, ZAB_LEVEL_CONFIG);
}

TEST(before_level_two_nothing_is_written, fixture, setup_before, teardown)
{
    tell(fixture);
    assert_false(is_proposed(fixture));
    assert_int_equal(zab_config(fixture->drive.zab)->level, ZAB_LEVEL_CONFIG);
}

TEST(a_new_address_for_clients_waits_a_minute, fixture, setup, teardown)
{
    tell(fixture);
    commit(fixture);
    set_fact(fixture, 2, "other", "c2:2");
    tell(fixture);
    wait(fixture, MINUTE_MS - 1000);
    assert_false(is_proposed(fixture));
    wait(fixture, 2000);
    assert_true(is_proposed(fixture));
    commit(fixture);
    expect(fixture, 2, "zk2", "c2:2"); /* The address for other replicas is not replaced. */
}

TEST(an_address_that_is_not_known_leaves_the_others, fixture, setup, teardown)
{
    set_fact(fixture, 2, "", "c2:1");
    tell(fixture);
    assert_false(is_proposed(fixture)); /* Not all have one: not at once. */
    wait(fixture, 2 * fixture->drive.init.limits.level_ms);
    assert_true(is_proposed(fixture));
    commit(fixture);
    expect(fixture, 1, "zk1", "c1:1");
    expect(fixture, 2, "", "");
    set_fact(fixture, 2, "zk2", "c2:1");
    tell(fixture);
    assert_true(is_proposed(fixture));
    commit(fixture);
    expect(fixture, 2, "zk2", "c2:1");
}

/* A host must not be able to stop the leader with what its file or a peer says. */
TEST(texts_that_no_configuration_can_have_are_left_out, fixture, setup, teardown)
{
    set_fact(fixture, 1, "zk1", "a blank:1");
    set_fact(fixture, 2, "ZK3", "c2:1");
    tell(fixture);
    wait(fixture, 2 * fixture->drive.init.limits.level_ms);
    assert_true(is_proposed(fixture));
    commit(fixture);
    expect(fixture, 1, "", "");
    expect(fixture, 2, "ZK3", "c2:1");
    expect(fixture, 3, "", ""); /* Its address is that of member 2. */
}
