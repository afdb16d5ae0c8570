/* Disks that are emptied, damaged or full: the ensemble keeps serving, the replica reports why it
 * does not vote, is refilled and votes again. */
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/disk.h"
#include "tests/proc/load.h"
#include "tests/proc/shell.h"
#include "tests/proc/talk.h"

#include <signal.h>
#include <stdio.h>

enum {
    DISK_BYTES = 48 << 20,
    PIECE_BYTES = 64 << 10,
    SMALL_BYTES = 1 << 10,
    SMALL_WRITES = 100,
    PIECES_MAX = 600, /* More than fit on the disk. */
    WHY_MAX = 512,
    ROUNDS_MAX = 10,                      /* Far more than are needed. */
    GIVEN_UP_MS = 5000 * ENSEMBLE_FACTOR, /* Half of requestTimeout. */
    REFUSED_MS = 1000 * ENSEMBLE_FACTOR
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

static void write_some(uint32_t index, const char *prefix, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "/znodes/v1/%s%u?upsert=true", prefix, i);
        ensemble_call_until(&ensemble, index, "PUT", path, "some data", 201);
    }
}

/* True if replica `teller` reports that the member votes. */
static bool votes(uint32_t teller, uint32_t index)
{
    bool yes = false;

    if (ensemble_call(&ensemble, teller, "GET", "/ensemble/v1", NULL) == 200) {
        json_t *answer = web_json(&ensemble.reply);
        json_t *members = json_object_get(answer, "members");

        for (size_t i = 0; i < json_array_size(members); i++) {
            json_t *member = json_array_get(members, i);

            if (json_integer_value(json_object_get(member, "id")) == (json_int_t)index + 1) {
                const char *role = json_string_value(json_object_get(member, "state"));

                yes = json_is_true(json_object_get(member, "votes")) && role &&
                      (!strcmp(role, "follower") || !strcmp(role, "leader"));
            }
        }
        json_decref(answer);
    }
    return yes;
}

static bool is_serving(uint32_t index)
{
    bool serving = false;

    if (ensemble_call(&ensemble, index, "GET", "/status/v1", NULL) == 200) {
        json_t *status = web_json(&ensemble.reply);

        serving = json_is_true(json_object_get(status, "serving"));
        json_decref(status);
    }
    return serving;
}

static uint32_t some_follower(void)
{
    return (ensemble_wait_leader(&ensemble) + 1) % 3;
}

/* The refilled replica and the leader are a quorum without the third. */
static void prove_vote(uint32_t index)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t third = 3 - leader - index;

    ENSEMBLE_WAIT(&ensemble, votes(ensemble_wait_leader(&ensemble), index));
    ensemble_wait_ready(&ensemble, index);
    ensemble_kill(&ensemble, third);
    ensemble_call_until(&ensemble, index, "PUT", "/znodes/v1/proof?upsert=true", "x", 201);
    ensemble_start(&ensemble, third);
    ensemble_wait_ready(&ensemble, third);
}

static void check_reason(uint32_t index)
{
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, index, "GET", "/readyz", NULL) == 503);
    print_message("the replica reports: %s\n", web_text(&ensemble.reply));
}

static void check_all_there(uint32_t index, const char *prefix, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "/znodes/v1/%s%u?consistency=linearizable", prefix, i);
        ensemble_call_until(&ensemble, index, "GET", path, NULL, 200);
    }
}

static void open_on_small_disks(void)
{
    if (!disk_may_mount()) {
        return;
    }
    ensemble_open(&ensemble, 3,
                  "walSegmentBytes=8388608\nsnapCount=2000\nmaxSessionTimeout=600000\n"
                  "syncLimit=20\n"); /* A replica with a full disk must not count as silent. */
    for (uint32_t i = 0; i < 3; i++) {
        disk_mount(&ensemble, i, DISK_BYTES);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_small_disks(void)
{
    if (!disk_may_mount()) {
        return;
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
        disk_unmount(&ensemble, i);
    }
    ensemble_close(&ensemble);
}

TEST(emptied_directory, open_three, close_three)
{
    uint32_t index = some_follower();
    uint32_t leader = ensemble_wait_leader(&ensemble);

    write_some(leader, "before", 50);
    ensemble_kill(&ensemble, index);
    ensemble_empty(&ensemble, index);
    write_some(leader, "while", 50);
    ensemble_start(&ensemble, index);
    check_reason(index);
    write_some(leader, "after", 50);
    prove_vote(index);
    check_all_there(index, "before", 50);
    check_all_there(index, "while", 50);
    check_all_there(index, "after", 50);
}

/* ---- A flipped bit. ---- */

TEST(flipped_bit, open_three, close_three)
{
    uint32_t index = some_follower();
    uint32_t leader = ensemble_wait_leader(&ensemble);

    write_some(leader, "before", 100);
    ensemble_kill(&ensemble, index);
    assert_true(disk_flip_bit(&ensemble, index, 500));
    ensemble_start(&ensemble, index);
    write_some(leader, "after", 50);
    prove_vote(index);
    check_all_there(index, "before", 100);
    check_all_there(index, "after", 50);
}

/* ---- A full disk. ---- */

static bool skip_without_mount(void)
{
    if (!disk_may_mount()) {
        print_message("skipped: mounting a small tmpfs needs root\n");
        skip();
        return true;
    }
    return false;
}

static char big_text[PIECE_BYTES + 1];

static long write_text(uint32_t index, uint32_t number, size_t len)
{
    char path[128];

    memset(big_text, 'x', len);
    big_text[len] = '\0';
    (void)snprintf(path, sizeof(path), "/znodes/v1/big%u?upsert=true", number % 16);
    return ensemble_call(&ensemble, index, "PUT", path, big_text);
}

/* The leader's own disk is full: it hands over, and writes continue with at most short refusals. */
TEST(one_full_disk, open_on_small_disks, close_small_disks)
{
    if (skip_without_mount()) {
        return;
    }

    uint32_t full = ensemble_wait_leader(&ensemble);
    uint32_t other = (full + 1) % 3;

    write_some(other, "before", 10);
    disk_fill(&ensemble, full);
    for (uint32_t i = 0; i < 300; i++) { /* Several segments. */
        ENSEMBLE_WAIT(&ensemble, write_text(other, i, PIECE_BYTES) / 100 == 2);
    }
    ENSEMBLE_WAIT(&ensemble, !ensemble_leads(&ensemble, full));
    ENSEMBLE_CHECK(&ensemble, ensemble.replicas[full].pid > 0);
    disk_free(&ensemble, full);
    write_some(other, "after", 10);
    ensemble_wait_ready(&ensemble, full);
    check_all_there(full, "before", 10);
    check_all_there(full, "after", 10);
    ensemble_kill(&ensemble, 3 - full - other); /* The quorum needs it again. */
    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/proof?upsert=true", "x", 201);
}

/* ---- A replica whose log has no space. ---- */

/* Writes through the replica until its log waits for space. Each write is acknowledged or refused;
 * those in flight when the space runs out get an unknown outcome within GIVEN_UP_MS. */
static void write_until_aside(uint32_t index)
{
    for (uint32_t i = 0;
         i < PIECES_MAX && ensemble_metric(&ensemble, index, "zabra_log_stuck") == 0; i++) {
        long status = write_text(index, i, PIECE_BYTES);

        ENSEMBLE_CHECK(&ensemble, ensemble.reply.took_ms < GIVEN_UP_MS);
        ENSEMBLE_CHECK(&ensemble, status / 100 == 2 || status == 503 || status == 504);
    }
    ENSEMBLE_WAIT(&ensemble, !is_serving(index));
}

/* The refusal comes at once, with the outcome not-applied and the reason, which is returned. */
static void check_refused(uint32_t index, const char *method, const char *path, char why[WHY_MAX])
{
    json_t *problem = NULL;

    assert_int_equal(ensemble_call(&ensemble, index, method, path, NULL), 503);
    ENSEMBLE_CHECK(&ensemble, ensemble.reply.took_ms < REFUSED_MS);
    problem = web_json(&ensemble.reply);
    assert_string_equal(talk_text(problem, "outcome"), "not-applied");
    (void)snprintf(why, WHY_MAX, "%s", talk_text(problem, "detail"));
    json_decref(problem);
}

/* The text of a failed check of /readyz; "" if it has not failed. */
static void failed_check(uint32_t index, const char *name, char text[WHY_MAX])
{
    json_t *ready = NULL;
    json_t *check = NULL;
    size_t i = 0;

    const struct web_call call = {.port = ensemble.replicas[index].client_port,
                                  .path = "/readyz",
                                  .headers = "Accept: application/json"};

    text[0] = '\0';
    assert_int_equal(web_do(ensemble.web, &call, &ensemble.reply), 503);
    ready = web_json(&ensemble.reply);
    json_array_foreach(json_object_get(ready, "checks"), i, check)
    {
        if (strcmp(talk_text(check, "name"), name) == 0 &&
            !json_is_true(json_object_get(check, "ok"))) {
            (void)snprintf(text, WHY_MAX, "%s", talk_text(check, "text"));
        }
    }
    json_decref(ready);
}

static void status_reason(uint32_t index, char text[WHY_MAX])
{
    json_t *status = NULL;

    assert_int_equal(ensemble_call(&ensemble, index, "GET", "/status/v1", NULL), 200);
    status = web_json(&ensemble.reply);
    (void)snprintf(text, WHY_MAX, "%s", talk_text(status, "reason"));
    json_decref(status);
}

/* Reads are answered while the tree is fresh enough, and then refused with the same reason. */
static void check_reads(uint32_t index, const char *why)
{
    char other[WHY_MAX];
    bool fresh = ensemble_call(&ensemble, index, "GET", "/znodes/v1/before1", NULL) == 200;

    print_message("a plain read was %s\n", fresh ? "answered" : "refused at once");
    ENSEMBLE_WAIT(&ensemble,
                  ensemble_call(&ensemble, index, "GET", "/znodes/v1/before1", NULL) == 503);
    check_refused(index, "GET", "/znodes/v1/before1", other);
    assert_string_equal(other, why);
}

TEST(a_replica_without_space_steps_aside, open_on_small_disks, close_small_disks)
{
    uint32_t leader = 0;
    uint32_t full = 0;
    char why[WHY_MAX];
    char other[WHY_MAX];

    if (skip_without_mount()) {
        return;
    }
    leader = ensemble_wait_leader(&ensemble);
    full = (leader + 1) % 3;
    write_some(leader, "before", 10);
    disk_fill(&ensemble, full);
    write_until_aside(full);
    check_refused(full, "PUT", "/znodes/v1/refused?upsert=true", why);
    assert_non_null(strstr(why, "disk of this replica has no space"));
    check_refused(full, "DELETE", "/znodes/v1/before9", other);
    assert_string_equal(other, why);
    write_some(leader, "while", 10); /* The other replicas accept writes. */
    check_refused(full, "GET", "/znodes/v1/while1?consistency=linearizable", other);
    assert_string_equal(other, why);
    failed_check(full, "disk", other);
    assert_string_equal(other, why);
    status_reason(full, other);
    assert_string_equal(other, why);
    check_reads(full, why);
    shell_open(&ensemble);
    shell_expect("zabra doctor", 1, "the disk of the replica is full");
    assert_null(strstr(shell_output, "not-ready"));
    disk_free(&ensemble, full);
    ensemble_wait_ready(&ensemble, full);
    ENSEMBLE_CHECK(&ensemble, is_serving(full));
    ensemble_call_until(&ensemble, full, "PUT", "/znodes/v1/again?upsert=true", "x", 201);
    check_all_there(full, "while", 10);
    assert_int_equal(ensemble_call(&ensemble, full, "GET", "/znodes/v1/refused", NULL), 404);
}

/* Fills the rest of the log in small steps, because the replica declares its reserve with a
 * delay. */
static bool refused_for_space(uint32_t index)
{
    static uint32_t number;

    for (uint32_t i = 0; i < SMALL_WRITES; i++) {
        if (write_text(index, number++, SMALL_BYTES) == 507) {
            return true;
        }
    }
    return false;
}

static void open_session(char secret[TALK_FIELD_MAX])
{
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    (void)snprintf(secret, TALK_FIELD_MAX, "%s",
                   talk_field(socket, "session.id", "\"op\":\"session\",\"timeout_ms\":600000"));
    socket_close(socket);
}

/* How many periods of full disks on a majority leaders have seen; each one permits a session one
 * more move. */
static uint64_t full_periods(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < 3; i++) {
        sum += ensemble_metric(&ensemble, i, "zabra_disk_full_periods_total");
    }
    return sum;
}

/* Fills two disks until the third replica leads and refuses writes. A snapshot may free some log
 * after disk_fill. */
static void make_quorum_full(void)
{
    disk_fill(&ensemble, 0);
    disk_fill(&ensemble, 1);
    ENSEMBLE_WAIT(&ensemble, refused_for_space(2));
    /* A leader without space hands over within initLimit. */
    ENSEMBLE_WAIT(&ensemble, ensemble_leads(&ensemble, 2));
    ENSEMBLE_WAIT(&ensemble, refused_for_space(2));
}

/* Returns "" or the code of the refusal. */
static const char *attach(struct socket *socket, const char *secret)
{
    return talk_error(socket, "\"op\":\"attach\",\"session\":\"%s\"", secret);
}

/* Two clients attach the session; the second one must be refused. If it is not, the period of full
 * disks has ended in between: the leader accepts other writes now, or has begun a new period. */
static bool second_move_is_refused(const char *secret, uint32_t round)
{
    struct socket *socket = talk_open(&ensemble, 2, NULL);
    struct socket *next = talk_open(&ensemble, 2, NULL);
    uint64_t before = full_periods();
    bool first = attach(socket, secret)[0] == '\0';
    bool refused = strcmp(attach(next, secret), "DiskFull") == 0;

    ENSEMBLE_CHECK(&ensemble, first || round > 1); /* A period may still last. */
    if (refused && first) {
        talk_ok(&ensemble, socket, "\"op\":\"touch\"");
    } else if (!refused) {
        ENSEMBLE_CHECK(&ensemble, write_text(2, 0, SMALL_BYTES) != 507 || full_periods() > before);
    }
    socket_close(next);
    socket_close(socket);
    return refused;
}

/* A client that lost its connection may move its session once in each period in which the leader
 * sees full disks. Renewals of the session need no disk. */
static void check_session_moves_once(const char *secret)
{
    uint32_t rounds = 1;
    char path[128];

    while (!second_move_is_refused(secret, rounds)) {
        ENSEMBLE_CHECK(&ensemble, ++rounds <= ROUNDS_MAX);
        make_quorum_full();
    }
    print_message("%u rounds\n", rounds);
    (void)snprintf(path, sizeof(path), "/sessions/v1/%s", secret);
    assert_int_equal(ensemble_call(&ensemble, 0, "PUT", path, NULL), 200);
}

TEST(quorum_of_full_disks, open_on_small_disks, close_small_disks)
{
    char secret[TALK_FIELD_MAX];

    if (skip_without_mount()) {
        return;
    }
    write_some(0, "before", 10);
    open_session(secret);
    make_quorum_full();
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/znodes/v1/before1", NULL), 200);
    }
    check_session_moves_once(secret);
    ensemble_call_until(&ensemble, 2, "DELETE", "/znodes/v1/before9", NULL, 204);
    disk_free(&ensemble, 0);
    disk_free(&ensemble, 1);
    write_some(2, "after", 10);
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        check_all_there(i, "before", 9);
        check_all_there(i, "after", 10);
    }
}
