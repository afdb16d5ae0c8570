#include "cli/member_list.h"

static const char target[] = "/ensemble/v1";

int member_list_take(const struct cli *cli, struct member_list *ret_list)
{
    struct client_request request = {.target = target};
    const char *tag = cli->client->reply.etag;
    json_t *json = NULL;

    *ret_list = (struct member_list){.whole = NULL};
    if (client_ask(cli->client, &request) != CMD_OK) {
        return cli_tell(cli);
    }
    json = cli_json(cli);
    if (!json) {
        return CMD_FAILED;
    }
    ret_list->whole = json;
    ret_list->members = jsonr_at(json, "members");
    if (!json_is_array(ret_list->members) || !*tag) {
        return cli_fail(cli, CMD_FAILED, "BadAnswer",
                        "the answer of %s has no list of members with a version: its release is "
                        "too old to change members, or it is not a zabra replica",
                        endpoints_url(&cli->client->endpoints));
    }
    (void)snprintf(ret_list->tag, sizeof(ret_list->tag), "%s", tag);
    return CMD_OK;
}

int member_list_print(const struct cli *cli, const char *columns,
                      void (*say)(const struct cli *cli, const json_t *whole))
{
    struct client_request request = {.target = target};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK && cli->out.format == SETTINGS_JSON) {
        cli_answer(cli);
    } else if (code == CMD_OK) {
        out_table(&cli->out, json, "members", columns);
        say(cli, json);
    }
    return code;
}

const json_t *member_list_find(const json_t *members, int64_t id)
{
    JSONR_EACH (member, members) {
        if (jsonr_number(member, "id") == id) {
            return member;
        }
    }
    return NULL;
}

bool member_list_votes(const json_t *member)
{
    return member && strcmp(jsonr_text(member, "role"), "observer") != 0;
}
