/* http_take.h - in place of the WebSocket front end: keeps what it would know of its client. */
#ifndef TESTS_UNIT_HTTP_TAKE_H
#define TESTS_UNIT_HTTP_TAKE_H

#include "server/op/auth.h"
#include "tests/unit/http_kit.h"

#define TAKEN_ANSWER "taken"

/* The client of the last connection that was taken. */
struct taken {
    char address[ADDRESS_TEXT_MAX];
    char id[64]; /* The first identity; "": none. */
    bool https;
};

/* For http_upgrade.take, with a struct taken as `ctx`: answers TAKEN_ANSWER and ends the
 * connection. */
static inline bool taken_take(void *ctx, int fd, size_t head_len UNUSED, const char *key UNUSED,
                              const struct op_principal *client, void *seat)
{
    struct taken *taken = ctx;
    bool has_id = client->auth && client->auth->count > 0;

    (void)snprintf(taken->address, sizeof(taken->address), "%s", client->address);
    (void)snprintf(taken->id, sizeof(taken->id), "%.*s",
                   has_id ? (int)client->auth->ids[0].id.len : 0,
                   has_id ? (const char *)client->auth->ids[0].id.data : "");
    taken->https = client->https;
    kit_send(fd, TAKEN_ANSWER);
    http_seat_give(seat);
    close(fd);
    return true;
}

#endif
