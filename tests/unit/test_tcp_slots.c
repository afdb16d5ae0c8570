/* What the transport knows of the processes of an id ends with the removal of that id: a replica
 * that is added in its place is another one. Replica 1 is real, the test drives the others by
 * hand. */
#include "tests/unit/tcp_raw_peer.h"

enum {
    START = 10,
    OTHER_START = 20,
    PATIENT_MS = 8000 /* For an answer that has to come in time, also on a slow machine. */
};

static struct raw_peer witness;  /* Replica 2. */
static struct raw_peer third;    /* The connected process of id 3. */
static struct raw_peer claimant; /* Another process of id 3. */
static struct raw_peer fourth;   /* Replica 4. */

/* The list of replica 1: replica 2 and another one, which has the second slot; 0: none. */
static void set_list(uint32_t id)
{
    struct tcp_peer peers[2] = {{.id = 2, .host = "127.0.0.1", .port = 1},
                                {.id = id, .host = "127.0.0.1", .port = 1}};

    tcp_set_peers(processes[ONE].tcp, peers, id != 0 ? 2 : 1);
}

static void setup_slots(void)
{
    probe_ms = PATIENT_MS;
    witness.fd = third.fd = claimant.fd = fourth.fd = -1;
    setup();
    start(ONE, 1);
    set_list(3);
    raw_connect(&witness, 2, 2);
}

static void teardown_slots(void)
{
    probe_ms = PROBE_MS;
    raw_close(&witness);
    raw_close(&third);
    raw_close(&claimant);
    raw_close(&fourth);
    teardown();
}

static bool has_closed(struct raw_peer *peer)
{
    return !raw_fill(peer);
}

/* ---- A claim that waits. ---- */

/* Replica 3 is connected, and another process of its id waits. */
static void begin_claim(void)
{
    raw_connect(&third, 3, START);
    raw_dial(&claimant, 3, OTHER_START);
    assert_int_equal(raw_wait(&third, CONTROL_PROBE).start, START);
}

TEST(a_claim_ends_with_the_removal, setup_slots, teardown_slots)
{
    begin_claim();
    set_list(0);
    assert_int_equal(processes[ONE].downs[3], 0);
    UNTIL(has_closed(&claimant) && has_closed(&third));
    assert_int_equal(processes[ONE].downs[3], 1);
    assert_int_equal(processes[ONE].reports[3], 0);
    assert_int_equal(duplicates(ONE), 0);

    raw_close(&claimant);
    set_list(3);
    raw_connect(&claimant, 3, OTHER_START); /* No process of this id is known. */
    UNTIL(processes[ONE].ups[3] == 2);
}

/* The address says nothing about the processes that claim the id. */
TEST(a_claim_outlives_a_change_of_the_address, setup_slots, teardown_slots)
{
    struct tcp_peer peers[2] = {{.id = 2, .host = "127.0.0.1", .port = 1},
                                {.id = 3, .host = "127.0.0.2", .port = 2}};

    begin_claim();
    tcp_set_peers(processes[ONE].tcp, peers, 2);
    raw_send_alive(&third, 3, START);
    assert_false(raw_is_let_in(&claimant));
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* ---- The slot's next replica. ---- */

TEST(a_replica_is_not_taken_for_its_predecessor, setup_slots, teardown_slots)
{
    struct control control;

    raw_connect(&third, 3, START);
    raw_send_seen(&witness, 3, START);
    (void)raw_fence(&witness);
    set_list(4);
    raw_dial(&fourth, 4, OTHER_START);
    UNTIL(processes[ONE].ups[4] == 1 && processes[ONE].downs[3] == 1);
    assert_true(raw_is_let_in(&fourth));
    while (raw_next(&witness, &control)) { /* It is no claim. */
        assert_int_not_equal(control.type, CONTROL_PROBE);
    }
}

/* The witness is asked about a process of the predecessor, whose start number a process of the next
 * replica has as well. */
TEST(an_answer_about_the_predecessor_is_ignored, setup_slots, teardown_slots)
{
    raw_send_seen(&witness, 3, START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, OTHER_START);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).id, 3);
    set_list(4);
    raw_send_seen(&witness, 4, START);
    raw_send_alive(&witness, 4, START); /* Replica 1 has not asked about that process. */
    (void)raw_fence(&witness);
    raw_dial(&fourth, 4, OTHER_START);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).id, 4);
    assert_int_equal(fourth.in_len, 0); /* Waits. */
    assert_int_equal(processes[ONE].reports[4], 0);
    raw_send_seen(&witness, 4, 0);
    assert_true(raw_is_let_in(&fourth));
}

/* The witness waits for the answer of the predecessor. */
TEST(the_next_replica_does_not_vouch_for_its_predecessor, setup_slots, teardown_slots)
{
    raw_connect(&third, 3, START);
    raw_send_probe(&witness, 3, START);
    (void)raw_wait(&third, CONTROL_PROBE);
    set_list(4);
    raw_connect(&fourth, 4, START);
    raw_send_seen(&witness, 4, OTHER_START); /* Makes replica 1 ask replica 4. */
    (void)raw_fence(&witness);
    assert_int_equal(raw_wait(&fourth, CONTROL_PROBE).id, 4);
    raw_send_alive(&fourth, 4, START);
    (void)raw_fence(&fourth);
    assert_int_equal(raw_fence(&witness), 0);
}

/* ---- What others have said before. ---- */

/* Replica 2 has added replica 3 earlier, and is connected with another process of it. */
TEST(a_report_from_before_the_addition_counts, setup_slots, teardown_slots)
{
    set_list(0);
    raw_send_seen(&witness, 3, START);
    (void)raw_fence(&witness);
    set_list(3);
    raw_dial(&claimant, 3, OTHER_START);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, START);
    raw_send_alive(&witness, 3, START);
    assert_false(raw_is_let_in(&claimant));
    assert_int_equal(processes[ONE].ups[3], 0);
}

/* Others that look for rivals must not find those of a replica that is gone. */
TEST(a_removed_replica_is_no_longer_reported, setup_slots, teardown_slots)
{
    struct control control = {.seen_count = 0};

    raw_connect(&third, 3, START);
    while (control.seen_count != 2) {
        control = raw_wait(&witness, CONTROL_SEEN);
    }
    set_list(0);
    control = raw_wait(&witness, CONTROL_SEEN);
    assert_int_equal(control.seen_count, 1);
    assert_int_equal(control.seen[0].id, 2);
}

/* ---- Within the report of two processes. ---- */

static void remove_on_report(struct process *process)
{
    process->on_report = NULL;
    set_list(0);
}

TEST(a_removal_when_a_claim_is_refused, setup_slots, teardown_slots)
{
    begin_claim();
    processes[ONE].on_report = remove_on_report;
    raw_send_alive(&third, 3, START);
    assert_false(raw_is_let_in(&claimant));
    UNTIL(processes[ONE].downs[3] == 1);
    UNTIL(has_closed(&claimant) && has_closed(&third));
    assert_int_equal(processes[ONE].reports[3], 1);
}

TEST(a_removal_when_this_replica_has_the_younger_process, setup_slots, teardown_slots)
{
    raw_connect(&third, 3, OTHER_START);
    raw_send_seen(&witness, 3, START);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, START);
    processes[ONE].on_report = remove_on_report;
    raw_send_alive(&witness, 3, START);
    UNTIL(processes[ONE].downs[3] == 1);
    (void)raw_wait(&third, CONTROL_REFUSED);
    UNTIL(has_closed(&third));
    assert_int_equal(processes[ONE].reports[3], 1);
}

/* ---- Many. ---- */

/* All slots are taken again and again, each time by replicas with other ids. */
TEST(slots_are_used_again, setup_slots, teardown_slots)
{
    static struct tcp_peer peers[ZAB_MEMBERS_MAX];

    for (uint32_t first = 100; first < 1000; first += 50) {
        for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
            peers[i] = (struct tcp_peer){.id = first + i, .host = "127.0.0.1", .port = 1};
        }
        tcp_set_peers(processes[ONE].tcp, peers, ZAB_MEMBERS_MAX);
        turn(&processes[ONE]);
    }
    assert_int_equal(processes[ONE].downs[2], 1);
    set_list(3);
    raw_close(&witness);
    raw_connect(&witness, 2, 2);
    raw_connect(&third, 3, START);
    UNTIL(processes[ONE].ups[2] == 2 && processes[ONE].ups[3] == 1);
}
