#include "tests/proc/membership.h"

#include <stdio.h>
#include <string.h>

void membership_set_line(const struct ensemble *ensemble, uint32_t index, const char *start,
                         const char *text)
{
    char before[ENSEMBLE_KEYS_MAX * 2];
    FILE *file = fopen(ensemble->replicas[index].config, "r");
    size_t len = file ? fread(before, 1, sizeof(before) - 1, file) : 0;

    ENSEMBLE_CHECK(ensemble, len > 0 && fclose(file) == 0);
    before[len] = '\0';
    char *line = strstr(before, start);

    ENSEMBLE_CHECK(ensemble, line && (line == before || line[-1] == '\n'));
    const char *rest = line + strcspn(line, "\n");

    file = fopen(ensemble->replicas[index].config, "w");
    ENSEMBLE_CHECK(ensemble, file);
    (void)fprintf(file, "%.*s%s%s", (int)(line - before), before, text, rest + (*rest ? 1 : 0));
    ENSEMBLE_CHECK(ensemble, fclose(file) == 0);
}

void membership_shorten(const struct ensemble *ensemble, uint32_t index, uint32_t founders)
{
    char start[32];

    for (uint32_t id = founders + 1; id <= ensemble->count; id++) {
        (void)snprintf(start, sizeof(start), "server.%u=", id);
        membership_set_line(ensemble, index, start, "");
    }
}

void membership_open(struct ensemble *ensemble, uint32_t count, uint32_t founders, const char *keys)
{
    ensemble_open(ensemble, count, keys);
    for (uint32_t i = 0; i < founders; i++) {
        membership_shorten(ensemble, i, founders);
        ensemble_start(ensemble, i);
    }
    for (uint32_t i = 0; i < founders; i++) {
        ensemble_wait_ready(ensemble, i);
    }
}

json_t *membership_seen_by(struct ensemble *ensemble, uint32_t at)
{
    return ensemble_call(ensemble, at, "GET", "/ensemble/v1", NULL) == 200
               ? web_json(&ensemble->reply)
               : NULL;
}

const json_t *membership_find(const json_t *seen, uint32_t index)
{
    size_t at = 0;
    json_t *member = NULL;

    json_array_foreach(json_object_get(seen, "members"), at, member)
    {
        if (json_integer_value(json_object_get(member, "id")) == index + 1) {
            return member;
        }
    }
    return NULL;
}

static void name_member(uint32_t index, struct membership_call *call)
{
    *call = (struct membership_call){.method = "DELETE"};
    (void)snprintf(call->path, sizeof(call->path), "/ensemble/v1/members/%u", index + 1);
}

void membership_add(const struct ensemble *ensemble, uint32_t index, struct membership_call *call)
{
    *call = (struct membership_call){.method = "POST", .path = "/ensemble/v1/members"};
    (void)snprintf(call->body, sizeof(call->body), "{\"id\":%u,\"peer\":\"127.0.0.1:%u\"}",
                   index + 1, ensemble->replicas[index].peer_port);
}

void membership_role(uint32_t index, const char *role, struct membership_call *call)
{
    name_member(index, call);
    call->method = "PUT";
    (void)snprintf(call->body, sizeof(call->body), "{\"role\":\"%s\"}", role);
}

void membership_remove(uint32_t index, struct membership_call *call)
{
    name_member(index, call);
}

void membership_replace(uint32_t old, uint32_t new, struct membership_call *call)
{
    *call = (struct membership_call){.method = "PATCH", .path = "/ensemble/v1/members"};
    (void)snprintf(call->body, sizeof(call->body), "{\"remove\":[%u],\"promote\":[%u]}", old + 1,
                   new + 1);
}

long membership_send(struct web *web, struct web_reply *reply, uint16_t port,
                     const struct membership_call *call)
{
    char key[WEB_KEY_LEN + 1];
    char headers[256];

    web_make_key(key);
    (void)snprintf(headers, sizeof(headers),
                   "%sAuthorization: Basic c3VwZXI6cm9vdA==\nIdempotency-Key: %s",
                   call->body[0] ? "Content-Type: application/json\n" : "", key);
    return web_do(web,
                  &(struct web_call){.method = call->method,
                                     .port = port,
                                     .path = call->path,
                                     .body = call->body[0] ? call->body : NULL,
                                     .headers = headers},
                  reply);
}

void membership_change(struct ensemble *ensemble, uint32_t at, const struct membership_call *call)
{
    for (uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;;
         ensemble_look_again(ensemble, end_ms, call->path)) {
        long status = membership_send(ensemble->web, &ensemble->reply,
                                      ensemble->replicas[at].client_port, call);
        const char *text = web_text(&ensemble->reply);
        bool passes = status == 503 || status == 0 ||
                      (status == 409 && (strstr(text, "NotInStep") || strstr(text, "UnderWay")));

        if (status / 100 == 2) {
            return;
        }
        ensemble_check(ensemble, passes, text);
    }
}

void membership_wait_removed(struct ensemble *ensemble, uint32_t index)
{
    ENSEMBLE_CHECK(ensemble, ensemble_wait_end(ensemble, index) == MEMBERSHIP_EXIT);
    ensemble_empty(ensemble, index);
    ensemble_write_configs(ensemble); /* If it comes back, its list has the present members. */
}
