#include "cli/revise.h"

int revise_run(struct revise *revise, int (*act)(struct revise *revise, void *ctx), void *ctx)
{
    int code = REVISE_AGAIN;

    revise->end_ms = os_now_ms() + (uint64_t)revise->cli->settings.timeout_ms;
    buf_init(&revise->data, CLIENT_BODY_MAX);
    while (code == REVISE_AGAIN) {
        code = act(revise, ctx);
    }
    buf_release(&revise->data);
    return code;
}

int revise_read(struct revise *revise)
{
    struct client *client = revise->cli->client;
    const struct client_reply *reply = &client->reply;
    struct client_request request = {.path = revise->path,
                                     .params = {{"view", revise->acl ? "acl" : NULL}},
                                     .accept = revise->acl ? NULL : "application/octet-stream"};
    int code = client_ask(client, &request);

    buf_clear(&revise->data);
    revise->exists = code == CMD_OK;
    revise->null = reply->status == HTTP_NO_CONTENT;
    if (code != CMD_OK) {
        (void)snprintf(revise->match, sizeof(revise->match), "If-None-Match: *");
        return code == CMD_NO_NODE ? CMD_OK : code > CMD_OK ? cli_tell(revise->cli) : code;
    }
    (void)snprintf(revise->match, sizeof(revise->match), "If-Match: %.256s", reply->etag);
    buf_append_slice(&revise->data, buf_slice(&reply->body));
    return CMD_OK;
}

int revise_write(struct revise *revise, struct slice data, bool null)
{
    struct client *client = revise->cli->client;
    bool parents = revise->parents && !revise->exists;
    struct client_request request = {
        .method = revise->acl ? "PATCH" : "PUT",
        .path = revise->path,
        .params = {{"null", url_flag(null)}, {"parents", url_flag(parents)}},
        .body = data,
        .has_body = !null,
        .type = revise->acl ? "application/json" : NULL,
        .headers = {revise->match}};
    int code = client_ask(client, &request);

    /* The last two conditions: another client has created or deleted the znode since the read. */
    bool quicker = client->error.status == HTTP_LATE ||
                   strcmp(client->error.code, "NodeExists") == 0 ||
                   (code == CMD_NO_NODE && revise->exists);

    if (code <= CMD_OK) {
        return code;
    }
    return quicker && os_now_ms() < revise->end_ms ? REVISE_AGAIN : cli_tell(revise->cli);
}
