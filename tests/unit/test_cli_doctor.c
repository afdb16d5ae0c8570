/* The doctor: what it finds in the answers of replicas, and that it finds nothing when all is well;
 * splitting a line into words; percentiles. */
#include "cli/doctor.h"
#include "cli/hist.h"
#include "cli/jsonr.h"
#include "cli/prom.h"
#include "cli/words.h"
#include "server/config/config.h"
#include "tests/lib/unit.h"
#include "tests/unit/doctor_kit.h"

#include <ctype.h>
#include <string.h>

/* Two replicas and three members, all well. Each case changes one thing. */
static const char healthy[] =
    "{'ensemble':{'seen_by':1,'leader':1,'members':["
    "{'id':1,'role':'voter','peer':'10.0.0.1:1','state':'leader','client':'http://10.0.0.1:2'},"
    "{'id':2,'role':'voter','peer':'10.0.0.2:1','state':'follower','client':'http://10.0.0.2:2'},"
    "{'id':3,'role':'voter','peer':'10.0.0.3:1','state':'follower','client':'http://10.0.0.3:2'}]},"
    "'replicas':["
    "{'endpoint':'http://a','http':200,'clock_ms':5000,'asked_ms':5300,'answered_ms':5301,"
    "'status':{'id':1,'serving':true,'zxid':'0x100020000','digest':'0x1','cluster':'c',"
    "'history':'h','version':'1'},'ready':{'checks':[{'name':'leader','ok':true,'text':''}]},"
    "'limits':{'maxSessions':100,'maxTreeBytes':1000},"
    "'metrics':{'zabra_sessions':79,'zabra_log_stuck':0,"
    "'zabra_log_sync_seconds_count':100,'zabra_log_sync_seconds_sum':1.5}},"
    "{'endpoint':'http://b','http':200,'clock_ms':5000,'asked_ms':5300,'answered_ms':5301,"
    "'status':{'id':2,'serving':true,'zxid':'0x10001ffff','digest':'0x2','cluster':'c',"
    "'history':'h','version':'1'},'ready':{'checks':[{'name':'leader','ok':true,'text':''}]},"
    "'limits':{'maxSessions':100,'maxTreeBytes':1000},'metrics':{}}]}";

static json_t *facts_with(const char *from, const char *to)
{
    struct buf text;
    const char *at = strstr(healthy, from);

    assert_non_null(at);
    buf_init(&text, 1 << 16);
    buf_append(&text, healthy, (size_t)(at - healthy));
    buf_append_str(&text, to);
    buf_append_str(&text, at + strlen(from));
    return facts_of(&text);
}

static bool is_key(struct slice word)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        if (slice_eq(word, slice_str(rows[i].key))) {
            return true;
        }
    }
    return false;
}

/* A word of the advice that looks like a configuration key is one: a reader of the advice can look
 * it up. */
static void check_keys(const char *advice)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    while (*advice) {
        size_t len = strspn(advice, letters);
        bool mixed = false;

        for (size_t i = 1; i < len; i++) {
            mixed |= islower((unsigned char)*advice) && isupper((unsigned char)advice[i]);
        }
        if (mixed && !is_key(slice_make(advice, len))) {
            fail_msg("%.*s is no key of the configuration", (int)len, advice);
        }
        advice += len > 0 ? len : 1;
    }
}

/* The codes of all findings, each followed by a blank. */
static void codes_of(const char *from, const char *to, struct buf *codes)
{
    json_t *facts = facts_with(from, to);
    json_t *findings = doctor_look(facts);
    const json_t *finding = NULL;
    size_t i = 0;

    buf_clear(codes);
    json_array_foreach(findings, i, finding)
    {
        buf_append_str(codes, jsonr_text(finding, "code"));
        buf_append_byte(codes, ' ');
        assert_true(*jsonr_text(finding, "meaning") && *jsonr_text(finding, "advice"));
        assert_true(*jsonr_text(finding, "subject") && *jsonr_text(finding, "found"));
        check_keys(jsonr_text(finding, "advice"));
    }
    json_decref(findings);
    json_decref(facts);
}

/* A change of the healthy facts, and the codes that follow from it. */
struct sample {
    const char *from;
    const char *to;
    const char *codes;
};

static void expect_codes(const struct sample *samples, size_t count)
{
    struct buf codes;

    buf_init(&codes, 1 << 16);
    for (size_t i = 0; i < count; i++) {
        codes_of(samples[i].from, samples[i].to, &codes);
        if (strcmp(buf_cstr(&codes), samples[i].codes) != 0) {
            fail_msg("%s: found \"%s\", not \"%s\"", samples[i].to, buf_cstr(&codes),
                     samples[i].codes);
        }
    }
    buf_release(&codes);
}

TEST(each_fault_of_tls_is_named)
{
    static const struct sample samples[] = {
        {"'zabra_sessions':79", "'zabra_tls_certificate_expires_seconds':0", ""},
        {"'zabra_sessions':79", "'zabra_tls_certificate_expires_seconds':1209600", ""},
        {"'zabra_sessions':79", "'zabra_tls_certificate_expires_seconds':1209599.5",
         "certificate-expires "},
        {"'zabra_sessions':79", "'zabra_tls_certificate_expires_seconds':-0.5",
         "certificate-expired "},
        {"'zabra_sessions':79", "'zabra_tls_reload_failed':1", "certificate-reload "},
        {"'zabra_sessions':79", "'zabra_tls_reload_errors_total':1", ""},
        {"'zabra_sessions':79", "'zabra_reloads_stuck':1", "reload-stuck "},
        {"'zabra_sessions':79", "'zabra_tls_client_ca_expires_seconds':1209600", ""},
        {"'zabra_sessions':79", "'zabra_tls_client_ca_expires_seconds':1209599",
         "client-ca-expires "},
        {"'zabra_sessions':79", "'zabra_tls_client_ca_expires_seconds':-1", "client-ca-expires "},
        {"'zabra_sessions':79", "'zabra_tls_client_crl_expires_seconds':21600", ""},
        {"'zabra_sessions':79", "'zabra_tls_client_crl_expires_seconds':21599",
         "client-crl-expires "},
        {"'zabra_sessions':79", "'zabra_tls_client_crl_expires_seconds':-1", "client-crl-expires "},
        {"'http':200,'clock_ms':5000,'asked_ms':5300", "'error':'expired','tls':true,'x':1",
         "tls "},
    };

    expect_codes(samples, sizeof(samples) / sizeof(samples[0]));
}

TEST(each_fault_is_named)
{
    static const struct sample cases[] = {
        {"", "", ""},
        {"'http':200,'clock_ms':5000,'asked_ms':5300", "'error':'refused','x':1", "unreachable "},
        {"'status':{'id':2", "'no':{'id':2", "refused "},
        {"'cluster':'c'", "'cluster':'d'", "wrong-cluster "},
        {"'history':'h'", "'history':'i'", "wrong-history "},
        {"0x10001ffff", "0x100020000", "states-differ "},
        {"'ok':true", "'ok':false", "not-ready "},
        {"'leader','ok':true,'text':''", "'member','ok':false,'text':'new'", "not-ready "},
        {"'leader','ok':true,'text':''",
         "'member','ok':false,'text':'not a member of ensemble 3f2a; '", "replica-waits "},
        {"'state':'follower'", "'state':'follower','refused':'another secret'", "peer-refused "},
        {"'state':'follower'", "'state':'follower','duplicate':'two processes claim id 2'",
         "duplicate-id "},
        {"'serving':true,'zxid':'0x10001ffff'",
         "'serving':false,'zxid':'0x10001ffff','duplicate':'two processes claim id 2'",
         "duplicate-id "},
        {"'state':'follower'",
         "'state':'follower','refused':'two processes claim id 1: a and b','duplicate':'two'",
         "duplicate-id "},
        {"'zabra_log_stuck':0", "'zabra_log_stuck':1", "disk-full "},
        {"'zabra_log_stuck':0", "'zabra_disk_low':1", "disk-low "},
        {"'state':'follower'", "'state':'unreachable'", "missing no-spare "},
        {"'state':'follower'", "'state':'silent','heard_ms':9000", "missing no-spare "},
        {"0x10001ffff", "0x100000001", "lagging "},
        {"_sum':1.5", "_sum':15", "disk-slow "},
        {"'zabra_log_stuck':0", "'zabra_snapshot_errors_total':1", "snapshots-fail "},
        {"'zabra_log_stuck':0", "'zabra_refills':1,'zabra_refill_log_lost_total':2",
         "refill-lost "},
        {"'zabra_log_stuck':0", "'zabra_refills':0,'zabra_refill_log_lost_total':2", ""},
        {"'zabra_log_stuck':0", "'zabra_refills_stalled':1", "refill-stalled "},
        {"'clock_ms':5000", "'clock_ms':10000", "clock-skew "},
        {"'clock_ms':5000", "'clock_ms':7000", ""},
        {"'version':'1'", "'version':'2'", "versions-differ "},
        {"'maxSessions':100", "'maxSessions':200", "config-differs "},
        {"'id':3,'role':'voter'", "'id':3,'role':'observer'", "even-voters "},
        {"'leader','ok':true,'text':''",
         "'server_list','ok':true,'text':'server.N: the list differs'", "list-differs "},
        {"'leader','ok':true,'text':''",
         "'server_list','ok':true,'text':'the server list names the members'", ""},
        {"'client':'http://10.0.0.3:2'", "'client':null", "no-client-address "},
        {"'client':'http://10.0.0.3:2'", "'client':'http://127.0.0.1:2'", "loopback-address "},
        {"'client':'http://10.0.0.3:2'", "'client':'http://[::1]:2'", "loopback-address "},
        {"'client':'http://10.0.0.3:2'", "'client':'http://localhost:2'", "loopback-address "},
        {"'client':'http://10.0.0.3:2'", "'client':'http://127.evil.example:2'", ""},
        {"'client':'http://10.0.0.3:2'", "'client':'http://localhost.example:2'", ""},
        {"'zabra_sessions':79", "'zabra_sessions':80", "near-limit "},
        {"'zabra_sessions':79", "'zabra_tree_bytes':799", ""},
        {"'zabra_sessions':79", "'zabra_tree_bytes':800", "tree-full "},
        {"'maxTreeBytes':1000", "'maxTreeBytes':5000", ""},
        {"'zabra_sessions':79", "'zabra_quotas_exceeded':1", "quota-exceeded "},
        {"'zabra_log_stuck':0", "'zabra_peer_key_reload_failed':1", "peer-keys-bad "},
        {"'zabra_log_stuck':0", "'zabra_peer_certificate_expires_seconds':-5", "peer-certificate "},
        {"'zabra_log_stuck':0", "'zabra_peer_certificate_expires_seconds':1209000",
         "peer-certificate "},
        {"'zabra_log_stuck':0", "'zabra_peer_certificate_expires_seconds':1210000", ""},
        {"'zabra_sessions':79", "'zabra_unsent_bytes':74,'zabra_unsent_max_bytes':100", ""},
        {"'zabra_sessions':79", "'zabra_unsent_bytes':75,'zabra_unsent_max_bytes':100",
         "unsent-short "},
        {"'zabra_sessions':79", "'zabra_unsent_bytes':100,'zabra_unsent_max_bytes':100",
         "unsent-full "},
        {"'zabra_sessions':79", "'zabra_unsent_bytes':100", ""},
    };

    expect_codes(cases, sizeof(cases) / sizeof(cases[0]));
}

TEST(an_audit_log_that_fails_or_is_late_is_named)
{
    struct buf codes;

    buf_init(&codes, 1 << 16);
    codes_of("'zabra_log_stuck':0", "'zabra_audit_failing':1", &codes);
    assert_string_equal(buf_cstr(&codes), "audit-failing ");
    codes_of("'zabra_log_stuck':0", "'zabra_audit_behind':100000", &codes);
    assert_string_equal(buf_cstr(&codes), "");
    codes_of("'zabra_log_stuck':0", "'zabra_audit_behind':100001", &codes);
    assert_string_equal(buf_cstr(&codes), "audit-behind ");
    buf_release(&codes);
}

/* The findings, one a line: code and subject. */
static void expect_findings(const char *facts_text, const char *want)
{
    struct buf text;
    struct buf found;
    const json_t *finding = NULL;
    size_t i = 0;

    buf_init(&text, 1 << 16);
    buf_append_str(&text, facts_text);
    buf_init(&found, 1 << 16);

    json_t *facts = facts_of(&text);
    json_t *findings = doctor_look(facts);

    json_array_foreach(findings, i, finding)
    {
        buf_printf(&found, "%s: %s\n", jsonr_text(finding, "code"), jsonr_text(finding, "subject"));
    }
    assert_string_equal(buf_cstr(&found), want);
    json_decref(findings);
    json_decref(facts);
    buf_release(&found);
}

/* Replica 1 is up and knows no leader. */
#define LEADERLESS                                                         \
    "{'endpoint':'http://a','http':200,'status':{'id':1,'serving':false}," \
    "'ready':{'checks':[{'name':'member','ok':true,'text':''},"            \
    "{'name':'leader','ok':false,'text':'no leader is known'},"            \
    "{'name':'in_step','ok':false,'text':'the connection has closed'},"    \
    "{'name':'fresh','ok':false,'text':'longer than staleLimit'}]}}"

static const char down_and_told[] =
    "{'ensemble':{'seen_by':1,'leader':0,'members':["
    "{'id':1,'role':'voter','peer':'127.0.0.1:1','state':'looking','client':'http://a'},"
    "{'id':2,'role':'voter','peer':'127.0.0.1:2','state':'unreachable','client':'http://b'},"
    "{'id':3,'role':'voter','peer':'127.0.0.1:3','state':'silent','client':'http://c'}]},"
    "'replicas':[" LEADERLESS ",{'endpoint':'http://b','error':'refused'},"
    "{'endpoint':'http://c','error':'refused'}]}";

static const char down_and_unknown[] =
    "{'ensemble':{'seen_by':1,'leader':0,'members':["
    "{'id':1,'role':'voter','peer':'127.0.0.1:1','state':'looking','client':null},"
    "{'id':2,'role':'voter','peer':'127.0.0.1:2','state':'unreachable','client':null},"
    "{'id':3,'role':'voter','peer':'127.0.0.1:3','state':'unreachable','client':null}]},"
    "'replicas':[" LEADERLESS ",{'endpoint':'http://b','error':'refused'}]}";

/* Two of three are down: each is reported once and first, with or without an advertised address.
 * The lost quorum follows; the checks of the third replica have the same cause and add nothing. */
TEST(one_cause_is_named_once_and_first)
{
    expect_findings(down_and_told, "unreachable: replica 2 (http://b)\n"
                                   "unreachable: replica 3 (http://c)\nno-quorum: ensemble\n");
    expect_findings(down_and_unknown,
                    "unreachable: http://b\nmissing: replica 3\nno-quorum: ensemble\n");
    expect_findings("{'ensemble':null,'replicas':[{'endpoint':'http://a','error':'refused'}]}",
                    "unreachable: http://a\nno-quorum: ensemble\n");
}

/* Without another cause the failed check of each replica is reported once. */
TEST(a_replica_without_a_leader_gives_its_reason_once)
{
    expect_findings("{'ensemble':null,'replicas':[" LEADERLESS "]}",
                    "not-ready: replica 1 (http://a)\nno-quorum: ensemble\n");
}

/* A fresh replica has no cluster, no history and no leader until a leader sends it the state. */
TEST(a_fresh_replica_is_no_other_ensemble)
{
    expect_findings(
        "{'ensemble':null,'replicas':[{'endpoint':'http://a','http':200,"
        "'status':{'id':1,'serving':true,'cluster':'d3bf','history':'f999','version':'1'}},"
        "{'endpoint':'http://b','http':200,'status':{'id':2,'serving':false,'cluster':'0000',"
        "'history':'0000','version':'1'},'ready':{'checks':[{'name':'member','ok':false,"
        "'text':'this disk is new'},{'name':'leader','ok':false,'text':'none'}]}}]}",
        "not-ready: replica 2 (http://b)\n");
}

TEST(an_answer_of_another_server_is_not_a_replica_that_is_down)
{
    expect_findings(
        "{'ensemble':null,'replicas':[{'endpoint':'http://a','error':'the server there does not "
        "answer like zabra (status 404)','foreign':true}]}",
        "not-zabra: http://a\nno-quorum: ensemble\n");
}

/* A member advertises one of the two, and was asked at the other. */
TEST(http_and_https_are_one_place)
{
    expect_findings(
        "{'ensemble':{'seen_by':1,'leader':0,'members':["
        "{'id':1,'role':'voter','peer':'127.0.0.1:1','state':'looking','client':'http://a'},"
        "{'id':2,'role':'voter','peer':'127.0.0.1:2','state':'unreachable','client':'http://b'},"
        "{'id':3,'role':'voter','peer':'127.0.0.1:3','state':'silent','client':'http://c'}]},"
        "'replicas':[" LEADERLESS ",{'endpoint':'https://b','error':'refused'},"
        "{'endpoint':'https://c','error':'expired','tls':true}]}",
        "unreachable: replica 2 (https://b)\ntls: replica 3 (https://c)\nno-quorum: ensemble\n");
}

TEST(lines_of_metrics_are_parsed)
{
    struct slice rest =
        slice_str("# HELP a b\n\na_total 5\nb{x=\"1\",y=\"} 2\"} 0.25\nc +Inf\nd{\n");
    struct prom_line line;
    json_t *json = NULL;

    assert_true(prom_next(&rest, &line));
    json = prom_value(&line);
    assert_int_equal(json_integer_value(json), 5);
    json_decref(json);
    assert_true(prom_next(&rest, &line));
    json = prom_labels(&line);
    assert_string_equal(jsonr_text(json, "y"), "} 2");
    json_decref(json);
    json = prom_value(&line);
    assert_true(json_real_value(json) > 0.24 && json_real_value(json) < 0.26);
    json_decref(json);
    assert_true(prom_next(&rest, &line));
    json = prom_value(&line);
    assert_true(json_is_string(json)); /* JSON has no infinite numbers. */
    json_decref(json);
    assert_false(prom_next(&rest, &line));
}

TEST(a_line_becomes_words)
{
    static const struct {
        const char *line;
        const char *words[4];
        const char *fault;
    } cases[] = {
        {" a  b ", {"a", "b"}, NULL},
        {"a 'b c' \"d \\\" \\e\" f\\ g", {"a", "b c", "d \" \\e", "f g"}, NULL},
        {"a # b", {"a"}, NULL},
        {"a#b ''", {"a#b", ""}, NULL},
        {"", {NULL}, NULL},
        {"a 'b", {NULL}, "a quote is not terminated"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct words words;
        bool whole = words_split(&words, cases[i].line, false);
        int count = 0;

        assert_true(whole == !cases[i].fault);
        for (; whole && count < 4 && cases[i].words[count]; count++) {
            assert_true(count < words.count);
            assert_string_equal(words.items[count], cases[i].words[count]);
        }
        assert_true(!whole || count == words.count);
        assert_true(whole || strcmp(words.fault, cases[i].fault) == 0);
        words_release(&words);
    }
}

TEST(percentiles_are_close)
{
    static struct hist hist;

    assert_int_equal(hist_us(&hist, 500), 0);
    for (uint64_t us = 1; us <= 100000; us++) {
        hist_add(&hist, us);
    }
    assert_int_equal(hist.count, 100000);
    assert_int_equal(hist_us(&hist, 1000), 100000);
    for (uint64_t thousandths = 1; thousandths <= 1000; thousandths++) {
        uint64_t us = hist_us(&hist, thousandths);

        assert_true(us >= thousandths * 100 && us <= thousandths * 100 * 104 / 100 + 1);
    }
    hist_add(&hist, UINT64_MAX); /* Beyond the last bucket. */
    assert_true(hist_us(&hist, 1000) > 100000);
}

/* ---- TLS between the replicas. ---- */

/* Returns what the doctor finds about TLS in these facts; "": nothing. The text is valid until the
 * next call. */
static const char *peer_finding(struct buf *facts_text, char code[32])
{
    static char found[256];
    json_t *facts = facts_of(facts_text);
    json_t *findings = doctor_look(facts);

    found[0] = '\0';
    JSONR_EACH (finding, findings) {
        const char *of = jsonr_text(finding, "code");

        if (strncmp(of, "peer", 4) == 0) {
            (void)snprintf(found, sizeof(found), "%s", jsonr_text(finding, "found"));
            (void)snprintf(code, 32, "%s", of);
        }
    }
    json_decref(findings);
    json_decref(facts);
    return found;
}

/* The same when the members have these values of peerTls; "": it is unknown. */
static const char *found_of(const char *const tls[3], const char *host, char code[32])
{
    struct buf text;

    buf_init(&text, 1 << 12);
    buf_append_str(&text, "{'ensemble':{'seen_by':1,'leader':1,'members':[");
    for (int i = 0; i < 3; i++) {
        buf_printf(&text, "%s{'id':%d,'role':'voter','peer':'%s:1','state':'follower'",
                   i > 0 ? "," : "", i + 1, host);
        if (tls[i][0]) {
            buf_printf(&text, ",'peer_tls':'%s'", tls[i]);
        }
        buf_append_str(&text, ",'client':'http://10.0.0.1:2'}");
    }
    buf_append_str(&text, "]},'replicas':[{'endpoint':'http://a','http':200,'status':{'id':1,"
                          "'serving':true}}]}");
    return peer_finding(&text, code);
}

TEST(each_step_to_tls_is_named)
{
    static const struct {
        const char *tls[3];
        const char *step; /* NULL: nothing is to be done. */
        const char *ids;
    } cases[] = {
        {{"accept", "off", "off"}, "peerTls=accept", "replicas 2, 3 "},
        {{"accept", "accept", "off"}, "peerTls=accept", "replica 3 "},
        {{"accept", "accept", "accept"}, "peerTls=dial", "replicas 1, 2, 3 "},
        {{"dial", "accept", "dial"}, "peerTls=dial", "replica 2 "},
        {{"dial", "dial", "required"}, "peerTls=required", "replicas 1, 2 "},
        {{"required", "required", "required"}, NULL, NULL},
        {{"required", "", "required"}, NULL, NULL}, /* It had to have TLS. */
        {{"", "", ""}, NULL, NULL},
        /* First the replica must be seen. */
        {{"required", "", "dial"}, "replica 3 with peerTls=dial; first bring back ", "replica 2,"},
        {{"", "", "accept"}, "replica 3 with peerTls=accept; first ", "replicas 1, 2, whose"},
    };

    char code[32] = "";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *found = found_of(cases[i].tls, "10.0.0.1", code);

        if (!cases[i].step) {
            assert_string_equal(found, "");
            continue;
        }
        assert_string_equal(code, "peer-tls-step");
        assert_non_null(strstr(found, cases[i].step));
        assert_non_null(strstr(found, cases[i].ids));
    }
}

/* Appends an answer of /ensemble/v1 that says what seals the connection with each member. */
static void add_members(struct buf *text, const char *const sealed[3])
{
    buf_append_str(text, "'ensemble':{'seen_by':1,'leader':1,'members':[");
    for (int i = 0; i < 3; i++) {
        buf_printf(text, "%s{'id':%d,'role':'voter','peer':'zk:1','state':'follower','client':null",
                   i > 0 ? "," : "", i + 1);
        buf_printf(text, ",'peer_tls':'%s'", i == 0 ? "accept" : "dial");
        if (sealed[i]) {
            buf_printf(text, ",'sealed':'%s'", sealed[i]);
        }
        buf_append_str(text, "}");
    }
    buf_append_str(text, "]}");
}

/* Replica 3 tells of its connection with replica 2, which has not answered. */
TEST(plain_connections_are_listed_during_the_change)
{
    static const char *const of_1[3] = {NULL, "no", "psk"};
    static const char *const of_3[3] = {"no", "no", NULL}; /* Replica 1 tells of theirs. */
    char code[32] = "";
    struct buf text;

    buf_init(&text, 1 << 12);
    buf_append_str(&text, "{");
    add_members(&text, of_1);
    buf_append_str(&text, ",'replicas':[{'http':200,'status':{'id':1,'serving':true},");
    add_members(&text, of_1);
    buf_append_str(&text, "},{'http':200,'status':{'id':3,'serving':true},");
    add_members(&text, of_3);
    buf_append_str(&text, "}]}");
    assert_string_equal(peer_finding(&text, code),
                        "the next step of the rolling change: set peerTls=dial on replica 1 and "
                        "restart it, one replica after the other; plain connections: 1 with 2, 3 "
                        "with 2");
    assert_string_equal(code, "peer-tls-step");
}

TEST(plain_connections_to_other_machines_are_named)
{
    static const char *const off[3] = {"off", "off", "off"};
    static const char *const down[3] = {"off", "", "off"};
    char code[32] = "";

    assert_string_not_equal(found_of(off, "10.0.0.1", code), "");
    assert_string_equal(code, "peers-plain");
    assert_string_equal(found_of(off, "10.0.0.1", code), "all replicas have peerTls=off");
    assert_string_equal(found_of(down, "10.0.0.1", code),
                        "all replicas have peerTls=off, except perhaps replica 2, whose peerTls is "
                        "unknown");
    assert_string_equal(code, "peers-plain");
    assert_string_equal(found_of(off, "127.0.0.1", code), "");
    assert_string_equal(found_of(off, "localhost", code), "");
}
