/* Two processes with one id: which of them is it, asked on the connections that exist. */
#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum {
    PROCESSES = 4,
    IDS = 4,
    PROBE_MS = 400,
    RETRY_MAX_MS = 20,
    SLACK_MS = 20000 /* A machine may give a tenth of itself. */
};

/* The two that claim id 3 are slots 2 and 3. */
enum slot {
    ONE,
    TWO,
    OLD,
    NEW
};

struct process {
    struct loop loop;
    struct tcp *tcp; /* NULL: does not run. */
    uint32_t id;
    bool frozen; /* Its loop does not turn. */
    uint32_t ups[IDS];
    uint32_t downs[IDS];
    uint64_t heard; /* Messages. */
    uint32_t refusals;
    uint32_t told[IDS]; /* Of two processes of that id. */
    char why[256];
    char duplicate[256];
};

static struct process processes[PROCESSES];
static uint16_t ports[IDS];
static uint32_t ids[PROCESSES];
static bool listens[PROCESSES];
static uint16_t via[PROCESSES][IDS]; /* Where a process dials an id, if not at its port. */

static void on_up(void *ctx, uint32_t peer, uint64_t incarnation,
                  const uint8_t cluster[ZAB_CLUSTER_LEN], bool founding, const char *advertise)
{
    struct process *process = ctx;

    (void)incarnation;
    (void)cluster;
    (void)founding;
    (void)advertise;
    process->ups[peer]++;
}

static void on_down(void *ctx, uint32_t peer, const char *why)
{
    struct process *process = ctx;

    process->downs[peer]++;
    (void)snprintf(process->why, sizeof(process->why), "%s", why);
}

static void on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct process *process = ctx;

    (void)peer;
    process->refusals++;
    (void)snprintf(process->why, sizeof(process->why), "%s", why);
}

static void on_duplicate(void *ctx, uint32_t id, const char *text)
{
    struct process *process = ctx;

    process->told[id]++;
    (void)snprintf(process->duplicate, sizeof(process->duplicate), "%s", text);
}

static void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct process *process = ctx;

    (void)peer;
    (void)msg;
    process->heard++;
}

static void start_with(enum slot slot, uint64_t start, const char *secret)
{
    struct process *process = &processes[slot];
    struct tcp_peer peers[IDS] = {{.id = 0}};
    char advertise[32];
    uint32_t count = 0;

    *process = (struct process){.id = ids[slot]};
    for (uint32_t id = 1; id < IDS; id++) {
        if (id != process->id) {
            peers[count].id = id;
            peers[count].port = via[slot][id] ? via[slot][id] : ports[id];
            (void)snprintf(peers[count].host, sizeof(peers[count].host), "127.0.0.1");
            count++;
        }
    }
    (void)snprintf(advertise, sizeof(advertise), "process-%d:9998", (int)slot);

    struct tcp_options options = {.id = process->id,
                                  .listen_host = "127.0.0.1",
                                  .listen_port = listens[slot] ? ports[process->id] : 0,
                                  .peers = peers,
                                  .peer_count = count,
                                  .secret = slice_str(secret),
                                  .queue_bytes_max = 1 << 20,
                                  .connect_timeout_ms = 2000,
                                  .retry_min_ms = 5,
                                  .retry_max_ms = RETRY_MAX_MS,
                                  .start = start,
                                  .probe_ms = PROBE_MS,
                                  .incarnation = 100, /* A copied directory has the same one. */
                                  .cluster = {7},
                                  .advertise = advertise};
    struct tcp_handler handler = {.on_up = on_up,
                                  .on_down = on_down,
                                  .on_refused = on_refused,
                                  .on_duplicate = on_duplicate,
                                  .on_message = on_message,
                                  .ctx = process};

    loop_init(&process->loop);
    assert_int_equal(tcp_open(&process->loop, &options, &handler, &process->tcp), ERR_OK);
}

static void start(enum slot slot, uint64_t start)
{
    start_with(slot, start, "a secret of some length");
}

static void end(enum slot slot)
{
    if (processes[slot].tcp) {
        tcp_close(processes[slot].tcp);
        processes[slot].tcp = NULL;
        loop_release(&processes[slot].loop);
    }
}

static void turn(struct process *process)
{
    if (process->tcp && !process->frozen) {
        tcp_tick(process->tcp, os_now_ms());
        loop_run_once(&process->loop, 0);
        tcp_flush(process->tcp);
    }
}

/* ---- A way that can be opened later: from a port to another one. ---- */

static int way_listen_fd = -1;
static int way_fds[2] = {-1, -1};

static void way_open(uint16_t from)
{
    struct sockaddr_in addr = kit_loopback(from);

    way_listen_fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    assert_true(way_listen_fd >= 0);
}

static void way_hang_up(void)
{
    for (int i = 0; i < 2; i++) {
        if (way_fds[i] >= 0) {
            close(way_fds[i]);
        }
        way_fds[i] = -1;
    }
}

static void way_close(void)
{
    way_hang_up();
    if (way_listen_fd >= 0) {
        close(way_listen_fd);
    }
    way_listen_fd = -1;
}

static void way_turn(uint16_t to)
{
    struct sockaddr_in addr = kit_loopback(to);
    struct sockaddr_storage from;
    uint8_t bytes[4096];

    if (way_listen_fd < 0) {
        return;
    }
    if (way_fds[0] < 0) {
        way_fds[0] = loop_accept(way_listen_fd, &from);
        way_fds[1] = way_fds[0] >= 0 ? loop_connect((struct sockaddr *)&addr, sizeof(addr)) : -1;
    }
    for (int i = 0; i < 2 && way_fds[0] >= 0; i++) {
        ssize_t got = read(way_fds[i], bytes, sizeof(bytes));

        if (got == 0) {
            way_hang_up();
        } else if (got > 0) {
            assert_int_equal(write(way_fds[1 - i], bytes, (size_t)got), got);
        }
    }
}

static void turn_all(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        turn(&processes[i]);
    }
    way_turn(ports[1]);
    (void)poll(NULL, 0, 1);
}

static void look_again(uint64_t end_ms, const char *condition)
{
    if (os_now_ms() > end_ms) {
        fail_msg("not reached: %s", condition);
    }
    turn_all();
}

#define UNTIL(condition)                                                      \
    for (uint64_t until_end_ms = os_now_ms() + KIT_DEADLINE_MS; !(condition); \
         look_again(until_end_ms, #condition)) {                              \
    }

static void run_for(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        turn_all();
    }
}

static uint64_t duplicates(enum slot slot)
{
    struct tcp_figures figures;

    tcp_figures(processes[slot].tcp, &figures);
    return figures.duplicates;
}

static int setup(void **state)
{
    static const uint32_t usual[PROCESSES] = {1, 2, 3, 3};

    memset(via, 0, sizeof(via));
    memcpy(ids, usual, sizeof(ids));
    listens[ONE] = listens[TWO] = true;
    listens[OLD] = listens[NEW] = false;
    (void)state;
    for (uint32_t id = 1; id < IDS; id++) {
        ports[id] = port_free();
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PROCESSES; i++) {
        processes[i].frozen = false;
        end((enum slot)i);
    }
    way_close();
    return 0;
}

static void the_one_that_answers_keeps_its_place(void **state)
{
    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start(NEW, 5); /* Also when it began earlier: who is connected is asked. */
    UNTIL(duplicates(ONE) >= 5);
    assert_int_equal(processes[ONE].downs[3] + processes[OLD].downs[1], 0);
    assert_int_equal(processes[NEW].ups[1], 0);

    /* All three say so; the one that is refused is told why, once. */
    assert_string_equal(processes[ONE].duplicate,
                        "two processes claim id 3: 127.0.0.1 (clients: process-2:9998) and "
                        "127.0.0.1 (clients: process-3:9998)");
    assert_string_equal(processes[NEW].duplicate, processes[ONE].duplicate);
    assert_string_equal(processes[NEW].why, processes[ONE].duplicate);
    assert_int_equal(processes[NEW].refusals, 1);
    UNTIL(processes[OLD].told[3] > 0);
    assert_string_equal(processes[OLD].duplicate, "two processes claim id 3: this one and "
                                                  "127.0.0.1 (clients: process-3:9998)");
}

static void it_is_let_in_once_the_other_has_ended(void **state)
{
    uint64_t begin_ms = 0;

    (void)state;
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

/* As the half-open connection of a machine that was rebooted: all is taken, nothing comes back. */
static void one_that_does_not_answer_is_replaced(void **state)
{
    uint64_t begin_ms = 0;

    (void)state;
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

    /* When it wakes up it is the one that comes late. */
    processes[OLD].frozen = false;
    UNTIL(processes[OLD].refusals == 1);
    assert_non_null(strstr(processes[OLD].why, "two processes claim id 3"));
    assert_int_equal(processes[NEW].downs[1], 0);
}

/* On a slow link an answer stands behind much else. */
static void bytes_count_as_an_answer(void **state)
{
    struct zab_msg ping = {.type = ZAB_PING};

    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    processes[OLD].frozen = true; /* It reads nothing, and goes on sending. */
    start(NEW, 20);
    while (duplicates(ONE) < 2 && processes[NEW].ups[1] == 0) {
        tcp_send(processes[OLD].tcp, 1, &ping);
        tcp_flush(processes[OLD].tcp);
        turn_all();
    }
    assert_int_equal(processes[NEW].ups[1], 0);
    assert_int_equal(processes[ONE].downs[3], 0);
    UNTIL(processes[NEW].ups[1] == 1); /* Silence is none. */
}

static void the_same_process_takes_its_place_at_once(void **state)
{
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    for (uint32_t i = 2; i < 5; i++) {
        tcp_set_identity(processes[OLD].tcp, cluster, 0, false); /* Connects again. */
        UNTIL(processes[ONE].ups[3] == i && processes[OLD].ups[1] == i);
    }
    assert_int_equal(processes[ONE].told[3], 0);
    assert_int_equal(duplicates(ONE), 0);
}

/* Without the secret nothing is asked and nothing is said. */
static void a_stranger_causes_no_question(void **state)
{
    struct tcp_figures figures;

    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start_with(NEW, 20, "another secret of some length");
    do {
        turn_all();
        tcp_figures(processes[ONE].tcp, &figures);
    } while (figures.refused < 20);
    assert_int_equal(processes[OLD].told[3] + processes[ONE].told[3] + processes[ONE].downs[3], 0);
    assert_int_equal(figures.duplicates, 0);
}

/* The older process hears of it with each question. */
static void many_attempts_cost_one_question_in_its_time(void **state)
{
    uint64_t begin_ms = 0;
    uint64_t questions = 0;

    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    begin_ms = os_now_ms();
    start(NEW, 20);
    UNTIL(duplicates(ONE) >= 100);
    questions = (os_now_ms() - begin_ms) / PROBE_MS + 1;
    assert_in_range(processes[OLD].told[3], 1, questions);
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* This replica stood still while the answer came: it reads before it decides. */
static void a_pause_is_not_taken_for_silence(void **state)
{
    (void)state;
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[3] == 1 && processes[OLD].ups[1] == 1);
    start(NEW, 20);
    UNTIL(processes[OLD].told[3] > 0); /* It answers in the same turn. */
    processes[ONE].frozen = true;
    run_for(2 * PROBE_MS);
    processes[ONE].frozen = false;
    UNTIL(duplicates(ONE) > 0 || processes[ONE].downs[3] > 0);
    assert_int_equal(processes[ONE].downs[3], 0);
}

/* Its connection with replica 2 is broken; the other process tries to take its place there. */
static void one_that_is_connected_elsewhere_keeps_its_place(void **state)
{
    uint16_t nowhere = port_free();

    (void)state;
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

/* It is dead, and replica 1 has not noticed: nobody answers for it, so the new one is let in. */
static void one_that_is_dead_elsewhere_keeps_no_place(void **state)
{
    uint16_t nowhere = port_free();

    (void)state;
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

/* Both were let in while replicas 1 and 2 could not hear each other. Behind it the older process
 * has the place everywhere, and the younger one is told. */
static void a_partition_heals_in_favour_of_the_older_process(void **state)
{
    uint16_t nowhere = port_free();

    (void)state;
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
    assert_true(processes[TWO].told[3] > 0 && processes[NEW].told[3] > 0);
}

/* Replica 3 has dialed the old process of id 2, which stands still, and would not dial again. It
 * learns from replica 1 that another one has come, asks, and hangs up. */
static void the_other_replicas_look_after_their_connections(void **state)
{
    (void)state;
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
    assert_non_null(strstr(processes[TWO].why, "it does not answer, and another process"));
    assert_int_equal(processes[NEW].ups[1], 1);

    /* It wakes up, is found at its address, and is refused there as well. */
    processes[OLD].frozen = false;
    UNTIL(duplicates(TWO) >= 1 && processes[OLD].told[2] > 0);
    assert_int_equal(processes[TWO].ups[2], 1);
    assert_int_equal(processes[NEW].downs[1], 0);
}

/* Id 2 is claimed, and replica 3 finds the younger one at its address: it hangs up and says why. */
static void a_process_that_is_dialed_may_be_the_wrong_one(void **state)
{
    (void)state;
    ids[TWO] = 3;
    ids[OLD] = ids[NEW] = 2;
    listens[TWO] = false;
    listens[NEW] = true;
    via[NEW][1] = port_free(); /* Nobody is there. */
    start(ONE, 1);
    start(OLD, 10);
    UNTIL(processes[ONE].ups[2] == 1);
    start(TWO, 2);
    UNTIL(processes[ONE].ups[3] == 1);
    start(NEW, 20);
    UNTIL(duplicates(TWO) >= 2);
    UNTIL(processes[NEW].told[2] > 0);
    assert_non_null(strstr(processes[NEW].duplicate, "two processes claim id 2: "));
    assert_int_equal(processes[TWO].ups[2], 0);
    assert_int_equal(processes[ONE].downs[2], 0);
    end(OLD);
    UNTIL(processes[TWO].ups[2] == 1);
    assert_int_equal(processes[TWO].downs[2], 0);
}

/* Exactly so many bytes, read and returned while all turn. */
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

/* The HELLO of a process that has ended since comes late, and the end of its connection with it:
 * it asks for no place, and nothing is wrong. */
static void the_late_greeting_of_a_dead_process_is_no_claim(void **state)
{
    uint8_t bytes[4096];
    struct sockaddr_in addr = {0};
    struct sockaddr_storage from;
    ssize_t len = -1;

    (void)state;
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
    assert_int_equal(processes[ONE].told[3] + processes[OLD].told[3], 0);
    assert_int_equal(duplicates(ONE), 0);
    assert_int_equal(processes[ONE].downs[3] + processes[OLD].downs[1], 0);
}

/* A replica that stood still hears of the next process before it hears of the end of the one that
 * it knows, whose clock was ahead: one process, and nothing is wrong. */
static void one_that_wakes_up_late_alarms_no_process(void **state)
{
    (void)state;
    start(ONE, 1);
    start(TWO, 2);
    start(OLD, 20);
    UNTIL(processes[ONE].ups[3] == 1 && processes[TWO].ups[3] == 1 && processes[TWO].ups[1] == 1);
    processes[ONE].frozen = true;
    processes[OLD].frozen = true;
    start(NEW, 10);
    UNTIL(processes[TWO].ups[3] == 2 && processes[NEW].ups[2] == 1);
    run_for(PROBE_MS / 4); /* The first one has been told of it, and will read that. */
    end(OLD);
    processes[ONE].frozen = false;
    UNTIL(processes[NEW].ups[1] == 1);
    run_for(2 * PROBE_MS);
    assert_int_equal(processes[NEW].told[3], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_one_that_answers_keeps_its_place, setup, teardown),
        cmocka_unit_test_setup_teardown(it_is_let_in_once_the_other_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_does_not_answer_is_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(bytes_count_as_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(the_same_process_takes_its_place_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stranger_causes_no_question, setup, teardown),
        cmocka_unit_test_setup_teardown(many_attempts_cost_one_question_in_its_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_pause_is_not_taken_for_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_is_connected_elsewhere_keeps_its_place, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_is_dead_elsewhere_keeps_no_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_partition_heals_in_favour_of_the_older_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_other_replicas_look_after_their_connections, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(the_late_greeting_of_a_dead_process_is_no_claim, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(one_that_wakes_up_late_alarms_no_process, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_is_dialed_may_be_the_wrong_one, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
