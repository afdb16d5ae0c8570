/* Strangers that flood the peer port of replica 1, from several addresses of loopback: their number
 * and their handshakes of TLS are bounded, and a peer gets in. */
#include "tests/lib/cert_kit.h"
#include "tests/lib/tcp_raw.h"
#include "zab/tcp/callers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    PLACES = 8,
    FLOOD = 60,
    MANY = 600,
    HELLOS = 200
};

/* Connects from that address. */
static int dial_from(const struct kit_setup *setup, const char *from)
{
    struct sockaddr_in own = {.sin_family = AF_INET};
    struct sockaddr_in addr = kit_loopback(setup->port[1]);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    return fd;
}

/* Whether replica 1 has ended the connection. */
static bool is_ended(int fd)
{
    char byte = 0;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

static void run_some(const struct kit_setup *setup)
{
    for (int i = 0; i < 4; i++) {
        kit_run(setup);
    }
}

/* The address with the most connections loses its own. */
TEST(a_flood_from_one_address_drops_no_other)
{
    struct kit_setup setup = kit_make_setup();
    int flood[FLOOD];
    int stranger = -1;
    int peer = -1;
    uint32_t alive = 0;

    setup.shaking_max = PLACES;
    setup.connect_timeout_ms = KIT_DEADLINE_MS; /* No connection ends by itself. */
    kit_start(&setup, 1);
    peer = dial_from(&setup, "127.0.0.1"); /* The address of replica 2. */
    stranger = dial_from(&setup, "127.0.0.8");
    run_some(&setup);
    for (int i = 0; i < FLOOD; i++) {
        flood[i] = dial_from(&setup, "127.0.0.9");
        run_some(&setup);
        assert_false(is_ended(stranger) || is_ended(peer));
    }
    for (int i = 0; i < FLOOD; i++) {
        alive += is_ended(flood[i]) ? 0 : 1;
        close(flood[i]);
    }
    assert_int_equal(alive, PLACES - 2);
    close(stranger);
    close(peer);
    kit_start(&setup, 2);
    KIT_RUN_UNTIL(&setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
    kit_stop_both();
}

/* When each address has one, that of a peer stays. */
TEST(a_flood_from_many_addresses_drops_no_peer)
{
    struct kit_setup setup = kit_make_setup();
    char from[32];
    int flood[MANY];
    int peer = -1;

    setup.shaking_max = PLACES;
    setup.connect_timeout_ms = KIT_DEADLINE_MS; /* No connection ends by itself. */
    kit_start(&setup, 1);
    peer = dial_from(&setup, "127.0.0.1");
    run_some(&setup);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(from, sizeof(from), "127.0.%d.%d", 1 + i / 200, 1 + i % 200);
        flood[i] = dial_from(&setup, from);
        run_some(&setup);
        assert_false(is_ended(peer));
    }
    for (int i = 0; i < MANY; i++) {
        close(flood[i]);
    }
    close(peer);
    kit_stop(1);
}

/* ---- Handshakes of TLS. ---- */

/* Takes the first bytes of a dialer. */
static size_t client_hello(struct keys *keys, uint8_t *to, size_t size)
{
    struct seal *seal =
        seal_open(&(struct seal_options){.keys = keys, .dials = true, .from = 2, .to = 1});

    assert_int_equal(seal_shake(seal), ERR_BUSY);

    struct slice bytes = seal_pending(seal);

    assert_true(bytes.len <= size);
    memcpy(to, bytes.data, bytes.len);
    seal_close(seal);
    return bytes.len;
}

/* Returns how many of the hellos from one address replica 1 answers, with whatever. */
static uint32_t count_answers(const struct kit_setup *setup, struct keys *keys)
{
    uint8_t hello[2048];
    size_t len = client_hello(keys, hello, sizeof(hello));
    uint32_t answers = 0;

    for (int i = 0; i < HELLOS; i++) {
        int fd = dial_from(setup, "127.0.0.9");
        ssize_t got = -1;
        uint8_t byte = 0;

        assert_int_equal(write(fd, hello, len), (ssize_t)len);
        KIT_RUN_UNTIL(setup, (got = recv(fd, &byte, 1, MSG_DONTWAIT)) >= 0 || errno != EAGAIN);
        answers += got == 1 ? 1 : 0;
        close(fd);
    }
    return answers;
}

static void flood_hellos(struct kit_setup *setup, struct keys *keys)
{
    uint64_t before_ms = os_now_ms();
    uint32_t answers = 0;

    kit_start(setup, 1);
    answers = count_answers(setup, keys);
    assert_in_range(answers, CALLERS_BURST,
                    CALLERS_BURST + 1 + CALLERS_PER_S * (os_now_ms() - before_ms) / 1000);
    kit_start(setup, 2);
    KIT_RUN_UNTIL(setup, kit_nodes[1].ups == 1 && kit_nodes[2].ups == 1);
    kit_stop_both();
}

TEST(a_stranger_gets_a_bounded_number_of_handshakes_with_a_secret)
{
    struct kit_setup setup = kit_make_setup();
    struct keys *keys = kit_keys("the secret of a stranger", NULL);

    setup.secret[1] = setup.secret[2] = "the secret of the ensemble";
    setup.tls[1] = setup.tls[2] = KEYS_REQUIRED;
    flood_hellos(&setup, keys);
    keys_release(keys);
}

TEST(a_stranger_gets_a_bounded_number_of_handshakes_with_certificates)
{
    struct kit_setup setup = kit_make_setup();
    struct keys *keys = kit_keys(NULL, NULL);
    struct cert_kit certs;
    char cert[3][CERT_KIT_PATH_MAX];
    char key[3][CERT_KIT_PATH_MAX];
    char ca[CERT_KIT_PATH_MAX];

    cert_kit_open(&certs);
    for (int id = 1; id <= 2; id++) {
        const char *const names[] = {"", "one", "two"};
        const char *const files[] = {"", "one.pem", "two.pem"};
        const char *const secrets[] = {"", "one.key", "two.key"};
        struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = names[id], .names = "127.0.0.1"};

        cert_kit_add(&certs, names[id], &spec);
        setup.secret[id] = NULL;
        setup.tls[id] = KEYS_REQUIRED;
        setup.files[id] =
            (struct keys_options){.cert_file = cert_kit_path(&certs, files[id], cert[id]),
                                  .key_file = cert_kit_path(&certs, secrets[id], key[id]),
                                  .ca_file = cert_kit_path(&certs, "ca.pem", ca)};
    }
    flood_hellos(&setup, keys);
    keys_release(keys);
    cert_kit_close(&certs);
}
