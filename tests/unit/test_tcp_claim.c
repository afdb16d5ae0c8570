/* Two processes with one id: the connected replicas decide which of them keeps it, by probes on the
 * existing connections. */
#include "tests/unit/tcp_claim_kit.h"

TEST(the_process_that_answers_keeps_its_place, setup, teardown)
{
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start(NEW, 5); /* Even if it started earlier, the connected process is probed. */
    UNTIL(duplicates(ONE) >= 5);
    assert_int_equal(processes[ONE].downs[3] + processes[OLD].downs[1], 0);
    assert_int_equal(processes[NEW].ups[1], 0);

    /* All three report it; the refused process learns the reason, once. */
    assert_string_equal(processes[ONE].duplicate,
                        "two processes claim id 3: 127.0.0.1 (clients: process-2:9998) and "
                        "127.0.0.1 (clients: process-3:9998)");
    assert_string_equal(processes[NEW].duplicate, processes[ONE].duplicate);
    assert_string_equal(processes[NEW].why, processes[ONE].duplicate);
    assert_int_equal(processes[NEW].refusals, 1);
    UNTIL(processes[OLD].reports[3] > 0);
    assert_string_equal(processes[OLD].duplicate, "two processes claim id 3: this one and "
                                                  "127.0.0.1 (clients: process-3:9998)");
}

TEST(a_process_is_accepted_once_the_other_has_ended, setup, teardown)
{
    uint64_t begin_ms = 0;

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1);
    start(NEW, 20);
    UNTIL(duplicates(ONE) >= 2);
    end(OLD);
    begin_ms = os_now_ms();
    UNTIL(processes[NEW].ups[1] == 1);
    assert_true(os_now_ms() - begin_ms < RETRY_MAX_MS + SLACK_MS);
    assert_int_equal(processes[ONE].downs[3], 1);
}

/* Like the half-open connection of a machine that was rebooted: it takes all bytes and sends none.
 */
TEST(a_process_that_does_not_answer_is_replaced, setup, teardown)
{
    uint64_t begin_ms = 0;

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    processes[OLD].frozen = true;
    start(NEW, 20);
    begin_ms = os_now_ms();
    UNTIL(processes[NEW].ups[1] == 1);
    assert_true(os_now_ms() - begin_ms >= PROBE_MS);
    assert_true(os_now_ms() - begin_ms < PROBE_MS + SLACK_MS);
    assert_int_equal(processes[ONE].ups[3], 2);
    assert_int_equal(processes[NEW].refusals, 0); /* The first attempt waited for it. */
    assert_string_equal(processes[ONE].why, "replaced by a newer connection");

    /* When the old process wakes up, it is the latecomer. */
    processes[OLD].frozen = false;
    UNTIL(processes[OLD].refusals == 1);
    assert_non_null(strstr(processes[OLD].why, "two processes claim id 3"));
    assert_int_equal(processes[NEW].downs[1], 0);
}

/* On a slow link an answer waits behind much other data. */
TEST(bytes_count_as_an_answer, setup, teardown)
{
    struct zab_msg ping = {.type = ZAB_PING};

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    processes[OLD].frozen = true; /* It reads nothing, and continues to send. */
    start(NEW, 20);
    while (duplicates(ONE) < 2 && processes[NEW].ups[1] == 0) {
        tcp_send(processes[OLD].tcp, 1, &ping);
        tcp_flush(processes[OLD].tcp);
        turn_all();
    }
    assert_int_equal(processes[NEW].ups[1], 0);
    assert_int_equal(processes[ONE].downs[3], 0);
    UNTIL(processes[NEW].ups[1] == 1); /* Silence is no answer. */
}

TEST(the_same_process_takes_its_place_at_once, setup, teardown)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    for (uint32_t i = 2; i < 5; i++) {
        tcp_set_identity(processes[OLD].tcp, cluster, 0, false); /* Reconnects. */
        UNTIL(processes[ONE].ups[3] == i && processes[OLD].ups[1] == i);
    }
    assert_int_equal(processes[ONE].reports[3], 0);
    assert_int_equal(duplicates(ONE), 0);
}

/* Without the secret, nothing is asked and nothing is reported. */
TEST(an_unproven_process_causes_no_probe, setup, teardown)
{
    struct tcp_figures figures;

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start_with(NEW, 20, "another secret of some length");
    do {
        turn_all();
        tcp_figures(processes[ONE].tcp, &figures);
    } while (figures.refused < 20);
    assert_int_equal(
        processes[OLD].reports[3] + processes[ONE].reports[3] + processes[ONE].downs[3], 0);
    assert_int_equal(figures.duplicates, 0);
}

/* Each probe informs the older process. */
TEST(many_attempts_cost_one_probe_per_interval, setup, teardown)
{
    uint64_t begin_ms = 0;
    uint64_t questions = 0;

    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    begin_ms = os_now_ms();
    start(NEW, 20);
    UNTIL(duplicates(ONE) >= 100);
    questions = (os_now_ms() - begin_ms) / PROBE_MS + 1;
    assert_in_range(processes[OLD].reports[3], 1, questions);
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* This replica was paused while the answer arrived: it reads before it decides. */
TEST(a_pause_is_not_taken_for_silence, setup, teardown)
{
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start(NEW, 20);
    UNTIL(processes[OLD].reports[3] > 0); /* It answers in the same turn. */
    processes[ONE].frozen = true;
    run_for(2 * PROBE_MS);
    processes[ONE].frozen = false;
    UNTIL(duplicates(ONE) > 0 || processes[ONE].downs[3] > 0);
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* Its connection with replica 2 is broken; the other process tries to take its place there. */
TEST(a_process_connected_elsewhere_keeps_its_place, setup, teardown)
{
    uint16_t nowhere = port_free();

    via[OLD][2] = nowhere;
    via[NEW][1] = nowhere;
    start(ONE, 1);
    start(TWO, 2);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[ONE].ups[2] == 1);
    start(NEW, 20);
    UNTIL(duplicates(TWO) >= 3);
    assert_int_equal(processes[TWO].ups[3], 0);
    assert_int_equal(processes[ONE].downs[3], 0);
    assert_non_null(strstr(processes[NEW].why, "127.0.0.1 (clients: process-2:9998) and "));
    end(OLD);
    UNTIL(processes[TWO].ups[3] == 1);
}

/* The old process is dead, and replica 1 has not noticed: no answer vouches for it, so the new one
 * is accepted. */
TEST(a_dead_process_keeps_no_place, setup, teardown)
{
    uint16_t nowhere = port_free();

    via[OLD][2] = nowhere;
    via[NEW][1] = nowhere;
    start(ONE, 1);
    start(TWO, 2);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[ONE].ups[2] == 1);
    processes[OLD].frozen = true;
    start(NEW, 20);
    UNTIL(processes[TWO].ups[3] == 1);
    assert_int_equal(processes[NEW].refusals, 0);
}

/* Both were accepted while replicas 1 and 2 could not reach each other. After the partition the
 * older process keeps its place everywhere, and the younger one learns of it. */
TEST(a_partition_heals_in_favour_of_the_older_process, setup, teardown)
{
    uint16_t nowhere = port_free();

    via[TWO][1] = port_free();
    via[OLD][2] = nowhere;
    via[NEW][1] = nowhere;
    start(ONE, 1);
    start(TWO, 2);
    start(OLD, 10);
    start(NEW, 20);
    UNTIL(processes[ONE].ups[3] == 1 && processes[TWO].ups[3] == 1);
    way_open(via[TWO][1]);
    UNTIL(processes[TWO].downs[3] == 1);
    UNTIL(processes[NEW].refusals == 1);
    assert_int_equal(processes[TWO].ups[3], 1);
    assert_int_equal(processes[ONE].downs[3] + processes[ONE].downs[2], 0);
    assert_int_equal(processes[OLD].downs[1], 0);
    assert_true(processes[TWO].reports[3] > 0 && processes[NEW].reports[3] > 0);
}

/* Replica 3 has dialed the old process of id 2, which is paused, and would not dial again. Replica
 * 1 reports that another process has connected; replica 3 probes and closes the connection. */
TEST(the_other_replicas_check_their_connections, setup, teardown)
{
    ids[TWO] = 3;
    ids[OLD] = ids[NEW] = 2;
    listens[TWO] = false;
    listens[OLD] = true;
    start(ONE, 1);
    start(OLD, 10);
    start(TWO, 2);
    UNTIL(processes[ONE].ups[2] == 1 && processes[ONE].ups[3] == 1 && processes[TWO].ups[2] == 1);
    processes[OLD].frozen = true;
    start(NEW, 20);
    UNTIL(processes[TWO].downs[2] == 1);
    assert_non_null(strstr(processes[TWO].why, "the process does not answer, and another process"));
    assert_int_equal(processes[NEW].ups[1], 1);

    /* The old process wakes up, is found at its address, and is refused there as well. */
    processes[OLD].frozen = false;
    UNTIL(duplicates(TWO) >= 1 && processes[OLD].reports[2] > 0);
    assert_int_equal(processes[TWO].ups[2], 1);
    assert_int_equal(processes[NEW].downs[1], 0);
}

/* Two processes claim id 2, and replica 3 finds the younger one at its address: it closes the
 * connection and gives the reason. */
TEST(a_process_that_is_dialed_may_be_the_wrong_one, setup, teardown)
{
    ids[TWO] = 3;
    ids[OLD] = ids[NEW] = 2;
    listens[TWO] = false;
    listens[NEW] = true;
    via[NEW][1] = port_free(); /* No process listens there. */
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[2] == 1);
    start(TWO, 2);
    UNTIL(processes[ONE].ups[3] == 1);
    start(NEW, 20);
    UNTIL(duplicates(TWO) >= 2);
    UNTIL(processes[NEW].reports[2] > 0);
    assert_non_null(strstr(processes[NEW].duplicate, "two processes claim id 2: "));
    assert_int_equal(processes[TWO].ups[2], 0);
    assert_int_equal(processes[ONE].downs[2], 0);
    end(OLD);
    UNTIL(processes[TWO].ups[2] == 1);
    assert_int_equal(processes[TWO].downs[2], 0);
}
