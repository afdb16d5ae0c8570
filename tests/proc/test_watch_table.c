/*
 * ZooKeeper's table of watches, every row, for each way to be told: WebSocket, SSE and NDJSON, the
 * watchers on another replica than the writer. For each deed there is one znode that all of them
 * watch; first all are told to watch, then all deeds are done, then it is seen who was told what.
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
    DEEDS_MAX = 32,
    PATH_LEN = 32,
    TEXT_LEN = 512,
    SESSION_MS = ENSEMBLE_FACTOR == 1 ? 2000 : 5000,
    HEARTBEAT_MS = 1000 * ENSEMBLE_FACTOR, /* Whoever says nothing for three is cut off. */
};

static const char *const kinds[KINDS] = {"data", "exists", "children", "persistent", "recursive"};

enum front {
    BY_SOCKET,
    BY_SSE,
    BY_NDJSON
};

/* What a client can do; # stands for the znode's path. Messages are separated by line feeds. */
struct deed {
    const char *name;
    const char *before; /* Messages that make what must be there. */
    const char *message;
    const char *told[KINDS]; /* By kind; # as well. */
    const char *spent;       /* One-shot kinds that are used up by what is withheld. */
    bool fails;
    bool owned;   /* Messages are said by a client of their own, in a session ... */
    bool leaves;  /* ... and in place of `message` that client is seen no more. */
    bool by_time; /* The znode goes by itself, a moment later. */
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

static const struct deed deeds[] = {
    {.name = "create",
     .before = "",
     .message = CREATE_N,
     .told = {"", CREATED, "", CREATED, CREATED}},
    {.name = "create by upsert",
     .before = "",
     .message = SET_N ",\"upsert\":true",
     .told = {"", CREATED, "", CREATED, CREATED}},
    {.name = "delete",
     .before = CREATE_N,
     .message = "\"op\":\"delete\",\"path\":\"#\"",
     .told = ALL_DELETED},
    {.name = "set",
     .before = CREATE_N,
     .message = SET_N,
     .told = {CHANGED, CHANGED, "", CHANGED, CHANGED}},
    {.name = "set to the same",
     .before = CREATE_N,
     .message = "\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"0\"",
     .told = {CHANGED, CHANGED, "", CHANGED, CHANGED}},
    {.name = "setacl", .before = CREATE_N, .message = OPEN_N, .told = NOTHING},
    {.name = "create of a child",
     .before = CREATE_N,
     .message = CREATE_C,
     .told = {"", "", CHILDREN, CHILDREN, "NodeCreated #/c."}},
    {.name = "create of a numbered child",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"#/s\",\"sequence\":true",
     .told = {"", "", CHILDREN, CHILDREN, "NodeCreated #/s0000000000."}},
    {.name = "set of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"set\",\"path\":\"#/c\",\"dataUtf8\":\"1\"",
     .told = {"", "", "", "", "NodeDataChanged #/c."}},
    {.name = "delete of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = DELETE_C,
     .told = {"", "", CHILDREN, CHILDREN, "NodeDeleted #/c."}},
    {.name = "create of a grandchild",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"create\",\"path\":\"#/c/d\"",
     .told = {"", "", "", "", "NodeCreated #/c/d."}},
    {.name = "create with parents",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"#/c/d\",\"parents\":true",
     .told = {"", "", CHILDREN, CHILDREN, "NodeCreated #/c;NodeCreated #/c/d."}},
    {.name = "delete of a subtree",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"delete\",\"path\":\"#\",\"recursive\":true",
     .told = {DELETED, DELETED, CHILDREN, "NodeChildrenChanged #;NodeDeleted #.",
              "NodeDeleted #/c;NodeDeleted #."}},
    {.name = "delete, and create again",
     .before = CREATE_N,
     .message = "\"op\":\"delete\",\"path\":\"#\"\n" CREATE_N,
     .told = {DELETED, DELETED, DELETED, DELETED CREATED, DELETED CREATED}},
    {.name = "multi",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#/c\"},"
                "{\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"},"
                "{\"op\":\"check\",\"path\":\"#\",\"version\":1},"
                "{\"op\":\"delete\",\"path\":\"#/c\"}]",
     .told = {CHANGED, CHANGED, CHILDREN,
              "NodeChildrenChanged #;NodeDataChanged #;NodeChildrenChanged #.",
              "NodeCreated #/c;NodeDataChanged #;NodeDeleted #/c."}},
    {.name = "multi that creates and deletes it",
     .before = "",
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#\"},"
                "{\"op\":\"delete\",\"path\":\"#\"}]",
     .told = {DELETED, CREATED, DELETED, "NodeCreated #;NodeDeleted #.",
              "NodeCreated #;NodeDeleted #."}},
    {.name = "multi of checks",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"check\",\"path\":\"#\",\"version\":0}]",
     .told = NOTHING},
    {.name = "multi that fails",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"},"
                "{\"op\":\"delete\",\"path\":\"#/none\"}]",
     .told = NOTHING,
     .fails = true},
    {.name = "set of another version",
     .before = CREATE_N,
     .message = SET_N ",\"version\":7",
     .told = NOTHING,
     .fails = true},
    {.name = "set that is not allowed",
     .before = CREATE_N ",\"acl\":\"read\"",
     .message = SET_N,
     .told = NOTHING,
     .fails = true},
    {.name = "sync", .before = CREATE_N, .message = "\"op\":\"sync\"", .told = NOTHING},
    {.name = "set of a quota",
     .before = CREATE_N,
     .message = "\"op\":\"create\",\"path\":\"/zookeeper/quota#/zookeeper_limits\","
                "\"parents\":true,\"dataUtf8\":\"count=-1,bytes=-1=;byteHardLimit=9;"
                "countHardLimit=9\"",
     .told = NOTHING},
    /* Whoever watches may not read the first change: it is withheld, and uses one-shot watches up.
     */
    {.name = "set while it may not be read",
     .before = CREATE_N ",\"acl\":\"creator\"",
     .message = SET_N "\n" OPEN_N "\n" SET_N,
     .told = {"", "", "", CHANGED, CHANGED},
     .spent = "data exists"},
    {.name = "create of a child while the parent may not be read",
     .before = CREATE_N ",\"acl\":\"creator\"",
     .message = CREATE_C "\n" OPEN_N "\n" DELETE_C,
     .told = {"", "", "", CHILDREN, "NodeCreated #/c.NodeDeleted #/c."},
     .spent = "children"},
    {.name = "close of its session",
     .before = CREATE_N EPHEMERAL,
     .message = "\"op\":\"close\"",
     .told = ALL_DELETED,
     .owned = true},
    {.name = "close of a child's session",
     .before = CREATE_N "\n" CREATE_C EPHEMERAL,
     .message = "\"op\":\"close\"",
     .told = {"", "", CHILDREN, CHILDREN, "NodeDeleted #/c."},
     .owned = true},
    {.name = "end of its session by time",
     .before = CREATE_N EPHEMERAL,
     .message = "",
     .told = ALL_DELETED,
     .owned = true,
     .leaves = true,
     .by_time = true},
    {.name = "end of a container",
     .before = CREATE_N ",\"container\":true\n" CREATE_C,
     .message = DELETE_C,
     .told = {DELETED, DELETED, CHILDREN, CHILDREN DELETED, "NodeDeleted #/c." DELETED},
     .by_time = true},
    {.name = "end of a time to live",
     .before = CREATE_N ",\"ttl\":1\n" CREATE_C,
     .message = DELETE_C,
     .told = {DELETED, DELETED, CHILDREN, CHILDREN DELETED, "NodeDeleted #/c." DELETED},
     .by_time = true},
};

enum {
    DEEDS = sizeof(deeds) / sizeof(deeds[0])
};

_Static_assert((int)DEEDS <= (int)DEEDS_MAX, "each deed has a place");

/* One watch of one znode, and what it was told. */
struct row {
    struct kit_stream stream; /* By streams. */
    int watch;                /* By the socket. */
    char told[TEXT_LEN];
};

static struct ensemble ensemble;
static struct socket *writer;
static struct socket
    *watchers[KINDS]; /* An event tells whether it is the last of its zxid there. */
static struct socket *owners[DEEDS_MAX];
static struct row rows[DEEDS_MAX][FRONTS][KINDS];
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
    for (size_t i = 0; i < DEEDS; i++) {
        socket_close(owners[i]);
    }
    ensemble_close(&ensemble);
}

/* ---- Deeds ---- */

/* Puts the path in place of each #. */
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

static void say(size_t number, const char *messages, bool fails)
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
    if (deeds[number].owned) {
        owners[number] = talk_open(&ensemble, (watched + 1) % 3, NULL);
        talk_ok(&ensemble, owners[number], "\"op\":\"session\",\"timeout_ms\":%d", SESSION_MS);
    }
    say(number, deeds[number].before, false);
}

static void do_deed(size_t number)
{
    if (deeds[number].leaves) {
        socket_close(owners[number]);
        owners[number] = NULL;
    } else {
        say(number, deeds[number].message, deeds[number].fails);
    }
}

/* Whoever answers no ping for three heartbeats is cut off. */
static void keep_all(void)
{
    (void)socket_pump(writer);
    for (int kind = 0; kind < KINDS; kind++) {
        (void)socket_pump(watchers[kind]);
    }
    for (size_t i = 0; i < DEEDS; i++) {
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
    assert_string_equal(kit_stream_told(&row->stream), "watch fresh");
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
    size_t at = strlen(row->told);

    (void)snprintf(row->told + at, sizeof(row->told) - at, "%s %s%s", event, path, end ? "." : ";");
}

/* Each znode has one watch of the socket. */
static void take_event(int kind, const json_t *event)
{
    const json_t *watches = json_object_get(event, "watches");

    assert_true(json_array_size(watches) <= 1);
    for (size_t i = 0; i < DEEDS && json_array_size(watches) == 1; i++) {
        struct row *row = &rows[i][BY_SOCKET][kind];

        if (json_integer_value(json_array_get(watches, 0)) == row->watch) {
            put(row, talk_text(event, "event"), talk_text(event, "path"),
                json_is_true(json_object_get(event, "end")));
        }
    }
}

/* All that the socket is told before it has seen `zxid`. */
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

/* All that a stream is told, to its end or to the heartbeat that says that there is no more. */
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

/* ---- What was told ---- */

static void verify(size_t number, int kind, enum front front)
{
    static const char *const fronts[FRONTS] = {"socket", "SSE", "NDJSON"};
    const struct row *row = &rows[number][front][kind];
    char told[TEXT_LEN];

    fill_in(told, deeds[number].told[kind], number);
    if (strcmp(row->told, told) != 0) {
        (void)fprintf(stderr, "%s, %s by %s: told '%s', not '%s'\n", deeds[number].name,
                      kinds[kind], fronts[front], row->told, told);
        ensemble_check(&ensemble, false, "it was told what the table says");
    }
}

/* A one-shot watch is gone when it was used up, a stream of it ends with its event. */
static void verify_end(size_t number, int kind)
{
    const struct deed *deed = &deeds[number];
    bool one_shot = kind < ONE_SHOT_KINDS;
    bool told = one_shot && deed->told[kind][0] != '\0';
    bool spent = told || (one_shot && deed->spent && strstr(deed->spent, kinds[kind]));

    assert_string_equal(talk_error(watchers[kind], "\"op\":\"unwatch\",\"watch\":%d",
                                   rows[number][BY_SOCKET][kind].watch),
                        spent ? "NotFound" : "");
    assert_int_equal(rows[number][BY_SSE][kind].stream.complete, told);
    assert_int_equal(rows[number][BY_NDJSON][kind].stream.complete, told);
}

TEST(every_row_of_the_table, open_all, close_all)
{
    char zxid[TALK_FIELD_MAX];

    for (size_t i = 0; i < DEEDS; i++) {
        prepare(i);
        keep_all();
    }
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    for (size_t i = 0; i < DEEDS; i++) {
        begin(i, zxid);
    }
    for (size_t i = 0; i < DEEDS; i++) {
        do_deed(i);
        keep_all();
    }
    for (size_t i = 0; i < DEEDS; i++) {
        ENSEMBLE_WAIT(&ensemble, !deeds[i].by_time || !is_there(i));
    }
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    for (int kind = 0; kind < KINDS; kind++) {
        read_socket(kind, zxid);
    }
    for (size_t i = 0; i < DEEDS; i++) {
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
    print_message("%d deeds, %d kinds of watches, %d ways to be told\n", DEEDS, KINDS, FRONTS);
}
