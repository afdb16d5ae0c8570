/* Many sessions with an ephemeral znode each lose a replica, then the leader, and are renewed at
 * the others: none expires and no znode is lost. Then the renewals stop: all sessions expire, and
 * each watcher gets one event for each. */
#include "tests/lib/unit.h"
#include "tests/proc/tail.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#ifdef ZABRA_SLOW
    SESSIONS = 400,
#else
    SESSIONS = 2000,
#endif
    TIMEOUT_S = 12,
    PACE_MS = TIMEOUT_S * 1000 / 3, /* Between two renewals of a session, as a client does. */
    KEEPERS = 4,
    EACH = SESSIONS / KEEPERS,
    SECRET_LEN = 36,
    TRIES_MAX = 200
};

struct keeper {
    struct thread thread;
    uint32_t number;
    char secrets[EACH][SECRET_LEN + 1];
    _Atomic uint32_t made;
    _Atomic uint32_t rounds;   /* In which all sessions were renewed. */
    _Atomic uint32_t worst_ms; /* Longest time between two renewals of a session. */
    _Atomic uint32_t lapsed;   /* Sessions that were renewed too late, and may expire. */
    uint64_t touched_ms[EACH]; /* When the last answered renewal was sent; 0: lapsed. */
    bool late[EACH];           /* A late renewal was answered before the expiry was known. */
    char wrong[256];
};

static struct ensemble ensemble;
static struct keeper keepers[KEEPERS];
static struct tail tails[3];
static _Atomic bool silent;

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

static void note_wrong(struct keeper *keeper, struct web_reply *reply)
{
    if (!keeper->wrong[0]) {
        (void)snprintf(keeper->wrong, sizeof(keeper->wrong), "%ld %.200s", reply->status,
                       reply->why ? reply->why : web_text(reply));
    }
}

/* Repeats the call until the status is `status`, beginning at the session's home replica. Calls
 * that were not applied are retried at another replica; all other answers are wrong. */
static bool call(struct web *web, struct web_reply *reply, uint32_t home, struct web_call *call,
                 long status)
{
    for (uint32_t i = 0; i < TRIES_MAX; i++) {
        call->port = ensemble.replicas[(home + i) % 3].client_port;
        web_do(web, call, reply);
        if (reply->status == status) {
            return true;
        }
        if (reply->status != 0 && reply->status != 503) {
            break;
        }
        ensemble_breathe();
    }
    return false;
}

static bool make(struct keeper *keeper, struct web *web, struct web_reply *reply, uint32_t index)
{
    char path[128];
    char header[64];
    uint32_t number = keeper->number * EACH + index;
    uint64_t sent_ms = os_now_ms();
    json_t *answer = NULL;
    const char *secret = NULL;

    (void)snprintf(path, sizeof(path), "/sessions/v1/?op=create&expire=%d", TIMEOUT_S);
    if (!call(web, reply, number, &(struct web_call){.method = "POST", .path = path}, 201)) {
        return false;
    }
    answer = web_json(reply);
    secret = json_string_value(json_object_get(answer, "id"));
    (void)snprintf(keeper->secrets[index], SECRET_LEN + 1, "%s", secret ? secret : "");
    json_decref(answer);
    keeper->touched_ms[index] = sent_ms;
    (void)snprintf(header, sizeof(header), "Zk-Session: %s", keeper->secrets[index]);
    (void)snprintf(path, sizeof(path), "/znodes/v1/live?op=create&name=s%04u&ephemeral=true",
                   number);
    return call(web, reply, number,
                &(struct web_call){.method = "POST", .path = path, .headers = header}, 201);
}

/* On an overloaded machine the answer to a renewal may take longer than the timeout. Only then the
 * session may be over. */
static void touch(struct keeper *keeper, struct web *web, struct web_reply *reply, uint32_t index)
{
    char header[64];
    uint64_t sent_ms = os_now_ms();
    uint32_t gap_ms = 0;

    if (keeper->touched_ms[index] == 0) {
        return;
    }
    (void)snprintf(header, sizeof(header), "Zk-Session: %s", keeper->secrets[index]);
    if (!call(web, reply, keeper->number * EACH + index,
              &(struct web_call){.method = "PUT", .path = "/sessions/v1/", .headers = header},
              200)) {
        bool late = os_now_ms() - keeper->touched_ms[index] >= (uint64_t)TIMEOUT_S * 1000;

        if (reply->status == 401 && (late || keeper->late[index])) {
            keeper->touched_ms[index] = 0;
            atomic_fetch_add(&keeper->lapsed, 1);
        } else {
            note_wrong(keeper, reply);
        }
        return;
    }
    gap_ms = (uint32_t)(os_now_ms() - keeper->touched_ms[index]);
    keeper->touched_ms[index] = sent_ms;
    keeper->late[index] = keeper->late[index] || gap_ms >= TIMEOUT_S * 1000;
    if (gap_ms > atomic_load(&keeper->worst_ms)) {
        atomic_store(&keeper->worst_ms, gap_ms);
    }
}

static void run(void *arg)
{
    struct keeper *keeper = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    for (uint32_t i = 0, due = 0; i < EACH && !keeper->wrong[0]; i++) {
        if (make(keeper, web, &reply, i)) {
            atomic_store(&keeper->made, i + 1);
        } else {
            note_wrong(keeper, &reply);
        }
        /* The first sessions are renewed before the last one exists. */
        for (uint32_t j = 0; j <= i && os_now_ms() >= keeper->touched_ms[due] + PACE_MS; j++) {
            touch(keeper, web, &reply, due);
            due = (due + 1) % (i + 1);
        }
    }
    while (!atomic_load(&silent) && !keeper->wrong[0]) {
        uint64_t next_ms = os_now_ms() + PACE_MS;

        for (uint32_t i = 0; i < EACH && !atomic_load(&silent); i++) {
            touch(keeper, web, &reply, i);
        }
        atomic_fetch_add(&keeper->rounds, 1);
        while (os_now_ms() < next_ms && !atomic_load(&silent)) {
            ensemble_breathe();
        }
    }
    web_reply_release(&reply);
    web_close(web);
}

static uint32_t lowest(bool of_rounds)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < KEEPERS; i++) {
        uint32_t value =
            of_rounds ? atomic_load(&keepers[i].rounds) : atomic_load(&keepers[i].made);

        assert_string_equal(keepers[i].wrong, "");
        least = value < least ? value : least;
    }
    return least;
}

static size_t count_live(uint32_t index)
{
    if (ensemble_call(&ensemble, index, "GET", "/znodes/v1/live?view=stat&consistency=linearizable",
                      NULL) != 200) {
        return SIZE_MAX;
    }
    json_t *answer = web_json(&ensemble.reply);
    size_t count = (size_t)json_integer_value(json_object_get(answer, "numChildren"));

    json_decref(answer);
    return count;
}

static uint32_t count_lapsed(void)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < KEEPERS; i++) {
        count += atomic_load(&keepers[i].lapsed);
    }
    return count;
}

/* A keeper may not know yet that a session has lapsed; such a session reports its end itself. */
static bool all_live(uint32_t index)
{
    size_t count = count_live(index);

    (void)lowest(true);
    return count <= SESSIONS && count + count_lapsed() >= SESSIONS;
}

static uint32_t other_than(uint32_t index)
{
    return (index + 1) % 3;
}

/* Kills a replica; all sessions must survive for longer than their timeout. */
static void lose(uint32_t index)
{
    uint64_t end_ms = 0;

    ensemble_kill(&ensemble, index);
    end_ms = os_now_ms() + (uint64_t)TIMEOUT_S * 1250;
    ENSEMBLE_WAIT(&ensemble, lowest(true) > 0 && os_now_ms() >= end_ms);
    ENSEMBLE_WAIT(&ensemble, all_live(other_than(index)));
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
}

static void verify_one_event_each(struct tail *tail)
{
    char path[32];

    for (uint32_t i = 0; i < SESSIONS; i++) {
        (void)snprintf(path, sizeof(path), "/live/s%04u", i);
        ENSEMBLE_CHECK(&ensemble, tail_count(tail, "NodeCreated", path) == 1);
        ENSEMBLE_CHECK(&ensemble, tail_count(tail, "NodeDeleted", path) == 1);
    }
    ENSEMBLE_CHECK(&ensemble, atomic_load(&tail->gaps) == 0 && atomic_load(&tail->diffed) == 0);
}

static void keep_through_kills(void)
{
    uint32_t leader = 0;

    for (uint32_t i = 0; i < KEEPERS; i++) {
        keepers[i].number = i;
        thread_start(&keepers[i].thread, "keeper", run, &keepers[i]);
    }
    ENSEMBLE_WAIT(&ensemble, lowest(false) == EACH);
    leader = ensemble_wait_leader(&ensemble);
    lose(other_than(leader));
    leader = ensemble_wait_leader(&ensemble);
    lose(leader);
}

TEST(sessions_survive_replicas_and_then_expire, open_three, close_three)
{
    uint32_t worst_ms = 0;
    uint64_t silent_ms = 0;

    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/live?upsert=true", "", 201);
    for (uint32_t i = 0; i < 3; i++) {
        tail_start(&tails[i], &ensemble, i, "/watch/v1/live?mode=recursive");
    }
    keep_through_kills();
    atomic_store(&silent, true);
    silent_ms = os_now_ms();
    for (uint32_t i = 0; i < KEEPERS; i++) {
        thread_join(&keepers[i].thread);
        assert_string_equal(keepers[i].wrong, "");
        worst_ms = keepers[i].worst_ms > worst_ms ? keepers[i].worst_ms : worst_ms;
    }
    print_message("%d sessions, %u renewed too late; longest time between two renewals: %d ms\n",
                  SESSIONS, count_lapsed(), (int)worst_ms);
    assert_true(count_lapsed() <= SESSIONS - SESSIONS / 20); /* Otherwise too few were tested. */
    ENSEMBLE_WAIT(&ensemble, count_live(0) == 0);
    print_message("all expired %d ms after the last renewal\n", (int)(os_now_ms() - silent_ms));
    for (uint32_t i = 0; i < 3; i++) {
        ENSEMBLE_WAIT(&ensemble, tail_count(&tails[i], "NodeDeleted", "/live/") >= SESSIONS);
        tail_stop(&tails[i]);
        verify_one_event_each(&tails[i]);
        tail_release(&tails[i]);
    }
}
