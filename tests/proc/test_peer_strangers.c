/*
 * Strangers at the peer port of a running ensemble: callers without a proof, whose handshake the
 * test makes by hand. Each is refused with its own sentence in the log, gets nothing, and disturbs
 * no connection between replicas.
 */
#include "base/wire.h"
#include "server/op/auth.h"
#include "server/op/ops.h"
#include "tests/lib/tls_peer.h"
#include "tests/proc/peer_certs.h"
#include "tests/proc/relay.h"
#include "tests/proc/shell.h"
#include "zab/msg.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/hello.h"
#include "zab/tcp/keys_int.h"
#include "zab/tcp/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    REPLICAS = 3,
    READ_BYTES = 4096
};

#define SECRET       "the secret of this ensemble"
#define OTHER_SECRET "the secret of another ensemble"
#define SUPER_DIGEST "super:zUZ0bpqYS7FucDXsnUgxOWTto1s=" /* As in ENSEMBLE_SUPER. */

static struct ensemble ensemble;
static struct cert_kit kit;
static char lines[2 * ENSEMBLE_PATH_MAX];
static uint32_t disconnects; /* Logged before the strangers came. */

static void write_file(const char *name, const char *text)
{
    char path[ENSEMBLE_PATH_MAX + 32];
    int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", ensemble.dir, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static uint64_t sealed(uint32_t index)
{
    return ensemble_metric(&ensemble, index, "zabra_peer_connections{sealed=\"psk\"}") +
           ensemble_metric(&ensemble, index, "zabra_peer_connections{sealed=\"certificate\"}");
}

/* How often replicas have lost each other. */
static uint32_t count_disconnects(void)
{
    shell_expect("cat $D/*.log | grep -c 'is disconnected' || true", 0, "");
    return (uint32_t)strtoul(shell_output, NULL, 10);
}

static void start_all(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ENSEMBLE_WAIT(&ensemble, sealed(i) == REPLICAS - 1);
    }
    disconnects = count_disconnects();
}

/* All links between the replicas are those of the start. */
static void assert_undisturbed(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_int_equal(sealed(i), REPLICAS - 1);
    }
    assert_int_equal(count_disconnects(), disconnects);
}

/* Whether the other side has ended the connection; what it has sent is lost. */
static bool has_ended(int fd)
{
    uint8_t bytes[READ_BYTES];
    ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

static bool has_logged(uint32_t id, const char *text)
{
    return shell("grep -qF '%s' $D/%u.log", text, id) == 0;
}

/* ---- Certificates. ---- */

static void open_with_certificates(void)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    shell_open(&ensemble);
    peer_certs_open(&ensemble, &kit);
    start_all();
}

/* One attempt as replica 3 at replica `id`: with this pair of the kit, and a greeting once TLS lets
 * it. The replica must end it without a byte of its own after the handshake of TLS. */
static void call_with(uint32_t id, const struct tls_peer_setup *setup)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 3, .to = id};
    int fd = relay_dial(ensemble.replicas[id - 1].peer_port, 0);
    uint8_t bytes[GREETING_LEN];
    struct tls_peer peer;
    struct buf got;
    int state = 0;

    assert_true(fd >= 0);
    buf_init(&got, READ_BYTES);
    tls_peer_open(&peer, &kit, setup, fd);
    SSL_set_verify(peer.ssl, SSL_VERIFY_NONE, NULL); /* The replica has to refuse. */
    ENSEMBLE_WAIT(&ensemble, (state = tls_peer_shake(&peer), (void)tls_peer_push(&peer, SIZE_MAX),
                              (void)tls_peer_pull(&peer, SIZE_MAX), state != 0));
    if (state == 1) {
        greeting_encode(&greeting, bytes);
        tls_peer_send(&peer, bytes, sizeof(bytes));
        ENSEMBLE_WAIT(&ensemble,
                      tls_peer_receive(&peer, &got) != SSL_ERROR_WANT_READ || has_ended(fd));
    }
    assert_int_equal(got.len, 0);
    buf_release(&got);
    tls_peer_close(&peer);
    close(fd);
}

/* A replica logs refusals of one peer every 10 s, and the last one in any case. */
static void expect_refused(uint32_t id, const struct tls_peer_setup *setup, const char *why)
{
    call_with(id, setup);
    ENSEMBLE_WAIT(&ensemble, has_logged(id, why));
}

TEST(each_bad_certificate_is_refused_with_its_sentence)
{
    static const char name_1[] = "3.dials.1.zabra";
    static const char name_2[] = "3.dials.2.zabra";
    struct tls_peer_setup setup = {.name = name_1};
    struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = "p", .uri = "zabra://shop/3"};
    struct issue_pair pair;
    struct cert_kit other;

    open_with_certificates();
    peer_certs_make(&kit, "expired", 3, CERT_KIT_EXPIRED);
    peer_certs_make(&kit, "early", 3, CERT_KIT_EARLY);
    cert_kit_open(&other);
    cert_kit_make(&spec, &other.ca, &pair);
    cert_kit_put(&kit, "alien", &pair);
    issue_release(&pair);
    cert_kit_close(&other);

    setup.cert = "expired";
    expect_refused(1, &setup, "peer 3 is refused: the certificate of the peer has expired");
    setup.name = name_2;
    setup.cert = "early";
    expect_refused(2, &setup,
                   "peer 3 is refused: the certificate of the peer is not valid yet, or the clock");
    setup.name = name_1;
    setup.cert = "alien";
    expect_refused(
        1, &setup,
        "peer 3 is refused: the certificate of the peer is not signed by a CA of peerCaFile");
    setup.name = name_2;
    setup.cert = "peer-2";
    expect_refused(2, &setup, "peer 3 is refused: its certificate is not one of replica 3");
    setup.name = name_1;
    setup.cert = NULL;
    expect_refused(1, &setup, "peer 3 is refused: the peer gives no certificate");
    setup.name = name_2;
    setup.cert = "peer-3";
    setup.version = TLS1_2_VERSION;
    expect_refused(2, &setup, "refused: the peer does not speak TLS 1.3");
    assert_undisturbed();
    ensemble_close(&ensemble);
    cert_kit_close(&kit);
}

/* ---- Secrets. ---- */

static void open_with_secret(void)
{
    ensemble_open(&ensemble, REPLICAS, NULL);
    shell_open(&ensemble);
    write_file("secret", SECRET "\n");
    write_file("other", OTHER_SECRET "\n");
    (void)snprintf(lines, sizeof(lines),
                   "peerSecretFile=%s/secret\npeerTls=required\n" ENSEMBLE_SUPER, ensemble.dir);
    ensemble.keys = lines;
    ensemble_write_configs(&ensemble);
}

static struct keys *load_secret(const char *secret)
{
    struct keys_options options = {.secrets = {slice_str(secret)}, .secret_count = 1};
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX];

    assert_int_equal(keys_load(&options, &keys, error), ERR_OK);
    return keys;
}

/* A caller within TLS, or on the way to it. */
struct stranger {
    int fd;
    struct keys *keys;
    struct seal *seal;
    bool ended;
};

static void push(struct stranger *stranger)
{
    struct slice bytes = seal_pending(stranger->seal);
    ssize_t sent =
        bytes.len > 0 ? send(stranger->fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;

    seal_sent(stranger->seal, sent > 0 ? (size_t)sent : 0);
    stranger->ended |= sent < 0 && errno != EAGAIN;
}

static void pull(struct stranger *stranger)
{
    uint8_t bytes[READ_BYTES];
    ssize_t got = recv(stranger->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (got > 0) {
        assert_int_equal(seal_put(stranger->seal, slice_make(bytes, (size_t)got)), ERR_OK);
    }
    stranger->ended |= got == 0 || (got < 0 && errno != EAGAIN);
}

/* Shakes hands as replica 3 with replica 1; returns how TLS ended. */
static enum err stranger_call(struct stranger *stranger, struct keys *keys,
                              uint64_t records_per_key)
{
    struct seal_options options = {
        .keys = keys, .dials = true, .from = 3, .to = 1, .records_per_key = records_per_key};
    enum err err = ERR_BUSY;

    *stranger = (struct stranger){.fd = relay_dial(ensemble.replicas[0].peer_port, 0),
                                  .keys = keys,
                                  .seal = seal_open(&options)};
    assert_true(stranger->fd >= 0);
    ENSEMBLE_WAIT(&ensemble, (err = seal_shake(stranger->seal), push(stranger), pull(stranger),
                              err != ERR_BUSY || stranger->ended));
    return err;
}

static void stranger_close(struct stranger *stranger)
{
    seal_close(stranger->seal);
    keys_release(stranger->keys);
    close(stranger->fd);
}

/* What a replica 3 would send that forwards a write of the super user: a greeting, a HELLO with the
 * proof of a secret, and the frame. */
static void make_forward(const char *secret, struct buf *out)
{
    struct greeting greeting = {.version = PROTOCOL_VERSION, .from = 3, .to = 1};
    struct hello hello = {.incarnation = 5, .cluster = {7}, .start = 5};
    struct hello_transcript transcript = {.sealed = false};
    struct op_request request = {.principal = {.address = "10.0.0.9"}};
    struct zab_msg msg = {.type = ZAB_FORWARD, .dialogue = 1, .epoch = 1, .forward.request = 1};
    struct frame_header header = {
        .version = PROTOCOL_VERSION, .type = ZAB_FORWARD, .from = 3, .to = 1, .epoch = 1};
    uint8_t head[FRAME_HEADER_LEN];
    struct buf bytes;
    struct buf payload;

    op_args_init(&request.args, OP_CREATE);
    request.args.path = slice_str("/forged");
    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("super:root"), SUPER_DIGEST,
                              &request.principal.auth),
                     ERR_OK);
    assert_true(request.principal.auth->super);
    buf_init(&bytes, READ_BYTES);
    wire_put_u8(&bytes, 1);  /* As server/replica/replica_forward.c: the version, */
    wire_put_u64(&bytes, 1); /* the boot of the sender, */
    principal_encode(&request.principal, &bytes);
    wire_put_u8(&bytes, 0); /* no session, */
    wire_put_bytes(&bytes, request.key);
    op_args_encode(&request.args, &bytes);
    msg.forward.bytes = buf_slice(&bytes);
    buf_init(&payload, READ_BYTES);
    zab_msg_encode(&msg, &payload);

    buf_init(out, READ_BYTES);
    greeting_encode(&greeting, transcript.dialer);
    assert_true(buf_append(out, transcript.dialer, GREETING_LEN));
    hello_encode(&hello, &transcript, slice_str(secret), true, out);
    header.nonce = hello_connection_nonce(&transcript, slice_str(secret));
    header.len = (uint32_t)payload.len;
    header.payload_crc = frame_payload_crc(buf_slice(&payload), 0);
    frame_encode(&header, 0, head);
    assert_true(buf_append(out, head, sizeof(head)));
    assert_true(buf_append(out, payload.data, payload.len));
    buf_release(&payload);
    buf_release(&bytes);
    auth_unref(request.principal.auth);
}

/* Sends the write outside of TLS, after what went before: replica 1 ends the connection. */
static void forge(int fd)
{
    struct buf out;

    make_forward(OTHER_SECRET, &out);
    (void)send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    ENSEMBLE_WAIT(&ensemble, has_ended(fd));
    buf_release(&out);
}

static void assert_not_forged(void)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/znodes/v1/forged", NULL), 404);
    }
    assert_undisturbed();
}

/* One caller speaks TLS with another secret; the next one has seen the name of the right secret on
 * the wire, but does not have the secret; the last one does not speak TLS. */
TEST(a_wrong_secret_gets_no_further_than_the_handshake)
{
    int fd = -1;

    for (int knows_name = 0; knows_name <= 1; knows_name++) {
        struct keys *keys = load_secret(knows_name ? SECRET : OTHER_SECRET);
        struct stranger stranger;

        open_with_secret();
        start_all();
        keys->secrets[0].psk[0] ^= knows_name ? 1 : 0;
        assert_int_not_equal(stranger_call(&stranger, keys, 0), ERR_OK);
        forge(stranger.fd);
        stranger_close(&stranger);
        ENSEMBLE_WAIT(&ensemble, has_logged(1, "refused: the secret of the peer differs: "
                                               "check peerSecretFile on both replicas"));
        fd = relay_dial(ensemble.replicas[0].peer_port, 0);
        assert_true(fd >= 0);
        forge(fd);
        close(fd);
        ENSEMBLE_WAIT(&ensemble, has_logged(1, "peer 3 is refused: the peer connects without TLS"));
        assert_not_forged();
        ensemble_close(&ensemble);
    }
}

/* A replica that has proven itself within TLS, and then only renews its keys: for each byte. */
TEST(a_flood_of_new_keys_ends_its_own_connection_only)
{
    struct stranger stranger;

    open_with_secret();
    start_all();
    assert_int_equal(stranger_call(&stranger, load_secret(SECRET), 1), ERR_OK);
    for (int i = 0; i < 40 && !stranger.ended; i++) { /* A greeting has 48 bytes. */
        ENSEMBLE_WAIT(&ensemble,
                      (push(&stranger), stranger.ended || seal_pending(stranger.seal).len == 0));
        if (!stranger.ended) {
            assert_int_equal(seal_write(stranger.seal, slice_make("Z", 1)), 1);
        }
    }
    ENSEMBLE_WAIT(&ensemble, (pull(&stranger), stranger.ended));
    stranger_close(&stranger);
    ENSEMBLE_WAIT(&ensemble, has_logged(1, "refused: the peer renews its keys without end"));
    assert_undisturbed();
    ensemble_close(&ensemble);
}

/* The super user creates a znode through that replica; returns the status. */
static long create_as_super(uint32_t index, const char *path)
{
    (void)shell(
        "curl -s -o /dev/null -w '%%{http_code}' -u super:root -H 'Prefer: wait=1' -X PUT -d x "
        "'http://127.0.0.1:%u/znodes/v1%s?upsert=true'",
        ensemble.replicas[index].client_port, path);
    return (long)strtoul(shell_output, NULL, 10);
}

/* A real replica with the secret of another ensemble, at which a super user writes: the request
 * reaches no other replica. */
TEST(a_replica_of_another_ensemble_can_forward_nothing)
{
    open_with_secret();
    start_all();
    ENSEMBLE_WAIT(&ensemble, create_as_super(2, "/real") == 201);
    assert_int_equal(ensemble_stop(&ensemble, 2), 0);
    assert_int_equal(shell("sed -i 's,/secret$,/other,' %s", ensemble.replicas[2].config), 0);
    ensemble_start(&ensemble, 2);
    ENSEMBLE_WAIT(&ensemble, has_logged(1, "peer 3 is refused: the secret of the peer differs"));
    ENSEMBLE_WAIT(&ensemble, has_logged(3, "is refused: the peer accepts neither the secret nor"));
    assert_int_equal(create_as_super(2, "/forged"), 503);
    for (uint32_t i = 0; i < 2; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      ensemble_call(&ensemble, i, "GET", "/znodes/v1/real", NULL) == 200);
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/znodes/v1/forged", NULL), 404);
        assert_int_equal(sealed(i), 1);
    }
    ensemble_close(&ensemble);
}
