/* When a replica closes a connection whose secret or CA was removed: in its own part of the time,
 * when it is not needed, after a minute in any case. This one is replica 2 of three voters. */
#include "server/process/retire.h"
#include "tests/lib/unit.h"

#include <string.h>

enum {
    NOW_MS = 1000000,
    TICK_MS = 500,
    SLOTS = 3,
    MIDDLE_MS = RETIRE_SLOT_MS + RETIRE_SLOT_MS / 2 /* Of the part of replica 2. */
};

struct scene {
    struct config config;
    struct zab_config members;
    struct heartbeat heartbeats[SLOTS];
    struct retire_view view;
};

static void set_up(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    scene->config.id = 2;
    scene->config.zab.tick_ms = TICK_MS;
    scene->members.count = SLOTS;
    for (uint32_t i = 0; i < SLOTS; i++) {
        scene->members.members[i] = (struct zab_member){.id = i + 1, .voter = true};
        scene->heartbeats[i] = (struct heartbeat){
            .id = i + 1, .at_ms = NOW_MS, .epoch = 7, .flags = HEARTBEAT_SERVING};
    }
    scene->view =
        (struct retire_view){.config = &scene->config,
                             .members = &scene->members,
                             .now_ms = NOW_MS,
                             .wall_ms = (uint64_t)SLOTS * RETIRE_SLOT_MS * 100 + MIDDLE_MS,
                             .status = {.state = ZAB_FOLLOWING, .leader = 1, .epoch = 7},
                             .heartbeats = scene->heartbeats,
                             .heartbeat_count = SLOTS};
}

static void tear_down(struct scene *scene)
{
    (void)scene;
}

/* With the leader (peer 1) or with another follower (peer 3). */
static enum retire judge(const struct scene *scene, uint32_t peer)
{
    return retire_judge(&scene->view, peer, NOW_MS - 1000);
}

TEST(a_follower_closes_in_its_own_part_of_the_time, scene, set_up, tear_down)
{
    uint64_t begin_ms = scene->view.wall_ms - MIDDLE_MS;
    uint32_t open = 0;

    for (uint64_t ms = 0; ms < (uint64_t)SLOTS * RETIRE_SLOT_MS; ms++) {
        bool own =
            ms >= RETIRE_SLOT_MS + RETIRE_MARGIN_MS && ms < 2 * RETIRE_SLOT_MS - RETIRE_MARGIN_MS;

        scene->view.wall_ms = begin_ms + ms;
        assert_int_equal(judge(scene, 1), own ? RETIRE_IDLE : RETIRE_NOT);
        assert_int_equal(judge(scene, 3), own ? RETIRE_IDLE : RETIRE_NOT);
        open += own ? 1 : 0;
    }
    assert_int_equal(open, RETIRE_SLOT_MS - 2 * RETIRE_MARGIN_MS);
}

TEST(a_leader_leaves_it_to_its_followers, scene, set_up, tear_down)
{
    scene->view.status.state = ZAB_LEADING;
    scene->view.status.leader = 2;
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
    scene->view.status.state = ZAB_LOOKING;
    scene->view.status.leader = 0;
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
}

/* The connection with the leader is needed while the others are no quorum without this replica. */
TEST(a_replica_that_is_needed_keeps_the_leader, scene, set_up, tear_down)
{
    scene->heartbeats[2].flags = 0; /* Replica 3 does not serve. */
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
    assert_int_equal(judge(scene, 3), RETIRE_IDLE);
    scene->heartbeats[2].flags = HEARTBEAT_SERVING;
    scene->heartbeats[2].epoch = 6;
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
    scene->heartbeats[2].epoch = 7;
    scene->heartbeats[2].at_ms = NOW_MS - 4 * TICK_MS; /* Too old. */
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
    scene->heartbeats[2].at_ms = NOW_MS - 4 * TICK_MS + 1;
    assert_int_equal(judge(scene, 1), RETIRE_IDLE);
    scene->members.members[2].voter = false; /* Two voters need both. */
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
}

/* Parts are counted over the members of the committed configuration. */
TEST(the_parts_follow_the_configuration, scene, set_up, tear_down)
{
    scene->members.count = 2;
    scene->members.members[0].id = 2;
    scene->members.members[1].id = 9;
    scene->view.wall_ms = (uint64_t)2 * RETIRE_SLOT_MS * 100 + MIDDLE_MS;
    assert_int_equal(judge(scene, 3), RETIRE_NOT);
    scene->view.wall_ms += RETIRE_SLOT_MS;
    assert_int_equal(judge(scene, 3), RETIRE_IDLE);
    assert_int_equal(judge(scene, 1), RETIRE_NOT); /* Replica 9 does not report. */
}

/* It has no part of the time, until a minute has passed. */
TEST(a_replica_that_is_no_member_closes_late, scene, set_up, tear_down)
{
    scene->members.members[1].id = 9;
    for (uint64_t ms = 0; ms < (uint64_t)SLOTS * RETIRE_SLOT_MS; ms += 100) {
        scene->view.wall_ms += 100;
        assert_int_equal(judge(scene, 1), RETIRE_NOT);
    }
    scene->members.count = 0;
    assert_int_equal(judge(scene, 1), RETIRE_NOT);
    assert_int_equal(retire_judge(&scene->view, 1, NOW_MS - RETIRE_ALWAYS_MS), RETIRE_NOW);
}

/* Also a leader, also outside of its part of the time, with requests in flight. */
TEST(after_a_minute_the_connection_is_closed_in_any_case, scene, set_up, tear_down)
{
    scene->view.wall_ms = 0;
    for (int leads = 0; leads <= 1; leads++) {
        scene->view.status.state = leads ? ZAB_LEADING : ZAB_LOOKING;
        scene->view.status.leader = leads ? 2 : 0;
        assert_int_equal(retire_judge(&scene->view, 1, NOW_MS - RETIRE_ALWAYS_MS + 1), RETIRE_NOT);
        assert_int_equal(retire_judge(&scene->view, 1, NOW_MS - RETIRE_ALWAYS_MS), RETIRE_NOW);
    }
}
