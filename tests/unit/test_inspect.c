/* tls/inspect: what it reads, and each fault that it finds; tls/issue_files: nothing is
 * overwritten. */
#include "tls/inspect.h"
#include "tls/issue_files.h"

#include "tests/lib/cert_kit.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEARD_MAX = 4096
};

#define NOW_S 1700000000LL /* In 2023. */

struct bench {
    struct issue_pair ca;
    struct issue_pair other;
    struct issue_pair pair; /* A server. */
    struct inspect_question question;
    char heard[HEARD_MAX]; /* "error: ...\n" */
};

static void set_up(struct bench *bench)
{
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "one"}, NULL, &bench->ca);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "two"}, NULL, &bench->other);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_SERVER,
                                          .common = "zk1",
                                          .names = "a.example,127.0.0.1,::1"},
                  &bench->ca, &bench->pair);
    bench->question = (struct inspect_question){.cert = buf_slice(&bench->pair.cert),
                                                .key = buf_slice(&bench->pair.key),
                                                .ca = buf_slice(&bench->ca.cert),
                                                .serves = true,
                                                .now_s = NOW_S};
}

static void tear_down(struct bench *bench)
{
    issue_release(&bench->ca);
    issue_release(&bench->other);
    issue_release(&bench->pair);
}

static void hear(void *ctx, bool error, const char *sentence)
{
    char *heard = ctx;
    size_t len = strlen(heard);

    (void)snprintf(heard + len, HEARD_MAX - len, "%s: %s\n", error ? "error" : "warning", sentence);
}

/* The check must find so many errors, and say `words`. */
static void expect(struct bench *bench, int errors, const char *words)
{
    bench->heard[0] = '\0';

    int found = inspect_check(&bench->question, hear, bench->heard);

    if (found != errors || !strstr(bench->heard, words) || (!*words && *bench->heard)) {
        fail_msg("%d errors, wanted %d with \"%s\":\n%s", found, errors, words, bench->heard);
    }
}

/* Takes another certificate in place of the server's. */
static void take(struct bench *bench, const struct cert_kit_spec *spec, const struct issue_pair *ca)
{
    issue_release(&bench->pair);
    cert_kit_make(spec, ca, &bench->pair);
    bench->question.cert = buf_slice(&bench->pair.cert);
    bench->question.key = buf_slice(&bench->pair.key);
}

TEST(a_sound_certificate_has_no_fault, bench, set_up, tear_down)
{
    expect(bench, 0, "");
    bench->question.host = "a.example";
    expect(bench, 0, "");
    bench->question.host = "::1";
    expect(bench, 0, "");
}

TEST(each_fault_is_a_sentence, bench, set_up, tear_down)
{
    bench->question.host = "b.example";
    expect(bench, 1, "the certificate is for a.example, 127.0.0.1, ::1, not for b.example");
    bench->question.host = "127.0.0.2";
    expect(bench, 1, "not for 127.0.0.2");
    bench->question.host = NULL;
    bench->question.uri = "zabra://x/1";
    expect(bench, 1, "not for zabra://x/1");
    bench->question.uri = NULL;
    bench->question.asks = true;
    expect(bench, 1, "may not be used by a client");
    bench->question.asks = false;
    bench->question.key = buf_slice(&bench->other.key);
    expect(bench, 1, "the key does not fit");
    bench->question.key = slice_str("nonsense");
    expect(bench, 1, "no private key in PEM form");
    bench->question.key = slice_make(NULL, 0);
    bench->question.ca = buf_slice(&bench->other.cert);
    expect(bench, 1, "the authority did not sign the certificate, whose issuer is CN=one");
    bench->question.ca = slice_str("nonsense");
    expect(bench, 1, "the file of the authority has no certificate");
    bench->question.ca = bench->question.cert;
    expect(bench, 2, "may not sign others");
    bench->question.cert = slice_str("nonsense");
    expect(bench, 1, "no certificate in PEM form");
}

TEST(two_authorities_of_one_name_are_told_apart, bench, set_up, tear_down)
{
    issue_release(&bench->other);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "one"}, NULL, &bench->other);
    bench->question.ca = buf_slice(&bench->other.cert);
    expect(bench, 1, "error: ");
    assert_null(strstr(bench->heard, "CN=two"));
}

TEST(the_faults_of_a_certificate_come_together, bench, set_up, tear_down)
{
    take(bench,
         &(struct cert_kit_spec){.kind = ISSUE_CLIENT, .common = "bob", .life = CERT_KIT_EXPIRED},
         &bench->other);
    expect(bench, 4, "has expired on 2001-01-01");
    assert_non_null(strstr(bench->heard, "did not sign"));
    assert_non_null(strstr(bench->heard, "may not be used by a server"));
    assert_non_null(strstr(bench->heard, "has no names of hosts"));
}

TEST(dates_have_a_warning_and_both_ends, bench, set_up, tear_down)
{
    struct inspect_cert facts;

    assert_true(inspect_read(bench->question.cert, &facts));
    bench->question.now_s = facts.until_s - INSPECT_AHEAD_S - 1;
    expect(bench, 0, ""); /* So does the authority. */
    bench->question.now_s++;
    expect(bench, 0, "warning: the certificate expires on 2120-01-01, in 14 days");
    bench->question.now_s = facts.until_s - 1;
    expect(bench, 0, "in 0 days");
    bench->question.now_s++;
    expect(bench, 2, "the certificate has expired");
    assert_non_null(strstr(bench->heard, "certificate of the authority has expired"));
    bench->question.now_s = facts.from_s;
    expect(bench, 0, "");
    bench->question.now_s--;
    expect(bench, 2, "is not yet valid: it begins on 2020-01-01; check the clock");
    inspect_release(&facts);
}

TEST(facts_are_read, bench, set_up, tear_down)
{
    struct inspect_cert facts;

    assert_true(inspect_read(bench->question.cert, &facts));
    assert_string_equal(facts.subject, "CN=zk1");
    assert_string_equal(facts.issuer, "CN=one");
    assert_string_equal(facts.key, "ECDSA P-256");
    assert_string_equal(buf_cstr(&facts.names), "dns:a.example\nip:127.0.0.1\nip:::1\n");
    assert_int_equal(strlen(facts.fingerprint), 32 * 3 - 1);
    assert_int_equal(strlen(facts.serial), 40);
    assert_true(facts.serves);
    assert_false(facts.asks);
    assert_false(facts.is_ca);
    inspect_release(&facts);
    assert_true(inspect_read(buf_slice(&bench->ca.cert), &facts));
    assert_true(facts.is_ca);
    assert_false(facts.serves);
    inspect_release(&facts);
    assert_false(inspect_read(slice_str(""), &facts));
    inspect_release(&facts);
    assert_false(inspect_read(buf_slice(&bench->pair.key), &facts));
    inspect_release(&facts);
}

/* Makes a certificate whose names obey no rule. */
static void make_evil(struct buf *pem, const char *common, const void *dns, int dns_len)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_NAME *subject = X509_get_subject_name(cert);
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_IA5STRING *value = ASN1_IA5STRING_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;

    assert_int_equal(ASN1_STRING_set(value, dns, dns_len), 1);
    GENERAL_NAME_set0_value(name, GEN_DNS, value);
    assert_true(sk_GENERAL_NAME_push(names, name) > 0);
    assert_int_equal(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0), 1);
    sk_GENERAL_NAME_pop_free(names, GENERAL_NAME_free);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                                (const unsigned char *)common, -1, -1, 0),
                     1);
    assert_non_null(ASN1_TIME_set(X509_getm_notBefore(cert), 0));
    assert_non_null(ASN1_TIME_set(X509_getm_notAfter(cert), 1));
    assert_int_equal(X509_set_pubkey(cert, key), 1);
    assert_true(X509_sign(cert, key, EVP_sha256()) > 0);
    assert_int_equal(PEM_write_bio_X509(bio, cert), 1);

    long len = BIO_get_mem_data(bio, &data);

    buf_append(pem, data, (size_t)len);
    BIO_free(bio);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* A name must not end a line, nor reach a terminal as a command. */
TEST(evil_names_are_shown_harmlessly)
{
    static const char name[] = "a\nuri:zabra://x/1\0\033[2J";
    struct inspect_cert facts;
    struct buf pem;

    buf_init(&pem, ISSUE_PEM_MAX);
    make_evil(&pem, "evil\033]0;x\007", name, (int)sizeof(name) - 1);
    assert_true(inspect_read(buf_slice(&pem), &facts));
    assert_string_equal(buf_cstr(&facts.names), "dns:a?uri:zabra://x/1??[2J\n");
    for (const char *at = facts.subject; *at; at++) {
        assert_true(*at >= ' ' && *at < 0x7f);
    }
    assert_int_equal(facts.until_s, 1);
    inspect_release(&facts);
    buf_release(&pem);
}

TEST(an_intermediate_certificate_closes_the_chain, bench, set_up, tear_down)
{
    /* Authorities of zabra sign no second one, so the chain has one link: the certificate itself
     * with its authority behind it. */
    struct buf both;

    buf_init(&both, ISSUE_PEM_MAX);
    buf_append_slice(&both, buf_slice(&bench->pair.cert));
    buf_append_slice(&both, buf_slice(&bench->ca.cert));
    bench->question.cert = buf_slice(&both);
    expect(bench, 0, "");
    bench->question.ca = buf_slice(&bench->other.cert);
    expect(bench, 1,
           "the certificate signs itself, or its authority does, and it is not the given");
    buf_release(&both);
}

/* ---- Files ---- */

static char dir[64];

static void make_dir(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/zabra-issue-XXXXXX");
    assert_non_null(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static struct issue_request request_of(enum issue_kind kind, const char *name)
{
    return (struct issue_request){
        .kind = kind,
        .common = name,
        .names = kind == ISSUE_SERVER ? "localhost" : NULL,
        .from_s = NOW_S,
        .until_s =
            NOW_S + (int64_t)(kind == ISSUE_CA ? ISSUE_CA_DAYS : ISSUE_DAYS) * INSPECT_DAY_S};
}

static bool make(enum issue_kind kind, const char *name, char error[ISSUE_ERROR_MAX])
{
    struct issue_request request = request_of(kind, name);

    return issue_files_make(dir, kind == ISSUE_CA ? ISSUE_FILES_CA : name, &request, error);
}

static const char *path_of(const char *file)
{
    static char path[ISSUE_PATH_MAX];

    return issue_files_path(dir, file, "", path);
}

static void read_file(const char *file, struct buf *text)
{
    char error[ISSUE_ERROR_MAX];

    buf_init(text, ISSUE_PEM_MAX);
    assert_true(issue_files_read(path_of(file), text, error));
}

TEST(files_are_private_and_never_overwritten, make_dir, remove_dir)
{
    char error[ISSUE_ERROR_MAX];
    struct stat info;
    struct buf before;
    struct buf after;

    assert_true(make(ISSUE_CA, "ca", error));
    assert_true(make(ISSUE_SERVER, "zk1", error));
    assert_int_equal(stat(path_of("zk1.key"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    assert_int_equal(stat(path_of("zk1.pem"), &info), 0);
    assert_int_equal(info.st_mode & 0133, 0);

    read_file("zk1.key", &before);
    assert_false(make(ISSUE_SERVER, "zk1", error));
    assert_non_null(strstr(error, "zk1.pem or zk1.key exists already, and nothing is overwritten"));
    read_file("zk1.key", &after);
    assert_true(slice_eq(buf_slice(&before), buf_slice(&after)));
    buf_release(&after);

    /* One of the two files is enough, and the other one is not made. */
    assert_int_equal(unlink(path_of("zk1.pem")), 0);
    assert_false(make(ISSUE_SERVER, "zk1", error));
    assert_int_equal(stat(path_of("zk1.pem"), &info), -1);
    assert_false(make(ISSUE_CA, "ca", error));
    buf_release(&before);
}

TEST(a_race_for_a_name_changes_nothing, make_dir, remove_dir)
{
    struct issue_pair pair;
    char error[ISSUE_ERROR_MAX];
    struct buf text;

    /* A link that leads nowhere, as an attacker with rights in the directory would lay it. */
    assert_int_equal(symlink("/nonexistent/target", path_of("zk1.key")), 0);
    cert_kit_make(&(struct cert_kit_spec){.kind = ISSUE_CA, .common = "one"}, NULL, &pair);
    assert_false(issue_files_write(dir, "zk1", &pair, error));
    assert_non_null(strstr(error, "exists already"));
    assert_int_equal(unlink(path_of("zk1.key")), 0);

    int fd = open(path_of("zk1.pem"), O_WRONLY | O_CREAT, 0600);

    assert_int_equal(write(fd, "mine", 4), 4);
    assert_int_equal(close(fd), 0);
    assert_false(issue_files_write(dir, "zk1", &pair, error));
    read_file("zk1.pem", &text);
    assert_true(slice_eq(buf_slice(&text), slice_str("mine")));
    assert_int_equal(access(path_of("zk1.key"), F_OK), -1);
    buf_release(&text);
    issue_release(&pair);
}

TEST(an_authority_must_be_there_private_and_alive, make_dir, remove_dir)
{
    struct issue_request late = request_of(ISSUE_CLIENT, "bob");
    char error[ISSUE_ERROR_MAX];
    struct inspect_cert facts;
    struct buf text;

    assert_false(make(ISSUE_CLIENT, "bob", error));
    assert_non_null(strstr(error, "make one: zabra cert ca --dir"));
    assert_true(make(ISSUE_CA, "ca", error));
    assert_int_equal(chmod(path_of("ca.key"), 0604), 0);
    assert_false(make(ISSUE_CLIENT, "bob", error));
    assert_non_null(strstr(error, "run: chmod 600"));
    assert_int_equal(chmod(path_of("ca.key"), 0600), 0);

    /* A certificate ends with its authority, and an ended authority makes none. */
    late.from_s = NOW_S + (ISSUE_CA_DAYS - 100LL) * INSPECT_DAY_S;
    late.until_s = late.from_s + (int64_t)ISSUE_DAYS * INSPECT_DAY_S;
    assert_true(issue_files_make(dir, "bob", &late, error));
    read_file("bob.pem", &text);
    assert_true(inspect_read(buf_slice(&text), &facts));
    assert_int_equal(facts.until_s, NOW_S + (int64_t)ISSUE_CA_DAYS * INSPECT_DAY_S);
    inspect_release(&facts);
    buf_release(&text);
    late.from_s += 101LL * INSPECT_DAY_S;
    assert_false(issue_files_make(dir, "eve", &late, error));
    assert_non_null(strstr(error, "the authority has expired on"));
    assert_int_equal(access(path_of("eve.key"), F_OK), -1);
}

TEST(reading_has_a_bound_and_names_the_reason, make_dir, remove_dir)
{
    char error[ISSUE_ERROR_MAX];
    struct buf text;

    buf_init(&text, ISSUE_PEM_MAX);
    assert_false(issue_files_read(path_of("none"), &text, error));
    assert_non_null(strstr(error, "No such file"));
    assert_false(issue_files_read(dir, &text, error));
    assert_non_null(strstr(error, "Is a directory"));

    int fd = open(path_of("long"), O_WRONLY | O_CREAT, 0600);

    assert_int_equal(ftruncate(fd, ISSUE_PEM_MAX), 0);
    assert_int_equal(close(fd), 0);
    assert_false(issue_files_read(path_of("long"), &text, error));
    assert_non_null(strstr(error, "too large"));
    assert_false(issue_files_make(
        "/nonexistent/a/b", "ca",
        &(struct issue_request){.kind = ISSUE_CA, .common = "c", .until_s = 1}, error));
    assert_non_null(strstr(error, "cannot make the directory /nonexistent/a/b"));
    buf_release(&text);
}
