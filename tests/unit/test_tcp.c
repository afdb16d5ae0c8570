/* The transport: two replicas on two loops over loopback, with and without somebody between them
 * who delays, damages or stops their bytes. */
#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/wire.h"
#include "tests/lib/unit.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"
#include "zab/tcp/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    DEADLINE_MS = 10000,
    SEND_ALL = 1000000,
    RELAY_BYTES = 65536
};

struct node {
    struct loop loop;
    struct tcp *tcp;
    uint32_t ups;
    uint32_t downs;
    uint32_t refusals;
    uint32_t peer; /* Of the last on_up. */
    struct hello hello;
    char why[256];
    uint64_t messages;
    uint64_t bytes;
    uint64_t next_round;    /* Messages must arrive in order. */
    uint32_t echo;          /* Answers each message to this peer. */
    uint32_t disconnect_on; /* Ends the connection within the callback of this message. */
};

static void on_up(void *ctx, uint32_t peer, uint64_t incarnation,
                  const uint8_t cluster[ZAB_CLUSTER_LEN], bool founding, const char *advertise)
{
    struct node *node = ctx;

    node->ups++;
    node->next_round = 0;
    node->peer = peer;
    node->hello.incarnation = incarnation;
    node->hello.founding = founding;
    memcpy(node->hello.cluster, cluster, ZAB_CLUSTER_LEN);
    (void)snprintf(node->hello.advertise, sizeof(node->hello.advertise), "%s", advertise);
}

static void on_down(void *ctx, uint32_t peer, const char *why)
{
    struct node *node = ctx;

    (void)peer;
    node->downs++;
    (void)snprintf(node->why, sizeof(node->why), "%s", why);
}

static void on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct node *node = ctx;

    (void)peer;
    node->refusals++;
    (void)snprintf(node->why, sizeof(node->why), "%s", why);
}

static void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct node *node = ctx;
    struct zab_msg reply = {.type = ZAB_PONG, .round = msg->round};

    assert_int_equal(msg->round, node->next_round);
    node->next_round++;
    node->messages++;
    node->bytes += msg->bytes.len;
    if (node->echo == peer) {
        tcp_send(node->tcp, peer, &reply);
    }
    if (node->disconnect_on && node->messages == node->disconnect_on) {
        tcp_disconnect(node->tcp, peer);
        tcp_flush(node->tcp);
    }
}

/* A port that was free a moment ago, below those that the kernel hands out by itself. */
static uint16_t free_port(void)
{
    static uint16_t next;

    if (next == 0) {
        next = (uint16_t)(20000 + getpid() % 10000);
    }
    for (;;) {
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(next)};

        addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

        int fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 1);

        next++;
        if (fd >= 0) {
            close(fd);
            return (uint16_t)(next - 1);
        }
    }
}

struct setup {
    uint16_t port[3]; /* Of replicas 1 and 2. */
    uint16_t via;     /* Where 2 dials 1, when not directly. */
    const char *host;
    const char *secret[3];
    uint8_t cluster[3];
    uint64_t queue_bytes_max;
    uint32_t claims; /* Id that node 2 takes instead. */
};

static struct node nodes[3];

static void start(const struct setup *setup, uint32_t id)
{
    struct node *node = &nodes[id];
    uint32_t other = 3 - id;
    struct tcp_peer peer = {.id = other, .port = setup->port[other]};
    char advertise[32];
    const char *secret = setup->secret[id] ? setup->secret[id] : "";
    struct tcp_options options = {.id = id == 2 && setup->claims ? setup->claims : id,
                                  .listen_host = setup->host ? setup->host : "127.0.0.1",
                                  .listen_port = setup->port[id],
                                  .peers = &peer,
                                  .peer_count = 1,
                                  .secret = slice_str(secret),
                                  .queue_bytes_max =
                                      setup->queue_bytes_max ? setup->queue_bytes_max : 1 << 20,
                                  .connect_timeout_ms = 2000,
                                  .retry_min_ms = 5,
                                  .retry_max_ms = 40,
                                  .incarnation = 100 + id,
                                  .cluster = {setup->cluster[id]},
                                  .founding = id == 2,
                                  .advertise = advertise};
    struct tcp_handler handler = {.on_up = on_up,
                                  .on_down = on_down,
                                  .on_refused = on_refused,
                                  .on_message = on_message,
                                  .ctx = node};

    (void)snprintf(peer.host, sizeof(peer.host), "%s", options.listen_host);
    (void)snprintf(advertise, sizeof(advertise), "replica-%u:9998", id);
    if (id == 2 && setup->via) {
        peer.port = setup->via;
    }
    *node = (struct node){.ups = 0};
    assert_int_equal(loop_init(&node->loop), ERR_OK);
    assert_int_equal(tcp_open(&node->loop, &options, &handler, &node->tcp), ERR_OK);
}

static void stop(uint32_t id)
{
    tcp_close(nodes[id].tcp);
    nodes[id].tcp = NULL;
    loop_release(&nodes[id].loop);
}

/* One turn of a replica's core thread. */
static void turn(uint32_t id, int timeout_ms)
{
    struct node *node = &nodes[id];

    if (node->tcp) {
        tcp_tick(node->tcp, os_now_ms());
        loop_run_once(&node->loop, timeout_ms);
        tcp_flush(node->tcp);
    }
}

/* ---- Somebody between the two. ---- */

struct relay {
    int listen_fd;
    int in_fd;       /* From replica 2. */
    int out_fd;      /* To replica 1. */
    size_t step;     /* Bytes at a time. */
    uint64_t passed; /* From 2 to 1. */
    uint64_t flip;   /* Offset of the byte to damage; UINT64_MAX: none. */
    bool stopped;
};

static struct relay relay;

static struct sockaddr_in loopback(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

static void relay_open(struct setup *setup, size_t step, uint64_t flip)
{
    setup->via = free_port();

    struct sockaddr_in addr = loopback(setup->via);

    relay = (struct relay){.in_fd = -1, .out_fd = -1, .step = step, .flip = flip};
    relay.listen_fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    assert_true(relay.listen_fd >= 0);
}

static void relay_hang_up(void)
{
    if (relay.in_fd >= 0) {
        close(relay.in_fd);
        close(relay.out_fd);
    }
    relay.in_fd = -1;
    relay.out_fd = -1;
}

/* Moves some bytes; false when that direction has ended. */
static bool relay_move(int from, int to, bool damage)
{
    uint8_t bytes[RELAY_BYTES];
    ssize_t got = read(from, bytes, relay.step);

    if (got < 0 && errno == EAGAIN) {
        return true;
    }
    if (got <= 0) {
        return false;
    }
    if (damage) {
        if (relay.flip >= relay.passed && relay.flip < relay.passed + (uint64_t)got) {
            bytes[relay.flip - relay.passed] ^= 0x10;
        }
        relay.passed += (uint64_t)got;
    }
    for (ssize_t done = 0; done < got;) {
        ssize_t put = send(to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL);

        if (put < 0 && errno != EAGAIN) {
            return false;
        }
        done += put > 0 ? put : 0;
        if (put < 0) {
            turn(1, 0);
            turn(2, 0);
        }
    }
    return true;
}

static void relay_turn(const struct setup *setup)
{
    if (relay.in_fd < 0) {
        struct sockaddr_storage from;
        struct sockaddr_in addr = loopback(setup->port[1]);

        relay.in_fd = loop_accept(relay.listen_fd, &from);
        if (relay.in_fd < 0) {
            relay.in_fd = -1;
            return;
        }
        relay.out_fd = loop_connect((struct sockaddr *)&addr, sizeof(addr));
        assert_true(relay.out_fd >= 0);
    }
    if (!relay.stopped && (!relay_move(relay.in_fd, relay.out_fd, true) ||
                           !relay_move(relay.out_fd, relay.in_fd, false))) {
        relay_hang_up();
    }
}

static void relay_close(void)
{
    relay_hang_up();
    close(relay.listen_fd);
    relay.listen_fd = -1;
}

#define RUN_UNTIL(setup, condition)                      \
    do {                                                 \
        uint64_t end_ms = os_now_ms() + DEADLINE_MS;     \
        while (!(condition)) {                           \
            if (os_now_ms() > end_ms) {                  \
                fail_msg("not reached: %s", #condition); \
            }                                            \
            run(setup);                                  \
        }                                                \
    } while (0)

static void run(const struct setup *setup)
{
    turn(1, 1);
    turn(2, 0);
    if (setup->via) {
        relay_turn(setup);
    }
}

static struct setup make_setup(void)
{
    return (struct setup){.port = {0, free_port(), free_port()}, .cluster = {0, 7, 7}};
}

static void connect_both(const struct setup *setup)
{
    start(setup, 1);
    start(setup, 2);
    RUN_UNTIL(setup, nodes[1].ups == 1 && nodes[2].ups == 1);
}

static void stop_both(void)
{
    stop(1);
    stop(2);
}

/* ---- Tests. ---- */

static void test_handshake(void **state)
{
    struct setup setup = make_setup();
    struct tcp_figures figures;

    (void)state;
    setup.secret[1] = setup.secret[2] = "a secret of some length";
    connect_both(&setup);
    assert_int_equal(nodes[1].peer, 2);
    assert_int_equal(nodes[1].hello.incarnation, 102);
    assert_true(nodes[1].hello.founding);
    assert_int_equal(nodes[1].hello.cluster[0], 7);
    assert_string_equal(nodes[1].hello.advertise, "replica-2:9998");
    assert_string_equal(nodes[2].hello.advertise, "replica-1:9998");
    assert_false(nodes[2].hello.founding);
    tcp_figures(nodes[1].tcp, &figures);
    assert_int_equal(figures.connected, 1);
    assert_int_equal(figures.refused, 0);
    stop_both();
}

static void test_names_are_resolved(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    setup.host = "localhost";
    connect_both(&setup);
    stop_both();
}

static void test_port_in_use(void **state)
{
    struct setup setup = make_setup();
    struct tcp_options options = {.id = 3,
                                  .listen_host = "127.0.0.1",
                                  .listen_port = setup.port[1],
                                  .retry_min_ms = 1,
                                  .retry_max_ms = 1};
    struct tcp_handler handler = {.on_up = on_up, .on_down = on_down, .on_message = on_message};
    struct tcp *tcp = NULL;

    (void)state;
    start(&setup, 1);
    assert_int_equal(tcp_open(&nodes[1].loop, &options, &handler, &tcp), ERR_BUSY);
    options.listen_host = "192.0.2.1";
    options.listen_port = setup.port[2];
    assert_int_equal(tcp_open(&nodes[1].loop, &options, &handler, &tcp), ERR_CONFIG);
    assert_null(tcp);
    stop(1);
}

static void test_wrong_secret(void **state)
{
    struct setup setup = make_setup();
    struct tcp_figures figures = {.refused = 0};

    (void)state;
    setup.secret[1] = "a secret of some length";
    setup.secret[2] = "a Secret of some length";
    start(&setup, 1);
    start(&setup, 2);
    while (figures.refused < 3) { /* Many attempts, one report. */
        RUN_UNTIL(&setup, nodes[1].refusals > 0);
        run(&setup);
        tcp_figures(nodes[1].tcp, &figures);
    }
    assert_int_equal(nodes[1].refusals, 1);
    assert_non_null(strstr(nodes[1].why, "peerSecretFile"));
    assert_int_equal(nodes[1].ups + nodes[2].ups + nodes[1].downs + nodes[2].downs, 0);
    stop_both();
}

static void test_foreign_cluster(void **state)
{
    struct setup setup = make_setup();
    uint8_t cluster[ZAB_CLUSTER_LEN] = {7};

    (void)state;
    setup.cluster[2] = 8;
    start(&setup, 1);
    start(&setup, 2);
    RUN_UNTIL(&setup, nodes[1].refusals == 1);
    assert_non_null(strstr(nodes[1].why, "another cluster"));
    assert_int_equal(nodes[1].ups, 0);
    tcp_set_identity(nodes[2].tcp, cluster, false);
    RUN_UNTIL(&setup, nodes[1].ups == 1 && nodes[2].ups == 1);
    stop_both();
}

static void test_unknown_id(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    setup.claims = 9;
    start(&setup, 1);
    start(&setup, 2);
    RUN_UNTIL(&setup, nodes[1].refusals == 1);
    assert_non_null(strstr(nodes[1].why, "replica 9 is not in the server list"));
    stop_both();
}

static void test_new_identity_reconnects(void **state)
{
    struct setup setup = make_setup();
    uint8_t cluster[ZAB_CLUSTER_LEN] = {9};

    (void)state;
    setup.cluster[1] = setup.cluster[2] = 0;
    connect_both(&setup);
    tcp_set_identity(nodes[1].tcp, cluster, false);
    assert_int_equal(nodes[1].downs, 0); /* Told by the flush, not from within. */
    RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 2);
    assert_int_equal(nodes[1].downs, 1);
    assert_int_equal(nodes[2].downs, 1);
    assert_int_equal(nodes[2].hello.cluster[0], 9);
    stop_both();
}

static void send_round(uint32_t from, uint64_t round)
{
    struct zab_msg msg = {.type = ZAB_PING, .round = round, .epoch = 3};

    tcp_send(nodes[from].tcp, 3 - from, &msg);
}

static void test_both_directions(void **state)
{
    struct setup setup = make_setup();
    const uint64_t count = 20000;

    (void)state;
    setup.queue_bytes_max = 64 << 20;
    connect_both(&setup);
    for (uint64_t i = 0; i < count; i++) {
        send_round(1, i);
        send_round(2, i);
    }
    RUN_UNTIL(&setup, nodes[1].messages == count && nodes[2].messages == count);
    nodes[1].next_round = nodes[2].next_round = 0;
    nodes[1].echo = 2;
    for (uint64_t i = 0; i < count; i++) {
        send_round(2, i);
    }
    RUN_UNTIL(&setup, nodes[2].messages == 2 * count);
    assert_int_equal(nodes[1].downs + nodes[2].downs, 0);
    stop_both();
}

static void send_forward(uint32_t from, uint64_t round, size_t len)
{
    uint8_t *bytes = mem_zalloc(len, 1);
    struct zab_msg msg = {.type = ZAB_FORWARD, .round = round, .bytes = slice_make(bytes, len)};

    tcp_send(nodes[from].tcp, 3 - from, &msg);
    mem_free(bytes);
}

static void test_long_frames(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    setup.queue_bytes_max = 64 << 20;
    connect_both(&setup);
    for (uint64_t round = 0; round < 6; round += 2) {
        send_forward(2, round, ZAB_FORWARD_BYTES_MAX);
        send_round(2, round + 1);
        RUN_UNTIL(&setup, nodes[1].messages == round + 2);
    }
    assert_int_equal(nodes[1].bytes, 3ULL * ZAB_FORWARD_BYTES_MAX);
    assert_int_equal(nodes[1].downs, 0);
    stop_both();
}

static void test_one_byte_at_a_time(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    setup.secret[1] = setup.secret[2] = "a secret of some length";
    relay_open(&setup, 1, UINT64_MAX);
    connect_both(&setup);
    nodes[1].echo = 2;
    for (uint64_t i = 0; i < 5; i++) {
        send_round(2, i);
    }
    RUN_UNTIL(&setup, nodes[2].messages == 5);
    relay_close();
    stop_both();
}

/* Whatever byte is damaged, in the handshake or after it: no message of the damaged connection is
 * delivered from there on, and the next connection works. */
static void test_each_byte_damaged(void **state)
{
    const uint64_t handshake = GREETING_LEN + HELLO_LEN_LEN + 43 + CRYPTO_SHA256_LEN;
    const uint64_t total = handshake + FRAME_HEADER_LEN + 24;

    (void)state;
    for (uint64_t flip = 0; flip < total; flip += 3) {
        struct setup setup = make_setup();

        relay_open(&setup, RELAY_BYTES, flip);
        start(&setup, 1);
        start(&setup, 2);
        RUN_UNTIL(&setup, relay.passed > flip || (nodes[1].ups && nodes[2].ups));
        if (relay.passed <= flip) {
            send_round(2, 0);
            RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 2);
            assert_int_equal(nodes[1].messages, 0);
        } else {
            RUN_UNTIL(&setup, nodes[1].ups == 1 && nodes[2].ups == 1);
            assert_int_equal(nodes[1].downs, 0);
        }
        send_round(2, 0);
        RUN_UNTIL(&setup, nodes[1].messages == 1);
        relay_close();
        stop_both();
    }
}

static void test_back_pressure(void **state)
{
    struct setup setup = make_setup();
    struct tcp_figures figures;
    uint64_t sent = 0;

    (void)state;
    setup.queue_bytes_max = 1 << 20;
    relay_open(&setup, RELAY_BYTES, UINT64_MAX);
    connect_both(&setup);
    relay.stopped = true;
    while (nodes[1].downs == 0) {
        assert_true(sent < SEND_ALL);
        send_forward(1, sent++, 16 << 10);
        tcp_figures(nodes[1].tcp, &figures);
        assert_true(figures.queued <= setup.queue_bytes_max + (32 << 10));
        turn(1, 0);
    }
    assert_non_null(strstr(nodes[1].why, "does not read"));
    relay.stopped = false;
    RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 2);
    send_round(1, 0);
    nodes[2].next_round = 0;
    nodes[2].messages = 0;
    RUN_UNTIL(&setup, nodes[2].messages == 1);
    relay_close();
    stop_both();
}

static void test_disconnect_within_callback(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    connect_both(&setup);
    nodes[1].disconnect_on = 2;
    for (uint64_t i = 0; i < 10; i++) {
        send_round(2, i);
    }
    RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 2);
    assert_int_equal(nodes[1].messages, 2);
    assert_int_equal(nodes[1].downs, 1);
    assert_int_equal(nodes[2].downs, 1);
    stop_both();
}

static void test_dead_peer_is_noticed_and_found_again(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    connect_both(&setup);
    stop(1);
    RUN_UNTIL(&setup, nodes[2].downs == 1);
    start(&setup, 1);
    RUN_UNTIL(&setup, nodes[1].ups == 1 && nodes[2].ups == 2);
    stop(2);
    RUN_UNTIL(&setup, nodes[1].downs == 1);
    start(&setup, 2);
    RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 1);
    stop_both();
}

/* A replica that comes back before its old connection was found dead. */
static void test_newest_connection_wins(void **state)
{
    struct setup setup = make_setup();

    (void)state;
    relay_open(&setup, RELAY_BYTES, UINT64_MAX);
    connect_both(&setup);
    relay.stopped = true; /* The old connection stays open and silent. */
    stop(2);

    int old_in = relay.in_fd;
    int old_out = relay.out_fd;

    relay.in_fd = -1;
    relay.stopped = false;
    start(&setup, 2);
    RUN_UNTIL(&setup, nodes[1].ups == 2 && nodes[2].ups == 1);
    assert_int_equal(nodes[1].downs, 1);
    assert_non_null(strstr(nodes[1].why, "newer"));
    close(old_in);
    close(old_out);
    run(&setup);
    send_round(2, 0);
    RUN_UNTIL(&setup, nodes[1].messages == 1);
    assert_int_equal(nodes[1].downs, 1);
    relay_close();
    stop_both();
}

/* ---- A client of its own that speaks by hand. ---- */

static int dial_raw(const struct setup *setup)
{
    struct sockaddr_in addr = loopback(setup->port[1]);
    int fd = loop_connect((struct sockaddr *)&addr, sizeof(addr));

    assert_true(fd >= 0);
    RUN_UNTIL(setup, loop_connect_result(fd) == 0);
    return fd;
}

static void read_raw(const struct setup *setup, int fd, uint8_t *to, size_t len)
{
    size_t got = 0;

    while (got < len) {
        ssize_t some = 0;

        RUN_UNTIL(setup, (some = read(fd, to + got, len - got)) >= 0);
        assert_true(some > 0);
        got += (size_t)some;
    }
}

static bool ended(int fd)
{
    uint8_t byte;
    ssize_t got = read(fd, &byte, 1);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

static void test_garbage(void **state)
{
    struct setup setup = make_setup();
    uint8_t garbage[GREETING_LEN * 2];
    int silent = -1;

    (void)state;
    memset(garbage, 'G', sizeof(garbage));
    start(&setup, 1);

    int fd = dial_raw(&setup);

    assert_int_equal(write(fd, garbage, sizeof(garbage)), sizeof(garbage));
    RUN_UNTIL(&setup, ended(fd));
    close(fd);
    assert_int_equal(nodes[1].refusals, 1);
    silent = dial_raw(&setup); /* Says nothing and is dropped in time. */
    RUN_UNTIL(&setup, ended(silent));
    close(silent);
    start(&setup, 2);
    RUN_UNTIL(&setup, nodes[1].ups == 1);
    stop_both();
}

/* Becomes replica 2 by hand and returns the connection's nonce. */
static uint64_t shake_raw(const struct setup *setup, int fd)
{
    struct greeting greeting = {.version = 1, .from = 2, .to = 1};
    struct hello hello = {.incarnation = 5, .cluster = {7}};
    struct hello_transcript transcript;
    struct slice none = slice_make(NULL, 0);
    uint8_t answer[HELLO_WIRE_MAX];
    struct buf out;

    greeting_encode(&greeting, transcript.dialer);
    assert_int_equal(write(fd, transcript.dialer, GREETING_LEN), GREETING_LEN);
    read_raw(setup, fd, transcript.acceptor, GREETING_LEN);
    buf_init(&out, HELLO_WIRE_MAX);
    hello_encode(&hello, &transcript, none, true, &out);
    assert_int_equal(write(fd, out.data, out.len), (ssize_t)out.len);
    buf_release(&out);

    size_t len = HELLO_LEN_LEN;

    read_raw(setup, fd, answer, len);
    len += wire_load_u32(answer) + CRYPTO_SHA256_LEN;
    read_raw(setup, fd, answer + HELLO_LEN_LEN, len - HELLO_LEN_LEN);
    assert_int_equal(hello_decode(slice_make(answer, len), &transcript, none, false, &hello, &len),
                     ERR_OK);
    assert_int_equal(hello.incarnation, 101);
    return hello_connection_nonce(&transcript, none);
}

/* Sends one header and expects the connection to end for that reason. */
static void expect_drop(const struct frame_header *change, const char *why)
{
    struct setup setup = make_setup();
    uint8_t bytes[FRAME_HEADER_LEN];

    start(&setup, 1);

    int fd = dial_raw(&setup);
    struct frame_header header = *change;

    header.nonce += shake_raw(&setup, fd);
    RUN_UNTIL(&setup, nodes[1].ups == 1);
    frame_encode(&header, 0, bytes);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    RUN_UNTIL(&setup, nodes[1].downs == 1);
    if (!strstr(nodes[1].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", nodes[1].why, why);
    }
    RUN_UNTIL(&setup, ended(fd));
    close(fd);
    stop(1);
}

static void test_bad_frames(void **state)
{
    struct frame_header good = {.type = ZAB_PING, .from = 2, .to = 1, .cluster = {7}};
    struct frame_header bad = good;

    (void)state;
    expect_drop(&good, "malformed"); /* An empty PING lacks its fields. */
    bad.len = (uint32_t)zab_msg_size_max(ZAB_PING) + 1;
    expect_drop(&bad, "too long");
    bad = good;
    bad.len = UINT32_MAX;
    expect_drop(&bad, "too long");
    bad = good;
    bad.type = 999;
    expect_drop(&bad, "unknown type");
    bad = good;
    bad.from = 3;
    expect_drop(&bad, "another connection");
    bad = good;
    bad.nonce = 1;
    expect_drop(&bad, "another connection");
    bad = good;
    bad.cluster[3] = 1;
    expect_drop(&bad, "another cluster");
    bad = good;
    bad.payload_crc = 1;
    expect_drop(&bad, "damaged frame");
}

static void test_hello_too_long(void **state)
{
    struct setup setup = make_setup();
    struct greeting greeting = {.version = 1, .from = 2, .to = 1};
    uint8_t bytes[GREETING_LEN + HELLO_LEN_LEN];

    (void)state;
    start(&setup, 1);

    int fd = dial_raw(&setup);

    greeting_encode(&greeting, bytes);
    wire_store_u32(bytes + GREETING_LEN, UINT32_MAX);
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    RUN_UNTIL(&setup, nodes[1].refusals == 1);
    assert_non_null(strstr(nodes[1].why, "malformed"));
    close(fd);
    stop(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_names_are_resolved),
        cmocka_unit_test(test_port_in_use),
        cmocka_unit_test(test_wrong_secret),
        cmocka_unit_test(test_foreign_cluster),
        cmocka_unit_test(test_unknown_id),
        cmocka_unit_test(test_new_identity_reconnects),
        cmocka_unit_test(test_both_directions),
        cmocka_unit_test(test_long_frames),
        cmocka_unit_test(test_one_byte_at_a_time),
        cmocka_unit_test(test_each_byte_damaged),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_disconnect_within_callback),
        cmocka_unit_test(test_dead_peer_is_noticed_and_found_again),
        cmocka_unit_test(test_newest_connection_wins),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_bad_frames),
        cmocka_unit_test(test_hello_too_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
