/* Trusted proxies in front of real replicas: a proxy that speaks TLS with a certificate of its own
 * names its clients, and all that counts by address counts for them. A proxy that is not trusted
 * names none. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/front.h"
#include "tests/proc/plain.h"
#include "tests/proc/shell.h"
#include "tests/proc/talk.h"

#include <stdlib.h>

enum {
    REPLICAS = 3,
    TRUSTED = 9, /* 127.0.0.9 */
    UNKNOWN = 10,
    PLAIN_MS = 60000,
    CONNECTIONS_EACH = 4 /* maxConnectionsPerAddress */
};

/* curl from an address of loopback; the super user's certificate is that of the proxies. */
#define CURL     "curl -sS -m 60 -w ' %%{http_code}' --interface 127.0.0.%d "
#define AS_FRONT "--cacert $C/ca.pem --cert $C/front.pem --key $C/front.key "

static struct ensemble ensemble;
static struct cert_kit certs;
static struct front fronts[2]; /* Trusted: X-Forwarded at replica 1, Forwarded at replica 2. */
static struct front stranger;
static char keys[2048];

static void start_front(struct front *front, uint32_t index, uint8_t from, bool forwarded)
{
    *front = (struct front){.target = ensemble.replicas[index].client_port,
                            .from = from,
                            .forwarded = forwarded,
                            .certs = certs.dir};
    front_start(front);
}

static void add_audit_file(uint32_t index)
{
    FILE *file = fopen(ensemble.replicas[index].config, "a");

    assert_non_null(file);
    (void)fprintf(file, "auditFile=%s/audit%u\n", ensemble.dir, index);
    assert_int_equal(fclose(file), 0);
}

static void open_all(void)
{
    cert_kit_open(&certs);
    cert_kit_add_server(&certs, "replica", "replica");
    cert_kit_add_client(&certs, "front");
    (void)snprintf(keys, sizeof(keys),
                   "clientTls=optional\ntlsCertFile=%s/replica.pem\ntlsKeyFile=%s/replica.key\n"
                   "clientCaFile=%s/ca.pem\nclientCertificates=ask\nsuperX509=CN=front\n"
                   "trustedProxies=127.0.0.%d\nallowedHosts=zk.example\naccessLog=true\n"
                   "maxConnectionsPerAddress=%d\nmaxSessionsPerAddress=2\n",
                   certs.dir, certs.dir, certs.dir, TRUSTED, CONNECTIONS_EACH);
    ensemble_open(&ensemble, REPLICAS, keys);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        add_audit_file(i);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    shell_open(&ensemble);
    assert_int_equal(setenv("C", certs.dir, 1), 0);
    start_front(&fronts[0], 0, TRUSTED, false);
    start_front(&fronts[1], 1, TRUSTED, true);
    start_front(&stranger, 0, UNKNOWN, false);
}

static void close_all(void)
{
    front_stop(&fronts[0]);
    front_stop(&fronts[1]);
    front_stop(&stranger);
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
}

/* A request from 127.0.0.`from` through a proxy; `options` are those of curl, `has` is in the
 * answer, which ends with the status. */
static void expect(const struct front *front, int from, const char *options, const char *target,
                   long status, const char *has)
{
    char end[16];

    (void)snprintf(end, sizeof(end), " %ld", status);
    assert_int_equal(shell(CURL "%s 'http://127.0.0.1:%u%s'", from, options, front->port, target),
                     0);
    if (!strstr(shell_output, end) || !strstr(shell_output, has)) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s from 127.0.0.%d: %s", options, target, from, shell_output);
    }
}

static void expect_not(const char *text)
{
    if (strstr(shell_output, text)) {
        fail_msg("%s is in: %s", text, shell_output);
    }
}

static bool file_has(const char *file, const char *first, const char *second)
{
    return shell("grep '%s' %s | grep -q '%s'", first, file, second) == 0;
}

/* Each replica has recorded the same. */
static void expect_audit(const char *first, const char *second)
{
    char path[ENSEMBLE_PATH_MAX + 16];

    for (uint32_t i = 0; i < REPLICAS; i++) {
        (void)snprintf(path, sizeof(path), "%s/audit%u", ensemble.dir, i);
        ENSEMBLE_WAIT(&ensemble, file_has(path, first, second));
    }
}

TEST_GROUP(open_all, close_all)

TEST(a_client_has_its_own_address_and_not_the_certificate_of_the_proxy)
{
    for (int i = 0; i < 2; i++) {
        expect(&fronts[i], 77, "", "/whoami/v1", 200, "{\"address\":\"127.0.0.77\"");
        assert_non_null(strstr(shell_output, "{\"scheme\":\"ip\",\"id\":\"127.0.0.77\"}"));
        assert_non_null(strstr(shell_output, "\"authenticated\":false,\"super\":false"));
        expect_not("x509");
        /* What the client itself says counts nothing. */
        expect(&fronts[i], 77,
               "-H 'X-Forwarded-For: 127.0.0.78' -H 'Forwarded: for=127.0.0.78' -u bob:pw",
               "/whoami/v1", 200, "{\"address\":\"127.0.0.77\"");
        assert_non_null(strstr(shell_output, "{\"scheme\":\"digest\",\"id\":\"bob:"));
    }
    /* The certificate of the proxies is valid: alone it is the super user. */
    assert_int_equal(
        shell(CURL AS_FRONT "https://localhost:%u/whoami/v1", 5, ensemble.replicas[0].client_port),
        0);
    assert_non_null(strstr(shell_output, "\"super\":true"));
}

/* The client is this program: 127.0.0.1. */
TEST(a_socket_has_the_address_of_its_client)
{
    for (int i = 0; i < 2; i++) {
        struct socket *socket = socket_open(fronts[i].port, NULL);
        json_t *reply = NULL;
        const json_t *who = NULL;

        assert_int_equal(socket_status(socket), 101);
        reply = socket_call(socket, "\"op\":\"whoami\"");
        who = json_object_get(reply, "whoami");
        assert_string_equal(talk_text(who, "address"), "127.0.0.1");
        assert_true(json_is_false(json_object_get(who, "super")));
        assert_int_equal(json_array_size(json_object_get(who, "ids")), 2); /* world, ip */
        json_decref(reply);
        socket_close(socket);
    }
}

TEST(urls_in_answers_are_those_of_the_proxy)
{
    for (int i = 0; i < 2; i++) {
        expect(&fronts[i], 77, "-H 'Host: zk.example'", "/znodes/v1/", 200,
               "\"uri\":\"https://zk.example/znodes/v1/\"");
    }
}

TEST(permissions_by_address_and_the_logs_are_about_the_client)
{
    const char *log = ensemble.replicas[0].log;

    expect(&fronts[0], 77,
           "-X POST -d x -H 'Content-Type: text/plain' -H 'Zk-Acl: "
           "ip:127.0.0.77:cdrwa'",
           "/znodes/v1/?op=create&name=mine", 201, "/mine");
    expect_audit("\"path\":\"/mine\"", "\"address\":\"127.0.0.77\"");
    for (int i = 0; i < 2; i++) {
        expect(&fronts[i], 77, "", "/znodes/v1/mine?consistency=linearizable", 200, "\"/mine\"");
        expect(&fronts[i], 78, "", "/znodes/v1/mine?consistency=linearizable", 401, "NoAuth");
        expect(&fronts[i], TRUSTED, "", "/znodes/v1/mine?consistency=linearizable", 401, "NoAuth");
    }
    ENSEMBLE_WAIT(&ensemble, file_has(log, "remote=127.0.0.77 ", "target=/znodes/v1/mine"));
    ENSEMBLE_WAIT(&ensemble, file_has(log, "remote=127.0.0.78 ", "target=/znodes/v1/mine"));
    assert_false(file_has(log, "remote=127.0.0.9 ", "status=201"));
    expect(&fronts[1], 78, "-X PUT -d y", "/znodes/v1/mine", 401, "NoAuth");
    (void)snprintf(keys, sizeof(keys), "%s/audit1", ensemble.dir);
    ENSEMBLE_WAIT(&ensemble, file_has(keys, "\"event\":\"refused\"", "\"address\":\"127.0.0.78\""));
}

TEST(a_proxy_that_is_not_trusted_names_no_client)
{
    expect(&stranger, 77, "", "/whoami/v1", 200, "{\"address\":\"127.0.0.10\"");
    expect_not("127.0.0.77");
    assert_int_equal(shell(CURL "-H 'X-Forwarded-For: 127.0.0.77' -H 'Forwarded: for=127.0.0.77' "
                                "http://127.0.0.1:%u/whoami/v1",
                           5, ensemble.replicas[0].client_port),
                     0);
    assert_non_null(strstr(shell_output, "{\"address\":\"127.0.0.5\""));
    expect_not("127.0.0.77");
}

/* Opens twice as many streams through a proxy as one address may have; returns how many. */
static int open_streams(const struct front *front)
{
    struct plain *streams[CONNECTIONS_EACH * 2];
    struct plain_answer answer;
    int count = 0;

    plain_answer_init(&answer);
    for (int i = 0; i < CONNECTIONS_EACH * 2; i++) {
        long status = 0;

        streams[i] = plain_open(front->port, PLAIN_MS);
        assert_non_null(streams[i]);
        status =
            plain_stream(streams[i], "/watch/v1/gone?mode=persistent", NULL, PLAIN_MS, &answer);
        assert_true(status == 200 || status == 429);
        count += status == 200;
    }
    for (int i = 0; i < CONNECTIONS_EACH * 2; i++) {
        plain_close(streams[i]);
    }
    plain_answer_release(&answer);
    return count;
}

/* A trusted proxy may have all connections, another address has its share. */
TEST(connections_of_a_trusted_proxy_are_not_capped)
{
    assert_int_equal(open_streams(&fronts[0]), CONNECTIONS_EACH * 2);
    assert_int_equal(open_streams(&stranger), CONNECTIONS_EACH);
}

TEST(shares_by_address_are_those_of_the_clients)
{
    for (int i = 0; i < 2; i++) {
        expect(&fronts[i], 81, "-X POST", "/sessions/v1/?op=create", 201, "\"session\"");
    }
    expect(&fronts[0], 81, "-X POST", "/sessions/v1/?op=create", 429, "maxSessionsPerAddress");
    expect(&fronts[1], 82, "-X POST", "/sessions/v1/?op=create", 201, "\"session\"");
    expect_audit("\"address\":\"127.0.0.82\"", "\"op\":\"session\"");
    expect(&fronts[1], 82, "", "/sessions/v1", 200, "\"address\":\"127.0.0.82\"");
    expect_not("127.0.0.81");
}
