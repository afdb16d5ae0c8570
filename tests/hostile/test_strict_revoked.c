/*
 * Values are written while all clients may read a znode; then its ACL is closed. In every way in
 * which a watch catches up, over each transport, a client without rights receives none of these
 * values, and still receives everything that it may read.
 */
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */
#define BOB  "Authorization: Basic Ym9iOnB3"         /* bob:pw */

enum {
    WINDOW = 50,
    FILL = WINDOW + 10,
    /* Within the window, and more than the kernels buffer: some MiB for a stream, 256 KiB for a
     * socket. */
    STREAM_WRITES = 40,
    SOCKET_WRITES = 12,
    BIG = 200 << 10,
    RECEIVE = 32 << 10, /* Kernel buffer of a client that does not read. */
    WAIT_MS = 20000 * ENSEMBLE_FACTOR,
    TEXT_MAX = 64 << 20
};

enum transport {
    SSE,
    NDJSON,
    SOCKET,
    TRANSPORTS
};

enum {
    BY_ID = 1,      /* Resumed by the id of an event. */
    TWO_STEPS = 2,  /* Closed, opened a little, and closed again. */
    DELETED = 4,    /* ... and then deleted, */
    RECREATED = 8,  /* and created again, closed. */
    IN_MULTI = 16,  /* Written together with a znode that stays open. */
    CHILD = 32,     /* The secret is a new child. */
    LONG_AGO = 64,  /* Before the window: a difference. */
    NOT_READ = 128, /* The client is there all the time, and reads nothing until it is closed. */
    OVERRUN = 256   /* The same, and the change leaves the window. */
};

struct way {
    const char *name;
    const char *kind;
    bool above; /* The watch is on the parent, else on the znode itself. */
    uint32_t what;
};

static const struct way ways[] = {
    {"persistent", "persistent", false, 0},
    {"data", "data", false, 0},
    {"exists", "exists", false, 0},
    {"recursive", "recursive", true, 0},
    {"by-id", "recursive", true, BY_ID},
    {"children", "children", false, CHILD},
    {"multi", "recursive", true, IN_MULTI},
    {"two-steps", "recursive", true, TWO_STEPS},
    {"deleted", "recursive", true, DELETED},
    {"recreated", "recursive", true, DELETED | RECREATED},
    {"difference", "persistent", false, LONG_AGO},
    {"difference-above", "recursive", true, LONG_AGO},
    {"not-read", "recursive", true, NOT_READ},
    {"overrun", "recursive", true, NOT_READ | OVERRUN},
};

enum {
    WAYS = sizeof(ways) / sizeof(ways[0])
};

static struct ensemble ensemble;
static char big[BIG + 1];
static uint32_t turn; /* Replicas that are watched take turns. */

static void open_three(void)
{
    memset(big, 'x', BIG);
    ensemble_launch(&ensemble, 3,
                    ENSEMBLE_SUPER
                    "maxWindow=50\n"
                    "heartbeatInterval=1500\nmaxSocketQueueBytes=65536\nslowTimeout=120000\n");
}

/* ---- The scenario. ---- */

/* One attack under way. */
struct attack {
    enum transport transport;
    const struct way *way;
    const char *headers; /* Headers of the watching client, each ends with CR LF. */
    char base[64];
    char secret[80];
    char watched[80];
    char since[80];
    char zxid[32]; /* Zxid of the last write. */
    uint32_t replica;
    int fd;                /* A stream. */
    struct socket *socket; /* Or a WebSocket. */
    struct buf received;
};

static void write_one(struct attack *attack, const char *method, const char *body,
                      const char *headers, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Writes at the first replica, with all permissions. */
static void write_one(struct attack *attack, const char *method, const char *body,
                      const char *headers, const char *format, ...)
{
    char path[256];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(path, sizeof(path), format, args);
    va_end(args);
    long status = web_do(ensemble.web,
                         &(struct web_call){.method = method,
                                            .port = ensemble.replicas[0].client_port,
                                            .path = path,
                                            .headers = headers,
                                            .body = body},
                         &ensemble.reply);

    ENSEMBLE_CHECK(&ensemble, status / 100 == 2);
    (void)snprintf(attack->zxid, sizeof(attack->zxid), "%s",
                   web_header(&ensemble.reply, "Zk-Zxid"));
}

static void create(struct attack *attack, const char *parent, const char *name)
{
    write_one(attack, "POST", "open", ROOT, "/znodes/v1%s?op=create&name=%s", parent, name);
}

static void set_acl(struct attack *attack, const char *scheme, const char *id, const char *perm)
{
    char body[256];

    (void)snprintf(body, sizeof(body),
                   "{\"acl\":[{\"perms\":[\"%s\"],\"scheme\":\"%s\",\"id\":\"%s\"}]}", perm, scheme,
                   id);
    write_one(attack, "PATCH", body, ROOT "\nContent-Type: application/json", "/znodes/v1%s",
              attack->secret);
}

static void close_secret(struct attack *attack)
{
    if (attack->way->what & TWO_STEPS) {
        set_acl(attack, "world", "anyone", "write");
        set_acl(attack, "world", "anyone", "read");
    }
    set_acl(attack, "digest", "bob:ikIaKsbtGweaHnb/jKn7OHqbunM=", "read");
}

static void write_secret(struct attack *attack)
{
    char body[512];

    if (attack->way->what & CHILD) {
        create(attack, attack->secret, "SECRET");
    } else if (attack->way->what & IN_MULTI) {
        (void)snprintf(body, sizeof(body),
                       "{\"ops\":[{\"op\":\"set\",\"path\":\"%s\",\"dataUtf8\":\"SECRET\"},"
                       "{\"op\":\"set\",\"path\":\"%s/o\",\"dataUtf8\":\"beside\"}]}",
                       attack->secret, attack->base);
        write_one(attack, "POST", body, ROOT "\nContent-Type: application/json", "/multi/v1");
    } else {
        write_one(attack, "PUT", "SECRET", ROOT, "/znodes/v1%s", attack->secret);
    }
}

static void fill(struct attack *attack, const char *name, const char *body, int count)
{
    for (int i = 0; i < count; i++) {
        write_one(attack, "PUT", body, ROOT, "/znodes/v1%s/%s", attack->base, name);
    }
}

static void prepare(struct attack *attack)
{
    const struct way *way = attack->way;

    (void)snprintf(attack->base, sizeof(attack->base), "/%d-%s", (int)attack->transport, way->name);
    (void)snprintf(attack->secret, sizeof(attack->secret), "%s/s", attack->base);
    (void)snprintf(attack->watched, sizeof(attack->watched), "%s",
                   way->above ? attack->base : attack->secret);
    create(attack, "/", attack->base + 1);
    create(attack, attack->base, "o");
    create(attack, attack->base, "f");
    create(attack, attack->base, "s");
    (void)snprintf(attack->since, sizeof(attack->since), "%s", attack->zxid);
    if (way->what & BY_ID) {
        (void)snprintf(attack->since, sizeof(attack->since), "%s:%s",
                       web_header(&ensemble.reply, "Zk-History"), attack->zxid);
    }
}

/* Writes the secret while all may read it, then closes the znode. */
static void play(struct attack *attack)
{
    uint32_t what = attack->way->what;

    write_secret(attack);
    close_secret(attack);
    if (what & DELETED) {
        write_one(attack, "DELETE", NULL, ROOT, "/znodes/v1%s", attack->secret);
    }
    if (what & RECREATED) {
        write_one(attack, "POST", "SECRET", ROOT "\nZk-Acl: creator",
                  "/znodes/v1%s?op=create&name=s", attack->base);
    }
    if (what & (LONG_AGO | OVERRUN)) {
        fill(attack, "f", "x", FILL);
    }
    create(attack, attack->base, "mark");
}

/* ---- The watcher. ---- */

static void open_stream(struct attack *attack, bool resume)
{
    bool sse = attack->transport == SSE;
    bool by_header = resume && sse && (attack->way->what & BY_ID);
    struct buf head;

    buf_init(&head, 4096);
    buf_printf(&head, "GET /watch/v1%s?values=true&mode=%s", attack->watched, attack->way->kind);
    if (resume && !by_header) {
        buf_printf(&head, "&since=%s", attack->since);
    }
    buf_printf(&head, " HTTP/1.1\r\nHost: localhost\r\nAccept: %s\r\nZk-Min-Zxid: %s\r\n%s",
               sse ? "text/event-stream" : "application/x-ndjson", attack->zxid, attack->headers);
    if (by_header) {
        buf_printf(&head, "Last-Event-ID: %s\r\n", attack->since);
    }
    buf_append_str(&head, "\r\n");
    attack->fd =
        attack_connect(ensemble.replicas[attack->replica].client_port, resume ? 0 : RECEIVE, 0);
    assert_true(attack->fd >= 0);
    assert_true(attack_send(attack->fd, head.data, head.len));
    buf_release(&head);
}

static void open_socket(struct attack *attack, bool resume)
{
    const struct socket_options options = {.headers = attack->headers,
                                           .receive_bytes = resume ? 0 : RECEIVE};

    attack->socket = talk_open(&ensemble, attack->replica, &options);
    talk_ok(&ensemble, attack->socket, "\"op\":\"sync\"");
    socket_request(attack->socket,
                   "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"%s\",\"values\":true%s%s%s",
                   attack->watched, attack->way->kind, resume ? ",\"since\":\"" : "",
                   resume ? attack->since : "", resume ? "\"" : "");
    while (!socket_all_sent(attack->socket)) {
        assert_true(socket_pump(attack->socket));
    }
}

static size_t count_of(struct buf *text, const char *needle)
{
    size_t count = 0;

    for (const char *at = strstr(buf_cstr(text), needle); at; at = strstr(at + 1, needle)) {
        count++;
    }
    return count;
}

/* A watch on the parent receives the event of the mark; the other one receives only a heartbeat. */
static bool is_done(struct attack *attack)
{
    char mark[96];

    if (!attack->way->above) {
        return count_of(&attack->received, "\"event\":\"heartbeat\"") > 0;
    }
    (void)snprintf(mark, sizeof(mark), "\"path\":\"%s/mark\"", attack->base);
    return count_of(&attack->received, mark) > 0;
}

static bool read_stream(struct attack *attack)
{
    static char piece[65536];
    struct pollfd look = {.fd = attack->fd, .events = POLLIN};

    if (poll(&look, 1, WAIT_MS) <= 0) {
        return false;
    }
    ssize_t got = recv(attack->fd, piece, sizeof(piece), 0);

    if (got > 0) {
        buf_append(&attack->received, piece, (size_t)got);
    }
    return got > 0;
}

static int append_text(const char *text, size_t len, void *out)
{
    return buf_append(out, text, len) ? 0 : -1;
}

static bool read_socket(struct attack *attack)
{
    json_t *message = socket_next(attack->socket, WAIT_MS);

    if (message) {
        assert_int_equal(json_dump_callback(message, append_text, &attack->received, JSON_COMPACT),
                         0);
        buf_append_byte(&attack->received, '\n');
    }
    json_decref(message);
    return message != NULL;
}

static bool read_some(struct attack *attack)
{
    return attack->transport == SOCKET ? read_socket(attack) : read_stream(attack);
}

/* A client that must be present waits for its first answer. */
static void open_watch(struct attack *attack, bool resume)
{
    if (attack->transport == SOCKET) {
        open_socket(attack, resume);
    } else {
        open_stream(attack, resume);
    }
    while (!resume && count_of(&attack->received, "zxid") == 0) {
        assert_true(read_some(attack));
    }
}

static void read_all(struct attack *attack)
{
    bool more = true;

    while (more && !is_done(attack)) {
        more = read_some(attack);
    }
    if (!more) {
        (void)printf("%s over %d: %.2000s\n", attack->way->name, (int)attack->transport,
                     buf_cstr(&attack->received));
    }
    assert_true(more);
}

/* ---- What the client received. ---- */

/* True if there is an event of the znode itself. Lines are objects, or fields of an event in
 * SSE. */
static bool has_event_of(struct attack *attack, const char *path)
{
    const char *line = buf_cstr(&attack->received);
    char needle[128];

    (void)snprintf(needle, sizeof(needle), "\"path\":\"%s\"", path);
    while (*line) {
        size_t len = strcspn(line, "\n");

        if (memmem(line, len, "\"event\":\"Node", strlen("\"event\":\"Node")) &&
            memmem(line, len, needle, strlen(needle))) {
            return true;
        }
        line += len + (line[len] == '\n');
    }
    return false;
}

/* True if the client has received the secret or an event of it. */
static bool check(struct attack *attack)
{
    bool leaked = count_of(&attack->received, "SECRET") > 0 || has_event_of(attack, attack->secret);

    if (attack->way->what & IN_MULTI) {
        assert_int_equal(count_of(&attack->received, "beside"), 1);
    }
    if (attack->way->above && !(attack->way->what & OVERRUN)) {
        assert_true(count_of(&attack->received, "\"end\":true") > 0);
    }
    return leaked;
}

static bool run(enum transport transport, const struct way *way, const char *headers)
{
    struct attack attack = {.transport = transport,
                            .way = way,
                            .headers = headers,
                            .replica = 1 + turn++ % 2,
                            .fd = -1};
    bool present = way->what & NOT_READ;

    buf_init(&attack.received, TEXT_MAX);
    prepare(&attack);
    if (present) {
        open_watch(&attack, false);
        /* The following events are queued for the client: more than all queues hold. */
        fill(&attack, "f", big, transport == SOCKET ? SOCKET_WRITES : STREAM_WRITES);
    }
    play(&attack);
    if (!present) {
        open_watch(&attack, true);
    }
    read_all(&attack);

    bool leaked = check(&attack);

    if (attack.fd >= 0) {
        close(attack.fd);
    }
    socket_close(attack.socket);
    buf_release(&attack.received);
    return leaked;
}

static void run_all(enum transport transport)
{
    uint32_t leaks = 0;

    for (size_t i = 0; i < WAYS; i++) {
        if (run(transport, &ways[i], "")) {
            (void)printf("leaked: %s\n", ways[i].name);
            leaks++;
        }
    }
    assert_int_equal(leaks, 0);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_three, close_all)

TEST(a_revoked_value_is_not_sent_over_sse)
{
    run_all(SSE);
}

TEST(a_revoked_value_is_not_sent_over_ndjson)
{
    run_all(NDJSON);
}

TEST(a_revoked_value_is_not_sent_over_websockets)
{
    run_all(SOCKET);
}

/* The attack itself works: a client with the right receives the value. */
TEST(a_client_with_the_right_receives_the_value)
{
    static const struct way way = {"control", "recursive", true, 0};

    for (int transport = SSE; transport < TRANSPORTS; transport++) {
        assert_true(run((enum transport)transport, &way, BOB "\r\n"));
    }
}
