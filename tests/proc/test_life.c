/* Normal operation of three replicas: writes and reads at each of them, stops and restarts. */
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/proc/load.h"
#include "tests/proc/sealed.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ROUNDS = 1000,
    SEEN = 4096, /* Recorded answers, indexed by zxid. */
    LOG_MAX = 1 << 20
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

static void put(uint32_t index, const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/znodes/v1/%s?upsert=true", name);
    ensemble_call(&ensemble, index, "PUT", path, text);
    ENSEMBLE_CHECK(&ensemble, ensemble.reply.status == 200 || ensemble.reply.status == 201);
}

static void expect_data(uint32_t index, const char *name, const char *text)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "/znodes/v1/%s?dataformat=utf8&consistency=linearizable",
                   name);
    ensemble_call(&ensemble, index, "GET", path, NULL);
    ENSEMBLE_CHECK(&ensemble, ensemble.reply.status == 200);

    json_t *answer = web_json(&ensemble.reply);

    assert_string_equal(json_string_value(json_object_get(answer, "dataUtf8")), text);
    json_decref(answer);
}

TEST_GROUP(open_three, close_three)

TEST(write_and_read_through_each)
{
    for (uint32_t writer = 0; writer < 3; writer++) {
        char text[32];

        (void)snprintf(text, sizeof(text), "from %u", writer);
        put(writer, "a", text);
        for (uint32_t reader = 0; reader < 3; reader++) {
            expect_data(reader, "a", text);
        }
    }
}

/* With Zk-Min-Zxid each replica shows the state that another one has answered. */
TEST(read_your_writes_elsewhere)
{
    for (uint32_t i = 0; i < 50; i++) {
        char text[32];
        char headers[64];

        (void)snprintf(text, sizeof(text), "round %u", i);
        put(i % 3, "b", text);

        const char *zxid = web_header(&ensemble.reply, "Zk-Zxid");

        assert_non_null(zxid);
        (void)snprintf(headers, sizeof(headers), "Zk-Min-Zxid: %s", zxid);

        struct web_call call = {.port = ensemble.replicas[(i + 1) % 3].client_port,
                                .path = "/znodes/v1/b?dataformat=utf8",
                                .headers = headers};

        assert_int_equal(web_do(ensemble.web, &call, &ensemble.reply), 200);
        assert_non_null(strstr(web_text(&ensemble.reply), text));
    }
}

static uint32_t members_shown_as(const json_t *answer, const char *role)
{
    const json_t *members = json_object_get(answer, "members");
    uint32_t count = 0;

    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        const char *state = json_string_value(json_object_get(member, "state"));

        count += state && strcmp(state, role) == 0 ? 1U : 0U;
    }
    return count;
}

static bool shows_all(uint32_t index)
{
    bool all = false;

    if (ensemble_call(&ensemble, index, "GET", "/ensemble/v1", NULL) == 200) {
        json_t *answer = web_json(&ensemble.reply);

        all = members_shown_as(answer, "leader") == 1 && members_shown_as(answer, "follower") == 2;
        json_decref(answer);
    }
    return all;
}

/* Each replica must show all members. */
static void expect_all_shown(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        ENSEMBLE_WAIT(&ensemble, shows_all(i));
    }
}

TEST(all_replicas_agree_on_one_leader)
{
    uint32_t leaders = 0;

    (void)ensemble_wait_leader(&ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        leaders += ensemble_leads(&ensemble, i) ? 1U : 0U;
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/ensemble/v1", NULL), 200);
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/livez", NULL), 200);
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/metrics", NULL), 200);
    }
    assert_int_equal(leaders, 1);
    expect_all_shown();
}

static uint64_t position(const json_t *answer, const char *name)
{
    const char *text = json_string_value(json_object_get(answer, name));

    assert_non_null(text);
    return strtoull(text, NULL, 16);
}

/* The fields of one answer are consistent while the state changes, and each zxid has one digest at
 * all replicas. */
TEST(a_status_is_consistent)
{
    static struct load load;
    uint64_t digests[SEEN] = {0};
    uint64_t zxids[SEEN] = {0};
    uint32_t met = 0;

    load_start(&load, &ensemble, 2);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(ensemble_call(&ensemble, i % 3, "GET", "/status/v1", NULL), 200);

        json_t *answer = web_json(&ensemble.reply);
        uint64_t zxid = position(answer, "zxid");

        ENSEMBLE_CHECK(&ensemble, position(answer, "committed") >= zxid);
        ENSEMBLE_CHECK(&ensemble, position(answer, "durable") >= zxid);
        ENSEMBLE_CHECK(&ensemble, position(answer, "logged") >= position(answer, "durable"));
        met += zxids[zxid % SEEN] == zxid ? 1U : 0U;
        ENSEMBLE_CHECK(&ensemble, zxids[zxid % SEEN] != zxid ||
                                      digests[zxid % SEEN] == position(answer, "digest"));
        zxids[zxid % SEEN] = zxid;
        digests[zxid % SEEN] = position(answer, "digest");
        json_decref(answer);
    }
    load_stop(&load, &ensemble);
    load_release(&load);
    print_message("%u of %d answers had the zxid of another one\n", met, ROUNDS);
    assert_true(met > 0);
}

static bool log_has(uint32_t index, const char *text)
{
    static char log_text[LOG_MAX];
    int fd = open(ensemble.replicas[index].log, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, log_text, sizeof(log_text) - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    log_text[got > 0 ? got : 0] = '\0';
    return strstr(log_text, text) != NULL;
}

/* What a replica logs when SIGHUP has been handled. */
static const char *hangup_line(void)
{
    return sealed_on() ? "SIGHUP: reloaded: clientTls" : "SIGHUP: nothing is reloaded";
}

/* Operators send SIGHUP for a reload, and a closing terminal sends it, too. */
TEST(a_hangup_ends_no_replica)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint64_t elections = ensemble_metric(&ensemble, leader, "zabra_elections_total");

    for (uint32_t i = 0; i < 3; i++) {
        ensemble_signal(&ensemble, i, SIGHUP);
        ENSEMBLE_WAIT(&ensemble, log_has(i, hangup_line()));
        ensemble_wait_ready(&ensemble, i);
    }
    ensemble_call_until(&ensemble, leader, "PUT", "/znodes/v1/hangup?upsert=true", "x", 201);
    assert_true(ensemble_leads(&ensemble, leader));
    assert_int_equal(ensemble_metric(&ensemble, leader, "zabra_elections_total"), elections);
    assert_false(log_has(leader, "draining"));
}

/* The signal arrives at any moment of the start, which must always be protected. */
TEST(a_hangup_ends_no_start)
{
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
        (void)unlink(ensemble.replicas[i].log);
        ensemble_start(&ensemble, i);
        ENSEMBLE_WAIT(&ensemble, log_has(i, "is sound: log up to"));
        ensemble_signal(&ensemble, i, SIGHUP);
        ENSEMBLE_WAIT(&ensemble, log_has(i, hangup_line()));
        ensemble_wait_ready(&ensemble, i);
    }
}

TEST(drain_hands_over)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t other = (leader + 1) % 3;

    put(other, "c", "before");
    assert_int_equal(ensemble_stop(&ensemble, leader), 0);

    uint64_t start_ms = os_now_ms();

    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/c", "after", 200);
    print_message("a write after the leader drained: %d ms\n", (int)(os_now_ms() - start_ms));
    expect_data(other, "c", "after");
    ensemble_start(&ensemble, leader);
    ensemble_wait_ready(&ensemble, leader);
    expect_data(leader, "c", "after");
    expect_all_shown();
}

TEST(second_start_finds_the_data)
{
    put(0, "d", "kept");
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(ensemble_stop(&ensemble, i), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        expect_data(i, "d", "kept");
    }
    expect_all_shown();
}

TEST(no_quorum_refuses_writes)
{
    put(0, "e", "old");
    ensemble_kill(&ensemble, 1);
    ensemble_kill(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/e", "new") == 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "not-applied"));
    assert_non_null(web_header(&ensemble.reply, "Retry-After"));
    assert_int_equal(
        ensemble_call(&ensemble, 0, "GET", "/znodes/v1/e?consistency=linearizable", NULL), 503);
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, 0, "GET", "/readyz", NULL) == 503);
    ensemble_start(&ensemble, 1);
    ensemble_start(&ensemble, 2);
    ensemble_wait_all_ready(&ensemble);
    expect_data(0, "e", "old");
    expect_all_shown();
}
