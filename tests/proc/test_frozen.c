/* Clients frozen by SIGSTOP: their kernel still acknowledges received bytes. That must not renew a
 * session, except by a stream with keepSession=true. */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"
#include "tests/proc/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TTL_MS = 2000,
    FREE_MS = 8000 * ENSEMBLE_FACTOR, /* The timeout, 2.5 ticks, and the time to notice it. */
    WAKE_TTL_MS = 9000,
    DOUBT_MS = WAKE_TTL_MS * 2 / 3 + 500, /* A holder that wakes up after that gives up. */
    STREAM_TTL_MS = 2000 * ENSEMBLE_FACTOR,
    ALIVE_MS = 4 * STREAM_TTL_MS, /* Far beyond the timeout. */
    READS = 20,                   /* Answers that arrive slowly, */
    DATA_LEN = 500000,            /* each of so many bytes. */
    TRICKLE_BYTES = 8 << 10,
    TRICKLE_MS = 20,
    RECEIVE_BYTES = 32 << 10
};

static struct ensemble ensemble;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, "tickTime=100\nsyncLimit=100\nminSessionTimeout=200\n");
    shell_open(&ensemble);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- The command line ---- */

/* Starts a command that holds something while a shell runs `script`. $D/child has the script's
 * process id, $D/holder the holder's, $D/code later its exit code. Stops the holder when the script
 * has written $D/child. */
static void freeze_holder(const char *holder, int ttl_ms, const char *script)
{
    int code = shell("eval \"$LIB\"; rm -f $D/child $D/code; "
                     "(zabra %s --ttl %dms -- sh -c '%s; echo $$ >$D/child; exec sleep 300' & "
                     "echo $! >$D/holder; wait $!; echo $? >$D/code) >/dev/null & "
                     "await '[ -s $D/child ]' && kill -STOP $(cat $D/holder)",
                     holder, ttl_ms, script);

    assert_int_equal(code, 0);
}

/* Wakes the holder, which then ends its command and itself. */
static void wake_holder(void)
{
    shell_expect("eval \"$LIB\"; kill -0 $(cat $D/child) && kill -CONT $(cat $D/holder); "
                 "await '[ -s $D/code ]'; cat $D/code; kill -0 $(cat $D/child)",
                 1, "122\n");
}

static const char *const holders[] = {
    "lock f", "elect f", "semaphore f --leases 1", "barrier enter f me --count 1", "session",
};

TEST_GROUP(open_three, close_all)

/* The holder's ephemeral ends with its session. The holder's command continues: only the holder
 * could end it. */
TEST(a_frozen_holder_expires_in_its_timeout)
{
    for (size_t i = 0; i < sizeof(holders) / sizeof(holders[0]); i++) {
        uint64_t start_ms = 0;

        freeze_holder(holders[i], TTL_MS, "zabra create /held -e");
        start_ms = os_now_ms();
        shell_expect("eval \"$LIB\"; await '! zabra get /held --linearizable'", 0, "");
        print_message("%s: free after %lu ms\n", holders[i],
                      (unsigned long)(os_now_ms() - start_ms));
        assert_in_range(os_now_ms() - start_ms, 0, FREE_MS);
        wake_holder();
    }
}

TEST(the_next_holder_does_not_wait_for_a_frozen_one)
{
    shell_expect("eval \"$LIB\"; zabra lock n --ttl 2s -- sh -c ': >$D/in; exec sleep 300' & p=$!; "
                 "await '[ -e $D/in ]'; kill -STOP $p; zabra lock n --wait 60s -- echo next; "
                 "c=$?; kill -CONT $p; wait $p; echo frozen $?; exit $c",
                 0, "next\n");
    assert_non_null(strstr(shell_output, "frozen 122\n"));
}

static void pass(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        ensemble_breathe();
    }
}

/* A holder that was frozen for a part of its timeout closes the session, which has not expired yet.
 * (The opening of the stream that shows this has renewed the session.) */
TEST(a_holder_that_wakes_up_closes_its_session)
{
    struct kit_stream stream;
    char header[128];

    freeze_holder("lock w", WAKE_TTL_MS, "printf %s $ZABRA_SESSION >$D/secret");
    assert_int_equal(shell("cat $D/secret"), 0);
    (void)snprintf(header, sizeof(header), "Zk-Session: %.36s\r\n", shell_output);
    pass(DOUBT_MS);
    kit_stream_open(&stream, ensemble.replicas[1].client_port, "/watch/v1/w?mode=persistent",
                    header);
    assert_string_equal(kit_stream_event(&stream), "watch fresh");
    wake_holder();
    assert_string_equal(kit_stream_event(&stream), "session closed");
    kit_stream_close(&stream);
}

/* ---- Streams ---- */

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

/* A stream in a session; its client reads everything. */
TEST(a_stream_renews_its_session_only_on_request)
{
    struct kit_stream stream;
    char secret[TALK_FIELD_MAX];
    char header[128];
    uint64_t start_ms = os_now_ms();

    open_session(STREAM_TTL_MS, secret);
    make_ephemeral("streamed", secret);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s\r\n", secret);
    kit_stream_open(&stream, ensemble.replicas[1].client_port, "/watch/v1/x?mode=persistent",
                    header);
    assert_string_equal(kit_stream_event(&stream), "watch fresh");
    assert_string_equal(kit_stream_event(&stream), "session expired");
    assert_in_range(os_now_ms() - start_ms, STREAM_TTL_MS, ENSEMBLE_DEADLINE_MS);
    assert_false(is_there("/streamed"));
    kit_stream_close(&stream);
}

/* Starts curl with a stream in the session, and stops curl when the stream has begun. */
static void freeze_reader(const char *secret, const char *query)
{
    assert_int_equal(shell("eval \"$LIB\"; rm -f $D/told; curl -sN -H 'Zk-Session: %s' "
                           "'http://127.0.0.1:%u/watch/v1/x?mode=persistent%s' >$D/told & "
                           "echo $! >$D/reader; await '[ -s $D/told ]' && "
                           "kill -STOP $(cat $D/reader)",
                           secret, ensemble.replicas[1].client_port, query),
                     0);
}

static void end_reader(void)
{
    shell_expect("kill -KILL $(cat $D/reader)", 0, "");
}

TEST(a_frozen_reader_keeps_no_session)
{
    char secret[TALK_FIELD_MAX];

    open_session(STREAM_TTL_MS, secret);
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

    open_session(STREAM_TTL_MS, secret);
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
    talk_ok(&ensemble, socket, "\"op\":\"session\",\"timeout_ms\":%d", TTL_MS);
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
