/* Answers are lost and leaders are killed while clients create sequential znodes, each with an
 * Idempotency-Key. Each key must make one znode, and each acknowledged znode must exist. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/proxy.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLIENTS = 4,
    ZNODES = 150, /* Per client. */
    TRIES_MAX = 2000,
    DROP_PERCENT = 30,
    KILLS = 3,
    LOST = 10, /* Lost answers. */
    NAME_MAX_LEN = 64,
    TIMEOUT_MS = 5000
};

struct client {
    struct thread thread;
    uint32_t number;
    char keys[ZNODES][WEB_KEY_LEN + 1];
    char names[ZNODES][NAME_MAX_LEN]; /* Acknowledged names. */
    _Atomic uint32_t done;
    uint32_t replayed;
    uint32_t retries;
    char wrong[256]; /* First forbidden answer. */
};

static struct ensemble ensemble;
static struct proxy proxies[3];
static struct client clients[CLIENTS];

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        proxy_start(&proxies[i], ensemble.replicas[i].client_port, DROP_PERCENT, i + 1);
    }
}

static void close_three(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        proxy_stop(&proxies[i]);
    }
    ensemble_close(&ensemble);
}

/* True when the create is acknowledged; after an unknown outcome it is retried with the same
 * key. */
static bool take_answer(struct client *client, struct web_reply *reply, uint32_t index)
{
    json_t *answer = NULL;
    const char *path = NULL;

    if (reply->status == 201) {
        answer = web_json(reply);
        path = answer ? json_string_value(json_object_get(answer, "path")) : NULL;
        (void)snprintf(client->names[index], NAME_MAX_LEN, "%s",
                       path && strncmp(path, "/q/", 3) == 0 ? path + 3 : "");
        json_decref(answer);
        client->replayed += web_header(reply, "Idempotency-Replayed") ? 1 : 0;
        return true;
    }
    if (reply->status != 0 && reply->status != 503 && reply->status != 504 &&
        !(reply->status == 409 && strstr(web_text(reply), "InFlight")) && !client->wrong[0]) {
        (void)snprintf(client->wrong, sizeof(client->wrong), "%ld %.200s", reply->status,
                       web_text(reply));
    }
    return false;
}

static bool create(struct client *client, struct web *web, struct web_reply *reply, uint32_t index)
{
    char headers[128];

    web_make_key(client->keys[index]);
    (void)snprintf(headers, sizeof(headers), "Idempotency-Key: %s", client->keys[index]);
    for (uint32_t attempt = 0; attempt < TRIES_MAX; attempt++) {
        struct web_call call = {.method = "POST",
                                .port = proxies[(client->number + attempt) % 3].port,
                                .path = "/znodes/v1/q?op=create&name=n-&sequence=true",
                                .body = client->keys[index],
                                .headers = headers,
                                .timeout_ms = TIMEOUT_MS,
                                .fresh = true};

        web_do(web, &call, reply);
        if (take_answer(client, reply, index)) {
            return true;
        }
        client->retries++;
        ensemble_breathe();
    }
    return false;
}

static void run(void *arg)
{
    struct client *client = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    while (client->done < ZNODES && create(client, web, &reply, client->done)) {
        atomic_fetch_add(&client->done, 1);
    }
    web_reply_release(&reply);
    web_close(web);
}

static uint32_t all_done(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < CLIENTS; i++) {
        sum += atomic_load(&clients[i].done);
    }
    return sum;
}

static void kill_leader(uint32_t after)
{
    uint32_t leader = 0;

    ENSEMBLE_WAIT(&ensemble, all_done() >= after);
    leader = ensemble_wait_leader(&ensemble);
    ensemble_kill(&ensemble, leader);
    ENSEMBLE_WAIT(&ensemble, all_done() >= after + CLIENTS);
    ensemble_start(&ensemble, leader);
    ensemble_wait_ready(&ensemble, leader);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The replica has exactly the acknowledged znodes, each with the data of its key. */
static void verify(uint32_t index)
{
    static const char *names[CLIENTS * ZNODES];
    char path[128];
    uint32_t count = 0;

    ensemble_call_until(&ensemble, index, "GET",
                        "/znodes/v1/q?view=children&limit=10000&consistency=linearizable", NULL,
                        200);

    json_t *answer = web_json(&ensemble.reply);
    json_t *children = json_object_get(answer, "children");

    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (uint32_t j = 0; j < ZNODES; j++) {
            names[count++] = clients[i].names[j];
        }
    }
    qsort(names, count, sizeof(names[0]), compare);
    ENSEMBLE_CHECK(&ensemble, json_array_size(children) == count);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(json_string_value(json_array_get(children, i)), names[i]);
    }
    json_decref(answer);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        for (uint32_t j = 0; j < ZNODES; j++) {
            (void)snprintf(path, sizeof(path), "/znodes/v1/q/%s?dataformat=utf8",
                           clients[i].names[j]);
            ENSEMBLE_CHECK(&ensemble, ensemble_call(&ensemble, index, "GET", path, NULL) == 200);
            ENSEMBLE_CHECK(&ensemble, strstr(web_text(&ensemble.reply), clients[i].keys[j]));
        }
    }
}

TEST(a_key_makes_one_znode, open_three, close_three)
{
    uint64_t dropped = 0;
    uint32_t replayed = 0;
    uint32_t retries = 0;

    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/q?upsert=true", "", 201);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i].number = i;
        thread_start(&clients[i].thread, "client", run, &clients[i]);
    }
    for (uint32_t i = 0; i < KILLS; i++) {
        kill_leader((i + 1) * CLIENTS * ZNODES / (KILLS + 2));
    }
    ENSEMBLE_WAIT(&ensemble, all_done() == CLIENTS * ZNODES);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        thread_join(&clients[i].thread);
        assert_string_equal(clients[i].wrong, "");
        replayed += clients[i].replayed;
        retries += clients[i].retries;
    }
    for (uint32_t i = 0; i < 3; i++) {
        dropped += atomic_load(&proxies[i].dropped);
        verify(i);
    }
    print_message("%d znodes, %d retries, %d answers dropped, %d results replayed\n",
                  CLIENTS * ZNODES, (int)retries, (int)dropped, (int)replayed);
    ENSEMBLE_CHECK(&ensemble, dropped > CLIENTS * ZNODES / 10 && replayed > 0);
}

/* A call of ensemble_call_until must not fail because a try whose answer was lost had succeeded. */
TEST(a_write_whose_answer_is_lost_is_answered, open_three, close_three)
{
    uint16_t direct = ensemble.replicas[0].client_port;
    char path[64];

    ensemble.replicas[0].client_port = proxies[0].port;
    for (uint32_t i = 0; atomic_load(&proxies[0].dropped) < LOST; i++) {
        (void)snprintf(path, sizeof(path), "/znodes/v1/lost%u?upsert=true", i);
        ensemble_call_until(&ensemble, 0, "PUT", path, "", 201);
        (void)snprintf(path, sizeof(path), "/znodes/v1/lost%u", i);
        ensemble_call_until(&ensemble, 0, "DELETE", path, NULL, 204);
    }
    ensemble.replicas[0].client_port = direct;
}
