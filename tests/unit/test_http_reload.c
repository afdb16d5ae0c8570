/* The operation `reload` over HTTP: rights, results, failures. */
#include "tests/unit/http_sealed.h"

#define BOB  "Authorization: Basic Ym9iOnB3\r\n"         /* bob:pw */
#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==\r\n" /* super:root */

static const char target[] = "/status/v1?op=reload";

static void permit(struct config_clients *limits)
{
    (void)snprintf(limits->super_digest, sizeof(limits->super_digest),
                   "super:zUZ0bpqYS7FucDXsnUgxOWTto1s="); /* super:root */
}

static void sealed(struct config_clients *limits)
{
    sealed_limits(limits, CONFIG_TLS_OPTIONAL);
    permit(limits);
}

static void set_up(void)
{
    front_start_with(permit);
}

static void set_up_sealed(void)
{
    front_start_with(sealed);
}

/* Returns the status; the body must contain `has`. */
static int ask(const char *method, const char *url, const char *headers, const char *has)
{
    struct kit_answer answer = kit_ask(port, method, url, headers, NULL);
    int status = answer.status;

    if (!kit_body_has(&answer, has)) {
        fail_msg("%s %s: %d without %s: %s", method, url, status, has, (const char *)answer.body);
    }
    kit_free(&answer);
    return status;
}

TEST(only_the_super_user_reloads, set_up, front_teardown)
{
    assert_int_equal(ask("POST", target, "", "only the super user"), 401);
    assert_int_equal(ask("POST", target, "", "\"code\":\"NoAuth\""), 401);
    assert_int_equal(ask("POST", target, BOB, "\"code\":\"NoAuth\""), 403);
    assert_int_equal(atomic_load(&gate->refused[ERR_NO_AUTH]), 3); /* For the audit log. */
    assert_int_equal(ask("POST", target, ROOT, "{\"reloaded\":[]}"), 200);
    assert_int_equal(atomic_load(&gate->refused[ERR_NO_AUTH]), 3);
}

TEST(a_reload_is_asked_by_its_name, set_up, front_teardown)
{
    assert_int_equal(ask("POST", "/status/v1", ROOT, "needs op=reload"), 400);
    assert_int_equal(ask("POST", "/status/v1?op=load", ROOT, "unknown value load"), 400);
    assert_int_equal(ask("GET", target, ROOT, "unknown query parameter op"), 400);
    assert_int_equal(ask("PUT", target, ROOT, "MethodNotAllowed"), 405);
    assert_int_equal(ask("POST", "/status/v1?op=reload&x=1", ROOT, "unknown query parameter"), 400);
}

/* It concerns this replica alone. */
TEST(a_replica_that_takes_no_writes_reloads, set_up, front_teardown)
{
    atomic_store(&gate->local_err, ERR_NOT_READY);
    atomic_store(&gate->submit_err, ERR_NOT_READ_ONLY);
    assert_int_equal(ask("PUT", "/znodes/v1/a?upsert=true", ROOT, "NotReadOnly"), 403);
    assert_int_equal(ask("POST", target, ROOT, "{\"reloaded\":[]}"), 200);
}

TEST(a_bad_key_is_a_problem_and_the_old_one_stays, set_up_sealed, sealed_teardown)
{
    const struct tls_metrics *metrics = tls_current_metrics(http->tls);
    struct tls_context *before = tls_current_get(http->tls);
    struct tls_context *after = NULL;

    cert_kit_write(&certs, "server.key", slice_str("broken"));
    assert_int_equal(ask("POST", target, ROOT, "\"detail\":\"clientTls: tlsKeyFile: "), 409);
    assert_int_equal(ask("POST", target, ROOT, "; the old files stay in use\""), 409);
    assert_int_equal(ask("POST", target, ROOT, "\"status\":409,"), 409);
    assert_int_equal(ask("POST", target, ROOT, "\"code\":\"BadArguments\""), 409);
    assert_true(metric_get(&metrics->reload_errors) >= 4);
    after = tls_current_get(http->tls);
    assert_ptr_equal(before, after);
    tls_context_unref(after);
    tls_context_unref(before);
}

TEST(good_files_are_reloaded, set_up_sealed, sealed_teardown)
{
    struct tls_context *before = tls_current_get(http->tls);
    struct tls_context *after = NULL;

    assert_int_equal(ask("POST", target, ROOT, "{\"reloaded\":[\"clientTls\"]}"), 200);
    after = tls_current_get(http->tls);
    assert_ptr_not_equal(before, after);
    tls_context_unref(after);
    tls_context_unref(before);
}
