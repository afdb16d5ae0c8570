/* The status of each replica, requested at each replica, also of a stopped and a killed one, and
 * for how long. */
#include "tests/lib/unit.h"
#include "tests/proc/membership.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    COUNT = 3,
    SILENT_MS = 5000 /* syncLimit and two more ticks. */
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, COUNT, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* What replica `at` reports about `of`; the caller drops it. NULL: nothing. */
static json_t *member(uint32_t at, uint32_t of)
{
    if (ensemble_call(&ensemble, at, "GET", "/ensemble/v1", NULL) != 200) {
        return NULL;
    }
    json_t *all = web_json(&ensemble.reply);
    json_t *one = json_array_get(json_object_get(all, "members"), of);

    json_incref(one);
    json_decref(all);
    return one;
}

static int64_t number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool is(const json_t *object, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value && strcmp(value, text) == 0;
}

/* True for a recent contact, in sync up to `zxid`, with a synced log. */
static bool is_healthy(uint32_t at, uint32_t of, const char *role, const char *zxid)
{
    json_t *one = member(at, of);
    bool well = is(one, "state", role) && is(one, "zxid", zxid) && number(one, "epoch") > 0 &&
                number(one, "lag_ms") >= 0 && number(one, "heard_ms") >= 0 &&
                number(one, "heard_ms") < SILENT_MS && number(one, "state_ms") >= 0 &&
                number(one, "uptime_ms") > 0 &&
                json_is_number(json_object_get(one, "log_sync_p99_ms")) &&
                json_is_false(json_object_get(one, "disk_low")) &&
                json_string_length(json_object_get(one, "version")) > 0;

    json_decref(one);
    return well;
}

static bool has_state(uint32_t at, uint32_t of, const char *state)
{
    json_t *one = member(at, of);
    bool has = is(one, "state", state);

    json_decref(one);
    return has;
}

TEST_GROUP(open_three, close_three)

TEST(each_replica_knows_the_status_of_all)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    char zxid[32];

    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/members?upsert=true", "x", 201);
    (void)snprintf(zxid, sizeof(zxid), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    for (uint32_t at = 0; at < COUNT; at++) {
        for (uint32_t of = 0; of < COUNT; of++) {
            ENSEMBLE_WAIT(&ensemble,
                          is_healthy(at, of, of == leader ? "leader" : "follower", zxid));
        }
    }
}

/* The connections of a stopped replica stay open: only the missing heartbeats show it. */
TEST(a_stopped_replica_is_silent)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t still = (leader + 1) % COUNT;
    uint32_t other = (leader + 2) % COUNT;

    ensemble_signal(&ensemble, still, SIGSTOP);
    ENSEMBLE_WAIT(&ensemble,
                  has_state(other, still, "silent") || has_state(other, still, "unreachable"));
    json_t *one = member(other, still);

    assert_true(number(one, "heard_ms") >= SILENT_MS);
    json_decref(one);
    ensemble_signal(&ensemble, still, SIGCONT);
    ENSEMBLE_WAIT(&ensemble, has_state(other, still, "follower"));
    ENSEMBLE_WAIT(&ensemble, has_state(still, other, "follower"));
}

static void expect_list(uint32_t at, const char *text)
{
    assert_int_equal(ensemble_call(&ensemble, at, "GET", "/readyz?verbose", NULL), 200);
    if (!strstr(web_text(&ensemble.reply), text)) {
        fail_msg("%s lacks %s", web_text(&ensemble.reply), text);
    }
}

/* The members are those of the log. A replica that the others dial needs none of their addresses.
 */
TEST(a_replica_with_another_list_serves)
{
    expect_list(0, "[+] server_list: the server list names the members");
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    membership_set_line(&ensemble, 0, "server.3=", "");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    expect_list(0, "[+] server_list: server.N: the list differs from the members of the ensemble: "
                   "it lacks replica 3;");
    ENSEMBLE_WAIT(&ensemble, has_state(0, 2, "follower") || has_state(0, 2, "leader"));
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/ensemble/v1", NULL), 200);
    json_t *all = web_json(&ensemble.reply);

    assert_non_null(json_object_get(all, "list_differs"));
    assert_int_equal(json_array_size(json_object_get(all, "members")), COUNT);
    json_decref(all);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/list?upsert=true", "x", 201);
    ensemble_write_configs(&ensemble);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    expect_list(0, "[+] server_list: the server list names the members");
}

static bool has_report(uint32_t at, uint32_t of)
{
    json_t *one = member(at, of);
    bool has = number(one, "epoch") > 0 && json_object_get(one, "zxid") != NULL;

    json_decref(one);
    return has;
}

TEST(a_killed_replica_keeps_its_last_status)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t gone = (leader + 1) % COUNT;
    uint32_t other = (leader + 2) % COUNT;

    /* It may have started a moment ago, and have sent votes but no report yet. */
    ENSEMBLE_WAIT(&ensemble, has_report(other, gone));
    ensemble_kill(&ensemble, gone);
    ENSEMBLE_WAIT(&ensemble, has_state(other, gone, "unreachable"));
    json_t *one = member(other, gone);

    assert_true(number(one, "heard_ms") >= 0);
    assert_int_equal(number(one, "state_ms"), -1);
    assert_non_null(json_object_get(one, "zxid"));
    json_decref(one);
    ensemble_start(&ensemble, gone);
    ensemble_wait_all_ready(&ensemble);
    ENSEMBLE_WAIT(&ensemble, has_state(other, gone, "follower"));
}
