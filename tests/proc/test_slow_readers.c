/* Readers of an export, of a large answer and of a stream that read slowly, or nothing at all. One
 * that reads steadily gets everything, one that reads nothing is closed at slowTimeout, and the
 * replica keeps little for either. Over TLS, too. */
#include "base/mem.h"
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    ZNODES = 64,
    VALUE_BYTES = 1000 * 1000, /* More than 64 MiB in base64, and in memory. */
    GETS = 15,                 /* Of one answer. */
    SLOW_MS = 2000,            /* slowTimeout */
    /* From the last byte that the client's kernel takes: two checks, and the library's delay. */
    GONE_MS = SLOW_MS + 5000 * ENSEMBLE_FACTOR,
    STEADY_MS = 4 * SLOW_MS,
    STEADY_BYTES = 8 << 10, /* Read every */
    STEADY_STEP_MS = 20,    /* ms. */
    PIECE_BYTES = 64 << 10, /* Of a faster reader. */
    RECEIVE_BYTES = 16 << 10,
    LOOK_EACH = 50, /* Pieces between two looks at the memory. */
    CHANGE_BYTES = 64 << 10,
    CHANGES = 800, /* 50 MiB. */
    QUEUE_BYTES = 1 << 20,
    WINDOW_BYTES = 4 << 20,
    SMALL_GROWTH = 16 << 20,                                      /* 85 MiB pass. */
    STREAM_GROWTH = WINDOW_BYTES + 2 * QUEUE_BYTES + SMALL_GROWTH /* 50 MiB are written. */
};

static struct ensemble ensemble;
static uint16_t port;
static uint64_t before_bytes;
static uint64_t most_bytes;

static void call(const char *method, const char *path, const char *body, long status)
{
    assert_int_equal(ensemble_call(&ensemble, 0, method, path, body), status);
}

static void put_values(void)
{
    char *value = mem_alloc(VALUE_BYTES + 1);
    char path[64];

    value[VALUE_BYTES] = '\0';
    ensemble_call_until(&ensemble, 0, "POST", "/znodes/v1/?op=create&name=big", "", 201);
    for (int i = 0; i < ZNODES; i++) {
        memset(value, 'a' + i % 26, VALUE_BYTES);
        (void)snprintf(path, sizeof(path), "/znodes/v1/big?op=create&name=v%d", i);
        call("POST", path, value, 201);
    }
    mem_free(value);
}

static void open_one(void)
{
    static char keys[256];

    (void)snprintf(keys, sizeof(keys),
                   "slowTimeout=%d\nmaxSocketQueueBytes=%d\nmaxWindowBytes=%d\n"
                   "heartbeatInterval=300\n",
                   SLOW_MS, QUEUE_BYTES, WINDOW_BYTES);
    ensemble_launch(&ensemble, 1, keys);
    port = ensemble.replicas[0].client_port;
    put_values();
}

static void close_one(void)
{
    ensemble_close(&ensemble);
}

/* ---- Helpers ---- */

static uint64_t metric(const char *name)
{
    return ensemble_metric(&ensemble, 0, name);
}

static uint64_t resident(void)
{
    return ensemble_resident_bytes(ensemble.replicas[0].pid);
}

static void note_memory(void)
{
    uint64_t bytes = resident();

    most_bytes = bytes > most_bytes ? bytes : most_bytes;
}

static void begin_memory(void)
{
    before_bytes = resident();
    most_bytes = before_bytes;
}

static void check_memory(uint64_t growth)
{
    note_memory();
    print_message("memory %d MiB, then at most %d MiB\n", (int)(before_bytes >> 20),
                  (int)(most_bytes >> 20));
#ifndef ZABRA_SLOW /* A sanitizer keeps freed memory. */
    ENSEMBLE_CHECK(&ensemble, most_bytes < before_bytes + growth);
#endif
}

/* Reads at most `max` bytes, which the stream keeps; false once the replica has closed. */
static bool take(struct kit_stream *stream, size_t max)
{
    uint8_t *to = buf_reserve(&stream->raw, max);
    ssize_t got = 0;

    assert_non_null(to);
    got = recv(stream->fd, to, max, 0);
    stream->raw.len += got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Reads few bytes at a time, for four times slowTimeout. */
static void read_slowly(struct kit_stream *stream)
{
    uint64_t end_ms = os_now_ms() + STEADY_MS;

    for (uint32_t i = 0; os_now_ms() < end_ms; i++) {
        assert_true(take(stream, STEADY_BYTES));
        (void)poll(NULL, 0, STEADY_STEP_MS);
        if (i % LOOK_EACH == 0) {
            note_memory();
        }
    }
}

static bool ends_with(const struct buf *bytes, const char *end)
{
    size_t len = strlen(end);

    return bytes->len >= len && memcmp(bytes->data + bytes->len - len, end, len) == 0;
}

/* Waits until the replica has closed the connection of a client that reads nothing, whose last byte
 * it sent soon after `start_ms`. */
static void expect_closed(const char *gauge, uint64_t left, uint64_t start_ms)
{
    ENSEMBLE_WAIT(&ensemble, metric(gauge) <= left);
    print_message("closed after %d ms\n", (int)(os_now_ms() - start_ms));
    assert_in_range(os_now_ms() - start_ms, SLOW_MS, GONE_MS);
}

/* Reads what the kernels have kept; the end is a closed connection, not that of the answer. */
static void expect_cut(struct kit_stream *stream)
{
    while (take(stream, PIECE_BYTES)) {
    }
    assert_false(ends_with(&stream->raw, "\r\n0\r\n\r\n"));
}

TEST_GROUP(open_one, close_one)

/* ---- Exports ---- */

static void begin_export(struct kit_stream *stream)
{
    begin_memory();
    kit_stream_send(stream, kit_stream_connect(port, RECEIVE_BYTES), port,
                    "/export/v1/big?dataformat=base64", "");
}

TEST(a_slow_reader_gets_a_whole_export)
{
    struct kit_stream stream;
    const char *line = NULL;
    char last[128] = "";
    int values = 0;

    begin_export(&stream);
    kit_stream_read_head(&stream);
    assert_int_equal(stream.status, 200);
    read_slowly(&stream);
    assert_int_equal(metric("zabra_http_exports"), 1);
    while ((line = kit_stream_next(&stream)) != NULL) {
        values += strlen(line) > VALUE_BYTES;
        (void)snprintf(last, sizeof(last), "%s", line);
        (void)poll(NULL, 0, STEADY_STEP_MS);
        note_memory();
    }
    check_memory(SMALL_GROWTH);
    assert_int_equal(values, ZNODES);
    assert_non_null(strstr(last, "\"end\":true,\"znodes\":65,"));
    assert_int_equal(metric("zabra_http_exports_failed_total"), 0);
    kit_stream_close(&stream);
}

TEST(an_export_that_nobody_reads_is_closed)
{
    uint64_t failed = metric("zabra_http_exports_failed_total");
    struct kit_stream stream;
    uint64_t start_ms = os_now_ms();

    begin_export(&stream);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_exports") == 1);
    expect_closed("zabra_http_exports", 0, start_ms);
    assert_int_equal(metric("zabra_http_exports_failed_total"), failed + 1);
    check_memory(SMALL_GROWTH);
    expect_cut(&stream);
    kit_stream_close(&stream);
}

/* ---- Large answers ---- */

static void begin_answer(struct kit_stream *stream)
{
    struct buf body;

    begin_memory();
    buf_init(&body, 4096);
    buf_append_str(&body, "{\"ops\":[");
    for (int i = 0; i < GETS; i++) {
        buf_printf(&body, "%s{\"op\":\"get\",\"path\":\"/big/v%d\"}", i ? "," : "", i);
    }
    buf_append_str(&body, "]}");
    kit_stream_post(stream, kit_stream_connect(port, RECEIVE_BYTES), port, "/multi/v1",
                    buf_cstr(&body));
    buf_release(&body);
}

TEST(a_slow_reader_gets_a_whole_answer)
{
    struct kit_stream stream;
    const char *length = NULL;

    begin_answer(&stream);
    kit_stream_read_head(&stream);
    assert_int_equal(stream.status, 200);
    length = web_header_of(stream.head, "Content-Length");
    assert_non_null(length);
    read_slowly(&stream);
    while (take(&stream, PIECE_BYTES)) {
    }
    assert_int_equal(stream.raw.len, talk_number(length));
    check_memory(SMALL_GROWTH);
    kit_stream_close(&stream);
}

TEST(an_answer_that_nobody_reads_is_closed)
{
    struct kit_stream stream;
    uint64_t start_ms = os_now_ms();

    begin_answer(&stream);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_connections") > 1);
    expect_closed("zabra_http_connections", 1, start_ms);
    check_memory(SMALL_GROWTH);
    expect_cut(&stream);
    kit_stream_close(&stream);
}

/* ---- Streams ---- */

static char change[CHANGE_BYTES + 1];

static void open_watch(struct kit_stream *stream)
{
    memset(change, 'c', CHANGE_BYTES);
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/hot?upsert=true", "", 201);
    begin_memory();
    kit_stream_ask(stream, kit_stream_connect(port, RECEIVE_BYTES), port,
                   "/watch/v1/hot?mode=persistent&values=true", "");
    assert_int_equal(stream->status, 200);
    assert_string_equal(kit_stream_event(stream), "watch fresh");
}

TEST(a_stream_that_nobody_reads_is_closed)
{
    uint64_t closed = metric("zabra_http_stream_slow_total");
    struct kit_stream stream;
    uint64_t start_ms = 0;

    open_watch(&stream);
    start_ms = os_now_ms();
    for (int i = 0; i < CHANGES || metric("zabra_http_streams") > 0; i++) {
        assert_in_range(os_now_ms() - start_ms, 0, ENSEMBLE_DEADLINE_MS);
        call("PUT", "/znodes/v1/hot", change, 200);
        if (i % LOOK_EACH == 0) {
            note_memory();
        }
    }
    check_memory(STREAM_GROWTH);
    assert_int_equal(metric("zabra_http_stream_slow_total"), closed + 1);
    kit_stream_close(&stream);
}
