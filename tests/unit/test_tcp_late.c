/* Late messages, from processes that have ended or to paused ones, are no claim of an id. */
#include "tests/unit/tcp_claim_kit.h"

/* Exactly that many bytes, read and returned while all loops turn. */
static void take_from_way(int side, uint8_t *to, size_t len)
{
    size_t have = 0;
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    while (have < len) {
        ssize_t got = read(way_fds[side], to + have, len - have);

        have += got > 0 ? (size_t)got : 0;
        assert_true(os_now_ms() < end_ms);
        turn(&processes[ONE]);
        turn(&processes[NEW]);
    }
}

/* The HELLO of a process that has ended since arrives late, together with the end of its
 * connection: it claims no place, and nothing is wrong. */
TEST(a_late_hello_of_a_dead_process_is_no_claim, setup, teardown)
{
    uint8_t bytes[4096];
    struct sockaddr_in addr = {0};
    struct sockaddr_storage from;
    ssize_t len = -1;

    via[NEW][1] = port_free();
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    way_open(via[NEW][1]);
    start(NEW, 20);
    while (way_fds[0] < 0) {
        turn(&processes[NEW]);
        way_fds[0] = loop_accept(way_listen_fd, &from);
    }
    addr = kit_loopback(ports[1]);
    way_fds[1] = loop_connect((struct sockaddr *)&addr, sizeof(addr));
    take_from_way(0, bytes, GREETING_LEN);
    assert_int_equal(write(way_fds[1], bytes, GREETING_LEN), GREETING_LEN);
    take_from_way(1, bytes, GREETING_LEN);
    assert_int_equal(write(way_fds[0], bytes, GREETING_LEN), GREETING_LEN);
    while (len <= 0) {
        turn(&processes[NEW]);
        len = read(way_fds[0], bytes, sizeof(bytes));
    }
    end(NEW);
    assert_int_equal(write(way_fds[1], bytes, (size_t)len), len);
    way_close();

    run_for(2 * PROBE_MS);
    assert_int_equal(processes[ONE].reports[3] + processes[OLD].reports[3], 0);
    assert_int_equal(duplicates(ONE), 0);
    assert_int_equal(processes[ONE].downs[3] + processes[OLD].downs[1], 0);
}

/* A paused replica learns of the next process before it learns that the known one has ended, whose
 * clock was ahead: there is one process, and nothing is wrong. */
TEST(a_replica_that_wakes_up_late_raises_no_alarm, setup, teardown)
{
    start(ONE, 1);
    start(TWO, 2);
    start(OLD, 20);
    UNTIL(processes[ONE].ups[3] == 1 && processes[TWO].ups[3] == 1 && processes[TWO].ups[1] == 1);
    processes[ONE].frozen = true;
    processes[OLD].frozen = true;
    start(NEW, 10);
    UNTIL(processes[TWO].ups[3] == 2 && processes[NEW].ups[2] == 1);
    run_for(PROBE_MS / 4); /* The first process has been informed, and will read that. */
    end(OLD);
    processes[ONE].frozen = false;
    UNTIL(processes[NEW].ups[1] == 1);
    run_for(2 * PROBE_MS);
    assert_int_equal(processes[NEW].reports[3], 0);
}
