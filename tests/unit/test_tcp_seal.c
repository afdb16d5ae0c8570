/* TLS between two replicas: which connections peerTls accepts, secrets that are replaced, and
 * callers that send anything in each state of the handshake. */
#include "base/wire.h"
#include "tests/lib/tcp_raw.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

#include <unistd.h>

static const char secret_a[] = "the secret of the ensemble";
static const char secret_b[] = "another secret of the ensemble";

static struct kit_setup make(enum keys_mode first, enum keys_mode second)
{
    struct kit_setup setup = kit_make_setup();

    setup.secret[1] = setup.secret[2] = secret_a;
    setup.tls[1] = first;
    setup.tls[2] = second;
    return setup;
}

static void start_both(const struct kit_setup *setup)
{
    kit_start(setup, 1);
    kit_start(setup, 2);
}

static void assert_why(uint32_t id, const char *why)
{
    if (!strstr(kit_nodes[id].why, why)) {
        fail_msg("\"%s\" is not about \"%s\"", kit_nodes[id].why, why);
    }
}

static struct tcp_seal seal_at(uint32_t id)
{
    struct tcp_seal seal;

    tcp_seal(kit_nodes[id].tcp, 3 - id, &seal);
    assert_true(seal.up);
    return seal;
}

/* Replica 2 dials: with TLS from `dial` on. */
static void expect_refused(const struct kit_setup *setup, bool dials_tls)
{
    KIT_RUN_UNTIL(setup, kit_nodes[1].refusals > 0 && kit_nodes[2].refusals > 0);
    assert_why(1, dials_tls ? "peerTls=off: set peerTls=accept here first"
                            : "peerTls=required: set peerTls=dial or required");
    assert_why(2, "the log of the peer has the reason");
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 0);
}

static void expect_connected(const struct kit_setup *setup, bool dials_tls)
{
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups && kit_nodes[2].ups);
    for (uint32_t id = 1; id <= 2; id++) {
        struct tcp_seal seal = seal_at(id);

        assert_int_equal(seal.kind, dials_tls ? KEYS_SEAL_PSK : KEYS_SEAL_NO);
        assert_true(seal.peer_says);
        assert_int_equal(seal.peer_tls, setup->tls[3 - id]);
    }
}

static void try_modes(enum keys_mode first, enum keys_mode second)
{
    struct kit_setup setup = make(first, second);
    bool dials_tls = second >= KEYS_DIAL;

    start_both(&setup);
    if (dials_tls ? first != KEYS_OFF : first != KEYS_REQUIRED) {
        expect_connected(&setup, dials_tls);
    } else {
        expect_refused(&setup, dials_tls);
    }
    kit_stop_both();
}

/* Neighbours in the order of a rolling change connect. */
TEST(neighbouring_modes_connect)
{
    for (enum keys_mode first = KEYS_OFF; first <= KEYS_REQUIRED; first++) {
        for (enum keys_mode second = KEYS_OFF; second <= KEYS_REQUIRED; second++) {
            try_modes(first, second);
        }
    }
}

TEST(without_the_secret_tls_fails)
{
    struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);
    struct tcp_figures figures;

    setup.secret[2] = secret_b;
    start_both(&setup);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].refusals && kit_nodes[2].refusals);
    assert_why(1, "the secret of the peer differs: check peerSecretFile");
    assert_why(2, "check peerSecretFile");
    tcp_figures(kit_nodes[1].tcp, &figures);
    assert_true(figures.unsealed > 0);
    assert_int_equal(kit_nodes[1].ups + kit_nodes[2].ups, 0);
    kit_stop_both();
}

static void set_secrets(uint32_t id, const char *first, const char *second)
{
    struct keys *keys = kit_keys(first, second);

    tcp_set_keys(kit_nodes[id].tcp, keys);
    keys_release(keys);
}

static void reconnect(const struct kit_setup *setup)
{
    uint32_t ups = kit_nodes[1].ups;

    tcp_disconnect(kit_nodes[1].tcp, 2);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups == ups + 1 && kit_nodes[2].ups == ups + 1);
}

/* Three reloads replace the secret; at each time both replicas connect, whichever has reloaded. */
static void rotate(enum keys_mode mode)
{
    struct kit_setup setup = make(mode, mode);

    kit_connect_both(&setup);
    for (uint32_t last = 1; last <= 2; last++) {
        uint32_t first = 3 - last;

        set_secrets(first, secret_a, secret_b);
        reconnect(&setup);
        set_secrets(last, secret_a, secret_b);
        reconnect(&setup);
        assert_false(seal_at(1).removed || seal_at(2).removed);
        set_secrets(first, secret_b, secret_a);
        reconnect(&setup);
        set_secrets(last, secret_b, secret_a);
        reconnect(&setup);
        set_secrets(first, secret_b, NULL);
        reconnect(&setup);
        set_secrets(last, secret_b, NULL);
        reconnect(&setup);
        assert_false(seal_at(1).removed || seal_at(2).removed);
        /* The connection keeps the old secret until it ends. */
        set_secrets(1, secret_a, NULL);
        set_secrets(2, secret_a, NULL);
        assert_true(seal_at(1).removed && seal_at(2).removed);
        reconnect(&setup);
        assert_false(seal_at(1).removed || seal_at(2).removed);
    }
    assert_int_equal(kit_nodes[1].refusals + kit_nodes[2].refusals, 0);
    kit_stop_both();
}

TEST(a_secret_is_replaced_without_a_stop)
{
    rotate(KEYS_OFF);
    rotate(KEYS_REQUIRED);
}

TEST(a_removed_secret_is_refused)
{
    struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);

    kit_connect_both(&setup);
    set_secrets(1, secret_b, NULL);
    tcp_disconnect(kit_nodes[1].tcp, 2);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].refusals > 0);
    assert_int_equal(kit_nodes[1].ups, 1);
    kit_stop_both();
}

/* The process that was reached ends before it has read anything: the next attempt may succeed, so
 * nothing is refused. Here the socket takes no bytes any more. */
TEST(an_end_right_after_the_connect_is_no_refusal)
{
    struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);
    struct sockaddr_in addr = kit_loopback(setup.port[1]);
    int fd = loop_listen((struct sockaddr *)&addr, sizeof(addr), 8);
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    struct tcp_figures figures;
    const struct link *link = NULL;

    assert_true(fd >= 0);
    kit_start(&setup, 2);
    link = kit_nodes[2].tcp->links;
    tcp_tick(kit_nodes[2].tcp, os_now_ms());
    assert_non_null(link->dialing);
    while (loop_connect_result(link->dialing->watch.fd) != 0) {
        assert_true(os_now_ms() < end_ms);
    }
    assert_int_equal(shutdown(link->dialing->watch.fd, SHUT_WR), 0);
    while (link->dialing) {
        assert_true(os_now_ms() < end_ms);
        loop_run_once(&kit_nodes[2].loop, 10);
    }
    tcp_figures(kit_nodes[2].tcp, &figures);
    assert_int_equal(figures.refused, 0);
    assert_int_equal(kit_nodes[2].refusals, 0);
    kit_stop(2);
    close(fd);
}

/* ---- Callers that send anything. ---- */

/* Replica 1 must end the connection; then replica 2 connects. */
static void assert_ends(struct kit_setup *setup, struct raw *raw)
{
    KIT_RUN_UNTIL(setup, raw_ended(raw));
    raw_end(raw);
    kit_start(setup, 2);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
    assert_int_equal(kit_nodes[1].downs, 0);
    kit_stop_both();
}

TEST(garbage_in_place_of_a_handshake)
{
    static const char *const texts[] = {"\x16", "\x16\x03\x01", "\x16 no handshake at all",
                                        "\x16\x03\x01\x40\x01\x01"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);

        kit_start(&setup, 1);

        struct raw raw = raw_dial_plain(&setup);

        raw_write(&raw, texts[i], strlen(texts[i]));
        assert_ends(&setup, &raw); /* At once, or when connect_timeout_ms has passed. */
    }
}

/* Takes the first bytes that replica 2 would send. */
static size_t client_hello(const char *secret, uint8_t *to, size_t size)
{
    struct seal_options options = {
        .keys = kit_keys(secret, NULL), .dials = true, .from = 2, .to = 1};
    struct seal *seal = seal_open(&options);

    assert_int_equal(seal_shake(seal), ERR_BUSY);

    struct slice bytes = seal_pending(seal);

    assert_true(bytes.len <= size);
    memcpy(to, bytes.data, bytes.len);
    seal_close(seal);
    keys_release(options.keys);
    return bytes.len;
}

TEST(a_damaged_or_repeated_client_hello_proves_nothing)
{
    uint8_t bytes[2048];
    size_t len = client_hello(secret_a, bytes, sizeof(bytes));

    for (size_t at = 5; at < len; at += 37) {
        struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);

        kit_start(&setup, 1);

        struct raw raw = raw_dial_plain(&setup);

        bytes[at] ^= 0x10;
        raw_write(&raw, bytes, len);
        bytes[at] ^= 0x10;
        (void)shutdown(raw.fd, SHUT_WR);
        assert_ends(&setup, &raw);
    }
    for (int i = 0; i < 2; i++) { /* Recorded and sent again: the caller cannot continue. */
        struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);

        kit_start(&setup, 1);

        struct raw raw = raw_dial_plain(&setup);

        raw_write(&raw, bytes, len);
        raw_write(&raw, "ZBRH", 4);
        KIT_RUN_UNTIL(&setup, raw_ended(&raw));
        assert_int_equal(kit_nodes[1].ups, 0);
        raw_end(&raw);
        kit_stop(1);
    }
}

/* A handshake message of 16 MiB, byte after byte: its length is refused, or its bytes are. */
TEST(a_handshake_without_end_is_cut_off)
{
    struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);
    uint8_t record[5 + 16384] = {0x16, 3, 1, 0x40, 0, 1, 0x01, 0, 0};
    size_t written = 0;

    kit_start(&setup, 1);

    struct raw raw = raw_dial_plain(&setup);

    for (int i = 0; i < 64; i++) {
        ssize_t some = send(raw.fd, record, sizeof(record), MSG_NOSIGNAL);

        written += some > 0 ? (size_t)some : 0;
        kit_run(&setup);
    }
    assert_true(written >= sizeof(record));
    assert_ends(&setup, &raw);
}

/* The proof of the HELLO covers the channel: a correct proof for another channel does not count. */
TEST(a_proof_of_another_channel_is_refused)
{
    struct kit_setup setup = make(KEYS_ACCEPT, KEYS_ACCEPT);
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 2, .to = 1};
    struct hello hello = {.incarnation = 5, .cluster = {7}, .start = 5};
    struct hello_transcript transcript = {.sealed = true}; /* A channel of zeroes. */
    struct buf out;

    kit_start(&setup, 1);

    struct raw raw = raw_dial_plain(&setup);
    enum err err = ERR_BUSY;

    raw_begin_tls(&raw, secret_a);
    KIT_RUN_UNTIL(&setup, (err = raw_shake(&raw)) == ERR_OK);
    greeting_encode(&greeting, transcript.dialer);
    raw_write(&raw, transcript.dialer, GREETING_LEN);
    raw_read(&setup, &raw, transcript.acceptor, GREETING_LEN);
    buf_init(&out, HELLO_WIRE_MAX);
    hello_encode(&hello, &transcript, slice_str(secret_a), true, &out);
    raw_write(&raw, out.data, out.len);
    buf_release(&out);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].refusals == 1);
    assert_why(1, "peerSecretFile");
    raw_end(&raw);
    kit_stop(1);
}

/* Records that end in the middle deliver nothing, and the next connection works. */
TEST(a_truncated_record_delivers_nothing)
{
    struct kit_setup setup = make(KEYS_REQUIRED, KEYS_REQUIRED);

    kit_relay_open(&setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_connect_both(&setup);
    kit_run(&setup);
    kit_relay.step = 40; /* Less than a frame in its record. */
    kit_relay.stopped = true;
    kit_send_round(2, 0);
    for (int i = 0; i < 3; i++) {
        kit_run(&setup);
    }
    kit_relay_cut(&setup);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].downs == 1 && kit_nodes[2].downs == 1);
    assert_int_equal(kit_nodes[1].messages, 0);
    kit_relay.step = KIT_RELAY_BYTES;
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 2 && kit_nodes[2].ups == 2);
    kit_send_round(2, 0);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].messages == 1);
    kit_relay_close();
    kit_stop_both();
}

/* The relay learns nothing: neither direction carries a byte of a message in the clear. */
TEST(a_relay_sees_no_message)
{
    struct kit_setup setup = make(KEYS_DIAL, KEYS_DIAL);

    kit_relay_open(&setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_relay.wanted = "replica-2:9998"; /* In the HELLO of replica 2. */
    kit_connect_both(&setup);
    assert_false(kit_relay.seen);
    kit_relay_close();
    kit_stop_both();

    setup = make(KEYS_ACCEPT, KEYS_ACCEPT);
    kit_relay_open(&setup, KIT_RELAY_BYTES, UINT64_MAX);
    kit_relay.wanted = "replica-2:9998";
    kit_connect_both(&setup);
    assert_true(
        kit_relay.seen); /* The plain connection shows it: the test looks in the right place. */
    kit_relay_close();
    kit_stop_both();
}
