/* Sessions of clients with certificates: a session that was opened with a certificate counts for
 * that certificate on each connection and replica, and other certificates do not see it. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/shell.h"

#include <stdlib.h>

/* One request, each on a connection of its own, from an address of loopback. */
#define CURL                                                                        \
    "curl -sS -m 60 -w ' %%{http_code}' --cacert $C/ca.pem --interface 127.0.0.%d " \
    "--cert $C/%s.pem --key $C/%s.key "

enum {
    REPLICAS = 3
};

static struct ensemble ensemble;
static struct cert_kit certs;
static char keys[2048];

static void add_client(const char *name)
{
    const struct cert_kit_spec spec = {.kind = ISSUE_CLIENT, .common = name};

    cert_kit_add(&certs, name, &spec);
}

static void open_all(void)
{
    static const struct cert_kit_spec server = {
        .kind = ISSUE_SERVER, .common = "replica", .names = CERT_KIT_LOCAL};

    cert_kit_open(&certs);
    cert_kit_add(&certs, "replica", &server);
    add_client("bob");
    add_client("eve");
    add_client("root");
    (void)snprintf(keys, sizeof(keys),
                   "clientTls=optional\ntlsCertFile=%s/replica.pem\ntlsKeyFile=%s/replica.key\n"
                   "clientCaFile=%s/ca.pem\nclientCertificates=ask\nsuperX509=CN=root\n"
                   "maxSessionsPerClient=2\n",
                   certs.dir, certs.dir, certs.dir);
    ensemble_launch(&ensemble, REPLICAS, keys);
    shell_open(&ensemble);
    assert_int_equal(setenv("C", certs.dir, 1), 0);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
    cert_kit_close(&certs);
}

/* One request with the certificate of `name` to replica `index`, from 127.0.0.`from`: `target` may
 * have shell variables; `has` is in the answer, which ends with the status. */
static void expect(const char *name, int from, uint32_t index, const char *method,
                   const char *target, long status, const char *has)
{
    char end[16];

    (void)snprintf(end, sizeof(end), " %ld", status);
    assert_int_equal(shell(CURL "-X %s \"https://localhost:%u%s\"", from, name, name, method,
                           ensemble.replicas[index].client_port, target),
                     0);
    if (!strstr(shell_output, end) || !strstr(shell_output, has)) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s of %s: %s", method, target, name, shell_output);
    }
}

/* A member of the last answer, for later requests as $NAME. */
static void keep(const char *member, const char *name)
{
    char value[64] = "";
    char mark[32];
    const char *at = NULL;

    (void)snprintf(mark, sizeof(mark), "\"%s\":\"", member);
    at = strstr(shell_output, mark);
    assert_non_null(at);
    (void)snprintf(value, sizeof(value), "%.*s", (int)strcspn(at + strlen(mark), "\""),
                   at + strlen(mark));
    assert_int_equal(setenv(name, value, 1), 0);
}

static bool list_has_session(void)
{
    return strstr(shell_output, getenv("SESSION")) != NULL;
}

#define LIST       "/sessions/v1?consistency=linearizable"
#define EPHEMERALS "/sessions/v1?view=ephemerals&consistency=linearizable&public=$SESSION"
#define KILL       "/sessions/v1?op=kill&public=$SESSION"

TEST_GROUP(open_all, close_all)

/* Bob opens a session at replica 1. At the others, over connections of their own and from another
 * address, his certificate owns it; eve's does not, not even from the address that opened it. */
TEST(a_certificate_owns_its_session_on_each_connection_and_replica)
{
    expect("bob", 5, 0, "POST", "/sessions/v1/?op=create&timeout_ms=60000", 201, "\"id\"");
    keep("id", "SECRET");
    keep("session", "SESSION");
    expect("bob", 6, 1, "POST -H \"Zk-Session: $SECRET\"",
           "/znodes/v1/?op=create&name=owned&ephemeral=true", 201, "/owned");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        expect("bob", 6, i, "GET", LIST, 200, "\"identity\":\"x509:CN=bob\"");
        assert_true(list_has_session());
        expect("bob", 6, i, "GET", EPHEMERALS, 200, "/owned");
        expect("root", 7, i, "GET", LIST, 200, "\"identity\":\"x509:CN=bob\"");
        assert_true(list_has_session());
        expect("eve", 5, i, "GET", LIST, 200, "\"sessions\":[]");
        expect("eve", 5, i, "GET", EPHEMERALS, 404, "no open session that you may see");
        expect("eve", 5, i, "POST", KILL, 403, "NoAuth");
        expect("bob", 6, i, "PUT", "/sessions/v1/$SECRET", 200, getenv("SESSION"));
    }
    expect("root", 7, 2, "POST", KILL, 204, "");
    expect("bob", 6, 1, "GET", LIST, 200, "\"sessions\":[]");
}

/* The share of a certificate is the same for all its addresses and on all replicas. */
TEST(a_certificate_has_one_share_of_the_sessions)
{
    expect("bob", 5, 0, "POST", "/sessions/v1/?op=create", 201, "");
    expect("bob", 6, 1, "POST", "/sessions/v1/?op=create", 201, "");
    expect("bob", 7, 2, "POST", "/sessions/v1/?op=create", 429, "maxSessionsPerClient");
    expect("eve", 7, 2, "POST", "/sessions/v1/?op=create", 201, "");
}
