/*
 * Clients that request much and read nothing: 400 connections or WebSockets, each with a multi of a
 * few hundred bytes whose answer has 15 or 20 MB. The replica keeps each value once for all of
 * them, closes those that read nothing for slowTimeout, and answers all other clients meanwhile.
 */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ATTACKERS = 400,
    GETS = 15,
    VALUE_BYTES = 1000 * 1000,
    SLOW_MS = 1000,           /* slowTimeout */
    GONE_MS = SLOW_MS + 4000, /* From the last request: two sweeps and the library's own delay. */
    BACK_MS = 15000,
    LOOK_MS = 50,
    VERSION_MS = 10,
    CALM_MS = 1000,
    CALM_LEAST_US = 2000, /* A calm p99 below this is not representative. */
    REPLICAS = 3,
    ATTACKERS_EACH = ATTACKERS / REPLICAS, /* For each of three replicas. */
    GROWTH_MAX = 512 << 20,
    LEFT_MAX = 96 << 20,
    RECEIVE_BYTES = 4096,
    LOOK_EACH = 20, /* Attackers between two checks of the memory and of other clients. */
    CLOSED_MS = 60000
};

static struct ensemble ensemble;
static int attackers[ATTACKERS];
static struct socket *sockets[ATTACKERS];
static uint64_t idle_bytes;
static uint64_t most_bytes;
static uint32_t calm_us;

static uint64_t resident(void)
{
    uint64_t bytes = ensemble_resident_bytes(ensemble.replicas[0].pid);

    most_bytes = bytes > most_bytes ? bytes : most_bytes;
    return bytes;
}

static void put_values(void)
{
    char *value = mem_alloc(VALUE_BYTES + 1);
    char path[64];

    value[VALUE_BYTES] = '\0';
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?name=small", "x", 201);
    for (int i = 0; i < GETS; i++) {
        memset(value, 'a' + i, VALUE_BYTES);
        (void)snprintf(path, sizeof(path), "/znodes/v1/?name=v%d", i);
        assert_int_equal(ensemble_call(&ensemble, 0, "POST", path, value), 201);
    }
    mem_free(value);
}

static struct attack_client beside(void)
{
    return (struct attack_client){.method = "GET",
                                  .path = "/znodes/v1/small",
                                  .port = ensemble.replicas[0].client_port,
                                  .pause_ms = 1};
}

/* Measured before and after, so that other load on the machine does not count as the attack's. */
static uint32_t calm_p99_us(void)
{
    struct attack_client client = beside();
    uint32_t p99_us = 0;

    attack_client_start(&client);
    (void)poll(NULL, 0, CALM_MS);
    attack_client_stop(&client);
    p99_us = attack_client_quantile(&client, 990);
    attack_client_release(&client);
    return p99_us > CALM_LEAST_US ? p99_us : CALM_LEAST_US;
}

/* The change window also keeps old values; here it has room for one or two. */
static void setup(void)
{
    ensemble_launch(&ensemble, 1, "slowTimeout=1000\nmaxWindowBytes=1048576\n");
    put_values();
    calm_us = calm_p99_us();
    most_bytes = 0;
    idle_bytes = resident();
}

static void teardown(void)
{
    ensemble_close(&ensemble);
}

/* The operations of a multi of gets; `single`: all read the first value. */
static void write_ops(struct buf *out, bool single)
{
    buf_append_str(out, "\"ops\":[");
    for (int i = 0; i < GETS; i++) {
        buf_printf(out, "%s{\"op\":\"get\",\"path\":\"/v%d\"}", i ? "," : "", single ? 0 : i);
    }
    buf_append_str(out, "]");
}

static void write_request(struct buf *out, bool single)
{
    struct buf body;

    buf_init(&body, 4096);
    buf_append_str(&body, "{");
    write_ops(&body, single);
    buf_append_str(&body, "}");
    buf_printf(out,
               "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Content-Length: %zu\r\n\r\n",
               body.len);
    buf_append_slice(out, buf_slice(&body));
    buf_release(&body);
}

/* Waits until the value is replaced again, at most VERSION_MS. */
static void await_write(struct attack_client *writer)
{
    uint32_t done = atomic_load(&writer->done);
    uint64_t end_ms = os_now_ms() + VERSION_MS;

    while (atomic_load(&writer->done) == done && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, 1);
    }
}

/* With a writer, each connection requests another version of one value. */
static void attack(struct attack_client *writer)
{
    struct buf request;

    buf_init(&request, 8192);
    write_request(&request, writer != NULL);
    for (int i = 0; i < ATTACKERS; i++) {
        attackers[i] = attack_connect(ensemble.replicas[0].client_port, RECEIVE_BYTES, 0);
        assert_true(attackers[i] >= 0);
        assert_true(attack_send(attackers[i], request.data, request.len));
        if (writer) {
            await_write(writer);
        }
        if (i % LOOK_EACH == 0) {
            (void)resident();
        }
    }
    buf_release(&request);
}

static uint64_t metric(const char *name)
{
    return ensemble_metric(&ensemble, 0, name);
}

/* Left are this connection, a few kept ones of other clients, and those that received a small
 * refusal instead of the answer. */
static bool are_gone(void)
{
    return metric("zabra_http_connections") <= 4 + metric("zabra_http_unsent_refused_total");
}

static bool are_gone_by(uint64_t end_ms)
{
    while (!are_gone()) {
        if (os_now_ms() >= end_ms) {
            return false;
        }
        (void)resident();
        (void)poll(NULL, 0, LOOK_MS);
    }
    return true;
}

static void hang_up(void)
{
    for (int i = 0; i < ATTACKERS; i++) {
        close(attackers[i]);
    }
}

static void check_memory(void)
{
    uint64_t end_ms = os_now_ms() + BACK_MS;
    uint64_t left = resident();

    while (left > idle_bytes + LEFT_MAX && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, LOOK_MS);
        left = resident();
    }
    print_message("idle %llu MB, most %llu MB, left %llu MB\n",
                  (unsigned long long)(idle_bytes >> 20), (unsigned long long)(most_bytes >> 20),
                  (unsigned long long)(left >> 20));
    assert_true(most_bytes <= idle_bytes + GROWTH_MAX);
    print_message("closed as slowest %llu, refused %llu; sockets refused %llu\n",
                  (unsigned long long)metric("zabra_http_slowest_closed_total"),
                  (unsigned long long)metric("zabra_http_unsent_refused_total"),
                  (unsigned long long)metric("zabra_ws_unsent_refused_total"));
    assert_true(left <= idle_bytes + LEFT_MAX);
    assert_int_equal(metric("zabra_unsent_bytes"), 0);
}

static void check_client(struct attack_client *client)
{
    uint32_t p99_us = attack_client_quantile(client, 990);
    uint32_t after_us = calm_p99_us();

    calm_us = calm_us > after_us ? calm_us : after_us;
    print_message("calm p99 %u us, under attack %u us, %u calls\n", calm_us, p99_us, client->count);
    assert_int_equal(client->failed, 0);
    assert_true(client->count > 0);
    assert_true(p99_us <= 5 * calm_us);
    attack_client_release(client);
}

TEST(unread_answers_hold_each_value_once, setup, teardown)
{
    struct attack_client client = beside();
    uint64_t end_ms = 0;
    bool gone = false;

    attack_client_start(&client);
    attack(NULL);
    end_ms = os_now_ms() + GONE_MS;
    gone = are_gone_by(end_ms);
    attack_client_stop(&client);
    assert_true(gone); /* The clients have not closed their ends. */
    check_client(&client);
    check_memory();
    hang_up();
}

/* Each connection keeps another version of one value in memory, until the budget refuses more. */
TEST(replaced_versions_are_bounded, setup, teardown)
{
    struct attack_client client = beside();
    struct attack_client writer = beside();
    char *value = mem_alloc(VALUE_BYTES + 1);
    uint64_t end_ms = 0;
    bool gone = false;

    memset(value, 'w', VALUE_BYTES);
    value[VALUE_BYTES] = '\0';
    writer.method = "PUT";
    writer.path = "/znodes/v1/v0";
    writer.body = value;
    writer.pause_ms = 0;
    attack_client_start(&client);
    attack_client_start(&writer);
    attack(&writer);
    end_ms = os_now_ms() + GONE_MS;
    (void)poll(NULL, 0, SLOW_MS / 2);
    attack_client_stop(&writer);
    gone = are_gone_by(end_ms);
    attack_client_stop(&client);
    assert_true(gone);
    assert_int_equal(writer.failed, 0);
    attack_client_release(&writer);
    check_client(&client);
    check_memory();
    hang_up();
    mem_free(value);
}

/* ---- The same on all of three replicas ---- */

struct beside {
    struct attack_client reader; /* Both at the leader. */
    struct attack_client writer;
};

struct seen {
    uint64_t idle_bytes;
    uint64_t most_bytes;
    uint64_t elections;
};

static uint32_t leader;
static struct seen seen[REPLICAS];

static void beside_start(struct beside *beside)
{
    uint16_t port = ensemble.replicas[leader].client_port;

    beside->reader = (struct attack_client){
        .method = "GET", .path = "/znodes/v1/small", .port = port, .pause_ms = 1};
    beside->writer = (struct attack_client){
        .method = "PUT", .path = "/znodes/v1/small", .body = "y", .port = port, .pause_ms = 1};
    attack_client_start(&beside->reader);
    attack_client_start(&beside->writer);
}

static void beside_stop(struct beside *beside)
{
    attack_client_stop(&beside->reader);
    attack_client_stop(&beside->writer);
}

static void calm_both(uint32_t *read_us, uint32_t *write_us)
{
    struct beside beside;
    uint32_t p99_us = 0;

    beside_start(&beside);
    (void)poll(NULL, 0, CALM_MS);
    beside_stop(&beside);
    p99_us = attack_client_quantile(&beside.reader, 990);
    *read_us = p99_us > *read_us ? p99_us : *read_us;
    p99_us = attack_client_quantile(&beside.writer, 990);
    *write_us = p99_us > *write_us ? p99_us : *write_us;
    attack_client_release(&beside.reader);
    attack_client_release(&beside.writer);
}

static void sample_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint64_t bytes = ensemble_resident_bytes(ensemble.replicas[i].pid);

        seen[i].most_bytes = bytes > seen[i].most_bytes ? bytes : seen[i].most_bytes;
    }
}

static void attack_all(void)
{
    struct buf request;

    buf_init(&request, 8192);
    write_request(&request, false);
    for (uint32_t i = 0; i < REPLICAS * ATTACKERS_EACH; i++) {
        attackers[i] = attack_connect(ensemble.replicas[i % REPLICAS].client_port, 4096, 0);
        assert_true(attackers[i] >= 0);
        assert_true(attack_send(attackers[i], request.data, request.len));
        if (i % 20 == 0) {
            sample_all();
        }
    }
    buf_release(&request);
}

static bool are_all_gone_by(uint64_t end_ms)
{
    bool gone = false;

    while (!gone && os_now_ms() < end_ms) {
        gone = true;
        for (uint32_t i = 0; i < REPLICAS; i++) {
            gone = gone && ensemble_metric(&ensemble, i, "zabra_http_connections") <=
                               4 + ensemble_metric(&ensemble, i, "zabra_http_unsent_refused_total");
        }
        sample_all();
        (void)poll(NULL, 0, LOOK_MS);
    }
    return gone;
}

static void check_one_of_three(uint32_t index)
{
    uint64_t end_ms = os_now_ms() + BACK_MS;
    const struct seen *one = &seen[index];
    uint64_t left = ensemble_resident_bytes(ensemble.replicas[index].pid);

    while (left > one->idle_bytes + LEFT_MAX && os_now_ms() < end_ms) {
        (void)poll(NULL, 0, LOOK_MS);
        left = ensemble_resident_bytes(ensemble.replicas[index].pid);
    }
    print_message("replica %u: idle %llu MB, most %llu MB, left %llu MB\n", index + 1,
                  (unsigned long long)(one->idle_bytes >> 20),
                  (unsigned long long)(one->most_bytes >> 20), (unsigned long long)(left >> 20));
    assert_true(one->most_bytes <= one->idle_bytes + GROWTH_MAX);
    assert_true(left <= one->idle_bytes + LEFT_MAX);
    assert_int_equal(ensemble_metric(&ensemble, index, "zabra_elections_total"), one->elections);
}

static void check_calls(struct attack_client *client, uint32_t calm_p99)
{
    uint32_t p99_us = attack_client_quantile(client, 990);

    print_message("%s: calm p99 %u us, under attack %u us, %u calls\n", client->method, calm_p99,
                  p99_us, client->count);
    assert_int_equal(client->failed, 0);
    assert_true(client->count > 0);
    assert_true(p99_us <= 5 * calm_p99);
    attack_client_release(client);
}

static void setup_three(void)
{
    char last[32];

    ensemble_launch(&ensemble, REPLICAS, "slowTimeout=1000\n");
    leader = ensemble_wait_leader(&ensemble);
    put_values();
    (void)snprintf(last, sizeof(last), "/znodes/v1/v%d", GETS - 1);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_call_until(&ensemble, i, "GET", last, NULL, 200);
        seen[i] = (struct seen){
            .idle_bytes = ensemble_resident_bytes(ensemble.replicas[i].pid),
            .elections = ensemble_metric(&ensemble, i, "zabra_elections_total"),
        };
    }
}

/* The leader remains leader, and writes continue. */
TEST(three_replicas_under_attack_keep_their_leader, setup_three, teardown)
{
    uint32_t read_us = CALM_LEAST_US;
    uint32_t write_us = CALM_LEAST_US;
    struct beside beside;
    bool gone = false;

    calm_both(&read_us, &write_us);
    beside_start(&beside);
    attack_all();
    gone = are_all_gone_by(os_now_ms() + GONE_MS);
    beside_stop(&beside);
    assert_true(gone); /* The clients have not closed their ends. */
    calm_both(&read_us, &write_us);
    check_calls(&beside.reader, read_us);
    check_calls(&beside.writer, write_us);
    assert_true(ensemble_leads(&ensemble, leader));
    for (uint32_t i = 0; i < REPLICAS; i++) {
        check_one_of_three(i);
    }
    for (uint32_t i = 0; i < REPLICAS * ATTACKERS_EACH; i++) {
        close(attackers[i]);
    }
}

/* ---- WebSockets ---- */

/* A WebSocket client that reads gets its replies, and the probe is answered. */
static void check_others(struct socket *honest)
{
    json_t *reply = socket_call(honest, "\"op\":\"set\",\"path\":\"/small\",\"dataUtf8\":\"y\"");
    json_t *event = socket_event(honest, "NodeDataChanged", SOCKET_TIMEOUT_MS);

    assert_true(json_is_true(json_object_get(reply, "ok")));
    assert_non_null(event);
    json_decref(reply);
    json_decref(event);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/livez", NULL), 200);
    (void)resident();
}

static struct socket *open_honest(void)
{
    struct socket *honest = talk_open(&ensemble, 0, NULL);
    json_t *reply =
        socket_call(honest, "\"op\":\"watch\",\"path\":\"/small\",\"kind\":\"persistent\"");

    assert_true(json_is_true(json_object_get(reply, "ok")));
    json_decref(reply);
    return honest;
}

/* With a writer, each socket requests another version of one value. */
static void attack_sockets(struct attack_client *writer, struct socket *honest)
{
    const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};
    struct buf ops;

    buf_init(&ops, 4096);
    write_ops(&ops, writer != NULL);
    for (int i = 0; i < ATTACKERS; i++) {
        sockets[i] = socket_open(ensemble.replicas[0].client_port, &narrow);
        assert_int_equal(socket_status(sockets[i]), 101);
        (void)socket_request(sockets[i], "\"op\":\"multi\",%s", buf_cstr(&ops));
        assert_true(socket_all_sent(sockets[i]));
        if (writer) {
            await_write(writer);
        }
        if (i % LOOK_EACH == 0) {
            check_others(honest);
        }
    }
    buf_release(&ops);
}

/* Waits until the server has closed all sockets except those that received a small refusal instead
 * of the answer. */
static void await_closed(struct socket *honest)
{
    uint64_t end_ms = os_now_ms() + CLOSED_MS;

    while (metric("zabra_ws_sockets") > 1 + metric("zabra_ws_unsent_refused_total")) {
        assert_true(os_now_ms() < end_ms);
        check_others(honest);
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static void check_given_back(struct attack_client *client, struct socket *honest)
{
    check_client(client);
    check_memory();
    for (int i = 0; i < ATTACKERS; i++) {
        socket_close(sockets[i]);
    }
    check_others(honest);
    socket_close(honest);
}

TEST(unread_replies_hold_each_value_once, setup, teardown)
{
    struct attack_client client = beside();
    struct socket *honest = open_honest();

    attack_client_start(&client);
    attack_sockets(NULL, honest);
    await_closed(honest); /* The clients have not closed their ends. */
    attack_client_stop(&client);
    assert_int_equal(metric("zabra_ws_unsent_refused_total"), 0);
    assert_int_equal(metric("zabra_ws_closed_total{code=\"4508\"}"), ATTACKERS);
    check_given_back(&client, honest);
}

/* Each socket keeps another version of one value in memory, until the budget refuses more. */
TEST(versions_in_replies_are_bounded, setup, teardown)
{
    struct attack_client client = beside();
    struct attack_client writer = beside();
    struct socket *honest = open_honest();
    char *value = mem_alloc(VALUE_BYTES + 1);

    memset(value, 'w', VALUE_BYTES);
    value[VALUE_BYTES] = '\0';
    writer.method = "PUT";
    writer.path = "/znodes/v1/v0";
    writer.body = value;
    writer.pause_ms = 0;
    attack_client_start(&client);
    attack_client_start(&writer);
    attack_sockets(&writer, honest);
    attack_client_stop(&writer);
    await_closed(honest);
    attack_client_stop(&client);
    assert_int_equal(writer.failed, 0);
    attack_client_release(&writer);
    check_given_back(&client, honest);
    mem_free(value);
}

int main(int count, char **args)
{
    attack_raise_descriptors(ATTACKERS + 100);
    return unit_run(count, args);
}
