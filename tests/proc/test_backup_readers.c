/* Readers of a backup that read nothing, or slowly, and many at once: their connections end in
 * time, the replica keeps little for them, others can write, and the next backup is possible. */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/talk.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==\r\n" /* super:root */

enum {
    ZNODES = 12,
    VALUE_BYTES = 1000 * 1000,
    SLOW_MS = 2000, /* slowTimeout */
    /* From the last byte that the client's kernel takes: two checks, and the library's delay. */
    GONE_MS = SLOW_MS + 5000 * ENSEMBLE_FACTOR,
    RECEIVE_BYTES = 16 << 10,
    SLOW_BYTES = 256,    /* Each */
    SLOW_STEP_MS = 250,  /* ms: 1 kB/s. */
    SLOW_END_MS = 20000, /* What the kernels keep counts as read, at 16 bytes per ms. */
    CROWD = 20,
    GROWTH = 16 << 20
};

static struct ensemble ensemble;
static uint16_t port;
static char value[VALUE_BYTES + 1];

/* A replica with so many znodes. */
static void open_with(int znodes, int slow_ms, int bytes_per_s)
{
    static char keys[256];
    char path[64];

    (void)snprintf(keys, sizeof keys, "slowTimeout=%d\nmaxBackupBytesPerSecond=%d\n" ENSEMBLE_SUPER,
                   slow_ms, bytes_per_s);
    ensemble_launch(&ensemble, 1, keys);
    port = ensemble.replicas[0].client_port;
    for (int i = 0; i < znodes; i++) {
        memset(value, 'a' + i, VALUE_BYTES);
        (void)snprintf(path, sizeof path, "/znodes/v1/?op=create&name=v%d", i);
        ensemble_call_until(&ensemble, 0, "POST", path, value, 201);
    }
}

static void open_one(void)
{
    open_with(ZNODES, SLOW_MS, 4 << 20);
}

static void close_one(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_one, close_one)

static uint64_t metric(const char *name)
{
    return ensemble_metric(&ensemble, 0, name);
}

/* Asks for a backup; the client's kernel keeps few bytes, or as many as usual (0). */
static void begin(struct kit_stream *stream, int receive_bytes)
{
    kit_stream_send(stream, kit_stream_connect(port, receive_bytes), port, "/backup/v1", ROOT);
}

/* Reads at most `max` bytes; the result is that of recv. */
static ssize_t take(const struct kit_stream *stream, size_t max)
{
    static uint8_t bytes[VALUE_BYTES];

    return recv(stream->fd, bytes, max, 0);
}

/* Reads to the end of the connection; returns the bytes. */
static uint64_t drain(const struct kit_stream *stream)
{
    uint64_t sum = 0;
    ssize_t got;

    while ((got = take(stream, VALUE_BYTES)) > 0) {
        sum += (uint64_t)got;
    }
    return sum;
}

/* A whole backup of so many znodes can be taken. */
static void check_whole(int znodes)
{
    uint64_t failed = metric("zabra_http_backups_failed_total");
    struct kit_stream stream;

    begin(&stream, 0);
    kit_stream_read_head(&stream);
    assert_int_equal(stream.status, 200);
    assert_true(drain(&stream) > (uint64_t)znodes * VALUE_BYTES / 2);
    kit_stream_close(&stream);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_backups") == 0);
    assert_int_equal(metric("zabra_http_backups_failed_total"), failed);
}

TEST(a_backup_that_nobody_reads_is_closed)
{
    uint64_t failed = metric("zabra_http_backups_failed_total");
    uint64_t before = ensemble_resident_bytes(ensemble.replicas[0].pid);
    uint64_t start_ms = os_now_ms();
    struct kit_stream stream;

    begin(&stream, RECEIVE_BYTES);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_backups") == 1);
    /* Meanwhile clients write. */
    for (int i = 0; metric("zabra_http_backups") == 1; i++) {
        assert_int_equal(ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/w?upsert=true", "x"),
                         i == 0 ? 201 : 200);
        assert_in_range(os_now_ms() - start_ms, 0, GONE_MS);
    }
    assert_in_range(os_now_ms() - start_ms, SLOW_MS, GONE_MS);
    assert_int_equal(metric("zabra_http_backups_failed_total"), failed + 1);
#ifndef ZABRA_SLOW /* A sanitizer keeps freed memory. */
    assert_true(ensemble_resident_bytes(ensemble.replicas[0].pid) < before + GROWTH);
#else
    (void)before;
#endif
    assert_true(drain(&stream) < (uint64_t)ZNODES * VALUE_BYTES / 2);
    kit_stream_close(&stream);
    check_whole(ZNODES);
}

TEST(a_backup_over_a_slow_link_is_closed)
{
    uint64_t failed = metric("zabra_http_backups_failed_total");
    uint64_t start_ms = os_now_ms();
    struct kit_stream stream;

    begin(&stream, RECEIVE_BYTES);
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_backups") == 1);
    while (metric("zabra_http_backups") == 1) {
        assert_in_range(os_now_ms() - start_ms, 0, SLOW_END_MS);
        (void)take(&stream, SLOW_BYTES);
        (void)poll(NULL, 0, SLOW_STEP_MS);
    }
    assert_int_equal(metric("zabra_http_backups_failed_total"), failed + 1);
    kit_stream_close(&stream);
    check_whole(ZNODES);
}

/* Reads until the answer has the text. */
static void await_text(struct kit_stream *stream, const char *text)
{
    while (!memmem(stream->raw.data, stream->raw.len, text, strlen(text))) {
        uint8_t *to = buf_reserve(&stream->raw, RECEIVE_BYTES);
        ssize_t got = recv(stream->fd, to, RECEIVE_BYTES, 0);

        assert_true(got > 0);
        stream->raw.len += (size_t)got;
    }
}

/* One is served; all others get 429 with the reason and the time to wait. */
TEST(of_many_at_once_one_is_served)
{
    struct kit_stream streams[CROWD];
    int served = 0;
    int busy = 0;

    for (int i = 0; i < CROWD; i++) {
        begin(&streams[i], RECEIVE_BYTES);
    }
    for (int i = 0; i < CROWD; i++) {
        kit_stream_read_head(&streams[i]);
        served += streams[i].status == 200;
        busy += streams[i].status == 429;
        if (streams[i].status == 429) {
            assert_non_null(web_header_of(streams[i].head, "Retry-After"));
            await_text(&streams[i], "use another replica");
        }
    }
    assert_int_equal(served, 1);
    assert_int_equal(busy, CROWD - 1);
    for (int i = 0; i < CROWD; i++) {
        kit_stream_close(&streams[i]);
    }
    ENSEMBLE_WAIT(&ensemble, metric("zabra_http_backups") == 0);
    check_whole(ZNODES);
}

/* At a MiB/s the replica waits a second after each of these znodes, longer than a client may. */
TEST(a_client_that_waits_for_the_replica_is_not_slow)
{
    close_one();
    open_with(3, 300, 1 << 20);
    check_whole(3);
}
