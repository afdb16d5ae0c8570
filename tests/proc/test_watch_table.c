/*
 * Every row of ZooKeeper's table of watches over each transport: WebSocket, SSE and NDJSON, with
 * watchers and writer on different replicas. For each action there is one znode, watched in all
 * ways. First all watches are set, then all actions are executed, then the events of each watch are
 * compared with the table.
 */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    KINDS = 5,
    ONE_SHOT_KINDS = 3, /* The first ones. */
    FRONTS = 3,
    ACTIONS_MAX = 32,
    PATH_LEN = 32,
    TEXT_LEN = 512,
    SESSION_MS = ENSEMBLE_FACTOR == 1 ? 2000 : 5000,
    HEARTBEAT_MS = 1000 * ENSEMBLE_FACTOR, /* A client silent for three of these is disconnected. */
};

static const char *const kinds[KINDS] = {"data", "exists", "children", "persistent", "recursive"};

enum front {
    BY_SOCKET,
    BY_SSE,
    BY_NDJSON
};

/* An action of a client; # stands for the znode's path. Messages are separated by line feeds. */
struct action {
    const char *name;
    const char *before; /* Messages that create the initial state. */
    const char *message;
    const char *events[KINDS]; /* Events for each kind; # as above. */
    const char *spent;         /* One-shot kinds that a withheld event uses up. */
    bool fails;
    bool owned;   /* A separate client with a session sends the messages ... */
    bool leaves;  /* ... and disconnects instead of sending `message`. */
    bool by_time; /* The znode ends by itself, a moment later. */
};

#define CREATE_N  "\"op\":\"create\",\"path\":\"#\",\"dataUtf8\":\"0\""
#define CREATE_C  "\"op\":\"create\",\"path\":\"#/c\""
#define SET_N     "\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\""
#define DELETE_C  "\"op\":\"delete\",\"path\":\"#/c\""
#define OPEN_N    "\"op\":\"setacl\",\"path\":\"#\",\"acl\":\"open\""
#define EPHEMERAL ",\"ephemeral\":true"
#define CREATED   "NodeCreated #."
#define DELETED   "NodeDeleted #."
#define CHANGED   "NodeDataChanged #."
#define CHILDREN  "NodeChildrenChanged #."
#define NOTHING            \
    {                      \
        "", "", "", "", "" \
    }
#define ALL_DELETED                                 \
    {                                               \
        DELETED, DELETED, DELETED, DELETED, DELETED \
    }

static const struct action actions[] = {
    {.name = "create",
     .before = "",
     .message = CREATE_N,
     .events = {"", CREATED, "", CREATED, CREATED}},
    {.name = "create by upsert",
     .before = "",
     .message = SET_N ",\"upsert\":true",
     .events = {"", CREATED, "", CREATED, CREATED}},
    {.name = "delete",
     .before = CREATE_N,
     .message = "\"op\":\"delete\",\"path\":\"#\"",
     .events = ALL_DELETED},
    {.name = "set",
     .before = CREATE_N,
     .message = SET_N,
     .events = {CHANGED, CHANGED, "", CHANGED, CHANGED}},
    {.name = "set to the same",
     .before = CREATE_N,
     .message = "\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"0\"",
     .events = {CHANGED, CHANGED, "", CHANGED, CHANGED}},
    {.name = "setacl", .before = CREATE_N, .message = OPEN_N, .events = NOTHING},
    {.name = "create of a child",
     .before = CREATE_N,
     .message = CREATE_C,
     .events = {"", "", CHILDREN, CHILDREN, "NodeCreated #/c."}},
    {.name = "create of a numbered child",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"#/s\",\"sequence\":true",
     .events = {"", "", CHILDREN, CHILDREN, "NodeCreated #/s0000000000."}},
    {.name = "set of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"set\",\"path\":\"#/c\",\"dataUtf8\":\"1\"",
     .events = {"", "", "", "", "NodeDataChanged #/c."}},
    {.name = "delete of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = DELETE_C,
     .events = {"", "", CHILDREN, CHILDREN, "NodeDeleted #/c."}},
    {.name = "create of a grandchild",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"create\",\"path\":\"#/c/d\"",
     .events = {"", "", "", "", "NodeCreated #/c/d."}},
    {.name = "create with parents",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"#/c/d\",\"parents\":true",
     .events = {"", "", CHILDREN, CHILDREN, "NodeCreated #/c;NodeCreated #/c/d."}},
    {.name = "delete of a subtree",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"delete\",\"path\":\"#\",\"recursive\":true",
     .events = {DELETED, DELETED, CHILDREN, "NodeChildrenChanged #;NodeDeleted #.",
                "NodeDeleted #/c;NodeDeleted #."}},
    {.name = "delete, and create again",
     .before = CREATE_N,
     .message = "\"op\":\"delete\",\"path\":\"#\"\n" CREATE_N,
     .events = {DELETED, DELETED, DELETED, DELETED CREATED, DELETED CREATED}},
    {.name = "multi",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#/c\"},"
                "{\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"},"
                "{\"op\":\"check\",\"path\":\"#\",\"version\":1},"
                "{\"op\":\"delete\",\"path\":\"#/c\"}]",
     .events = {CHANGED, CHANGED, CHILDREN,
                "NodeChildrenChanged #;NodeDataChanged #;NodeChildrenChanged #.",
                "NodeCreated #/c;NodeDataChanged #;NodeDeleted #/c."}},
    {.name = "multi that creates and deletes it",
     .before = "",
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#\"},"
                "{\"op\":\"delete\",\"path\":\"#\"}]",
     .events = {DELETED, CREATED, DELETED, "NodeCreated #;NodeDeleted #.",
                "NodeCreated #;NodeDeleted #."}},
    {.name = "multi of checks",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"check\",\"path\":\"#\",\"version\":0}]",
     .events = NOTHING},
    {.name = "multi that fails",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"},"
                "{\"op\":\"delete\",\"path\":\"#/none\"}]",
     .events = NOTHING,
     .fails = true},
    {.name = "set of another version",
     .before = CREATE_N,
     .message = SET_N ",\"version\":7",
     .events = NOTHING,
     .fails = true},
    {.name = "set that is not allowed",
     .before = CREATE_N ",\"acl\":\"read\"",
     .message = SET_N,
     .events = NOTHING,
     .fails = true},
    {.name = "sync", .before = CREATE_N, .message = "\"op\":\"sync\"", .events = NOTHING},
    {.name = "set of a quota",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"/zookeeper/quota#/zookeeper_limits\","
                "\"parents\":true,\"dataUtf8\":\"count=-1,bytes=-1=;byteHardLimit=9;"
                "countHardLimit=9\"",
     .events = NOTHING},
    /* The watcher may not read the first change: its event is withheld, but uses one-shot watches
     * up. */
    {.name = "set while it may not be read",
     .before = CREATE_N ",\"acl\":\"creator\"",
     .message = SET_N "\n" OPEN_N "\n" SET_N,
     .events = {"", "", "", CHANGED, CHANGED},
     .spent = "data exists"},
    {.name = "create of a child while the parent may not be read",
     .before = CREATE_N ",\"acl\":\"creator\"",
     .message = CREATE_C "\n" OPEN_N "\n" DELETE_C,
     .events = {"", "", "", CHILDREN, "NodeCreated #/c.NodeDeleted #/c."},
     .spent = "children"},
    {.name = "close of its session",
     .before = CREATE_N EPHEMERAL,
     .message = "\"op\":\"close\"",
     .events = ALL_DELETED,
     .owned = true},
    {.name = "close of a child's session",
     .before = CREATE_N "\n" CREATE_C EPHEMERAL,
     .message = "\"op\":\"close\"",
     .events = {"", "", CHILDREN, CHILDREN, "NodeDeleted #/c."},
     .owned = true},
    {.name = "end of its session by time",
     .before = CREATE_N EPHEMERAL,
     .message = "",
     .events = ALL_DELETED,
     .owned = true,
     .leaves = true,
     .by_time = true},
    {.name = "end of a container",
     .before = CREATE_N ",\"container\":true\n" CREATE_C,
     .message = DELETE_C,
     .events = {DELETED, DELETED, CHILDREN, CHILDREN DELETED, "NodeDeleted #/c." DELETED},
     .by_time = true},
    {.name = "end of a time to live",
     /* One transaction: the znode may end at any time while it has no child. */
     .before = "\"op\":\"multi\",\"ops\":[{" CREATE_N ",\"ttl\":1},{" CREATE_C "}]",
     .message = DELETE_C,
     .events = {DELETED, DELETED, CHILDREN, CHILDREN DELETED, "NodeDeleted #/c." DELETED},
     .by_time = true},
};

enum {
    ACTIONS = sizeof(actions) / sizeof(actions[0])
};

_Static_assert((int)ACTIONS <= (int)ACTIONS_MAX, "the arrays have room for each action");

/* One watch of one znode, and its events. */
struct row {
    struct kit_stream stream; /* For streams. */
    int watch;                /* For the socket. */
    char events[TEXT_LEN];
};

static struct ensemble ensemble;
static struct socket *writer;
static struct socket *watchers[KINDS]; /* Each event shows whether it is the last of its zxid. */
static struct socket *owners[ACTIONS_MAX];
static struct row rows[ACTIONS_MAX][FRONTS][KINDS];
static uint32_t watched; /* Replica of the watchers. */

static void open_all(void)
{
    static char keys[128];
    uint32_t leader = 0;

    (void)snprintf(keys, sizeof(keys),
                   "tickTime=300\nsyncLimit=30\nminSessionTimeout=1000\nheartbeatInterval=%d\n",
                   HEARTBEAT_MS); /* Ticks are short for the sessions, not for the leader. */
    ensemble_launch(&ensemble, 3, keys);
    leader = ensemble_wait_leader(&ensemble);
    watched = (leader + 1) % 3;
    writer = talk_open(&ensemble, leader, NULL);
    for (int kind = 0; kind < KINDS; kind++) {
        watchers[kind] = talk_open(&ensemble, watched, NULL);
    }
    talk_ok(&ensemble, writer,
            "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"ann:secret\"");
}

static void close_all(void)
{
    socket_close(writer);
    for (int kind = 0; kind < KINDS; kind++) {
        socket_close(watchers[kind]);
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        socket_close(owners[i]);
    }
    ensemble_close(&ensemble);
}

/* ---- Actions ---- */

/* Replaces each # by the path. */
static void fill_in(char *out, const char *template, size_t number)
{
    size_t at = 0;

    for (const char *from = template; *from; from++) {
        int len = *from == '#' ? snprintf(out + at, TEXT_LEN - at, "/row%zu", number)
                               : snprintf(out + at, TEXT_LEN - at, "%c", *from);

        at += (size_t)len;
        assert_true(at < TEXT_LEN);
    }
    out[at] = '\0';
}

static void send_messages(size_t number, const char *messages, bool fails)
{
    struct socket *socket = owners[number] ? owners[number] : writer;
    char text[TEXT_LEN];

    for (const char *at = messages; *at;) {
        size_t len = strcspn(at, "\n");
        char line[TEXT_LEN];

        (void)snprintf(line, sizeof(line), "%.*s", (int)len, at);
        fill_in(text, line, number);
        if (fails) {
            assert_string_not_equal(talk_error(socket, "%s", text), "");
        } else {
            talk_ok(&ensemble, socket, "%s", text);
        }
        at += len + (at[len] == '\n');
    }
}

static void prepare(size_t number)
{
    if (actions[number].owned) {
        owners[number] = talk_open(&ensemble, (watched + 1) % 3, NULL);
        talk_ok(&ensemble, owners[number], "\"op\":\"session\",\"timeout_ms\":%d", SESSION_MS);
    }
    send_messages(number, actions[number].before, false);
}

static void do_action(size_t number)
{
    if (actions[number].leaves) {
        socket_close(owners[number]);
        owners[number] = NULL;
    } else {
        send_messages(number, actions[number].message, actions[number].fails);
    }
}

/* Answers pings, because a client without an answer for three heartbeats is disconnected. */
static void keep_all(void)
{
    (void)socket_pump(writer);
    for (int kind = 0; kind < KINDS; kind++) {
        (void)socket_pump(watchers[kind]);
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        (void)(owners[i] && socket_pump(owners[i]));
    }
}

static bool is_there(size_t number)
{
    char target[TEXT_LEN];

    keep_all();
    fill_in(target, "/znodes/v1#?view=stat&consistency=linearizable", number);
    return ensemble_call(&ensemble, watched, "GET", target, NULL) != 404;
}

/* ---- Watches ---- */

static void open_stream(struct row *row, size_t number, const char *kind, enum front front,
                        const char *zxid)
{
    char target[TEXT_LEN];
    char headers[TEXT_LEN];

    fill_in(target, "/watch/v1#?mode=", number);
    (void)snprintf(target + strlen(target), sizeof(target) - strlen(target), "%s", kind);
    (void)snprintf(headers, sizeof(headers), "Accept: %s\r\nZk-Min-Zxid: %s\r\n",
                   front == BY_SSE ? "text/event-stream" : "application/x-ndjson", zxid);
    kit_stream_open(&row->stream, ensemble.replicas[watched].client_port, target, headers);
    assert_int_equal(row->stream.status, 200);
    assert_string_equal(kit_stream_event(&row->stream), "watch fresh");
}

static void begin(size_t number, const char *zxid)
{
    char path[TEXT_LEN];

    fill_in(path, "#", number);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *watch =
            talk_field(watchers[kind], "watch",
                       "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"%s\",\"since\":\"%s\"", path,
                       kinds[kind], zxid);

        rows[number][BY_SOCKET][kind].watch = (int)talk_number(watch);
        assert_true(rows[number][BY_SOCKET][kind].watch > 0);
        open_stream(&rows[number][BY_SSE][kind], number, kinds[kind], BY_SSE, zxid);
        open_stream(&rows[number][BY_NDJSON][kind], number, kinds[kind], BY_NDJSON, zxid);
        keep_all();
    }
}

static void put(struct row *row, const char *event, const char *path, bool end)
{
    size_t at = strlen(row->events);

    (void)snprintf(row->events + at, sizeof(row->events) - at, "%s %s%s", event, path,
                   end ? "." : ";");
}

/* Each znode has one watch of the socket. */
static void take_event(int kind, const json_t *event)
{
    const json_t *watches = json_object_get(event, "watches");

    assert_true(json_array_size(watches) <= 1);
    for (size_t i = 0; i < ACTIONS && json_array_size(watches) == 1; i++) {
        struct row *row = &rows[i][BY_SOCKET][kind];

        if (json_integer_value(json_array_get(watches, 0)) == row->watch) {
            put(row, talk_text(event, "event"), talk_text(event, "path"),
                json_is_true(json_object_get(event, "end")));
        }
    }
}

/* Reads all events of the socket before it has seen `zxid`. */
static void read_socket(int kind, const char *zxid)
{
    struct socket *watcher = watchers[kind];
    uint64_t id =
        socket_request(watcher, "\"op\":\"exists\",\"path\":\"/\",\"min_zxid\":\"%s\"", zxid);
    bool done = false;

    while (!done) {
        json_t *message = socket_next(watcher, SOCKET_TIMEOUT_MS);

        ENSEMBLE_CHECK(&ensemble, message != NULL);
        done = json_object_get(message, "id") != NULL;
        if (done) {
            assert_int_equal(json_integer_value(json_object_get(message, "id")), id);
        } else {
            take_event(kind, message);
        }
        json_decref(message);
    }
}

/* Reads all events of a stream, up to its end or to the heartbeat of `zxid`. */
static void read_stream(struct row *row, uint64_t zxid)
{
    char event[TEXT_LEN];
    char path[TEXT_LEN];

    while (kit_stream_next(&row->stream)) {
        (void)snprintf(event, sizeof(event), "%s", kit_stream_member(&row->stream, "event"));
        if (strcmp(event, "heartbeat") != 0) {
            (void)snprintf(path, sizeof(path), "%s", kit_stream_member(&row->stream, "path"));
            put(row, event, path, strcmp(kit_stream_member(&row->stream, "end"), "true") == 0);
        } else if (talk_hex(kit_stream_member(&row->stream, "zxid")) >= zxid) {
            return;
        }
    }
    assert_true(row->stream.complete);
}

/* ---- Comparison ---- */

static void verify(size_t number, int kind, enum front front)
{
    static const char *const fronts[FRONTS] = {"socket", "SSE", "NDJSON"};
    const struct row *row = &rows[number][front][kind];
    char events[TEXT_LEN];

    fill_in(events, actions[number].events[kind], number);
    if (strcmp(row->events, events) != 0) {
        (void)fprintf(stderr, "%s, %s by %s: events '%s', expected '%s'\n", actions[number].name,
                      kinds[kind], fronts[front], row->events, events);
        ensemble_check(&ensemble, false, "the events are those of the table");
    }
}

/* A used-up one-shot watch no longer exists, and its stream ends with the event. */
static void verify_end(size_t number, int kind)
{
    const struct action *action = &actions[number];
    bool one_shot = kind < ONE_SHOT_KINDS;
    bool fired = one_shot && action->events[kind][0] != '\0';
    bool spent = fired || (one_shot && action->spent && strstr(action->spent, kinds[kind]));

    assert_string_equal(talk_error(watchers[kind], "\"op\":\"unwatch\",\"watch\":%d",
                                   rows[number][BY_SOCKET][kind].watch),
                        spent ? "NotFound" : "");
    assert_int_equal(rows[number][BY_SSE][kind].stream.complete, fired);
    assert_int_equal(rows[number][BY_NDJSON][kind].stream.complete, fired);
}

TEST(every_row_of_the_table, open_all, close_all)
{
    char zxid[TALK_FIELD_MAX];

    for (size_t i = 0; i < ACTIONS; i++) {
        prepare(i);
        keep_all();
    }
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    for (size_t i = 0; i < ACTIONS; i++) {
        begin(i, zxid);
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        do_action(i);
        keep_all();
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        ENSEMBLE_WAIT(&ensemble, !actions[i].by_time || !is_there(i));
    }
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    for (int kind = 0; kind < KINDS; kind++) {
        read_socket(kind, zxid);
    }
    for (size_t i = 0; i < ACTIONS; i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            read_stream(&rows[i][BY_SSE][kind], talk_hex(zxid));
            read_stream(&rows[i][BY_NDJSON][kind], talk_hex(zxid));
            verify(i, kind, BY_SOCKET);
            verify(i, kind, BY_SSE);
            verify(i, kind, BY_NDJSON);
            verify_end(i, kind);
            kit_stream_close(&rows[i][BY_SSE][kind].stream);
            kit_stream_close(&rows[i][BY_NDJSON][kind].stream);
        }
    }
    print_message("%d actions, %d kinds of watches, %d transports\n", ACTIONS, KINDS, FRONTS);
}
