/*
 * The feature level: it rises in an ensemble of an earlier release once all members have run this
 * one for ten seconds, and a new ensemble begins with it. The super user raises, holds and releases
 * it. States stay equal, also after restarts and a refill.
 */
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/process/persist.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "zab/level.h"

#include <stdio.h>
#include <sys/stat.h>

enum {
    COUNT = 3,
    LAST = COUNT - 1,
    LEVEL_MS = 10000, /* level_ms of the protocol. */
    ALONE_MS = LEVEL_MS + 1000,
    SEGMENT_BYTES = 64 << 10,
    RECORD_BYTES_MAX = 32 << 20
};

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==\n" /* super:root */
#define BOB  "Authorization: Basic Ym9iOnB3\n"         /* bob:pw */

#define CLIENT "zabra.test:9998"

static struct ensemble ensemble;

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Directories of an ensemble that an earlier release has founded. ---- */

static struct zab_config founded(uint32_t count)
{
    struct zab_config config = {
        .cluster = {7}, .history = 0x1234, .count = count, .level = ZAB_LEVEL_FIRST};

    for (uint32_t i = 0; i < count; i++) {
        config.members[i] = (struct zab_member){.id = i + 1, .voter = true, .incarnation = 100 + i};
    }
    return config;
}

static void make_disk(uint32_t index)
{
    const char *dir = ensemble.replicas[index].data;
    struct zab_config config = founded(ensemble.count);
    struct store_identity identity = {.member_id = index + 1,
                                      .incarnation = config.members[index].incarnation};
    struct store_options options = {.segment_bytes = SEGMENT_BYTES,
                                    .snapshots_keep = 2,
                                    .salt_seed = 5,
                                    .record_bytes_max = RECORD_BYTES_MAX,
                                    .member_id = index + 1};
    struct store_report *report = mem_zalloc(1, sizeof *report);
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    struct store *store = NULL;

    memcpy(identity.cluster, config.cluster, ZAB_CLUSTER_LEN);
    persist_genesis(&identity, &config);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(vfs_posix_open(dir, &options.vfs), ERR_OK);
    assert_int_equal(store_open(&options, false, &store, report), ERR_OK);
    assert_int_equal(store_run_one(store, &op), ERR_OK);
    store_close(store, true);
    vfs_posix_close(&options.vfs);
    mem_free(report);
}

static void open_earlier(uint32_t count)
{
    ensemble_open(&ensemble, count, ENSEMBLE_SUPER "advertiseClient=" CLIENT "\n");
    for (uint32_t i = 0; i < count; i++) {
        make_disk(i);
    }
}

/* ---- What the replicas answer. ---- */

/* The number of a member of /ensemble/v1; 0 for null, -1 without an answer. */
static int number_of(uint32_t index, const char *name)
{
    int number = -1;

    if (ensemble_call(&ensemble, index, "GET", "/ensemble/v1", NULL) == 200) {
        json_t *all = web_json(&ensemble.reply);
        const json_t *value = json_object_get(all, name);

        assert_true(json_is_integer(value) || json_is_null(value));
        number = (int)json_integer_value(value);
        json_decref(all);
    }
    return number;
}

static int level_of(uint32_t index)
{
    return number_of(index, "level");
}

static bool all_held(int hold)
{
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (number_of(i, "hold") != hold) {
            return false;
        }
    }
    return true;
}

static bool all_have(int level)
{
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (level_of(i) != level ||
            ensemble_metric(&ensemble, i, "zabra_level") != (uint64_t)level) {
            return false;
        }
    }
    return true;
}

/* Keeps what the status says of the state: its zxid and its digest. */
static bool state_of(uint32_t index, char *ret_state, size_t size)
{
    bool whole = ensemble_call(&ensemble, index, "GET", "/status/v1", NULL) == 200;
    json_t *status = whole ? web_json(&ensemble.reply) : NULL;
    const char *zxid = json_string_value(json_object_get(status, "zxid"));
    const char *digest = json_string_value(json_object_get(status, "digest"));

    whole = zxid && digest;
    (void)snprintf(ret_state, size, "%s %s", zxid ? zxid : "", digest ? digest : "");
    json_decref(status);
    return whole;
}

static bool states_are_equal(void)
{
    char first[128];
    char other[128];

    if (!state_of(0, first, sizeof first)) {
        return false;
    }
    for (uint32_t i = 1; i < ensemble.count; i++) {
        if (!state_of(i, other, sizeof other) || strcmp(first, other) != 0) {
            return false;
        }
    }
    return true;
}

static void restart(uint32_t index)
{
    assert_int_equal(ensemble_stop(&ensemble, index), 0);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
}

/* Asks for a change; returns the status. `key`: an Idempotency-Key, or NULL. */
static long change(uint32_t index, const char *body, const char *user, const char *key)
{
    char headers[512];
    struct web_call call = {.method = "POST",
                            .port = ensemble.replicas[index].client_port,
                            .path = "/ensemble/v1/level",
                            .body = body,
                            .headers = headers};

    (void)snprintf(headers, sizeof headers, "Content-Type: application/json\n%s%s%s", user,
                   key ? "Idempotency-Key: " : "", key ? key : "");
    return web_do(ensemble.web, &call, &ensemble.reply);
}

static void expect_refused(uint32_t index, const char *body, const char *code, const char *detail)
{
    ENSEMBLE_CHECK(&ensemble, change(index, body, ROOT, NULL) == 409);
    json_t *problem = web_json(&ensemble.reply);

    assert_string_equal(json_string_value(json_object_get(problem, "code")), code);
    if (!strstr(json_string_value(json_object_get(problem, "detail")), detail)) {
        fail_msg("\"%s\" lacks \"%s\"", json_string_value(json_object_get(problem, "detail")),
                 detail);
    }
    json_decref(problem);
}

/* Whether /zookeeper/config is in ZooKeeper's form, with the addresses of all members. */
static bool shows_addresses(uint32_t index)
{
    const struct web_call call = {.method = "GET",
                                  .port = ensemble.replicas[index].client_port,
                                  .path = "/znodes/v1/zookeeper/config",
                                  .headers = "Accept: application/octet-stream"};
    char line[128];

    if (web_do(ensemble.web, &call, &ensemble.reply) != 200) {
        return false;
    }
    for (uint32_t i = 0; i < ensemble.count; i++) {
        (void)snprintf(line, sizeof line, "server.%u=127.0.0.1:%u:%u:participant;" CLIENT "\n",
                       i + 1, ensemble.replicas[i].peer_port, ensemble.replicas[i].peer_port);
        if (!strstr(web_text(&ensemble.reply), line)) {
            return false;
        }
    }
    return strstr(web_text(&ensemble.reply), "version=") != NULL;
}

static bool all_show_addresses(void)
{
    for (uint32_t i = 0; i < ensemble.count; i++) {
        if (!shows_addresses(i)) {
            return false;
        }
    }
    return true;
}

static uint32_t follower(void)
{
    return ensemble_wait_leader(&ensemble) == 0 ? 1 : 0;
}

/* ---- Tests. ---- */

static void open_three(void)
{
    open_earlier(COUNT);
}

TEST_GROUP(open_three, close_all)

TEST(the_level_waits_for_all_members)
{
    ensemble_start(&ensemble, 0);
    ensemble_start(&ensemble, 1);
    ensemble_wait_ready(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 1);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/before?upsert=true", "x", 201);

    uint64_t since_ms = os_now_ms();

    ENSEMBLE_WAIT(&ensemble, os_now_ms() - since_ms > ALONE_MS);
    assert_int_equal(level_of(0), ZAB_LEVEL_FIRST);
    assert_int_equal(level_of(1), ZAB_LEVEL_FIRST);
}

TEST(ten_seconds_after_the_last_member_the_level_rises)
{
    uint64_t since_ms = os_now_ms();

    ensemble_start(&ensemble, LAST);
    ensemble_wait_ready(&ensemble, LAST);
    ENSEMBLE_WAIT(&ensemble, level_of(LAST) == ZAB_LEVEL_KNOWN);
    assert_true(os_now_ms() - since_ms >= LEVEL_MS);
    ENSEMBLE_WAIT(&ensemble, all_have(ZAB_LEVEL_KNOWN));
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

TEST(a_restarted_replica_has_the_level_and_the_state)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        restart(i);
        assert_int_equal(level_of(i), ZAB_LEVEL_KNOWN);
        ENSEMBLE_WAIT(&ensemble, states_are_equal());
    }
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/after?upsert=true", "x", 201);
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
    ENSEMBLE_WAIT(&ensemble, all_have(ZAB_LEVEL_KNOWN));
}

static void open_one(void)
{
    open_earlier(1);
}

TEST_GROUP(open_one, close_all)

/* There is no other replica to wait for. */
TEST(a_single_replica_raises_the_level_at_once)
{
    uint64_t since_ms = os_now_ms();

    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, all_have(ZAB_LEVEL_KNOWN));
    assert_true(os_now_ms() - since_ms < (uint64_t)LEVEL_MS * ENSEMBLE_FACTOR);
    restart(0);
    assert_true(all_have(ZAB_LEVEL_KNOWN));
}

static void start_two(void)
{
    open_earlier(COUNT);
    for (uint32_t i = 0; i < LAST; i++) {
        ensemble_start(&ensemble, i);
    }
    for (uint32_t i = 0; i < LAST; i++) {
        ensemble_wait_ready(&ensemble, i);
    }
}

TEST_GROUP(start_two, close_all)

TEST(what_is_refused_says_why)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);

    expect_refused(leader, "{\"hold\":1}", "ChangeRefused", "the level is 0, which has no hold");
    expect_refused(follower(), "{\"raise\":1}", "ChangeRefused", "has not been connected for 10 s");
    expect_refused(leader, "{\"raise\":3,\"force\":true}", "ChangeRefused",
                   "the release of the leader knows levels up to 2: upgrade it first");
    assert_int_equal(change(leader, "{\"raise\":1,\"force\":true}", "", NULL), 401);
    assert_int_equal(change(leader, "{\"raise\":1,\"force\":true}", BOB, NULL), 403);
    const char *const bad[] = {"{}",
                               "{\"hold\":0}",
                               "{\"hold\":65536}",
                               "{\"raise\":null}",
                               "{\"raise\":\"1\"}",
                               "{\"hold\":1,\"raise\":1}",
                               "{\"hold\":1,\"force\":true}",
                               "{\"force\":true}"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(change(leader, bad[i], ROOT, NULL), 400);
    }
    assert_int_equal(level_of(0), ZAB_LEVEL_FIRST);
    assert_int_equal(level_of(1), ZAB_LEVEL_FIRST);
}

/* The third member is away for good, as far as the others know. */
TEST(a_forced_raise_needs_no_other_member)
{
    assert_int_equal(change(follower(), "{\"raise\":1,\"force\":true}", ROOT, NULL), 204);
    ENSEMBLE_WAIT(&ensemble, level_of(0) == 1 && level_of(1) == 1);
    expect_refused(0, "{\"raise\":1}", "ChangeRefused", "the level is 1: it can only be raised");
    assert_int_equal(change(follower(), "{\"hold\":1}", ROOT, NULL), 204);
    ensemble_start(&ensemble, LAST);
    ensemble_wait_ready(&ensemble, LAST);
    ENSEMBLE_WAIT(&ensemble, all_have(1));
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

TEST(a_hold_with_a_key_is_made_once)
{
    uint32_t at = follower();
    char zxid[32];

    assert_int_equal(change(at, "{\"hold\":1}", ROOT, "hold-1"), 204);
    (void)snprintf(zxid, sizeof zxid, "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    ENSEMBLE_WAIT(&ensemble, all_held(1));
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(change(i, "{\"hold\":1}", ROOT, "hold-1"), 204);
        assert_string_equal(web_header(&ensemble.reply, "Zk-Zxid"), zxid);
    }
    assert_int_equal(change(at, "{\"hold\":2}", ROOT, "hold-1"), 422);
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

TEST(restarts_and_a_refill_give_the_same_state)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        restart(i);
        assert_int_equal(number_of(i, "hold"), 1);
        ENSEMBLE_WAIT(&ensemble, states_are_equal());
    }
    assert_int_equal(ensemble_stop(&ensemble, LAST), 0);
    ensemble_empty(&ensemble, LAST);
    ensemble_start(&ensemble, LAST);
    ensemble_wait_ready(&ensemble, LAST);
    ENSEMBLE_WAIT(&ensemble, all_held(1));
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
    ENSEMBLE_WAIT(&ensemble, change(LAST, "{\"hold\":1}", ROOT, "hold-1") == 204);
}

TEST(a_hold_is_released)
{
    expect_refused(0, "{\"raise\":2}", "ChangeRefused", "the level is held at 1");
    assert_false(shows_addresses(0));
    assert_int_equal(change(0, "{\"hold\":null}", ROOT, NULL), 204);
    ENSEMBLE_WAIT(&ensemble, all_held(0));
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

/* The leader knows them from its file and from the connections. */
TEST(level_two_shows_the_addresses)
{
    ENSEMBLE_WAIT(&ensemble, all_have(ZAB_LEVEL_TEXTS));
    ENSEMBLE_WAIT(&ensemble, all_show_addresses());
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

TEST(restarts_and_a_refill_show_the_same_addresses)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        restart(i);
        ENSEMBLE_WAIT(&ensemble, all_show_addresses());
        ENSEMBLE_WAIT(&ensemble, states_are_equal());
    }
    /* Not the last one: its seat has got a new disk a moment ago. */
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    ensemble_empty(&ensemble, 0);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, all_show_addresses());
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}

static void launch_three(void)
{
    ensemble_launch(&ensemble, COUNT, "advertiseClient=" CLIENT "\n");
}

TEST_GROUP(launch_three, close_all)

TEST(a_new_ensemble_has_the_level_from_the_start)
{
    assert_true(all_have(ZAB_LEVEL_KNOWN));
    ENSEMBLE_WAIT(&ensemble, all_show_addresses());
    ENSEMBLE_WAIT(&ensemble, states_are_equal());
}
