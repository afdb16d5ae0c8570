#include "cli/revise.h"

#include "base/os_clock.h"
#include "cli/url.h"

#include <stdio.h>
#include <string.h>

enum {
    HTTP_NO_CONTENT = 204
};

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
    struct buf url;
    int code = CMD_OK;

    buf_clear(&revise->data);
    url_init(&url, "/znodes/v1", revise->path);
    code = client_ask(client, &(struct client_request){.target = buf_cstr(&url),
                                                       .accept = "application/octet-stream"});
    buf_release(&url);
    revise->exists = code == CMD_OK;
    revise->null = reply->status == HTTP_NO_CONTENT;
    if (code != CMD_OK) {
        (void)snprintf(revise->match, sizeof(revise->match), "If-None-Match: *");
        return code > CMD_OK && code != CMD_NO_NODE ? cli_tell(revise->cli)
               : code == CMD_NO_NODE                ? CMD_OK
                                                    : code;
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
    struct client_request request = {
        .method = "PUT", .body = data, .has_body = !null, .headers = {revise->match}};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", revise->path);
    if (null) {
        url_param(&url, "null", NULL);
    }
    if (revise->parents && !revise->exists) {
        url_param(&url, "parents", NULL);
    }
    request.target = buf_cstr(&url);
    code = client_ask(revise->cli->client, &request);
    buf_release(&url);
    return code;
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
