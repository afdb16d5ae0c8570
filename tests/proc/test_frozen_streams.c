/* Clients with streams and WebSockets that are frozen, or that run and read: which of them keep
 * their session. Over TLS, too. */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/sealed.h"
#include "tests/proc/shell.h"
#include "tests/proc/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SOCKET_TTL_MS = 2000,
    FREE_MS = 8000 * ENSEMBLE_FACTOR, /* The timeout, 2.5 ticks, and the time to notice it. */
    TTL_MS = 4000 * ENSEMBLE_FACTOR,
    ALIVE_MS = 5 * TTL_MS, /* Far beyond the timeout. */
    READS = 20,            /* Answers that arrive slowly, */
    DATA_LEN = 500000,     /* each of so many bytes. */
    TRICKLE_BYTES = 8 << 10,
    TRICKLE_MS = 20,
    RECEIVE_BYTES = 32 << 10
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3,
                    "tickTime=100\nsyncLimit=100\nminSessionTimeout=200\n"
                    "heartbeatInterval=1000\n");
    shell_open(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- Sessions ---- */

static void open_session(uint32_t timeout_ms, char secret[TALK_FIELD_MAX])
{
    char target[128];
    json_t *json = NULL;

    (void)snprintf(target, sizeof(target), "/sessions/v1/?op=create&timeout_ms=%u", timeout_ms);
    assert_int_equal(ensemble_call(&ensemble, 0, "POST", target, NULL), 201);
    json = web_json(&ensemble.reply);
    (void)snprintf(secret, TALK_FIELD_MAX, "%s", talk_text(json, "id"));
    json_decref(json);
}

static bool is_there(const char *path)
{
    char target[128];

    (void)snprintf(target, sizeof(target), "/znodes/v1%s?view=stat&consistency=linearizable", path);
    return ensemble_call(&ensemble, 0, "GET", target, NULL) == 200;
}

/* Creates an ephemeral of the session with this secret. */
static void make_ephemeral(const char *name, const char *secret)
{
    char target[160];
    char header[128];

    (void)snprintf(target, sizeof(target), "/znodes/v1/?op=create&name=%s&ephemeral=true", name);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s", secret);

    const struct web_call call = {.method = "POST",
                                  .port = ensemble.replicas[0].client_port,
                                  .path = target,
                                  .headers = header};

    assert_int_equal(web_do(ensemble.web, &call, &ensemble.reply), 201);
}

TEST_GROUP(open_three, close_all)

/* ---- Streams ---- */

/* A stream in a session; its client reads everything. */
TEST(a_stream_renews_its_session_only_on_request)
{
    struct kit_stream stream;
    char secret[TALK_FIELD_MAX];
    char header[128];
    uint64_t start_ms = os_now_ms();

    open_session(TTL_MS, secret);
    make_ephemeral("streamed", secret);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s\r\n", secret);
    kit_stream_open(&stream, ensemble.replicas[1].client_port, "/watch/v1/x?mode=persistent",
                    header);
    assert_string_equal(kit_stream_event(&stream), "watch fresh");
    assert_string_equal(kit_stream_event(&stream), "session expired");
    assert_in_range(os_now_ms() - start_ms, TTL_MS, ENSEMBLE_DEADLINE_MS);
    assert_false(is_there("/streamed"));
    kit_stream_close(&stream);
}

/* Starts curl with a stream in the session, and stops curl when the stream has begun. */
static void freeze_reader(const char *secret, const char *query)
{
    uint16_t port = ensemble.replicas[1].client_port;
    const char *scheme = sealed_has(port) ? "https" : "http";

    assert_int_equal(shell("eval \"$LIB\"; rm -f $D/told; curl -sN --cacert '%s' "
                           "-H 'Zk-Session: %s' '%s://localhost:%u/watch/v1/x?mode=persistent%s' "
                           ">$D/told & echo $! >$D/reader; await '[ -s $D/told ]' && "
                           "kill -STOP $(cat $D/reader)",
                           sealed_on() ? sealed_ca() : "", secret, scheme, port, query),
                     0);
}

static void end_reader(void)
{
    shell_expect("kill -KILL $(cat $D/reader)", 0, "");
}

TEST(a_frozen_reader_keeps_no_session)
{
    char secret[TALK_FIELD_MAX];

    open_session(TTL_MS, secret);
    make_ephemeral("frozen", secret);
    freeze_reader(secret, "");
    ENSEMBLE_WAIT(&ensemble, !is_there("/frozen"));
    end_reader();
}

/* keepSession=true does not notice a frozen client, but an ended one. */
TEST(a_frozen_reader_with_keep_session_keeps_its_session)
{
    char secret[TALK_FIELD_MAX];
    uint64_t end_ms = 0;

    open_session(TTL_MS, secret);
    make_ephemeral("asked", secret);
    freeze_reader(secret, "&keepSession=true");
    end_ms = os_now_ms() + ALIVE_MS;
    while (os_now_ms() < end_ms) {
        ENSEMBLE_CHECK(&ensemble, is_there("/asked"));
        ensemble_breathe();
    }
    end_reader();
    ENSEMBLE_WAIT(&ensemble, !is_there("/asked"));
}

struct reader {
    const char *accept;
    const char *name; /* Of its ephemeral. */
    struct kit_stream stream;
    char secret[TALK_FIELD_MAX];
};

static bool is_named_there(const char *name)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/%s", name);
    return is_there(path);
}

static void begin_reading(struct reader *reader)
{
    char headers[256];

    open_session(TTL_MS, reader->secret);
    make_ephemeral(reader->name, reader->secret);
    (void)snprintf(headers, sizeof(headers), "Zk-Session: %s\r\nAccept: %s\r\n", reader->secret,
                   reader->accept);
    kit_stream_open(&reader->stream, ensemble.replicas[1].client_port,
                    "/watch/v1/x?mode=persistent&keepSession=true", headers);
    assert_int_equal(reader->stream.status, 200);
}

/* Reads one frame, at least a heartbeat. */
static void read_on(struct reader *reader)
{
    assert_non_null(kit_stream_next(&reader->stream));
    assert_null(strstr(buf_cstr(&reader->stream.frame), "expired"));
    ENSEMBLE_CHECK(&ensemble, is_named_there(reader->name));
}

/* Streams with keepSession=true and a socket that answers pings. All are read for five times the
 * timeout, then the streams end and the socket is frozen. */
TEST(clients_that_read_keep_their_sessions)
{
    struct reader events = {.accept = "text/event-stream", .name = "events"};
    struct reader lines = {.accept = "application/x-ndjson", .name = "lines"};
    struct socket *socket = talk_open(&ensemble, 1, NULL);
    uint64_t end_ms = os_now_ms() + ALIVE_MS;

    begin_reading(&events);
    begin_reading(&lines);
    talk_ok(&ensemble, socket, "\"op\":\"session\",\"timeout_ms\":%d", TTL_MS);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/pinged\",\"ephemeral\":true");
    while (os_now_ms() < end_ms) {
        read_on(&events);
        read_on(&lines);
        ENSEMBLE_CHECK(&ensemble, socket_pump(socket) && is_there("/pinged"));
    }
    kit_stream_close(&events.stream);
    kit_stream_close(&lines.stream);
    ENSEMBLE_WAIT(&ensemble, !is_there("/events") && !is_there("/lines") && !is_there("/pinged"));
    socket_close(socket);
}

TEST(a_stream_without_a_session_has_none_to_keep)
{
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/watch/v1/x?keepSession=true", NULL), 400);
    assert_non_null(strstr(web_text(&ensemble.reply), "keepSession needs a session"));
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/watch/v1/x?keepSession=maybe", NULL),
                     400);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/znodes/v1/?keepSession=true", NULL), 400);
}

/* ---- WebSockets ---- */

/* Reads the socket, like the kernel of a frozen process, and answers no ping. */
static void trickle(const struct socket *socket)
{
    char piece[TRICKLE_BYTES];
    ssize_t got = recv(socket_fd(socket), piece, sizeof(piece), MSG_DONTWAIT);

    assert_true(got > 0 || (got < 0 && errno == EAGAIN)); /* The server has not closed it. */
    (void)poll(NULL, 0, TRICKLE_MS);
}

/* Unsent answers are queued all the time and bytes are delivered all the time, but no message
 * arrives from the client. */
TEST(bytes_taken_by_the_kernel_keep_no_session)
{
    const struct socket_options narrow = {.receive_bytes = RECEIVE_BYTES};
    struct socket *socket = talk_open(&ensemble, 1, &narrow);
    static char data[DATA_LEN + 1];
    uint64_t start_ms = 0;

    memset(data, 'd', DATA_LEN);
    data[DATA_LEN] = '\0';
    ensemble_call_until(&ensemble, 1, "PUT", "/znodes/v1/long?upsert=true", data, 201);
    talk_ok(&ensemble, socket, "\"op\":\"session\",\"timeout_ms\":%d", SOCKET_TTL_MS);
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/taken\",\"ephemeral\":true");
    for (int i = 0; i < READS; i++) {
        socket_request(socket, "\"op\":\"get\",\"path\":\"/long\"");
    }
    start_ms = os_now_ms();
    while (is_there("/taken")) {
        assert_in_range(os_now_ms() - start_ms, 0, FREE_MS);
        trickle(socket);
    }
    print_message("free after %lu ms\n", (unsigned long)(os_now_ms() - start_ms));
    socket_close(socket);
}
