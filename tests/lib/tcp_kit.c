#include "tests/lib/tcp_kit.h"

#include "base/mem.h"
#include "tests/lib/ports.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void then(struct kit_node *node, enum kit_event event)
{
    if (node->then) {
        node->then(node, event);
    }
}

static void on_up(void *ctx, uint32_t peer, const struct tcp_identity *identity)
{
    struct kit_node *node = ctx;

    node->ups++;
    node->next_round = 0;
    node->peer = peer;
    node->hello.incarnation = identity->incarnation;
    node->hello.bootstrapping = identity->bootstrapping;
    node->hello.level = identity->level;
    memcpy(node->hello.cluster, identity->cluster, ZAB_CLUSTER_LEN);
    (void)snprintf(node->hello.advertise, sizeof(node->hello.advertise), "%s", identity->advertise);
    then(node, KIT_UP);
}

static void on_down(void *ctx, uint32_t peer, const char *why)
{
    struct kit_node *node = ctx;

    (void)peer;
    node->downs++;
    (void)snprintf(node->why, sizeof(node->why), "%s", why);
    then(node, KIT_DOWN);
}

static void on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct kit_node *node = ctx;

    (void)peer;
    node->refusals++;
    (void)snprintf(node->why, sizeof(node->why), "%s", why);
    then(node, KIT_REFUSED);
}

static void on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct kit_node *node = ctx;
    uint64_t round = msg->type == ZAB_FORWARD ? msg->forward.request
                     : msg->type == ZAB_PONG  ? msg->pong.round
                                              : msg->ping.round;
    struct zab_msg reply = {.type = ZAB_PONG, .pong.round = round};

    assert_int_equal(round, node->next_round);
    node->next_round++;
    node->messages++;
    node->bytes += msg->type == ZAB_FORWARD ? msg->forward.bytes.len : 0;
    if (node->echo == peer) {
        tcp_send(node->tcp, peer, &reply);
    }
    if (node->disconnect_on && node->messages == node->disconnect_on) {
        tcp_disconnect(node->tcp, peer);
        tcp_flush(node->tcp);
    }
    then(node, KIT_MESSAGE);
}

struct kit_node kit_nodes[3];

bool kit_sealed(void)
{
    return getenv("ZABRA_TEST_PEER_TLS") != NULL; /* NOLINT(concurrency-mt-unsafe): one thread. */
}

static struct keys *load_keys(struct keys_options options, const char *secret,
                              const char *next_secret)
{
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX] = "";

    options.secret_count = 0;
    if (secret && secret[0]) {
        options.secrets[options.secret_count++] = slice_str(secret);
    }
    if (next_secret && next_secret[0]) {
        options.secrets[options.secret_count++] = slice_str(next_secret);
    }
    if (keys_load(&options, &keys, error)) {
        fail_msg("%s", error);
    }
    return keys;
}

struct keys *kit_keys(const char *secret, const char *next_secret)
{
    return load_keys((struct keys_options){.secret_count = 0}, secret, next_secret);
}

void kit_start(const struct kit_setup *setup, uint32_t id)
{
    struct kit_node *node = &kit_nodes[id];
    uint32_t other = 3 - id;
    struct tcp_peer peer = {.id = other, .port = setup->port[other]};
    char advertise[32];
    struct keys *keys = load_keys(setup->files[id], setup->secret[id], setup->next_secret[id]);
    struct tcp_options options = {
        .id = id == 2 && setup->claims ? setup->claims : id,
        .host = setup->knows_host ? "127.0.0.1" : NULL,
        .listen_host = setup->host ? setup->host : "127.0.0.1",
        .listen_port = setup->port[id],
        .peers = &peer,
        .peer_count = 1,
        .keys = keys,
        .tls = setup->tls[id],
        .ensemble = "kit",
        .queue_bytes_max = setup->queue_bytes_max ? setup->queue_bytes_max : 1 << 20,
        .records_per_key = setup->records_per_key,
        .shaking_max = setup->shaking_max,
        .connect_timeout_ms = setup->connect_timeout_ms ? setup->connect_timeout_ms : 2000,
        .retry_min_ms = 5,
        .retry_max_ms = 40,
        .probe_ms = KIT_PROBE_MS,
        .incarnation = 100 + id,
        .cluster = {setup->cluster[id]},
        .history = setup->history[id],
        .bootstrapping = id == 2,
        .level = setup->level[id],
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
    *node = (struct kit_node){.ups = 0};
    loop_init(&node->loop);
    assert_int_equal(tcp_open(&node->loop, &options, &handler, &node->tcp), ERR_OK);
    tcp_set_level(node->tcp, setup->ensemble_level[id]);
    keys_release(keys);
}

void kit_stop(uint32_t id)
{
    tcp_close(kit_nodes[id].tcp);
    kit_nodes[id].tcp = NULL;
    loop_release(&kit_nodes[id].loop);
}

void kit_set_two_addresses(uint32_t id, const char *host, uint16_t port, const char *next_host,
                           uint16_t next_port)
{
    struct tcp_peer peer = {.id = 3 - id, .port = port, .next_port = next_port};

    (void)snprintf(peer.host, sizeof(peer.host), "%s", host);
    (void)snprintf(peer.next_host, sizeof(peer.next_host), "%s", next_host);
    tcp_set_peers(kit_nodes[id].tcp, &peer, 1);
}

void kit_set_peer(uint32_t id, const char *host, uint16_t port)
{
    kit_set_two_addresses(id, host, port, "", 0);
}

void kit_set_no_peer(uint32_t id)
{
    tcp_set_peers(kit_nodes[id].tcp, NULL, 0);
}

/* One turn of a replica's core thread. */
void kit_turn(uint32_t id, int timeout_ms)
{
    struct kit_node *node = &kit_nodes[id];

    if (node->tcp) {
        tcp_tick(node->tcp, os_now_ms());
        loop_run_once(&node->loop, timeout_ms);
        tcp_flush(node->tcp);
    }
}

/* ---- The relay between the two. ---- */

struct kit_relay kit_relay;

struct sockaddr_in kit_loopback(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return addr;
}

void kit_relay_open(struct kit_setup *setup, size_t step, uint64_t flip)
{
    setup->via = port_free();

    struct sockaddr_in addr = kit_loopback(setup->via);

    kit_relay = (struct kit_relay){.in_fd = -1, .out_fd = -1, .step = step, .flip = flip};
    kit_relay.listen_fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    assert_true(kit_relay.listen_fd >= 0);
}

static void relay_hang_up(void)
{
    if (kit_relay.in_fd >= 0) {
        close(kit_relay.in_fd);
        close(kit_relay.out_fd);
    }
    kit_relay.in_fd = -1;
    kit_relay.out_fd = -1;
}

/* Moves some bytes; false when that direction has ended. */
static bool relay_move(int from, int to, bool damage)
{
    static uint8_t bytes[KIT_RELAY_BYTES]; /* Too large for the stack. */
    ssize_t got = read(from, bytes, kit_relay.step);

    if (got < 0 && errno == EAGAIN) {
        return true;
    }
    if (got <= 0) {
        return false;
    }
    if (damage) {
        kit_relay.seen |= kit_relay.wanted && memmem(bytes, (size_t)got, kit_relay.wanted,
                                                     strlen(kit_relay.wanted)) != NULL;
        if (kit_relay.flip >= kit_relay.passed &&
            kit_relay.flip < kit_relay.passed + (uint64_t)got) {
            bytes[kit_relay.flip - kit_relay.passed] ^= 0x10;
        }
        kit_relay.passed += (uint64_t)got;
    }
    for (ssize_t done = 0; done < got;) {
        ssize_t put = send(to, bytes + done, (size_t)(got - done), MSG_NOSIGNAL);

        if (put < 0 && errno != EAGAIN) {
            return false;
        }
        done += put > 0 ? put : 0;
        if (put < 0) {
            kit_turn(1, 0);
            kit_turn(2, 0);
        }
    }
    return true;
}

static void relay_turn(const struct kit_setup *setup)
{
    if (kit_relay.in_fd < 0) {
        struct sockaddr_storage from;
        struct sockaddr_in addr = kit_loopback(setup->port[1]);

        kit_relay.in_fd = loop_accept(kit_relay.listen_fd, &from);
        if (kit_relay.in_fd < 0) {
            kit_relay.in_fd = -1;
            return;
        }
        kit_relay.out_fd = loop_connect((struct sockaddr *)&addr, sizeof(addr));
        assert_true(kit_relay.out_fd >= 0);
    }
    if (!kit_relay.stopped && (!relay_move(kit_relay.in_fd, kit_relay.out_fd, true) ||
                               !relay_move(kit_relay.out_fd, kit_relay.in_fd, false))) {
        relay_hang_up();
    }
}

void kit_relay_cut(const struct kit_setup *setup)
{
    assert_true(kit_relay.stopped && relay_move(kit_relay.in_fd, kit_relay.out_fd, true));
    kit_turn(1, 1);
    relay_hang_up();
    kit_relay.stopped = false;
    kit_run(setup);
}

void kit_relay_close(void)
{
    relay_hang_up();
    close(kit_relay.listen_fd);
    kit_relay.listen_fd = -1;
}

void kit_run(const struct kit_setup *setup)
{
    kit_turn(1, 1);
    kit_turn(2, 0);
    if (setup->via) {
        relay_turn(setup);
    }
}

void kit_look_again(const struct kit_setup *setup, uint64_t end_ms, const char *condition)
{
    if (os_now_ms() > end_ms) {
        fail_msg("not reached: %s", condition);
    }
    kit_run(setup);
}

struct kit_setup kit_make_setup(void)
{
    struct kit_setup setup = {.port = {0, port_free(), port_free()}, .cluster = {0, 7, 7}};

    for (int i = 1; i < 3 && kit_sealed(); i++) {
        setup.secret[i] = "a secret for sealed connections";
        setup.tls[i] = KEYS_REQUIRED;
    }
    return setup;
}

void kit_connect_both(const struct kit_setup *setup)
{
    kit_start(setup, 1);
    kit_start(setup, 2);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
}

void kit_stop_both(void)
{
    kit_stop(1);
    kit_stop(2);
}

void kit_send_round(uint32_t from, uint64_t round)
{
    struct zab_msg msg = {.type = ZAB_PING, .ping.round = round, .epoch = 3};

    tcp_send(kit_nodes[from].tcp, 3 - from, &msg);
}

void kit_send_forward(uint32_t from, uint64_t round, size_t len)
{
    uint8_t *bytes = mem_zalloc(len, 1);
    struct zab_msg msg = {
        .type = ZAB_FORWARD, .forward.request = round, .forward.bytes = slice_make(bytes, len)};

    tcp_send(kit_nodes[from].tcp, 3 - from, &msg);
    mem_free(bytes);
}
