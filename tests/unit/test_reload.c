/* What a running replica reads again: parts, their order, failures, requests that wait. */
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/process/reload.h"
#include "tests/lib/unit.h"

#include <poll.h>
#include <semaphore.h>
#include <stdio.h>

enum {
    DEADLINE_MS = 20000
};

struct fixture {
    struct reloads reloads;
    sem_t done;
    sem_t inside;
    sem_t go;
    _Atomic int running;
    _Atomic int overlaps;
    _Atomic int runs;
    _Atomic int looks;
    _Atomic int due; /* enum os_due. */
    bool bad;
};

static void set_up(struct fixture *fixture)
{
    *fixture = (struct fixture){.bad = false};
    assert_int_equal(sem_init(&fixture->done, 0, 0), 0);
    assert_int_equal(sem_init(&fixture->inside, 0, 0), 0);
    assert_int_equal(sem_init(&fixture->go, 0, 0), 0);
    reloads_init(&fixture->reloads);
}

/* A part that still hangs, because an assertion has failed, is let go. */
static void tear_down(struct fixture *fixture)
{
    for (int i = 0; i < RELOAD_WAITING_MAX; i++) {
        (void)sem_post(&fixture->go);
    }
    reloads_stop(&fixture->reloads, DEADLINE_MS);
    reloads_release(&fixture->reloads);
}

static void wait_for(sem_t *sem)
{
    uint64_t end_ms = os_now_ms() + DEADLINE_MS;

    while (sem_trywait(sem) != 0) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

static bool run_good(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct fixture *fixture = ctx;

    why[0] = '\0';
    if (atomic_fetch_add(&fixture->running, 1) > 0) {
        atomic_fetch_add(&fixture->overlaps, 1);
    }
    atomic_fetch_add(&fixture->runs, 1);
    atomic_fetch_sub(&fixture->running, 1);
    return true;
}

static bool run_either(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct fixture *fixture = ctx;

    (void)snprintf(why, RELOAD_WHY_MAX, "%s", fixture->bad ? "the key does not fit" : "");
    return !fixture->bad;
}

static bool run_slow(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct fixture *fixture = ctx;

    why[0] = '\0';
    (void)sem_post(&fixture->inside);
    (void)sem_wait(&fixture->go);
    return true;
}

static struct reload_part part(struct fixture *fixture, const char *name,
                               bool (*run)(void *ctx, char why[RELOAD_WHY_MAX]))
{
    return (struct reload_part){.name = name, .run = run, .ctx = fixture};
}

static void on_done(struct reload *reload)
{
    struct fixture *fixture = reload->ctx;

    (void)sem_post(&fixture->done);
}

static struct reload *ask(struct fixture *fixture)
{
    struct reload *reload = mem_zalloc(1, sizeof(*reload));

    reload->on_done = on_done;
    reload->ctx = fixture;
    (void)snprintf(reload->by, sizeof(reload->by), "a test");
    assert_int_equal(reloads_ask(&fixture->reloads, reload), ERR_OK);
    return reload;
}

static struct reload *ask_wait(struct fixture *fixture)
{
    struct reload *reload = ask(fixture);

    wait_for(&fixture->done);
    return reload;
}

static void assert_text(const struct reload *reload, const char *text)
{
    struct jsonw json;
    struct buf out;

    buf_init(&out, 4096);
    jsonw_init(&json, &out);
    reload_write(reload, &json);
    assert_string_equal(buf_cstr(&out), text);
    buf_release(&out);
}

TEST(without_parts_nothing_is_reloaded, fixture, set_up, tear_down)
{
    reloads_start(&fixture->reloads);
    struct reload *reload = ask_wait(fixture);

    assert_int_equal(reload->err, ERR_OK);
    assert_text(reload, "{\"reloaded\":[]}");
    mem_free(reload);
}

TEST(a_failure_names_its_part_and_the_others_are_reloaded, fixture, set_up, tear_down)
{
    reloads_add(&fixture->reloads, part(fixture, "one", run_either));
    reloads_add(&fixture->reloads, part(fixture, "two", run_good));
    reloads_start(&fixture->reloads);
    struct reload *reload = ask_wait(fixture);

    assert_int_equal(reload->err, ERR_OK);
    assert_string_equal(reload->failure, "");
    assert_text(reload, "{\"reloaded\":[\"one\",\"two\"]}");
    mem_free(reload);
    fixture->bad = true;
    reload = ask_wait(fixture);
    assert_int_equal(reload->err, ERR_CONFIG);
    assert_string_equal(reload->failure, "one: the key does not fit; the old files stay in use");
    assert_text(reload, "{\"reloaded\":[\"two\"]}");
    mem_free(reload);
}

TEST(a_part_that_was_removed_does_not_run, fixture, set_up, tear_down)
{
    reloads_add(&fixture->reloads, part(fixture, "one", run_good));
    reloads_add(&fixture->reloads, part(fixture, "two", run_either));
    assert_true(reloads_remove(&fixture->reloads, "one", DEADLINE_MS));
    assert_true(reloads_remove(&fixture->reloads, "none", DEADLINE_MS));
    reloads_start(&fixture->reloads);
    struct reload *reload = ask_wait(fixture);

    assert_text(reload, "{\"reloaded\":[\"two\"]}");
    assert_int_equal(fixture->runs, 0);
    mem_free(reload);
}

TEST(few_requests_wait_for_a_slow_disk, fixture, set_up, tear_down)
{
    struct reload *asked[RELOAD_WAITING_MAX + 1];
    struct reload late = {.on_done = on_done, .ctx = fixture};

    reloads_add(&fixture->reloads, part(fixture, "slow", run_slow));
    reloads_add(&fixture->reloads, part(fixture, "one", run_good));
    reloads_start(&fixture->reloads);
    asked[0] = ask(fixture);
    wait_for(&fixture->inside);
    for (int i = 1; i <= RELOAD_WAITING_MAX; i++) {
        asked[i] = ask(fixture);
    }
    assert_int_equal(reloads_ask(&fixture->reloads, &late), ERR_THROTTLED);
    for (int i = 0; i <= RELOAD_WAITING_MAX; i++) {
        (void)sem_post(&fixture->go);
    }
    for (int i = 0; i <= RELOAD_WAITING_MAX; i++) {
        wait_for(&fixture->done);
    }
    for (int i = 0; i <= RELOAD_WAITING_MAX; i++) {
        assert_text(asked[i], "{\"reloaded\":[\"slow\",\"one\"]}");
        mem_free(asked[i]);
    }
    assert_int_equal(fixture->runs, RELOAD_WAITING_MAX + 1);
    assert_int_equal(fixture->overlaps, 0);
    reloads_stop(&fixture->reloads, DEADLINE_MS);
    assert_int_equal(reloads_ask(&fixture->reloads, &late), ERR_CLOSED);
}

/* Every request gets its answer, also one that waits at the end. */
TEST(the_end_answers_all, fixture, set_up, tear_down)
{
    struct reload *asked[3];

    for (int i = 0; i < 3; i++) {
        asked[i] = ask(fixture);
    }
    reloads_start(&fixture->reloads);
    reloads_stop(&fixture->reloads, DEADLINE_MS);
    for (int i = 0; i < 3; i++) {
        wait_for(&fixture->done);
        mem_free(asked[i]);
    }
}

/* ---- A file system that hangs. ---- */

static void wait_stuck(struct fixture *fixture, uint32_t count)
{
    uint64_t end_ms = os_now_ms() + DEADLINE_MS;

    while (reloads_stuck(&fixture->reloads) != count) {
        assert_true(os_now_ms() < end_ms);
        (void)poll(NULL, 0, 1);
    }
}

TEST(a_part_that_hangs_delays_no_other, fixture, set_up, tear_down)
{
    struct reload *reload = NULL;
    uint64_t begin_ms = 0;

    fixture->reloads.wait_ms = 2000;
    reloads_add(&fixture->reloads, part(fixture, "slow", run_slow));
    reloads_add(&fixture->reloads, part(fixture, "one", run_good));
    reloads_start(&fixture->reloads);
    assert_int_equal(reloads_stuck(&fixture->reloads), 0);
    reload = ask_wait(fixture);
    assert_int_equal(reload->err, ERR_CONFIG);
    assert_string_equal(reload->failure,
                        "slow: not read within 2 s: check that the file system of its files "
                        "answers; they are read as soon as it does; the old files stay in use");
    assert_text(reload, "{\"reloaded\":[\"one\"]}");
    assert_int_equal(fixture->runs, 1);
    mem_free(reload);
    wait_stuck(fixture, 1); /* The part began a moment after the request. */

    /* While it hangs, the next requests do not wait for it. */
    begin_ms = os_now_ms();
    reload = ask_wait(fixture);
    assert_true(os_now_ms() - begin_ms < 2000);
    assert_int_equal(reload->err, ERR_CONFIG);
    assert_text(reload, "{\"reloaded\":[\"one\"]}");
    mem_free(reload);

    /* It runs once more, for the second request. */
    (void)sem_post(&fixture->go);
    (void)sem_post(&fixture->go);
    wait_stuck(fixture, 0);
    (void)sem_post(&fixture->go);
    reload = ask_wait(fixture);
    assert_text(reload, "{\"reloaded\":[\"slow\",\"one\"]}");
    mem_free(reload);
}

TEST(the_end_does_not_wait_for_a_part_that_hangs, fixture, set_up, tear_down)
{
    struct reload *reload = NULL;

    reloads_add(&fixture->reloads, part(fixture, "slow", run_slow));
    reloads_add(&fixture->reloads, part(fixture, "one", run_good));
    reloads_start(&fixture->reloads);
    reload = ask(fixture);
    wait_for(&fixture->inside);
    assert_true(reloads_remove(&fixture->reloads, "one", DEADLINE_MS));
    reloads_close(&fixture->reloads);
    wait_for(&fixture->done);
    assert_int_equal(reload->err, ERR_CLOSED);
    assert_string_equal(reload->failure, "this replica ends, and reads nothing again");
    mem_free(reload);
    assert_false(reloads_has_lost(&fixture->reloads));
    reloads_stop(&fixture->reloads, 10);
    assert_true(reloads_has_lost(&fixture->reloads));
    (void)sem_post(&fixture->go); /* So that the test can free all. */
}

/* ---- Looks. ---- */

static enum os_due look(void *ctx, uint64_t now_ms)
{
    struct fixture *fixture = ctx;

    assert_true(now_ms > 0);
    atomic_fetch_add(&fixture->looks, 1);
    (void)sem_post(&fixture->inside);
    return (enum os_due)atomic_load(&fixture->due);
}

TEST(a_part_runs_without_a_request_when_it_is_due, fixture, set_up, tear_down)
{
    struct reload_part looking = part(fixture, "one", run_good);

    looking.look = look;
    reloads_add(&fixture->reloads, looking);
    wait_for(&fixture->inside); /* At once, */
    assert_int_equal(fixture->runs, 0);
    atomic_store(&fixture->due, OS_CHANGED);
    wait_for(&fixture->inside); /* and every two seconds. */
    reloads_stop(&fixture->reloads, DEADLINE_MS);
    assert_true(fixture->runs >= 1);
    assert_true(fixture->runs < fixture->looks);
}
