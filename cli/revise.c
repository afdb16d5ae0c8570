#include "cli/revise.h"

int revise_run(struct cli *cli, const char *path, bool parents,
               int (*act)(struct revise *revise, void *ctx), void *ctx)
{
    struct revise revise = {.cli = cli,
                            .path = path,
                            .parents = parents,
                            .end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms,
                            .data.size_max = CLIENT_BODY_MAX};
    int code = REVISE_AGAIN;

    while (code == REVISE_AGAIN) {
        code = act(&revise, ctx);
    }
    buf_release(&revise.data);
    return code;
}

int revise_read(struct revise *revise)
{
    struct client *client = revise->cli->client;
    const struct client_reply *reply = &client->reply;
    struct client_request request = {.path = revise->path, .accept = "application/octet-stream"};
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
        .method = "PUT",
        .path = revise->path,
        .params = {{"null", url_flag(null)}, {"parents", url_flag(parents)}},
        .body = data,
        .has_body = !null,
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
