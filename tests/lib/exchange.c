#include "tests/lib/exchange.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/jsonw.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME_MAX_BYTES = 32,
    KIND_MAX_BYTES = 256,
    STATUS_DIGITS = 3
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int file = -1;
static _Atomic uint64_t sockets;

/* Guards `kinds` and `ops`. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct {
    uint64_t hash; /* 0: free. */
    uint32_t count;
} kinds[EXCHANGE_KINDS_MAX];

static char ops[EXCHANGE_OPS_MAX][NAME_MAX_BYTES]; /* Names by number; number 0: no operation. */

static void open_file(void)
{
    const char *path =
        getenv("ZABRA_EXCHANGES_FILE"); // NOLINT(concurrency-mt-unsafe): no thread changes it.

    if (!path || !path[0]) {
        return;
    }
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) {
        (void)fprintf(stderr, "%s: error %d\n", path, errno);
    }
}

bool exchange_on(void)
{
    ASSERT(pthread_once(&once, open_file) == 0);
    return file >= 0;
}

/* ---- The number of each kind ---- */

static bool count_in(uint64_t hash)
{
    for (size_t i = 0; i < EXCHANGE_KINDS_MAX; i++) {
        size_t at = (size_t)((hash + i) % EXCHANGE_KINDS_MAX);

        if (kinds[at].hash == 0) {
            kinds[at].hash = hash;
        }
        if (kinds[at].hash == hash) {
            return kinds[at].count++ < EXCHANGE_EACH_MAX;
        }
    }
    return false;
}

/* True when there is room for one more exchange of the kind that these words identify. */
static bool is_due(const char *what, const char *which, const char *code)
{
    char kind[KIND_MAX_BYTES];

    (void)snprintf(kind, sizeof(kind), "%s %s %s", what, which, code);
    (void)pthread_mutex_lock(&mutex);

    bool due = count_in(hash64(1, slice_str(kind)) | 1);

    (void)pthread_mutex_unlock(&mutex);
    return due;
}

static void write_line(struct buf *line)
{
    buf_append_byte(line, '\n');
    if (!line->overflow) {
        (void)!write(file, line->data, line->len); /* One call writes a whole line, so that lines of
                                                      several threads do not mix. */
    }
}

/* The text of a string member, as far as it fits; "" when there is none. */
static void find_text(struct slice json, const char *mark, char out[NAME_MAX_BYTES])
{
    const uint8_t *at = json.len > 0 ? memmem(json.data, json.len, mark, strlen(mark)) : NULL;
    size_t len = 0;

    if (at) {
        at += strlen(mark);
        while (len + 1 < NAME_MAX_BYTES && at + len < json.data + json.len && at[len] != '"') {
            out[len] = (char)at[len];
            len++;
        }
    }
    out[len] = '\0';
}

/* ---- REST ---- */

/* "/znodes/v1" of "/znodes/v1/a/b?view=stat". */
static int resource_len(const char *target)
{
    size_t len = strcspn(target, "?");
    const char *second = memchr(target + 1, '/', len > 0 ? len - 1 : 0);
    const char *third =
        second ? memchr(second + 1, '/', len - (size_t)(second + 1 - target)) : NULL;

    return (int)(third ? (size_t)(third - target) : len);
}

static bool is_due_http(const struct exchange *exchange)
{
    static const char protocol[] = "HTTP/1.1 ";
    const char *view = strstr(exchange->target, "view=");
    char kind[KIND_MAX_BYTES];
    char code[NAME_MAX_BYTES];

    if (exchange->answer.len > EXCHANGE_BYTES_MAX ||
        (exchange->body && strlen(exchange->body) > EXCHANGE_BYTES_MAX) ||
        exchange->head.len < sizeof(protocol) + STATUS_DIGITS) {
        return false;
    }
    find_text(exchange->answer, "\"code\":\"", code);
    (void)snprintf(kind, sizeof(kind), "%s %.*s %.*s", exchange->method,
                   resource_len(exchange->target), exchange->target,
                   view ? (int)strcspn(view, "&") : 0, view ? view : "");
    (void)snprintf(kind + strlen(kind), sizeof(kind) - strlen(kind), " %.*s", STATUS_DIGITS,
                   (const char *)exchange->head.data + sizeof(protocol) - 1);
    return is_due("http", kind, code);
}

void exchange_http(const struct exchange *exchange)
{
    struct jsonw json;
    struct buf line;

    if (!exchange_on() || !is_due_http(exchange)) {
        return;
    }
    buf_init(&line, (size_t)EXCHANGE_BYTES_MAX * 8);
    jsonw_init(&json, &line);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "kind", exchange->stream ? "stream" : "http");
    jsonw_kv_cstr(&json, "method", exchange->method);
    jsonw_key(&json, "target");
    jsonw_base64(&json, slice_str(exchange->target));
    jsonw_key(&json, "headers");
    jsonw_base64(&json, slice_str(exchange->headers ? exchange->headers : ""));
    if (exchange->body) {
        jsonw_key(&json, "body");
        jsonw_base64(&json, slice_str(exchange->body));
    }
    jsonw_key(&json, "head");
    jsonw_base64(&json, exchange->head);
    jsonw_key(&json, "answer");
    jsonw_base64(&json, exchange->answer);
    jsonw_object_end(&json);
    write_line(&line);
    buf_release(&line);
}

/* ---- Streams ---- */

void exchange_event(const char *name, const char *id, const char *object)
{
    struct jsonw json;
    struct buf line;
    char event[NAME_MAX_BYTES];

    find_text(slice_str(object), "\"event\":\"", event);
    if (!exchange_on() || strlen(object) > EXCHANGE_BYTES_MAX ||
        !is_due(name ? "sse" : "ndjson", event, id ? "id" : "")) {
        return;
    }
    buf_init(&line, (size_t)EXCHANGE_BYTES_MAX * 8);
    jsonw_init(&json, &line);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "kind", "event");
    if (name) {
        jsonw_kv_cstr(&json, "name", name);
    }
    if (id) {
        jsonw_kv_cstr(&json, "id", id);
    }
    jsonw_key(&json, "text");
    jsonw_base64(&json, slice_str(object));
    jsonw_object_end(&json);
    write_line(&line);
    buf_release(&line);
}

/* ---- WebSockets ---- */

static void write_message(const char *kind, const struct exchange_socket *socket, const char *op,
                          struct slice text)
{
    struct jsonw json;
    struct buf line;

    buf_init(&line, (size_t)EXCHANGE_BYTES_MAX * 8);
    jsonw_init(&json, &line);
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "kind", kind);
    jsonw_kv_u64(&json, "socket", socket->number);
    jsonw_kv_cstr(&json, "op", op);
    jsonw_key(&json, "text");
    jsonw_base64(&json, text);
    jsonw_object_end(&json);
    write_line(&line);
    buf_release(&line);
}

static bool find_id(struct slice text, uint64_t *ret_id)
{
    static const char mark[] = "\"id\":";
    const uint8_t *at = text.len > 0 ? memmem(text.data, text.len, mark, sizeof(mark) - 1) : NULL;

    *ret_id = 0;
    if (!at) {
        return false;
    }
    at += sizeof(mark) - 1;
    for (; at < text.data + text.len && *at >= '0' && *at <= '9'; at++) {
        *ret_id = *ret_id * 10 + (uint64_t)(*at - '0');
    }
    return true;
}

static uint8_t op_number(const char *name)
{
    uint8_t number = 1;

    (void)pthread_mutex_lock(&mutex);
    while (number < EXCHANGE_OPS_MAX - 1 && ops[number][0] && strcmp(ops[number], name) != 0) {
        number++;
    }
    (void)snprintf(ops[number], NAME_MAX_BYTES, "%s", name);
    (void)pthread_mutex_unlock(&mutex);
    return number;
}

static void give_number(struct exchange_socket *socket)
{
    if (socket->number == 0) {
        socket->number = atomic_fetch_add(&sockets, 1) + 1;
    }
}

void exchange_sent(struct exchange_socket *socket, struct slice text)
{
    char op[NAME_MAX_BYTES];
    uint64_t id = 0;

    if (!exchange_on()) {
        return;
    }
    give_number(socket);
    find_text(text, "\"op\":\"", op);
    if (find_id(text, &id)) {
        socket->ops[id % EXCHANGE_FLIGHT] = op[0] ? op_number(op) : 0;
    }
    if (text.len <= EXCHANGE_BYTES_MAX && is_due("sent", op, "")) {
        write_message("sent", socket, op, text);
    }
}

void exchange_received(struct exchange_socket *socket, struct slice text)
{
    char op[NAME_MAX_BYTES] = "";
    char code[NAME_MAX_BYTES];
    char event[NAME_MAX_BYTES];
    uint64_t id = 0;

    if (!exchange_on()) {
        return;
    }
    give_number(socket);
    find_text(text, "{\"event\":\"", event);
    find_text(text, "\"code\":\"", code);
    if (!event[0] && find_id(text, &id)) {
        (void)pthread_mutex_lock(&mutex);
        (void)snprintf(op, sizeof(op), "%s", ops[socket->ops[id % EXCHANGE_FLIGHT]]);
        (void)pthread_mutex_unlock(&mutex);
    }
    if (text.len <= EXCHANGE_BYTES_MAX && is_due(op[0] ? op : "event", event, code)) {
        write_message("received", socket, op, text);
    }
}

void exchange_closed(uint32_t code)
{
    struct buf line;

    if (!exchange_on()) {
        return;
    }
    buf_init(&line, EXCHANGE_BYTES_MAX);
    (void)buf_printf(&line, "{\"kind\":\"closed\",\"code\":%u}", code);
    if (is_due(buf_cstr(&line), "", "")) {
        write_line(&line);
    }
    buf_release(&line);
}
