/* The operation `reload` over HTTP: rights, results, failures. */
#include "tests/unit/http_sealed.h"

#include <semaphore.h>

#define BOB  KIT_BOB
#define ROOT KIT_ROOT

static const char target[] = "/status/v1?op=reload";

static void sealed(struct config_clients *limits)
{
    sealed_limits(limits, CONFIG_TLS_OPTIONAL);
    kit_permit_root(limits);
}

static void set_up(void)
{
    front_start_with(kit_permit_root);
}

static void set_up_sealed(void)
{
    front_start_with(sealed);
}

TEST(only_the_super_user_reloads, set_up, front_teardown)
{
    assert_int_equal(front_expect("POST", target, "", NULL, "only the super user"), 401);
    assert_int_equal(front_expect("POST", target, "", NULL, "\"code\":\"NoAuth\""), 401);
    assert_int_equal(front_expect("POST", target, BOB, NULL, "\"code\":\"NoAuth\""), 403);
    assert_int_equal(atomic_load(&gate->refused[ERR_NO_AUTH]), 3); /* For the audit log. */
    assert_int_equal(front_expect("POST", target, ROOT, NULL, "{\"reloaded\":[]}"), 200);
    assert_int_equal(atomic_load(&gate->refused[ERR_NO_AUTH]), 3);
}

TEST(a_reload_is_asked_by_its_name, set_up, front_teardown)
{
    assert_int_equal(front_expect("POST", "/status/v1", ROOT, NULL, "needs op=reload"), 400);
    assert_int_equal(front_expect("POST", "/status/v1?op=load", ROOT, NULL, "unknown value load"),
                     400);
    assert_int_equal(front_expect("GET", target, ROOT, NULL, "unknown query parameter op"), 400);
    assert_int_equal(front_expect("PUT", target, ROOT, NULL, "MethodNotAllowed"), 405);
    assert_int_equal(
        front_expect("POST", "/status/v1?op=reload&x=1", ROOT, NULL, "unknown query parameter"),
        400);
}

/* It concerns this replica alone. */
TEST(a_replica_that_takes_no_writes_reloads, set_up, front_teardown)
{
    atomic_store(&gate->local_err, ERR_NOT_READY);
    atomic_store(&gate->submit_err, ERR_NOT_READ_ONLY);
    assert_int_equal(front_expect("PUT", "/znodes/v1/a?upsert=true", ROOT, NULL, "NotReadOnly"),
                     403);
    assert_int_equal(front_expect("POST", target, ROOT, NULL, "{\"reloaded\":[]}"), 200);
}

TEST(a_bad_key_is_a_problem_and_the_old_one_stays, set_up_sealed, sealed_teardown)
{
    const struct tls_metrics *metrics = tls_current_metrics(http->tls);
    struct tls_context *before = tls_current_get(http->tls);
    struct tls_context *after = NULL;

    cert_kit_write(&certs, "server.key", slice_str("broken"));
    assert_int_equal(
        front_expect("POST", target, ROOT, NULL, "\"detail\":\"clientTls: tlsKeyFile: "), 409);
    assert_int_equal(front_expect("POST", target, ROOT, NULL, "; the old files stay in use\""),
                     409);
    assert_int_equal(front_expect("POST", target, ROOT, NULL, "\"status\":409,"), 409);
    assert_int_equal(front_expect("POST", target, ROOT, NULL, "\"code\":\"BadArguments\""), 409);
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

    assert_int_equal(front_expect("POST", target, ROOT, NULL, "{\"reloaded\":[\"clientTls\"]}"),
                     200);
    after = tls_current_get(http->tls);
    assert_ptr_not_equal(before, after);
    tls_context_unref(after);
    tls_context_unref(before);
}

/* ---- The end ---- */

enum {
    REQUESTS = 8
};

static sem_t inside;
static sem_t go;

static bool run_slow(void *ctx, char why[RELOAD_WHY_MAX])
{
    why[0] = '\0';
    (void)ctx;
    (void)sem_post(&inside);
    (void)sem_wait(&go);
    return true;
}

/* A file system hangs, and requests wait for it: the end answers them, and does not wait itself. */
TEST(requests_that_wait_get_an_answer_at_the_end)
{
    uint64_t end_ms = os_now_ms() + KIT_DEADLINE_MS;
    int fds[REQUESTS];

    set_up();
    assert_int_equal(sem_init(&inside, 0, 0), 0);
    assert_int_equal(sem_init(&go, 0, 0), 0);
    reloads_add(&gate->reloads, (struct reload_part){.name = "slow", .run = run_slow});
    for (int i = 0; i < REQUESTS; i++) {
        fds[i] = kit_connect(port);
        kit_send(fds[i], "POST /status/v1?op=reload HTTP/1.1\r\nHost: localhost\r\n"
                         "Content-Length: 0\r\n" ROOT "\r\n");
    }
    while (atomic_load(&http->suspended) < REQUESTS) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
    (void)sem_wait(&inside);
    http_drain(http);
    http_stop(http);
    for (int i = 0; i < REQUESTS; i++) {
        struct kit_answer answer = kit_read(fds[i], false);

        assert_int_equal(answer.status, 503);
        assert_true(kit_body_has(&answer, "this replica ends, and reads nothing again"));
        kit_free(&answer);
        close(fds[i]);
    }
    (void)sem_post(&go);
    kit_gate_free(gate);
}
