/* The files of TLS are read again: what changes, what stays, and what is counted. */
#include "base/log.h"
#include "base/os_changes.h"
#include "tests/unit/tls_kit.h"

#include <stdio.h>
#include <sys/stat.h>

static void replace_server(struct tls_kit *kit, const char *common)
{
    const struct cert_kit_spec spec = {
        .kind = ISSUE_SERVER, .common = common, .names = CERT_KIT_LOCAL};

    cert_kit_add(&kit->certs, "server", &spec);
}

static uint64_t errors(const struct tls_kit *kit)
{
    return metric_get(&tls_current_metrics(kit->current)->reload_errors);
}

static uint64_t failed(const struct tls_kit *kit)
{
    return metric_get(&tls_current_metrics(kit->current)->reload_failed);
}

static bool look_at(struct tls_kit *kit, uint64_t now_ms)
{
    struct tls_fault fault;

    return tls_current_look(kit->current, now_ms) != OS_NOT_DUE &&
           tls_current_reload(kit->current, &fault);
}

/* A change counts when two looks see the same. */
static void look_twice(struct tls_kit *kit)
{
    (void)look_at(kit, os_now_ms());
    (void)look_at(kit, os_now_ms());
}

TEST(a_reload_changes_new_connections_only, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_kit old = *tls_kit;
    char text[TLS_IDENTITY_MAX];

    buf_init(&old.got, 65536);
    tls_kit_start(tls_kit);
    old.current = tls_kit->current;
    tls_kit_connect(&old, NULL);
    replace_server(tls_kit, "second");
    look_twice(tls_kit);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=second");
    assert_string_equal(tls_kit_subject(&old, text), "CN=server");
    assert_int_equal(send(old.fd, "still", 5, MSG_NOSIGNAL), 5);
    assert_int_equal(tls_kit_hear(&old).len, 5);
    tls_kit_hang_up(&old);
    buf_release(&old.got);
}

TEST(a_broken_file_leaves_the_old_certificate_in_use, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_fault fault;
    char text[TLS_IDENTITY_MAX];

    log_setup(LOG_ERROR, false, -1);
    tls_kit_start(tls_kit);
    cert_kit_write(&tls_kit->certs, "server.key", slice_str("broken"));
    assert_false(tls_current_reload(tls_kit->current, &fault));
    assert_non_null(strstr(fault.text, "server.key holds no private key"));
    assert_int_equal(errors(tls_kit), 1);
    assert_int_equal(failed(tls_kit), 1);
    /* A look tries again only when a file has changed, or after a while. */
    look_twice(tls_kit);
    assert_int_equal(errors(tls_kit), 1);
    assert_false(look_at(tls_kit, os_now_ms() + OS_CHANGES_RETRY_MS + 1000));
    assert_int_equal(errors(tls_kit), 2);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=server");
    tls_kit_hang_up(tls_kit);
    replace_server(tls_kit, "third");
    look_twice(tls_kit);
    assert_int_equal(errors(tls_kit), 2);
    assert_int_equal(failed(tls_kit), 0);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=third");
}

/* The key comes a while after its certificate: no attempt fails in between. */
TEST(a_renewal_in_two_steps_is_no_failure, tls_kit, tls_kit_open, tls_kit_close)
{
    struct cert_kit_spec spec = {.kind = ISSUE_SERVER, .common = "new", .names = CERT_KIT_LOCAL};
    struct issue_pair pair;
    char text[TLS_IDENTITY_MAX];

    tls_kit_start(tls_kit);
    cert_kit_make(&spec, &tls_kit->certs.ca, &pair);
    cert_kit_write(&tls_kit->certs, "server.pem", buf_slice(&pair.cert));
    assert_false(look_at(tls_kit, os_now_ms()));
    cert_kit_write(&tls_kit->certs, "server.key", buf_slice(&pair.key));
    look_twice(tls_kit);
    issue_release(&pair);
    assert_int_equal(errors(tls_kit), 0);
    tls_kit_connect(tls_kit, NULL);
    assert_string_equal(tls_kit_subject(tls_kit, text), "CN=new");
}

/* The log advises chmod 600, which changes neither size nor date of the bytes. */
TEST(a_corrected_mode_is_seen, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_fault fault;

    tls_kit_start(tls_kit);
    assert_int_equal(chmod(tls_kit->key_files, 0644), 0);
    assert_false(tls_current_reload(tls_kit->current, &fault));
    assert_non_null(strstr(fault.text, "run chmod 600 on it"));
    assert_int_equal(failed(tls_kit), 1);
    assert_int_equal(chmod(tls_kit->key_files, 0600), 0);
    look_twice(tls_kit);
    assert_int_equal(failed(tls_kit), 0);
}

/* Returns the seconds that a metric shows. */
static double seconds_of(struct buf *out, const char *name)
{
    const char *line = strstr(buf_cstr(out), name);
    double value = 0;

    assert_non_null(line);
    assert_int_equal(sscanf(line + strlen(name), " %lf", &value), 1);
    return value;
}

/* All of this lasts until the same time in 2120. */
TEST(the_end_of_each_kind_of_file_is_a_metric, tls_kit, tls_kit_open, tls_kit_close)
{
    static const char *const names[] = {"\nzabra_tls_certificate_expires_seconds",
                                        "\nzabra_tls_client_ca_expires_seconds",
                                        "\nzabra_tls_client_crl_expires_seconds"};
    struct buf list;
    struct buf out;

    buf_init(&list, 65536);
    buf_init(&out, 65536);
    tls_kit->setup.clients = TLS_CLIENTS_ASK;
    tls_kit_start(tls_kit);
    tls_write_metrics(tls_kit->current, &out);
    assert_true(seconds_of(&out, names[0]) > 86400);
    assert_true(seconds_of(&out, names[1]) == seconds_of(&out, names[0]));
    assert_true(seconds_of(&out, names[2]) == 0);
    cert_kit_revoke(&tls_kit->certs.ca, NULL, &list);
    cert_kit_write(&tls_kit->certs, "crl.pem", buf_slice(&list));
    (void)cert_kit_path(&tls_kit->certs, "crl.pem", tls_kit->crl_file);
    buf_release(&list);
    tls_current_close(tls_kit->current);
    tls_kit->current = NULL;
    tls_kit_start(tls_kit);
    buf_clear(&out);
    tls_write_metrics(tls_kit->current, &out);
    assert_true(seconds_of(&out, names[2]) == seconds_of(&out, names[0]));
    buf_clear(&out);
    tls_write_metrics(NULL, &out);
    for (size_t i = 0; i < 3; i++) {
        assert_true(seconds_of(&out, names[i]) == 0);
    }
    buf_release(&out);
}

TEST(metrics_are_written_with_and_without_tls, tls_kit, tls_kit_open, tls_kit_close)
{
    struct buf out;

    buf_init(&out, 65536);
    tls_write_metrics(NULL, &out);
    assert_non_null(strstr(buf_cstr(&out), "\nzabra_tls_certificate_expires_seconds 0"));
    assert_non_null(strstr(buf_cstr(&out), "zabra_tls_handshakes_total{result=\"full\"} 0"));
    assert_non_null(strstr(buf_cstr(&out), "zabra_tls_broken_total{reason=\"flood\"} 0"));
    buf_clear(&out);
    tls_kit_start(tls_kit);
    tls_write_metrics(tls_kit->current, &out);
    /* The certificate lasts until 2120. */
    assert_null(strstr(buf_cstr(&out), "\nzabra_tls_certificate_expires_seconds 0"));
    assert_non_null(strstr(buf_cstr(&out), "\nzabra_tls_certificate_expires_seconds "));
    buf_release(&out);
}
