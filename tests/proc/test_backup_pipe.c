/* A backup through a proxy, most of all into a pipe, which cannot be read back: one that the proxy
 * has cut off is no success, one with its header Age is not stale, and a reader that pauses is no
 * replica that hangs. */
#include "tests/proc/backup_kit.h"

#include <stdlib.h>
#include <string.h>

static struct ensemble ensemble;

static void set_up(void)
{
    ensemble_launch(&ensemble, 1, ENSEMBLE_SUPER);
    backup_prepare(&ensemble);
    assert_int_equal(shell("for i in $(seq 8); do zabra create /big$i @$D/data || exit 1; done; "
                           "$BACKUP $OUT/good"),
                     0);
}

static void tear_down(void)
{
    (void)shell("[ ! -e $D/pid ] || kill $(cat $D/pid)");
    ensemble_close(&ensemble);
}

/* A proxy that speaks HTTP/1.0 to a replica: the end of the connection is the end of the body. It
 * sends so many bytes of the backup as the file $D/cut says, and pauses after 70000 for as many
 * seconds as $D/pause says. Prints its port. */
static const char proxy[] = "from http.server import *\n"
                            "import os, time\n"
                            "D = os.environ['D']\n"
                            "class Answer(BaseHTTPRequestHandler):\n"
                            "    def do_GET(self):\n"
                            "        self.send_response(200)\n"
                            "        self.send_header('Zk-Zxid', '0x1')\n"
                            "        self.send_header('Age', '0')\n"
                            "        self.end_headers()\n"
                            "        data = open(D + '/out/good', 'rb').read()\n"
                            "        data = data[:int(open(D + '/cut').read())]\n"
                            "        self.wfile.write(data[:70000])\n"
                            "        time.sleep(float(open(D + '/pause').read()))\n"
                            "        self.wfile.write(data[70000:])\n"
                            "    def log_message(self, *words): pass\n"
                            "server = ThreadingHTTPServer(('127.0.0.1', 0), Answer)\n"
                            "print(server.server_port, flush=True)\n"
                            "server.serve_forever()\n";

static void start_proxy(void)
{
    backup_set("PROXY", "%s", proxy);
    assert_int_equal(
        shell("echo 0 >$D/pause; python3 -c \"$PROXY\" >$D/port 2>$D/said </dev/null & "
              "echo $! >$D/pid; "
              "until [ -s $D/port ]; do :; done"),
        0);
    backup_set("CUT", "%s", "$BACKUP --endpoints 127.0.0.1:$(cat $D/port)");
}

/* Sends a backup that lacks its last bytes into a pipe. Returns the exit code. */
static int pipe_without(const char *bytes)
{
    return shell("echo $(($(stat -c %%s $OUT/good) - %s)) >$D/cut; eval \"$CUT - 2>&1 >$D/piped\"",
                 bytes);
}

TEST(a_backup_that_a_proxy_has_cut_off_is_no_success, set_up, tear_down)
{
    start_proxy();
    assert_int_equal(pipe_without("0"), 0);
    assert_int_equal(shell("cmp $D/piped $OUT/good && zabra inspect $D/piped"), 0);
    assert_int_equal(pipe_without("1"), 1);
    assert_non_null(strstr(shell_output, "ended before the end of the backup"));
    assert_int_equal(pipe_without("77"), 1); /* The last part. */
    assert_int_equal(pipe_without("2000000"), 1);
    assert_int_equal(pipe_without("$(($(stat -c %s $OUT/good) - 20))"), 1); /* Of HEAD. */
    assert_int_equal(pipe_without("$(stat -c %s $OUT/good)"), 1);
    /* A file is taken from the next replica instead. */
    assert_int_equal(shell("echo 2000000 >$D/cut; eval \"$CUT,$ZABRA_ENDPOINTS $OUT/b 2>&1\" && "
                           "zabra inspect $OUT/b"),
                     0);
    assert_non_null(strstr(shell_output, ": trying again"));
}

/* The reader takes nothing for 3 s, so that a write blocks, and the next bytes come half a second
 * later. Between the end of this write and these bytes the replica has hung for half a second. */
TEST(a_reader_that_pauses_is_no_replica_that_hangs, set_up, tear_down)
{
    start_proxy();
    assert_int_equal(shell("echo 9999999 >$D/cut; echo 3.5 >$D/pause; eval \"$CUT --timeout 2s -\" "
                           "| { head -c 1000; sleep 3; cat; } >$D/late; cmp $D/late $OUT/good"),
                     0);
}

/* Each answer of the proxy has an Age, as those of caches have. */
TEST(a_proxy_makes_no_backup_stale, set_up, tear_down)
{
    start_proxy();
    assert_int_equal(shell("mkdir $D/dir && touch $D/dir/20200101T000000.000Z-full.backup && "
                           "echo 9999999 >$D/cut; eval \"$CUT --keep 1h:1h $D/dir 2>&1\""),
                     0);
    assert_non_null(strstr(shell_output, "removed 1 old backup\n"));
    assert_null(strstr(shell_output, "no contact with a leader"));
}
