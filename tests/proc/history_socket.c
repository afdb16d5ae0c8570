/* Clients by WebSocket: pipelined operations, and a watch on the same socket. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/proc/history_run.h"
#include "tests/proc/socket.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>

enum {
    WINDOW = 8, /* Operations in flight. */
    WAIT_MS = 20,
    TEXT_MAX = 4096,
    LEAVE_ONE_IN = 2000 /* In so many messages. */
};

struct flight {
    struct history_client *client;
    struct socket *socket;
    uint64_t watch_id; /* Id of the request to watch; 0: answered. */
    zxid_t since;
    struct history_op ops[WINDOW]; /* Oldest first. */
    uint64_t ids[WINDOW];
    uint32_t count;
    uint64_t next_ms; /* Time of the next operation. */
};

static void send_op(struct flight *flight)
{
    struct history_op *op = &flight->ops[flight->count];
    struct buf text;

    history_plan(flight->client, op);
    op->connection = history_connection(flight->client);
    buf_init(&text, TEXT_MAX);
    if (op->count > 1) {
        buf_append_str(&text, "\"op\":\"multi\",");
        history_put_steps(&text, op);
    } else {
        history_put_step(&text, &op->steps[0]);
    }
    if (op->linearizable) {
        buf_append_str(&text, ",\"consistency\":\"linearizable\"");
    }
    op->start_us = os_now_us();
    flight->ids[flight->count++] = socket_request(flight->socket, "%s", buf_cstr(&text));
    buf_release(&text);
}

/* Records the oldest operation, which has its answer. */
static void record_oldest(struct flight *flight)
{
    flight->ops[0].end_us = os_now_us();
    history_keep(flight->client, &flight->ops[0]);
    flight->count--;
    memmove(&flight->ops[0], &flight->ops[1], flight->count * sizeof(flight->ops[0]));
    memmove(&flight->ids[0], &flight->ids[1], flight->count * sizeof(flight->ids[0]));
}

/* Events of all changes that the answer's state includes must precede the answer. */
static void note_answer(struct history_client *client, zxid_t zxid)
{
    struct history_item item = {.kind = HISTORY_BOOKMARK, .at_us = os_now_us(), .zxid = zxid};

    history_add_item(&client->log, &item);
}

static void take_reply(struct flight *flight, const json_t *reply)
{
    struct history_client *client = flight->client;
    uint64_t id = (uint64_t)json_integer_value(json_object_get(reply, "id"));
    const json_t *problem = json_object_get(reply, "error");
    struct history_op *op = &flight->ops[0];

    if (flight->count == 0 || id != flight->ids[0]) {
        history_wrong(client, "a reply out of order: %" PRIu64, id);
        return;
    }
    if (problem) {
        op->zxid = history_zxid(json_object_get(problem, "zxid"));
        op->outcome = history_take_problem(client, op, problem);
    } else {
        op->zxid = history_zxid(json_object_get(reply, "zxid"));
        history_take_answer(op, reply);
    }
    if (history_names_state(op)) {
        note_answer(client, op->zxid);
    }
    record_oldest(flight);
}

/* False when this replica cannot resume the watch now. */
static bool take_watch(struct flight *flight, const json_t *reply)
{
    flight->watch_id = 0;
    if (!json_is_true(json_object_get(reply, "ok"))) {
        return false;
    }
    history_take_watch(flight->client, json_string_value(json_object_get(reply, "resumed")),
                       flight->since, history_zxid(json_object_get(reply, "zxid")));
    return true;
}

/* False when the client should leave this socket. */
static bool take_message(struct flight *flight, const json_t *message)
{
    uint64_t id = (uint64_t)json_integer_value(json_object_get(message, "id"));

    if (json_object_get(message, "event")) {
        history_take_event(flight->client, message);
        return true;
    }
    if (flight->watch_id != 0 && id == flight->watch_id) {
        return take_watch(flight, message);
    }
    take_reply(flight, message);
    return true;
}

static void connect_somewhere(struct flight *flight)
{
    struct history_client *client = flight->client;
    struct socket_options options = {.timeout_ms = HISTORY_CALL_MS};

    history_new_connection(client);
    flight->socket = socket_open(client->run->ports[client->server], &options);
    if (!socket_is_open(flight->socket)) {
        socket_close(flight->socket);
        flight->socket = NULL;
        ensemble_breathe();
        return;
    }
    flight->since = client->at;
    if (client->at != 0) {
        flight->watch_id = socket_request(flight->socket,
                                          "\"op\":\"watch\",\"path\":\"/h\",\"kind\":\"recursive\","
                                          "\"values\":true,\"since\":\"0x%" PRIx64 "\"",
                                          client->at);
    } else {
        flight->watch_id = socket_request(flight->socket, "\"op\":\"watch\",\"path\":\"/h\","
                                                          "\"kind\":\"recursive\",\"values\":true");
    }
}

/* Operations in flight have an unknown outcome. */
static void lose(struct flight *flight)
{
    while (flight->count > 0) {
        flight->ops[0].outcome = HISTORY_UNKNOWN;
        record_oldest(flight);
    }
    socket_close(flight->socket);
    flight->socket = NULL;
    flight->watch_id = 0;
    history_take_loss(flight->client);
}

/* True when the server has sent nothing for too long. */
static bool is_late(const struct flight *flight)
{
    return flight->count > 0 &&
           os_now_us() - flight->ops[0].start_us > (uint64_t)HISTORY_CALL_MS * 1000;
}

/* Keeps the window full; if the run has pauses, sends a whole window at once. */
static void fill_window(struct flight *flight)
{
    const struct history_run *run = flight->client->run;

    if (atomic_load(&run->stopping) || !flight->client->watching || os_now_ms() < flight->next_ms) {
        return;
    }
    while (flight->count < WINDOW) {
        send_op(flight);
    }
    flight->next_ms = run->rest_ms ? os_now_ms() + (uint64_t)run->rest_ms * WINDOW : 0;
}

static void pass_time(struct flight *flight)
{
    bool stay = true;

    fill_window(flight);
    stay = socket_wait(flight->socket, WAIT_MS);

    json_t *message = socket_next(flight->socket, 0);

    while (message) {
        stay = take_message(flight, message) && stay;
        json_decref(message);
        message = socket_next(flight->socket, 0);
    }
    if (!stay || is_late(flight) || rng_below(&flight->client->rng, LEAVE_ONE_IN) == 0) {
        lose(flight);
    }
}

void history_run_socket(struct history_client *client)
{
    struct flight flight = {.client = client};
    bool done = false;

    while (!done) {
        if (!flight.socket) {
            connect_somewhere(&flight);
        } else {
            pass_time(&flight);
        }
        done = flight.count == 0 && history_watcher_done(client);
    }
    socket_close(flight.socket);
}
