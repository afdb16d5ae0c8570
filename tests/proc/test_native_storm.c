/* Many clients of ZooKeeper's protocol at once lose their replica, and take over their sessions. */
#include "zk/wire.h"

#include "base/os_clock.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/native.h"

#include <stdio.h>

enum {
    CLIENTS = 300,
    TIMEOUT_MS = 20000,
    SERVED_MS = 5000, /* From the kill until each session has written. */
    PATH_BYTES = 32,
    OWNER_AT = 44 /* The ephemeralOwner in a stat. */
};

static struct ensemble ensemble;

struct member {
    struct native *native;
    bool dialled; /* The answer to its first frame is due. */
    bool asked;   /* The reply to its write is due. */
    bool written;
};

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "maxConnectionsPerAddress=1000\n");
}

static void shut(void)
{
    ensemble_close(&ensemble);
}

static uint16_t port(uint32_t index)
{
    return ensemble.replicas[index].client_port;
}

static void path_of(uint32_t index, char path[PATH_BYTES])
{
    (void)snprintf(path, PATH_BYTES, "/storm-%03u", index);
}

/* Opens all sessions at once; each makes an ephemeral. */
static void open_all(struct member members[CLIENTS])
{
    char path[PATH_BYTES];

    for (uint32_t i = 0; i < CLIENTS; i++) {
        members[i] = (struct member){.native = native_dial(port(i % 3))};
        native_hello(members[i].native, 0, TIMEOUT_MS);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_true(native_welcome(members[i].native));
        path_of(i, path);
        native_send_create(members[i].native, path, "x", 1);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(native_reply(members[i].native, NULL), 0);
    }
}

/* The client dials a replica and names its session. */
static void dial(struct member *member, uint32_t replica)
{
    struct native *next = native_dial(port(replica));

    next->session = member->native->session;
    next->timeout_ms = TIMEOUT_MS;
    memcpy(next->passwd, member->native->passwd, ZK_PASSWD_BYTES);
    native_close(member->native);
    member->native = next;
    native_hello(next, 0, TIMEOUT_MS);
}

/* One try of a client that has not written since the kill; `lost` are those without a connection.
 */
static void try_all(struct member members[CLIENTS], bool lost[CLIENTS], uint32_t killed)
{
    char path[PATH_BYTES];

    for (uint32_t i = 0; i < CLIENTS; i++) {
        members[i].dialled = lost[i];
        if (lost[i]) {
            dial(&members[i], (killed + 1 + i % 2) % 3);
            lost[i] = false;
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (members[i].dialled && !native_welcome(members[i].native)) {
            assert_int_equal(members[i].native->timeout_ms, TIMEOUT_MS); /* It is not refused. */
            lost[i] = true;
        }
        members[i].asked = !lost[i] && !members[i].written;
        if (members[i].asked) {
            path_of(i, path);
            native_send_set(members[i].native, path, "y", -1);
        }
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        struct native_frame frame = {.err = 0};

        if (members[i].asked) {
            lost[i] = !native_next(members[i].native, &frame);
            members[i].written = !lost[i];
            assert_int_equal(frame.err, 0);
        }
    }
}

static uint32_t count_written(const struct member members[CLIENTS])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < CLIENTS; i++) {
        count += members[i].written ? 1 : 0;
    }
    return count;
}

/* The session has kept its ephemeral. */
static void check_owner(struct native *native, uint32_t index)
{
    struct native_frame frame;
    char path[PATH_BYTES];

    path_of(index, path);
    native_send_path(native, ZK_EXISTS, path, 0);
    assert_int_equal(native_reply(native, &frame), 0);
    for (int i = 0; i < OWNER_AT / ZK_INT_BYTES; i++) {
        (void)zk_get_int(&frame.body);
    }
    assert_true((uint64_t)zk_get_long(&frame.body) == native->session);
}

TEST(a_storm_of_clients_is_served_after_the_leader_is_killed, open_three, shut)
{
    static struct member members[CLIENTS];
    static bool lost[CLIENTS];
    uint32_t leader = ensemble_wait_leader(&ensemble);

    open_all(members);
    ensemble_kill(&ensemble, leader);
    uint64_t begin_ms = os_now_ms();

    for (uint32_t i = 0; i < CLIENTS; i++) {
        lost[i] = i % 3 == leader;
    }
    while (count_written(members) < CLIENTS && os_now_ms() < begin_ms + SERVED_MS) {
        try_all(members, lost, leader);
        ensemble_breathe();
    }
    ENSEMBLE_CHECK(&ensemble, count_written(members) == CLIENTS);
    ENSEMBLE_CHECK(&ensemble, os_now_ms() < begin_ms + SERVED_MS);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        check_owner(members[i].native, i);
        native_close(members[i].native);
    }
}
