/*
 * Clients of ZooKeeper's protocol. One kind does pipelined operations in a session, which it takes
 * to another replica now and then; the other watches /h recursively, and reads on the same
 * connection, so that each reply must come behind the events of the changes that it shows.
 */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/lib/zk_ask.h"
#include "tests/lib/zk_reply.h"
#include "tests/proc/history_run.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    WINDOW = 8, /* Requests in flight. */
    WAIT_MS = 20,
    PACE_MS = 4, /* Between two windows: otherwise these clients alone would fill the history. */
    PATH_MAX_LEN = 32,
    FRAME_MAX = 1 << 20,
    READ_BYTES = 64 << 10,
    SESSION_MS =
        3600000,        /* It never expires: an ephemeral that ends without a request is a fault. */
    LEAVE_ONE_IN = 400, /* In so many turns. */
    SYNC_XID = 0x40000000 /* Added to the xid of the read behind it. */
};

static const struct zk_limits limits = {
    .data_bytes_max = FRAME_MAX, .multi_bytes_max = FRAME_MAX, .multi_ops_max = 100};

/* A request without a reply. */
struct pending {
    struct history_op op;
    struct buf frame; /* Without its length. */
    int32_t xid;
    bool synced; /* A sync before it is not answered yet. */
};

struct flight {
    struct history_client *client;
    int fd; /* -1: not connected. */
    struct buf in;
    struct pending window[WINDOW]; /* Oldest first. */
    uint32_t count;
    int32_t xid;
    bool watches;
    bool welcome;
    bool leaves;      /* The session is being closed. */
    zxid_t last_zxid; /* Named when the client connected. */
    size_t unsettled; /* Operations of the log from here on may have an unknown outcome ... */
    bool settled;     /* ... and the first reply of this connection has bounded them. */
    uint8_t passwd[ZK_PASSWD_BYTES];
    uint64_t since_ms;         /* Since when something is awaited. */
    struct history_item event; /* Not noted yet: it may be the last one of its zxid. */
    bool has_event;
    uint64_t next_ms;
};

/* ---- Requests ---- */

static const char *path_of(uint32_t key, char path[PATH_MAX_LEN])
{
    (void)snprintf(path, PATH_MAX_LEN, "/h/k%u", key);
    return path;
}

static int32_t type_of(const struct history_step *step)
{
    switch (step->what) {
    case HISTORY_GET:
        return ZK_GET_DATA;
    case HISTORY_LIST:
        return ZK_GET_CHILDREN2;
    case HISTORY_CREATE:
        return ZK_CREATE2;
    case HISTORY_SET:
        return ZK_SET_DATA;
    case HISTORY_DELETE:
        return ZK_DELETE;
    case HISTORY_CHECK:
        return ZK_CHECK;
    case HISTORY_CLOSE:
    case HISTORY_CHANGED:
        break;
    }
    return ZK_CLOSE_SESSION;
}

static void put_value(struct buf *out, uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof(text), "%u", value);
    zk_put_bytes(out, slice_str(text));
}

/* The record of a request or of an element of a multi. */
static void put_record(struct buf *out, const struct history_step *step)
{
    char path[PATH_MAX_LEN];

    if (step->what == HISTORY_CLOSE) {
        return;
    }
    zk_put_bytes(out, slice_str(step->what == HISTORY_LIST ? "/h" : path_of(step->key, path)));
    if (step->what == HISTORY_GET || step->what == HISTORY_LIST) {
        zk_put_bool(out, false);
        return;
    }
    if (step->value != 0) {
        put_value(out, step->value);
    }
    if (step->what == HISTORY_CREATE) {
        zk_put_int(out, 1);
        zk_put_int(out, 31); /* All permissions. */
        zk_put_bytes(out, slice_str("world"));
        zk_put_bytes(out, slice_str("anyone"));
        zk_put_int(out, step->ephemeral ? 1 : 0);
    } else {
        zk_put_int(out, step->has_version ? step->version : -1);
    }
}

static void put_multi(struct buf *out, const struct history_op *op)
{
    for (uint32_t i = 0; i <= op->count; i++) {
        zk_put_int(out, i < op->count ? type_of(&op->steps[i]) : ZK_ERROR);
        zk_put_bool(out, i == op->count);
        zk_put_int(out, -1);
        if (i < op->count) {
            put_record(out, &op->steps[i]);
        }
    }
}

static void transmit(struct flight *flight, const struct buf *bytes)
{
    size_t at = 0;

    while (flight->fd >= 0 && at < bytes->len) {
        ssize_t sent = send(flight->fd, bytes->data + at, bytes->len - at, MSG_NOSIGNAL);

        if (sent <= 0) {
            return; /* The reader finds out. */
        }
        at += (size_t)sent;
    }
}

/* Sends a request; a linearizable read has a sync before it. */
static void send_op(struct flight *flight, const struct history_op *op)
{
    struct pending *pending = &flight->window[flight->count++];
    bool multi = op->count > 1;
    bool reads = op->steps[0].what == HISTORY_GET;
    struct buf out;
    size_t at = 0;

    *pending = (struct pending){.op = *op, .xid = ++flight->xid, .synced = op->linearizable};
    buf_init(&out, FRAME_MAX);
    if (op->linearizable) {
        zk_ask_path(&out, pending->xid + SYNC_XID, ZK_SYNC, "/h", -1);
    }
    at = multi ? zk_ask_begin(&out, pending->xid, reads ? ZK_MULTI_READ : ZK_MULTI)
               : zk_ask_begin(&out, pending->xid, type_of(&op->steps[0]));
    if (multi) {
        put_multi(&out, op);
    } else {
        put_record(&out, &op->steps[0]);
    }
    zk_frame_end(&out, at);
    buf_init(&pending->frame, FRAME_MAX);
    (void)buf_append_slice(&pending->frame,
                           slice_make(out.data + at + ZK_INT_BYTES, out.len - at - ZK_INT_BYTES));
    pending->op.connection = history_connection(flight->client);
    pending->op.min_zxid = history_changes(op) ? 0 : flight->last_zxid;
    pending->op.start_us = os_now_us();
    flight->since_ms = flight->count == 1 ? os_now_ms() : flight->since_ms;
    transmit(flight, &out);
    buf_release(&out);
}

/* ---- Replies ---- */

static void take_stat(struct history_step *step, const struct op_result *result)
{
    const struct stat_view *stat = &result->stat;

    if (!result->has_stat) {
        return;
    }
    step->has_seen = true;
    step->seen = (struct history_seen){.present = true,
                                       .czxid = stat->czxid,
                                       .mzxid = stat->mzxid,
                                       .owner = stat->ephemeral_owner,
                                       .version = stat->version,
                                       .value = step->value};
    if (step->what == HISTORY_GET && result->data) {
        struct slice data = blob_slice(result->data);
        char text[16];

        (void)snprintf(text, sizeof(text), "%.*s", (int)data.len, (const char *)data.data);
        step->seen.value = (uint32_t)strtoul(text, NULL, 10);
    }
}

static void take_list(struct history_op *op, const struct op_result *result)
{
    for (uint32_t i = 0; i < result->entry_count; i++) {
        char name[PATH_MAX_LEN];
        unsigned key = 0;

        (void)snprintf(name, sizeof(name), "%.*s", (int)result->entries[i].path.len,
                       (const char *)result->entries[i].path.data);
        if (sscanf(name, "k%u", &key) == 1 && key < HISTORY_KEYS) {
            op->listed |= 1U << key;
        }
    }
}

static enum history_outcome outcome_of(struct history_client *client, int32_t code)
{
    switch (code) {
    case ZK_OK:
        return HISTORY_OK;
    case ZK_NO_NODE:
        return HISTORY_NO_NODE;
    case ZK_NODE_EXISTS:
        return HISTORY_NODE_EXISTS;
    case ZK_BAD_VERSION:
        return HISTORY_BAD_VERSION;
    case ZK_THROTTLED:
        return HISTORY_NOT_DONE;
    default:
        if (code != ZK_SYSTEM_ERROR || !client->run->disks_fill) {
            history_wrong(client, "a forbidden code: %d", code);
        }
        return HISTORY_NOT_DONE;
    }
}

static int32_t code_of(const struct zk_reply *reply, struct history_op *op)
{
    op->failed = reply->result.failed_index;
    return reply->has_end ? err_number(reply->result.err) : reply->code;
}

static void take_results(struct history_op *op, const struct zk_reply *reply)
{
    if (op->count == 1 && op->steps[0].what == HISTORY_LIST) {
        take_list(op, &reply->result);
    } else if (op->count == 1) {
        take_stat(&op->steps[0], &reply->result);
    }
    for (uint32_t i = 0; op->count > 1 && i < reply->result.result_count; i++) {
        take_stat(&op->steps[i], &reply->result.results[i]);
        op->steps[i].has_seen = op->steps[i].has_seen || op->steps[i].what == HISTORY_GET;
    }
}

static void judge(struct flight *flight, struct history_op *op, const struct zk_reply *reply)
{
    bool reads = !history_changes(op) && !history_closes(op);
    int32_t code = reads && op->count > 1 ? reply->code : code_of(reply, op);

    op->zxid = reply->zxid;
    op->outcome = outcome_of(flight->client, code);
    if (op->outcome == HISTORY_OK) {
        take_results(op, reply);
    } else if (op->outcome == HISTORY_NO_NODE && op->steps[0].what == HISTORY_GET) {
        op->steps[0].has_seen = true; /* It has read the absence. */
        op->outcome = HISTORY_OK;
    }
}

static void record_oldest(struct flight *flight)
{
    flight->window[0].op.end_us = os_now_us();
    history_keep(flight->client, &flight->window[0].op);
    buf_release(&flight->window[0].frame);
    flight->count--;
    memmove(&flight->window[0], &flight->window[1], flight->count * sizeof(flight->window[0]));
    flight->since_ms = os_now_ms();
}

/* What an earlier connection of the session had in flight cannot happen any more. */
static void settle(struct flight *flight, zxid_t zxid)
{
    const struct history_log *log = &flight->client->log;

    for (size_t i = flight->unsettled; !flight->settled && i < log->op_count; i++) {
        if (log->ops[i].outcome == HISTORY_UNKNOWN && log->ops[i].not_after == 0) {
            log->ops[i].not_after = zxid;
        }
    }
    flight->settled = true;
    flight->unsettled = log->op_count;
}

/* The event that waits is the last one of its zxid, if the next one is of a later zxid. */
static void note_event(struct flight *flight, bool end)
{
    struct history_client *client = flight->client;

    if (flight->has_event) {
        flight->event.end = end;
        history_add_item(&client->log, &flight->event);
        client->at = end ? flight->event.zxid : client->at;
        flight->has_event = false;
    }
}

static void note_state(struct flight *flight, zxid_t zxid)
{
    struct history_client *client = flight->client;
    struct history_item item = {.kind = HISTORY_BOOKMARK, .at_us = os_now_us(), .zxid = zxid};

    if (!flight->watches) {
        return;
    }
    if (!client->watching) { /* The first read behind addWatch. */
        history_take_watch(client, client->at != 0 ? "gap" : NULL, client->at, zxid);
        return;
    }
    note_event(flight, true);
    history_add_item(&client->log, &item);
    client->at = zxid > client->at ? zxid : client->at;
}

static void take_reply(struct flight *flight, int32_t xid, zxid_t zxid, struct slice frame)
{
    struct history_client *client = flight->client;
    struct pending *oldest = &flight->window[0];
    struct zk_request request;
    struct zk_reply reply;
    struct buf memory;

    if (xid == 0) {
        return; /* addWatch. */
    }
    if (flight->count > 0 && oldest->synced && xid == oldest->xid + SYNC_XID) {
        oldest->synced = false;
        return;
    }
    if (flight->count == 0 || oldest->synced || xid != oldest->xid) {
        history_wrong(client, "a reply out of order: %d", xid);
        return;
    }
    settle(flight, zxid);
    buf_init(&memory, FRAME_MAX);
    (void)zk_decode(&limits, buf_slice(&oldest->frame), &memory, &request);
    if (zk_reply_read(&request, frame, &reply)) {
        judge(flight, &oldest->op, &reply);
        note_state(flight, zxid);
        flight->leaves = flight->leaves || history_closes(&oldest->op);
        record_oldest(flight);
    } else {
        history_wrong(client, "a reply that cannot be read: %d", xid);
    }
    zk_reply_release(&reply);
    zk_request_release(&request);
    buf_release(&memory);
}

static void take_event(struct flight *flight, zxid_t zxid, struct wire_reader *reader)
{
    static const enum history_what whats[] = {HISTORY_CHANGED, HISTORY_CREATE, HISTORY_DELETE,
                                              HISTORY_SET, HISTORY_CHANGED};

    int32_t type = zk_get_int(reader);
    char path[PATH_MAX_LEN];
    unsigned key = 0;

    (void)zk_get_int(reader);

    struct slice text = zk_get_bytes(reader);

    (void)snprintf(path, sizeof(path), "%.*s", (int)text.len, (const char *)text.data);
    if (!flight->client->watching || !wire_reader_ok(reader)) {
        return;
    }
    if (type < 1 || type > 4 || sscanf(path, "/h/k%u", &key) != 1 || key >= HISTORY_KEYS) {
        history_wrong(flight->client, "an event that the watch does not have: %d %s", type, path);
        return;
    }
    note_event(flight, flight->event.zxid != zxid);
    flight->event = (struct history_item){
        .kind = HISTORY_EVENT, .at_us = os_now_us(), .zxid = zxid, .what = whats[type], .key = key};
    flight->has_event = true;
}

/* ---- Connections ---- */

static void lose(struct flight *flight)
{
    while (flight->count > 0) {
        flight->window[0].op.outcome = HISTORY_UNKNOWN;
        flight->leaves = flight->leaves || history_closes(&flight->window[0].op);
        record_oldest(flight);
    }
    if (flight->leaves) {
        flight->client->session = 0;
        flight->unsettled = flight->client->log.op_count;
    }
    if (flight->fd >= 0) {
        close(flight->fd);
    }
    flight->fd = -1;
    flight->welcome = false;
    flight->leaves = false;
    flight->has_event = false; /* Its zxid was not complete. */
    buf_clear(&flight->in);
    history_take_loss(flight->client);
}

static void come(struct flight *flight)
{
    struct history_client *client = flight->client;
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct buf out;

    history_new_connection(client);
    to.sin_port = htons(client->run->ports[client->server]);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    flight->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(flight->fd, (const struct sockaddr *)&to, sizeof(to)) != 0) {
        close(flight->fd);
        flight->fd = -1;
        ensemble_breathe();
        return;
    }
    flight->last_zxid = client->seen;
    flight->settled = false;
    flight->since_ms = os_now_ms();
    buf_init(&out, FRAME_MAX);
    zk_ask_hello(&out, flight->last_zxid, SESSION_MS, client->session, flight->passwd);
    if (flight->watches) {
        zk_ask_path(&out, 0, ZK_ADD_WATCH, "/h", ZK_ADD_RECURSIVE);
    }
    transmit(flight, &out);
    buf_release(&out);
}

/* False: the session is refused. */
static bool take_welcome(struct flight *flight, struct slice body)
{
    struct wire_reader reader;

    wire_reader_init(&reader, body);
    (void)zk_get_int(&reader);
    if (zk_get_int(&reader) == 0) {
        history_wrong(flight->client, "session %" PRIx64 " has ended without a request",
                      flight->client->session);
        flight->client->session = 0;
        return false;
    }
    flight->client->session = (zxid_t)zk_get_long(&reader);

    struct slice passwd = zk_get_bytes(&reader);

    if (passwd.len == ZK_PASSWD_BYTES) {
        memcpy(flight->passwd, passwd.data, ZK_PASSWD_BYTES);
    }
    flight->welcome = wire_reader_ok(&reader);
    return flight->welcome;
}

static bool take_frame(struct flight *flight, struct slice frame)
{
    struct slice body = slice_from(frame, ZK_INT_BYTES);
    struct wire_reader reader;

    if (!flight->welcome) {
        return take_welcome(flight, body);
    }
    wire_reader_init(&reader, body);

    int32_t xid = zk_get_int(&reader);
    zxid_t zxid = (zxid_t)zk_get_long(&reader);

    (void)zk_get_int(&reader);
    if (xid == ZK_XID_EVENT) {
        take_event(flight, zxid, &reader);
    } else {
        take_reply(flight, xid, zxid, frame);
    }
    return true;
}

/* False: the connection has ended. */
static bool receive(struct flight *flight)
{
    struct pollfd come = {.fd = flight->fd, .events = POLLIN};
    size_t used = 0;
    bool stay = true;

    if (poll(&come, 1, WAIT_MS) != 1) {
        return true;
    }
    uint8_t *room = buf_reserve(&flight->in, READ_BYTES);
    ssize_t got = room ? recv(flight->fd, room, READ_BYTES, 0) : 0;

    if (got <= 0) {
        return false;
    }
    flight->in.len += (size_t)got;
    while (stay && flight->in.len - used >= ZK_INT_BYTES) {
        struct slice rest = slice_from(buf_slice(&flight->in), used);
        size_t len = ZK_INT_BYTES + (size_t)zk_load_int(rest.data);

        if (rest.len < len) {
            break;
        }
        stay = take_frame(flight, slice_make(rest.data, len));
        used += len;
    }
    buf_consume(&flight->in, used);
    return stay;
}

/* ---- The client ---- */

static void plan(struct flight *flight, struct history_op *op)
{
    do {
        history_plan(flight->client, op);
    } while (flight->watches && (history_changes(op) || history_closes(op)));
}

static void fill_window(struct flight *flight)
{
    const struct history_run *run = flight->client->run;
    bool stopping = atomic_load(&run->stopping) && !flight->watches;
    bool closes = false;
    struct history_op op;

    if (!flight->welcome || stopping || os_now_ms() < flight->next_ms || flight->leaves) {
        return;
    }
    for (uint32_t i = 0; i < flight->count; i++) {
        closes = closes || history_closes(&flight->window[i].op);
    }
    while (flight->count < WINDOW && !closes) {
        plan(flight, &op);
        closes = history_closes(&op);
        send_op(flight, &op);
    }
    flight->next_ms = os_now_ms() + max_u32(run->rest_ms * WINDOW, PACE_MS);
}

static void pass_time(struct flight *flight)
{
    bool stay = true;
    bool late = false;

    fill_window(flight);
    stay = receive(flight);
    late =
        (flight->count > 0 || !flight->welcome) && os_now_ms() > flight->since_ms + HISTORY_CALL_MS;
    if (!stay || late || rng_below(&flight->client->rng, LEAVE_ONE_IN) == 0) {
        lose(flight);
    }
}

static bool is_done(const struct flight *flight)
{
    struct history_client *client = flight->client;

    return flight->watches ? history_watcher_done(client)
                           : atomic_load(&client->run->stopping) && flight->count == 0;
}

void history_run_native(struct history_client *client)
{
    struct flight flight = {
        .client = client, .fd = -1, .watches = client->kind == HISTORY_NATIVE_WATCH};

    buf_init(&flight.in, 2 * (size_t)FRAME_MAX);
    while (!is_done(&flight)) {
        if (flight.fd < 0) {
            come(&flight);
        } else {
            pass_time(&flight);
        }
    }
    lose(&flight);
    buf_release(&flight.in);
}
