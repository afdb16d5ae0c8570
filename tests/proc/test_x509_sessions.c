/* Sessions of clients with certificates: a session that was opened with a certificate counts for
 * that certificate on each connection and replica, and other certificates do not see it. */
#include "tests/lib/cert_kit.h"
#include "tests/proc/shell.h"

#include <stdlib.h>

/* One request with a certificate, from an address of loopback. */
#define CURL                                                                        \
    "curl -sS -m 60 -w ' %%{http_code}' --cacert $C/ca.pem --interface 127.0.0.%d " \
    "--cert $C/%s.pem --key $C/%s.key "

enum {
    REPLICAS = 3,
    FIELD_MAX = 64
};

static struct ensemble ensemble;
static struct cert_kit certs;
static char secret[FIELD_MAX];
static char session[FIELD_MAX]; /* Its public id. */
static char keys[2048];

static void open_all(void)
{
    cert_kit_open(&certs);
    cert_kit_add_server(&certs, "replica", "replica");
    cert_kit_add_client(&certs, "bob");
    cert_kit_add_client(&certs, "eve");
    cert_kit_add_client(&certs, "root");
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

struct caller {
    const char *name; /* Of the certificate. */
    int from;         /* 127.0.0.x */
    uint32_t index;   /* Of the replica. */
};

#define AS(...) (&(const struct caller){__VA_ARGS__})

/* One request on a connection of its own: `target` may have shell variables; `has` is in the
 * answer, which ends with the status. */
static void expect(const struct caller *caller, const char *method, const char *target, long status,
                   const char *has)
{
    char end[16];

    (void)snprintf(end, sizeof(end), " %ld", status);
    assert_int_equal(shell(CURL "-X %s \"https://localhost:%u%s\"", caller->from, caller->name,
                           caller->name, method, ensemble.replicas[caller->index].client_port,
                           target),
                     0);
    if (!strstr(shell_output, end) || !strstr(shell_output, has)) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s of %s: %s", method, target, caller->name, shell_output);
    }
}

/* Copies a member of the last answer, for later requests also as the shell variable `name`. */
static void keep(const char *member, const char *name, char value[FIELD_MAX])
{
    char mark[32];
    const char *at = NULL;

    (void)snprintf(mark, sizeof(mark), "\"%s\":\"", member);
    at = strstr(shell_output, mark);
    if (!at) {
        fail_msg("no %s in: %s", member, shell_output);
        return;
    }
    (void)snprintf(value, FIELD_MAX, "%.*s", (int)strcspn(at + strlen(mark), "\""),
                   at + strlen(mark));
    assert_int_equal(setenv(name, value, 1), 0);
}

static bool list_has_session(void)
{
    return strstr(shell_output, session) != NULL;
}

#define LIST       "/sessions/v1?consistency=linearizable"
#define EPHEMERALS "/sessions/v1?view=ephemerals&consistency=linearizable&public=$SESSION"
#define KILL       "/sessions/v1?op=kill&public=$SESSION"

TEST_GROUP(open_all, close_all)

/* Bob opens a session at replica 1. At the others, over connections of their own and from another
 * address, his certificate owns it; eve's does not, not even from the address that opened it. */
TEST(a_certificate_owns_its_session_on_each_connection_and_replica)
{
    expect(AS("bob", 5, 0), "POST", "/sessions/v1/?op=create&timeout_ms=60000", 201, "\"id\"");
    keep("id", "SECRET", secret);
    keep("session", "SESSION", session);
    expect(AS("bob", 6, 1), "POST -H \"Zk-Session: $SECRET\"",
           "/znodes/v1/?op=create&name=owned&ephemeral=true", 201, "/owned");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        expect(AS("bob", 6, i), "GET", LIST, 200, "\"identity\":\"x509:CN=bob\"");
        assert_true(list_has_session());
        expect(AS("bob", 6, i), "GET", EPHEMERALS, 200, "/owned");
        expect(AS("root", 7, i), "GET", LIST, 200, "\"identity\":\"x509:CN=bob\"");
        assert_true(list_has_session());
        expect(AS("eve", 5, i), "GET", LIST, 200, "\"sessions\":[]");
        expect(AS("eve", 5, i), "GET", EPHEMERALS, 404, "no open session that you may see");
        expect(AS("eve", 5, i), "POST", KILL, 403, "NoAuth");
        expect(AS("bob", 6, i), "PUT", "/sessions/v1/$SECRET", 200, session);
    }
    expect(AS("root", 7, 2), "POST", KILL, 204, "");
    expect(AS("bob", 6, 1), "GET", LIST, 200, "\"sessions\":[]");
}

/* The share of a certificate is the same for all its addresses and on all replicas. */
TEST(a_certificate_has_one_share_of_the_sessions)
{
    expect(AS("bob", 5, 0), "POST", "/sessions/v1/?op=create", 201, "");
    expect(AS("bob", 6, 1), "POST", "/sessions/v1/?op=create", 201, "");
    expect(AS("bob", 7, 2), "POST", "/sessions/v1/?op=create", 429, "maxSessionsPerClient");
    expect(AS("eve", 7, 2), "POST", "/sessions/v1/?op=create", 201, "");
}
