/* Holders of the command line frozen by SIGSTOP: their kernel still acknowledges received bytes.
 * That must not renew a session. */
#include "tests/lib/stream_kit.h"
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <string.h>

enum {
    TTL_MS = 2000,
    FREE_MS = 8000 * ENSEMBLE_FACTOR, /* The timeout, 2.5 ticks, and the time to notice it. */
    WAKE_TTL_MS = 9000,
    DOUBT_MS = WAKE_TTL_MS * 2 / 3 + 500 /* A holder that wakes up after that gives up. */
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
