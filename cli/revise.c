#include "cli/revise.h"

#include "base/os_clock.h"
#include "cli/url.h"

#include <stdio.h>
#include <string.h>

void revise_init(struct revise *revise, struct cli *cli, const char *path)
{
    *revise = (struct revise){
        .cli = cli, .path = path, .end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms};
    buf_init(&revise->data, CLIENT_BODY_MAX);
}

void revise_release(struct revise *revise)
{
    buf_release(&revise->data);
}

int revise_read(struct revise *revise)
{
    struct client *client = revise->cli->client;
    const struct client_reply *reply = client_reply(client);
    struct client_request request = {
        .target = "/znodes/v1", .path = revise->path, .accept = "application/octet-stream"};
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

/* The znode existed at the read and does not exist now, or the reverse. */
static bool was_quicker(const struct revise *revise, int code)
{
    const struct client *client = revise->cli->client;

    return client_was_late(client) || strcmp(client_error(client)->code, "NodeExists") == 0 ||
           (code == CMD_NO_NODE && revise->exists);
}

static int ask(struct revise *revise, struct slice data, bool null)
{
    return client_ask(revise->cli->client,
                      &(struct client_request){
                          .method = "PUT",
                          .target = "/znodes/v1",
                          .path = revise->path,
                          .params = {{"null", url_flag(null)},
                                     {"parents", url_flag(revise->parents && !revise->exists)}},
                          .body = data,
                          .has_body = !null,
                          .headers = {revise->match}});
}

int revise_write(struct revise *revise, struct slice data, bool null)
{
    int code = ask(revise, data, null);

    if (code <= CMD_OK) {
        return code;
    }
    if (was_quicker(revise, code) && os_now_ms() < revise->end_ms) {
        return REVISE_AGAIN;
    }
    return cli_tell(revise->cli);
}
