/* The production set-up of docs/security.md, as it stands there: its commands and its ten lines are
 * cut out of the page and run on three replicas. Only host names and ports are replaced. */
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/page.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <string.h>

enum {
    REPLICAS = 3,
    COMMANDS = 1, /* The blocks of the chapter. */
    CONFIGURATION,
    CLOSING
};

static struct ensemble ensemble;
static uint16_t probes[REPLICAS];

static void cut_out(uint32_t number, const char *name)
{
    const struct page_block block = {
        .page = "docs/security.md", .heading = "Production in ten lines", .number = number};

    page_cut(&block, name);
}

/* Runs the lines with localhost in place of the names of the hosts. */
static void make_files(void)
{
    cut_out(COMMANDS, "commands");
    shell_expect("sed 's/zk$n[.]example[.]org/localhost,127.0.0.1/' $D/commands >$D/run && "
                 "grep -q localhost $D/run && sh -e $D/run 2>&1",
                 0, "CN=admin");
    shell_expect("stat -c %a tls/ca.key tls/zk1.key tls/zk3.key tls/admin.key tls/secret | uniq", 0,
                 "600\n");
}

static void configure(void)
{
    make_files();
    cut_out(CONFIGURATION, "lines");
    shell_expect("grep -c = $D/lines", 0, "10\n");
    shell_expect("grep -cv = $D/lines", 1, "0\n");
    /* What the page names beside the lines. */
    assert_int_equal(shell("grep -o '[a-zA-Z]*=zk1[.]example[.]org:9998' %s/docs/security.md "
                           ">>$D/lines",
                           ZABRA_TOP),
                     0);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        const struct replica *replica = &ensemble.replicas[i];

        probes[i] = port_free();
        assert_int_equal(shell("sed -i '/^clientTls=/d; /^tls/d' %s && "
                               "sed 's/0[.]0[.]0[.]0/127.0.0.1/; "
                               "s/zk1[.]example[.]org:9998/localhost:%u/; s/zk1/zk%u/' $D/lines "
                               ">>%s && echo probeListen=127.0.0.1:%u >>%s",
                               replica->config, replica->client_port, i + 1, replica->config,
                               probes[i], replica->config),
                         0);
    }
}

/* Sets the variables of the last block, runs its commands, and keeps the variables. */
static void close_tree(void)
{
    cut_out(CLOSING, "closing");
    page_localize(&ensemble, "closing");
    shell_expect("sed -n 's/^export //p' $D/closing | tr ' ' '\\n' >$D/variables; "
                 "grep -c localhost $D/variables",
                 0, "1\n");
    shell_expect("eval \"$LIB\"; export $(cat $D/variables); await 'zabra get /'", 0, "");
    shell_expect("sh -e $D/closing", 0, "/billing");
    shell_expect("eval \"$LIB\"; export $(cat $D/variables); "
                 "await 'zabra doctor | grep -q \"no problem found\"'",
                 0, "");
}

static void open_page(void)
{
    page_ensemble_open(&ensemble, REPLICAS, configure, probes);
    close_tree();
    shell_expect("zabra cert client --dir tls --name billing && "
                 "zabra cert client --dir tls --name eve && zabra cert ca --dir other && "
                 "zabra cert client --dir other --name admin",
                 0, "CN=admin");
}

static void close_page(void)
{
    page_ensemble_close(&ensemble);
}

TEST_GROUP(open_page, close_page)

/* Runs a command with a certificate of `dir`, at one replica. */
static void expect_as(uint32_t replica, const char *dir, const char *name, const char *command,
                      int code, const char *said)
{
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line),
                   "export ZABRA_CA=tls/ca.pem ZABRA_CERT=%s/%s.pem ZABRA_KEY=%s/%s.key "
                   "ZABRA_ENDPOINTS=https://localhost:%u; %s 2>&1",
                   dir, name, dir, name, ensemble.replicas[replica].client_port, command);
    shell_expect(line, code, said);
}

/* A client of the page's authority that was given no znode. */
static void expect_stranger(const char *command)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        expect_as(i, "tls", "eve", command, 5, "NoAuth");
    }
}

TEST(the_set_up_works)
{
    expect_as(0, "tls", "admin", "zabra whoami -o json | jq -c .super", 0, "true");
    /* The last replica may still be connecting. */
    expect_as(1, "tls", "admin", "eval \"$LIB\"; await 'zabra doctor'; zabra doctor", 0,
              "3 replicas asked, no problem found");
    expect_as(2, "tls", "billing", "zabra create /billing/invoice x", 0, "/billing/invoice");
    expect_as(0, "tls", "billing", "zabra get /billing/invoice --linearizable", 0, "x");
    expect_as(1, "tls", "billing", "zabra acl /billing/invoice --linearizable", 0,
              "x509:CN=billing:cdrwa\n");
    expect_as(1, "tls", "admin", "zabra set /billing/invoice y", 0, "");
    expect_as(2, "tls", "billing", "zabra get /billing/invoice --linearizable", 0, "y");
}

/* The connections between the replicas are sealed. */
TEST(the_replicas_talk_over_tls)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        expect_as(i, "tls", "admin",
                  "zabra api GET /ensemble/v1 | jq -c '[.members[].sealed | values]'", 0,
                  "[\"psk\",\"psk\"]");
    }
}

TEST(a_client_without_a_certificate_gets_nothing_but_probes)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        uint16_t port = ensemble.replicas[i].client_port;
        char line[SHELL_LINE_MAX];

        /* The handshake fails: curl has no answer. */
        (void)snprintf(line, sizeof(line),
                       "curl -s -w '%%{http_code}' --cacert tls/ca.pem "
                       "https://localhost:%u/znodes/v1/",
                       port);
        assert_int_not_equal(shell("%s", line), 0);
        assert_string_equal(shell_output, "000");
        (void)snprintf(line, sizeof(line),
                       "curl -s -w '%%{http_code}' http://localhost:%u/znodes/v1/", port);
        shell_expect(line, 0, "308");
        (void)snprintf(line, sizeof(line),
                       "curl -s -w '%%{http_code}' -X PUT -d x http://localhost:%u/znodes/v1/",
                       port);
        shell_expect(line, 0, "clientTls=required");
        expect_as(i, "other", "admin", "zabra get /", 6, "");
        for (size_t k = 0; k < 3; k++) {
            static const char *const open[] = {"/livez", "/readyz", "/metrics"};

            (void)snprintf(line, sizeof(line),
                           "curl -s -o $D/out -w '%%{http_code}' http://127.0.0.1:%u%s", probes[i],
                           open[k]);
            shell_expect(line, 0, "200");
        }
        (void)snprintf(line, sizeof(line),
                       "curl -s -o $D/out -w '%%{http_code}' http://127.0.0.1:%u/znodes/v1/",
                       probes[i]);
        shell_expect(line, 0, "404");
    }
}

TEST(a_stranger_is_refused_everywhere)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota", "/billing",
                                        "/billing/held"};

    expect_as(0, "tls", "billing", "zabra create /billing/held x", 0, "/billing/held");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        const char *path = paths[i];
        const char *slash = i == 0 ? "" : path;
        char line[SHELL_LINE_MAX];

        (void)snprintf(line, sizeof(line), "zabra get %s --linearizable", path);
        expect_stranger(line);
        (void)snprintf(line, sizeof(line), "zabra ls %s", path);
        expect_stranger(line);
        (void)snprintf(line, sizeof(line), "zabra set %s evil", path);
        expect_stranger(line);
        (void)snprintf(line, sizeof(line), "zabra create %s/evil", slash);
        expect_stranger(line);
        (void)snprintf(line, sizeof(line), "zabra acl %s open", path);
        expect_stranger(line);
    }
    expect_stranger("zabra rm /billing/held");
    expect_stranger("zabra rm -r -y /billing");
    expect_stranger("zabra export /");
    expect_stranger("zabra find / --name 'b*'");
    expect_stranger("zabra acl -R / open");
}

/* A quota of a stranger could block all writes of a service. */
TEST(a_stranger_sets_no_quota)
{
    expect_stranger("zabra quota /billing --count 1");
    expect_stranger("zabra quota /other --bytes 1");
    expect_stranger("zabra create /zookeeper/quota/billing/zookeeper_limits -p countHardLimit=1");
    expect_stranger("zabra create /zookeeper/config/evil");
    expect_stranger("zabra acl /zookeeper/config open");
    expect_as(0, "tls", "eve", "zabra get /zookeeper/config", 0, "");
    expect_as(1, "tls", "billing", "zabra create /billing/more", 0, "/billing/more");
}

/* An invented password adds no permission to the certificate. */
TEST(a_stranger_with_a_password_is_a_stranger)
{
    shell_expect("umask 077; echo x >$D/pw", 0, "");
    expect_stranger("zabra get /billing --user billing --password-file $D/pw");
    expect_stranger("zabra create /evil --user admin --password-file $D/pw");
}
