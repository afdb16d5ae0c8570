/* Sessions must live while they are renewed, and expire when they are not. */
#include "tests/proc/chaos.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum {
    ASK_MS = 700,
    TOUCH_EVERY_MS = 300,
    EXPIRE_S = 8,
    /* The session must exist for that long after an answered renewal. It is less than the timeout,
     * because the replica that answered may be killed before the leader receives the renewal. */
    SAFE_MS = EXPIRE_S * 1000 / 2,
    LIFE_MS_MIN = 3000,
    LIFE_MS_MAX = 25000
};

struct kept {
    char secret[WEB_KEY_LEN + 1]; /* "": no session is open. */
    uint64_t touched_ms;          /* Time of the last answered renewal's request. */
    uint64_t end_ms;              /* No more renewals from then on. */
};

static uint16_t some_port(struct chaos_keeper *keeper)
{
    return keeper->ports[rng_below(&keeper->rng, keeper->port_count)];
}

static void open_session(struct chaos_keeper *keeper, struct web *web, struct web_reply *reply,
                         struct kept *kept)
{
    const struct web_call call = {.method = "POST",
                                  .port = some_port(keeper),
                                  .path = keeper->create_path,
                                  .timeout_ms = ASK_MS,
                                  .fresh = true};
    uint64_t asked_ms = os_now_ms();

    if (web_do(web, &call, reply) != 201) {
        return;
    }

    json_t *answer = web_json(reply);
    const char *secret = json_string_value(json_object_get(answer, "id"));

    (void)snprintf(kept->secret, sizeof(kept->secret), "%s", secret ? secret : "");
    json_decref(answer);
    kept->touched_ms = asked_ms;
    kept->end_ms = asked_ms + rng_range(&keeper->rng, LIFE_MS_MIN, LIFE_MS_MAX);
    keeper->opened++;
}

/* Creates the session's ephemeral, if possible. */
static void create_ephemeral(struct chaos_keeper *keeper, struct web *web, struct web_reply *reply,
                             const struct kept *kept)
{
    char path[128];
    char headers[128];
    const struct web_call call = {.method = "POST",
                                  .port = some_port(keeper),
                                  .path = path,
                                  .headers = headers,
                                  .body = "",
                                  .timeout_ms = ASK_MS,
                                  .fresh = true};

    (void)snprintf(path, sizeof(path), "/znodes/v1/e?op=create&name=%u-%u&ephemeral=true",
                   keeper->number, keeper->opened);
    (void)snprintf(headers, sizeof(headers), "Zk-Session: %s", kept->secret);
    (void)web_do(web, &call, reply);
}

/* 404 and 401: the session is over. Other answers do not show its state. */
static void touch(struct chaos_keeper *keeper, struct web *web, struct web_reply *reply,
                  struct kept *kept)
{
    char path[128];
    const struct web_call call = {.method = "PUT",
                                  .port = some_port(keeper),
                                  .path = path,
                                  .timeout_ms = ASK_MS,
                                  .fresh = true};
    uint64_t asked_ms = os_now_ms();

    (void)snprintf(path, sizeof(path), "/sessions/v1/%s", kept->secret);

    long status = web_do(web, &call, reply);
    uint64_t silent_ms = os_now_ms() - kept->touched_ms;

    if (status == 200) {
        kept->touched_ms = asked_ms;
        keeper->touches++;
    } else if (status == 401 || status == 404) {
        keeper->expired++;
        if (silent_ms < SAFE_MS && keeper->wrong[0] == '\0') {
            (void)snprintf(keeper->wrong, sizeof(keeper->wrong),
                           "session %u of keeper %u was over %" PRIu64
                           " ms after a touch that was answered, by port %u: %.200s",
                           keeper->opened, keeper->number, silent_ms, call.port, web_text(reply));
        }
        kept->secret[0] = '\0';
    }
}

static void pass_time(struct chaos_keeper *keeper, struct web *web, struct web_reply *reply,
                      struct kept *kept)
{
    if (kept->secret[0] == '\0') {
        open_session(keeper, web, reply, kept);
        if (kept->secret[0] != '\0') {
            create_ephemeral(keeper, web, reply, kept);
        }
    } else if (os_now_ms() < kept->end_ms) {
        touch(keeper, web, reply, kept);
    } else {
        kept->secret[0] = '\0';
        keeper->abandoned++;
    }
}

static void run(void *arg)
{
    struct chaos_keeper *keeper = arg;
    struct kept kept = {.touched_ms = 0};
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    while (!atomic_load(&keeper->stopping)) {
        pass_time(keeper, web, &reply, &kept);
        (void)poll(NULL, 0, TOUCH_EVERY_MS);
    }
    keeper->abandoned += kept.secret[0] != '\0';
    web_reply_release(&reply);
    web_close(web);
}

void chaos_keeper_start(struct chaos_keeper *keeper, const struct ensemble *ensemble,
                        uint32_t number, uint64_t seed)
{
    *keeper = (struct chaos_keeper){.number = number, .port_count = ensemble->count};
    for (uint32_t i = 0; i < ensemble->count; i++) {
        keeper->ports[i] = ensemble->replicas[i].client_port;
    }
    (void)snprintf(keeper->create_path, sizeof(keeper->create_path),
                   "/sessions/v1/?op=create&expire=%d", EXPIRE_S);
    rng_init(&keeper->rng, seed + number);
    thread_start(&keeper->thread, "keeper", run, keeper);
}

void chaos_keeper_stop(struct chaos_keeper *keeper)
{
    atomic_store(&keeper->stopping, true);
    thread_join(&keeper->thread);
}
