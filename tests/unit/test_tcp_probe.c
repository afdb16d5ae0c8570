/* Probes of whether a process lives: which answers count, which replicas receive them, and when a
 * probe is repeated. Replica 1 is real, the test drives the others by hand. */
#include "tests/unit/tcp_raw_peer.h"

enum {
    OLD_START = 10,
    NEW_START = 20,
    REPEATS = 4,
    PATIENT_MS = 8000 /* For an answer that has to come in time, also on a slow machine. */
};

static struct raw_peer witness;  /* Replica 2. */
static struct raw_peer old;      /* The connected process of id 3. */
static struct raw_peer claimant; /* Another process of id 3. */
static struct raw_peer fourth;   /* Replica 4. */

static void setup_raw(void)
{
    witness.fd = old.fd = claimant.fd = fourth.fd = -1;
    setup();
    start(ONE, 1);
    raw_connect(&witness, 2, 2);
    raw_connect(&old, 3, OLD_START);
}

static void setup_patient(void)
{
    probe_ms = PATIENT_MS;
    setup_raw();
}

static void teardown_raw(void)
{
    probe_ms = PROBE_MS;
    raw_close(&witness);
    raw_close(&old);
    raw_close(&claimant);
    raw_close(&fourth);
    teardown();
}

/* ---- What counts as an answer. ---- */

/* The witness repeats, unasked, that a process lives; the process itself sends nothing. */
static bool is_let_in_beside(uint64_t start)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    raw_send_alive(&witness, 3, start);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    while (claimant.in_len == 0) {
        assert_true(os_now_ms() < end_ms);
        raw_send_alive(&witness, 3, start);
        run_for(PROBE_MS / 20);
        (void)raw_fill(&claimant);
    }
    return raw_is_let_in(&claimant);
}

TEST(an_answer_about_no_process_is_ignored, setup_raw, teardown_raw)
{
    assert_true(is_let_in_beside(0));
    assert_int_equal(processes[ONE].reports[3], 0);
}

/* The witness has not reported a connection with that process, so it is not asked. */
TEST(an_unrequested_answer_is_ignored, setup_raw, teardown_raw)
{
    assert_true(is_let_in_beside(OLD_START));
    assert_int_equal(processes[ONE].reports[3], 0);
}

/* It is asked afterwards, and does not answer. */
TEST(an_answer_before_its_probe_is_ignored, setup_raw, teardown_raw)
{
    raw_send_seen(&witness, 3, OLD_START);
    raw_send_alive(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    (void)raw_wait(&witness, CONTROL_PROBE);
    assert_true(raw_is_let_in(&claimant));
}

/* It was asked, and vouches for another process. */
TEST(an_answer_about_another_process_is_ignored, setup_raw, teardown_raw)
{
    raw_send_seen(&witness, 3, OLD_START);
    assert_true(is_let_in_beside(OLD_START + 1));
    assert_int_equal(processes[ONE].reports[3], 0);
}

TEST(an_answer_to_the_probe_counts, setup_patient, teardown_raw)
{
    struct control question;

    raw_send_seen(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    question = raw_wait(&witness, CONTROL_PROBE);
    assert_int_equal(question.id, 3);
    assert_int_equal(question.start, OLD_START);
    raw_send_alive(&witness, 3, OLD_START);
    assert_false(raw_is_let_in(&claimant));
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* The probe belonged to an earlier claim, which has ended; the next one gets no answer. */
TEST(a_late_answer_is_ignored, setup_raw, teardown_raw)
{
    raw_send_seen(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    (void)raw_wait(&witness, CONTROL_PROBE);
    raw_close(&claimant);
    run_for(PROBE_MS);
    raw_send_alive(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START + 1);
    assert_true(raw_is_let_in(&claimant));
}

/* The connection of the probe was lost: messages on the next connection do not answer it. */
TEST(an_answer_counts_only_on_the_connection_of_its_probe, setup_raw, teardown_raw)
{
    raw_send_seen(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    (void)raw_wait(&witness, CONTROL_PROBE);
    raw_close(&witness);
    UNTIL(processes[ONE].downs[2] == 1);
    raw_connect(&witness, 2, 2);
    raw_send_seen(&witness, 3, OLD_START);
    raw_send_alive(&witness, 3, OLD_START);
    assert_true(raw_is_let_in(&claimant));
}

/* A process that reports unasked that it lives may have sent the message long ago. */
TEST(a_process_is_probed_before_its_message_counts, setup_raw, teardown_raw)
{
    raw_send_alive(&old, 3, OLD_START);
    (void)raw_fence(&old);
    raw_dial(&claimant, 3, NEW_START);
    assert_true(raw_is_let_in(&claimant));
}

/* This replica was paused for longer than a claim waits, before it sent the probe. */
TEST(a_process_has_its_full_time_to_answer_after_a_pause, setup_raw, teardown_raw)
{
    raw_dial(&claimant, 3, NEW_START);
    run_for(PROBE_MS / 20); /* The claim has arrived. */
    (void)poll(NULL, 0, 2 * PROBE_MS);
    (void)raw_wait(&old, CONTROL_PROBE);
    raw_send_alive(&old, 3, OLD_START);
    assert_false(raw_is_let_in(&claimant));
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* ---- Which replicas receive an answer. ---- */

static void expect_vouched(struct raw_peer *asker, uint32_t id, uint64_t start)
{
    struct control answer = raw_wait(asker, CONTROL_ALIVE);

    assert_true(answer.yes);
    assert_int_equal(answer.id, id);
    assert_int_equal(answer.start, start);
}

/* Two probes of one replica: each has its own answer, in the order of the answers. */
TEST(probes_about_two_ids_get_an_answer_each, setup_patient, teardown_raw)
{
    raw_connect(&fourth, 4, NEW_START);
    raw_send_probe(&witness, 3, OLD_START);
    raw_send_probe(&witness, 4, NEW_START);
    assert_int_equal(raw_wait(&old, CONTROL_PROBE).id, 3);
    assert_int_equal(raw_wait(&fourth, CONTROL_PROBE).id, 4);
    assert_int_equal(raw_fence(&witness), 0);
    raw_send_alive(&fourth, 4, NEW_START);
    expect_vouched(&witness, 4, NEW_START);
    raw_send_alive(&old, 3, OLD_START);
    expect_vouched(&witness, 3, OLD_START);

    /* Each once, and not to a replica that did not ask. */
    raw_send_alive(&old, 3, OLD_START);
    raw_send_alive(&fourth, 4, NEW_START);
    assert_int_equal(raw_fence(&old) + raw_fence(&fourth), 0);
    assert_int_equal(raw_fence(&witness), 0);
}

/* Two replicas ask about one process: it is probed once, and both receive the answer. */
TEST(all_replicas_that_asked_receive_the_answer, setup_patient, teardown_raw)
{
    struct control control;

    raw_connect(&fourth, 4, NEW_START);
    raw_send_probe(&witness, 3, OLD_START);
    raw_send_probe(&fourth, 3, OLD_START);
    assert_int_equal(raw_fence(&witness) + raw_fence(&fourth), 0);
    assert_int_equal(raw_wait(&old, CONTROL_PROBE).id, 3);
    raw_send_alive(&old, 3, OLD_START);
    expect_vouched(&witness, 3, OLD_START);
    expect_vouched(&fourth, 3, OLD_START);
    while (raw_next(&old, &control)) {
        assert_int_not_equal(control.type, CONTROL_PROBE);
    }
}

TEST(a_probe_ends_with_its_connection, setup_patient, teardown_raw)
{
    raw_send_probe(&witness, 3, OLD_START);
    (void)raw_wait(&old, CONTROL_PROBE);
    raw_close(&witness);
    UNTIL(processes[ONE].downs[2] == 1);
    raw_connect(&witness, 2, 2);
    raw_send_alive(&old, 3, OLD_START);
    (void)raw_fence(&old);
    assert_int_equal(raw_fence(&witness), 0);
}

/* The answer to the next probe does not answer this one. */
TEST(a_probe_without_an_answer_times_out, setup_raw, teardown_raw)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;

    raw_connect(&fourth, 4, NEW_START);
    raw_send_probe(&witness, 3, OLD_START);
    (void)raw_wait(&old, CONTROL_PROBE); /* No answer. */
    do {
        run_for(PROBE_MS);
        assert_true(os_now_ms() < end_ms);
        raw_send_probe(&fourth, 3, OLD_START);
        (void)raw_wait(&old, CONTROL_PROBE);
        raw_send_alive(&old, 3, OLD_START);
        (void)raw_fence(&old);
    } while (raw_fence(&fourth) == 0); /* A slow machine may be too late with the answer. */
    assert_int_equal(raw_fence(&witness), 0);
}

TEST(no_answer_vouches_for_a_process_that_is_not_connected, setup_raw, teardown_raw)
{
    raw_send_probe(&witness, 3, OLD_START + 1);
    raw_send_probe(&witness, 4, NEW_START);
    assert_false(raw_wait(&witness, CONTROL_ALIVE).yes);
    assert_false(raw_wait(&witness, CONTROL_ALIVE).yes);
    assert_int_equal(processes[ONE].reports[3], 0);
}

/* ---- Repeated probes. ---- */

/* Another replica is connected with an older process; the probe about it is lost, twice. */
TEST(a_lost_probe_about_an_older_process_is_repeated, setup_raw, teardown_raw)
{
    uint64_t begin_ms = os_now_ms();
    struct control control;

    raw_send_seen(&witness, 3, OLD_START - 1);
    for (uint32_t i = 0; i < REPEATS; i++) {
        assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, OLD_START - 1);
    }
    assert_true(os_now_ms() - begin_ms >= (uint64_t)(REPEATS - 1) * PROBE_MS);
    assert_int_equal(processes[ONE].downs[3], 0);
    while (processes[ONE].downs[3] == 0) {
        raw_send_alive(&witness, 3, OLD_START - 1);
        (void)raw_fence(&witness);
        run_for(PROBE_MS / 20);
        assert_true(os_now_ms() - begin_ms < KIT_DEADLINE_MS);
    }
    control = raw_wait(&old, CONTROL_REFUSED);
    assert_non_null(strstr(control.text, "two processes claim id 3"));
}

/* A probe was in progress when the claim came: its answer may be too late for the claim that began
 * it, and still in time for the new one. The replica that asked before still receives it. */
TEST(a_claim_does_not_rely_on_an_older_probe, setup_patient, teardown_raw)
{
    raw_send_probe(&witness, 3, OLD_START);
    (void)raw_wait(&old, CONTROL_PROBE); /* No answer yet. */
    run_for(PATIENT_MS / 20);
    raw_dial(&claimant, 3, NEW_START);
    (void)raw_wait(&old, CONTROL_PROBE);
    raw_send_alive(&old, 3, OLD_START);
    assert_false(raw_is_let_in(&claimant));
    assert_int_equal(processes[ONE].downs[3], 0);
    expect_vouched(&witness, 3, OLD_START);
}

/* It may have to decide a claim as well. */
TEST(a_replica_that_asks_later_gets_its_own_probe, setup_patient, teardown_raw)
{
    raw_connect(&fourth, 4, NEW_START);
    raw_send_probe(&witness, 3, OLD_START);
    (void)raw_wait(&old, CONTROL_PROBE); /* No answer yet. */
    run_for(PATIENT_MS / 4);
    raw_send_probe(&fourth, 3, OLD_START);
    (void)raw_wait(&old, CONTROL_PROBE);
    raw_send_alive(&old, 3, OLD_START);
    expect_vouched(&witness, 3, OLD_START);
    expect_vouched(&fourth, 3, OLD_START);
}

/* No answer came for the older process in time, so the younger one was accepted. */
TEST(a_process_accepted_without_an_answer_is_checked_again, setup_raw, teardown_raw)
{
    raw_close(&old);
    UNTIL(processes[ONE].downs[3] == 1);
    raw_send_seen(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    raw_dial(&claimant, 3, NEW_START);
    (void)raw_wait(&witness, CONTROL_PROBE);
    assert_true(raw_is_let_in(&claimant));
    UNTIL(processes[ONE].ups[3] == 2);
    while (processes[ONE].downs[3] == 1) {
        assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, OLD_START);
        raw_send_alive(&witness, 3, OLD_START);
        (void)raw_fence(&witness);
        run_for(PROBE_MS / 20);
    }
    (void)raw_wait(&claimant, CONTROL_REFUSED);
}

/* Another replica is connected with a younger process: the older one is probed as long as that
 * lasts. */
TEST(an_older_process_is_probed_while_a_younger_one_is_connected_elsewhere, setup_raw, teardown_raw)
{
    uint64_t begin_ms = os_now_ms();

    raw_send_seen(&witness, 3, NEW_START);
    for (uint32_t i = 0; i < REPEATS; i++) {
        assert_int_equal(raw_wait(&old, CONTROL_PROBE).start, OLD_START);
        raw_send_alive(&old, 3, OLD_START);
    }
    assert_true(os_now_ms() - begin_ms >= (uint64_t)(REPEATS - 1) * PROBE_MS);
    assert_int_equal(processes[ONE].downs[3], 0);
    UNTIL(processes[ONE].downs[3] == 1); /* It does not answer any more. */
}

/* No probe is sent once both are connected with the same process. */
TEST(no_probe_is_sent_when_all_agree, setup_raw, teardown_raw)
{
    struct control control;

    raw_send_seen(&witness, 3, NEW_START);
    (void)raw_wait(&old, CONTROL_PROBE);
    raw_send_alive(&old, 3, OLD_START);
    raw_send_seen(&witness, 3, OLD_START);
    (void)raw_fence(&witness);
    (void)raw_fence(&old);
    while (raw_next(&old, &control) || raw_next(&witness, &control)) {
    }
    run_for(3 * PROBE_MS);
    while (raw_next(&old, &control) || raw_next(&witness, &control)) {
        assert_int_not_equal(control.type, CONTROL_PROBE);
    }
    assert_int_equal(processes[ONE].downs[3] + processes[ONE].reports[3], 0);
}

/* A replica that has not answered reports another process meanwhile: it is probed about that one as
 * well. */
TEST(a_probe_about_another_process_is_a_separate_probe, setup_patient, teardown_raw)
{
    raw_send_seen(&witness, 3, OLD_START - 1);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, OLD_START - 1);
    raw_send_seen(&witness, 3, OLD_START - 2);
    assert_int_equal(raw_wait(&witness, CONTROL_PROBE).start, OLD_START - 2);
    raw_send_alive(&witness, 3,
                   OLD_START - 1); /* Too late: the witness has reported a newer one. */
    (void)raw_fence(&witness);
    assert_int_equal(processes[ONE].downs[3], 0);
    raw_send_alive(&witness, 3, OLD_START - 2);
    UNTIL(processes[ONE].downs[3] == 1);
}
