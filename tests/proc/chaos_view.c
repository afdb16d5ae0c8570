/* A thread for each replica requests its status and its view of the others. */
#include "base/check.h"
#include "tests/proc/chaos.h"

#include <poll.h>
#include <string.h>

enum {
    ASK_MS = 500,
    REST_MS = 100
};

static bool is_state(const json_t *member, const char *name)
{
    const char *state = json_string_value(json_object_get(member, "state"));

    return state && strcmp(state, name) == 0;
}

static bool counts(const json_t *member)
{
    return json_is_true(json_object_get(member, "votes")) &&
           (is_state(member, "leader") || is_state(member, "follower"));
}

static void take(struct chaos_view *view, const json_t *answer, uint64_t asked_ms)
{
    const json_t *members = json_object_get(answer, "members");
    uint32_t voters = 0;

    for (size_t i = 0; i < json_array_size(members); i++) {
        const json_t *member = json_array_get(members, i);
        json_int_t id = json_integer_value(json_object_get(member, "id"));

        if (id < 1 || id > ENSEMBLE_MAX) {
            continue;
        }
        voters |= counts(member) ? 1U << (id - 1) : 0;
        if (id == (json_int_t)view->id) {
            atomic_store(&view->leads, is_state(member, "leader"));
            atomic_store(&view->votes, counts(member));
        }
    }
    atomic_store(&view->voters, voters);
    atomic_store(&view->epoch, (uint32_t)json_integer_value(json_object_get(answer, "epoch")));
    atomic_store(&view->asked_ms, asked_ms);
}

static void run(void *arg)
{
    struct chaos_view *view = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    while (!atomic_load(&view->stopping)) {
        struct web_call call = {
            .port = view->port, .path = "/ensemble/v1", .timeout_ms = ASK_MS, .fresh = true};
        uint64_t asked_ms = os_now_ms();

        if (web_do(web, &call, &reply) == 200) {
            json_t *answer = web_json(&reply);

            take(view, answer, asked_ms);
            json_decref(answer);
        } else {
            atomic_store(&view->leads, false);
            atomic_store(&view->votes, false);
        }
        (void)poll(NULL, 0, REST_MS);
    }
    web_reply_release(&reply);
    web_close(web);
}

void chaos_view_start(struct chaos_view *view, uint16_t port, uint32_t id)
{
    *view = (struct chaos_view){.port = port, .id = id};
    thread_start(&view->thread, "view", run, view);
}

void chaos_view_stop(struct chaos_view *view)
{
    atomic_store(&view->stopping, true);
    thread_join(&view->thread);
}
