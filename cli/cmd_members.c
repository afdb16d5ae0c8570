/* members: the members of the ensemble, and changes of them. */
#include "cli/cli.h"

#include <poll.h>

enum {
    ID_MAX = UINT16_MAX,
    VOTERS_MAX = 64,
    TARGET_MAX = 256,
    BODY_MAX = 4096,
    LOOK_MS = 500, /* Between two looks of --wait. */
    WAIT_MS = 600000
};

enum verb {
    VERB_LIST,
    VERB_ADD,
    VERB_PROMOTE,
    VERB_DEMOTE,
    VERB_MOVE,
    VERB_REPLACE,
    VERB_REMOVE
};

static const char verbs[] = "list, add, promote, demote, move, replace, remove";

/* What a command line asks for. */
struct wish {
    enum verb verb;
    int64_t id;          /* The member; of replace the new one. */
    int64_t leaves;      /* replace: the member that is removed. */
    const char *address; /* Of add, move and replace, for other replicas; NULL: not given. */
    const char *client;
    const char *zone;
    bool auto_promote;
    bool waits;
    uint64_t until_ms; /* End of the wait, monotonic. */
};

/* ---- list ---- */

static const char columns[] =
    "ID:id>, ROLE:role, STATE:state, VOTES:votes, ZXID:zxid, LAG:lag_ms>, "
    "SYNC99:log_sync_p99_ms>, HEARD:heard_ms>, PEER:peer, CLIENT:client, ZONE:zone, "
    "REFUSED:refused";

static void say_change(const struct cli *cli, const json_t *ensemble)
{
    json_t *pending = jsonr_at(ensemble, "pending");

    if (json_is_object(pending)) {
        out_say(&cli->out, "a change of the members is not committed yet: version %s\n",
                jsonr_text(pending, "version"));
    }
    JSONR_EACH (waiting, jsonr_at(ensemble, "waiting")) {
        const char *command = jsonr_text(waiting, "command");

        out_say(&cli->out, "replica %" PRId64 " waits to be added%s%s\n",
                jsonr_number(waiting, "id"), *command ? ": " : "", command);
    }
}

static int list(const struct cli *cli)
{
    struct client_request request = {.target = "/ensemble/v1", .last = true};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK && cli->out.format == SETTINGS_JSON) {
        cli_answer(cli);
    } else if (code == CMD_OK) {
        out_table(&cli->out, json, "members", columns);
        if (json_array_size(jsonr_at(json, "members")) == 0) {
            out_say(&cli->out, "this replica is no member of an ensemble yet: zabra doctor says "
                               "what it waits for\n");
        }
        say_change(cli, json);
        out_say(&cli->out, "seen by replica %" PRId64 ", feature level %" PRId64,
                jsonr_number(json, "seen_by"), jsonr_number(json, "level"));
        if (json_is_integer(jsonr_at(json, "tolerance"))) {
            out_say(&cli->out, ", tolerance %" PRId64, jsonr_number(json, "tolerance"));
        }
        out_say(&cli->out, "\n");
    }
    return code;
}

/* ---- What the ensemble is now ---- */

/* Asks for the members; `tag` is their version, for If-Match. The list belongs to the client. */
static int look(const struct cli *cli, char tag[CLIENT_HEADER_MAX], json_t **ret_members)
{
    struct client_request request = {.target = "/ensemble/v1"};
    json_t *json = NULL;
    int code = cli_ask_json(cli, &request, &json);

    if (code == CMD_OK) {
        (void)snprintf(tag, CLIENT_HEADER_MAX, "%s", cli->client->reply.etag);
        *ret_members = jsonr_at(json, "members");
    }
    return code;
}

static const json_t *member_of(const json_t *members, int64_t id)
{
    JSONR_EACH (member, members) {
        if (jsonr_number(member, "id") == id) {
            return member;
        }
    }
    return NULL;
}

static bool is_voter(const json_t *member)
{
    return strcmp(jsonr_text(member, "role"), "voter") == 0;
}

static bool is_in_step(const json_t *member)
{
    const char *state = jsonr_text(member, "state");

    return strcmp(state, "leader") == 0 || strcmp(state, "follower") == 0 ||
           strcmp(state, "observer") == 0;
}

/* ---- Sending a change ---- */

/* A request that changes the members. */
struct change {
    const char *method;
    char target[TARGET_MAX];
    json_t *body; /* Its members; the options that all changes have are added. NULL: no body. */
};

static void name_member(struct change *change, const char *method, int64_t id)
{
    change->method = method;
    (void)snprintf(change->target, TARGET_MAX, "/ensemble/v1/members/%" PRId64, id);
}

static void put_text(json_t *body, const char *name, const char *text)
{
    if (text) {
        (void)json_object_set_new(body, name, out_string(text));
    }
}

static void put_texts(const struct wish *wish, json_t *body)
{
    put_text(body, "peer", wish->address);
    put_text(body, "client", wish->client);
    put_text(body, "zone", wish->zone);
}

static void build_add(const struct wish *wish, struct change *change)
{
    change->method = "POST";
    (void)snprintf(change->target, TARGET_MAX, "/ensemble/v1/members");
    change->body = json_pack("{s:I}", "id", (json_int_t)wish->id);
    put_texts(wish, change->body);
    if (wish->auto_promote) {
        (void)json_object_set_new(change->body, "autoPromote", json_true());
    }
}

/* Removes one member and promotes the other one in one change, if the one that leaves votes. */
static void build_replace(const struct wish *wish, const json_t *members, struct change *change)
{
    bool promotes =
        is_voter(member_of(members, wish->leaves)) && !is_voter(member_of(members, wish->id));

    change->method = "PATCH";
    (void)snprintf(change->target, TARGET_MAX, "/ensemble/v1/members");
    change->body = json_pack("{s:[I]}", "remove", (json_int_t)wish->leaves);
    if (promotes) {
        (void)json_object_set_new(change->body, "promote", json_pack("[I]", (json_int_t)wish->id));
    }
}

static void build(const struct wish *wish, enum verb verb, const json_t *members,
                  struct change *change)
{
    *change = (struct change){.method = NULL};
    switch (verb) {
    case VERB_ADD:
        build_add(wish, change);
        break;
    case VERB_PROMOTE:
    case VERB_DEMOTE:
        name_member(change, "PUT", wish->id);
        change->body = json_pack("{s:s}", "role", verb == VERB_PROMOTE ? "voter" : "observer");
        break;
    case VERB_MOVE:
        name_member(change, "PUT", wish->id);
        change->body = json_object();
        put_texts(wish, change->body);
        break;
    case VERB_REPLACE:
        build_replace(wish, members, change);
        break;
    case VERB_LIST:
    case VERB_REMOVE:
        name_member(change, "DELETE", wish->id);
        break;
    }
}

static void put_options(const struct cli *cli, json_t *body)
{
    if (args_has(&cli->args, "min-tolerance")) {
        (void)json_object_set_new(body, "minTolerance",
                                  json_integer(cli_number(cli, "min-tolerance")));
    }
    if (args_has(&cli->args, "force")) {
        (void)json_object_set_new(body, "force", json_true());
    }
    if (args_has(&cli->args, "dry-run")) {
        (void)json_object_set_new(body, "dryRun", json_true());
    }
}

/* Sends the change with If-Match. Returns the exit code; the caller reports an error. */
static int send_change(const struct cli *cli, struct change *change, const char *tag)
{
    char header[CLIENT_HEADER_MAX + sizeof("If-Match: ")];
    BUF_AUTO(text, BODY_MAX);
    struct client_request request = {
        .method = change->method, .target = change->target, .headers = {header}, .last = true};

    (void)snprintf(header, sizeof(header), "If-Match: %s", tag);
    if (change->body) {
        put_options(cli, change->body);
        jsonr_put(&text, change->body);
        request.has_body = true;
        request.body = buf_slice(&text);
        request.type = "application/json";
    } else {
        request.params[0] =
            (struct client_param){"minTolerance", args_get(&cli->args, "min-tolerance")};
        request.params[1] = (struct client_param){"force", cli_flag(cli, "force")};
        request.params[2] = (struct client_param){"dryRun", cli_flag(cli, "dry-run")};
    }
    return client_ask(cli->client, &request);
}

/* Whether the ensemble has refused the change for a reason that passes. */
static bool may_pass(const struct cli *cli)
{
    const char *reason = jsonr_text(cli->client->error.problem, "reason");

    return strcmp(reason, "NotInStep") == 0 || strcmp(reason, "UnderWay") == 0;
}

static bool has_time(const struct wish *wish)
{
    return wish->waits && os_now_ms() < wish->until_ms;
}

/* Builds the change again for each attempt, as the version may be another one. With --wait a
 * refusal that passes is no end. Reports errors. */
static int make_change(const struct cli *cli, const struct wish *wish, enum verb verb)
{
    for (;;) {
        struct change change;
        char tag[CLIENT_HEADER_MAX];
        json_t *members = NULL;
        int code = look(cli, tag, &members);

        if (code != CMD_OK) {
            return code;
        }
        build(wish, verb, members, &change);
        code = send_change(cli, &change, tag);
        json_decref(change.body);
        if (code <= CMD_OK || !may_pass(cli) || !has_time(wish)) {
            return code > CMD_OK ? cli_tell(cli) : code;
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* ---- The result ---- */

static int count_voters(const json_t *members)
{
    int count = 0;

    JSONR_EACH (member, members) {
        count += is_voter(member);
    }
    return count;
}

/* What the new ensemble tolerates, and the same for both results of a dry run. */
static void say_tolerance(const struct cli *cli, const json_t *answer)
{
    int voters = count_voters(jsonr_at(answer, "members"));
    int64_t after = jsonr_number(answer, "tolerance.after");

    out_say(&cli->out, "voters: %d, in step: %" PRId64 "\n", voters,
            jsonr_number(answer, "in_step"));
    out_say(&cli->out, "voters that may fail: %" PRId64 " before, %" PRId64 " after\n",
            jsonr_number(answer, "tolerance.before"), after);
    if (voters > 1 && voters % 2 == 0) {
        out_say(&cli->out,
                "note: %d voters tolerate no more failures than %d: promote or demote "
                "one more\n",
                voters, voters - 1);
    } else if (after <= 0) {
        out_say(&cli->out, "note: no voter may fail now\n");
    }
}

static void say_next(const struct cli *cli, const struct wish *wish)
{
    switch (wish->verb) {
    case VERB_ADD:
        out_say(&cli->out,
                "next: start replica %" PRId64
                " if it does not run yet; when `zabra members` shows "
                "it as observer: zabra members promote %" PRId64 " --wait\n",
                wish->id, wish->id);
        break;
    case VERB_DEMOTE:
        out_say(&cli->out, "next: zabra members remove %" PRId64 ", if it is to leave\n", wish->id);
        break;
    case VERB_MOVE:
        out_say(&cli->out,
                "next: restart replica %" PRId64
                " with its new address, if it does not listen there "
                "yet\n",
                wish->id);
        break;
    case VERB_REPLACE:
    case VERB_REMOVE:
        out_say(&cli->out,
                "next: replica %" PRId64 " ends by itself (exit code 6) when it is reached; empty "
                "its directory, or destroy its disk\n",
                wish->verb == VERB_REPLACE ? wish->leaves : wish->id);
        break;
    case VERB_LIST:
    case VERB_PROMOTE:
        break;
    }
}

static int say_result(const struct cli *cli, const struct wish *wish, int code)
{
    const json_t *answer = NULL;

    if (code != CMD_OK) {
        return code;
    }
    if (!out_is_text(&cli->out)) {
        cli_answer(cli);
        return CMD_OK;
    }
    answer = cli_json(cli);
    if (!answer) {
        return CMD_FAILED;
    }
    if (json_is_true(jsonr_at(answer, "applied"))) {
        out_say(&cli->out, "changed: version %s\n", jsonr_text(answer, "version"));
    } else {
        out_say(&cli->out, "would be changed; nothing is changed (--dry-run)\n");
    }
    say_tolerance(cli, answer);
    if (json_is_true(jsonr_at(answer, "applied"))) {
        say_next(cli, wish);
    }
    return CMD_OK;
}

/* ---- Waiting for a member ---- */

/* Waits until the member is in step. Reports errors. */
static int wait_in_step(const struct cli *cli, const struct wish *wish)
{
    for (;;) {
        char tag[CLIENT_HEADER_MAX];
        json_t *members = NULL;
        int code = look(cli, tag, &members);

        if (code != CMD_OK || is_in_step(member_of(members, wish->id))) {
            return code;
        }
        if (!has_time(wish)) {
            return cli_fail(cli, CMD_TIMED_OUT, "NotInStep",
                            "member %" PRId64 " is added, but is not in step yet (%s): start "
                            "replica %" PRId64 ", or look at its log",
                            wish->id, jsonr_text(member_of(members, wish->id), "state"), wish->id);
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

/* ---- The verbs ---- */

static int add(const struct cli *cli, const struct wish *wish)
{
    int code = make_change(cli, wish, VERB_ADD);
    int said = say_result(cli, wish, code);

    return said == CMD_OK && wish->waits && !args_has(&cli->args, "dry-run")
               ? wait_in_step(cli, wish)
               : said;
}

/* Repeatable: what an earlier call has done already is left out. */
static int replace(const struct cli *cli, const struct wish *wish)
{
    char tag[CLIENT_HEADER_MAX];
    json_t *members = NULL;
    int code = look(cli, tag, &members);

    if (code == CMD_OK && !member_of(members, wish->id)) {
        if (!wish->address) {
            return CLI_USAGE(cli, "the address of replica %" PRId64 " is missing", wish->id);
        }
        code = make_change(cli, wish, VERB_ADD);
        if (code == CMD_OK && args_has(&cli->args, "dry-run")) {
            return say_result(cli, wish, code);
        }
        code = code == CMD_OK ? wait_in_step(cli, wish) : code;
    }
    return say_result(cli, wish, code == CMD_OK ? make_change(cli, wish, VERB_REPLACE) : code);
}

/* ---- The command line ---- */

/* Takes an id; false when an error has been reported. */
static bool take_id(const struct cli *cli, int operand, int64_t *ret_id)
{
    const char *text = args_operand(&cli->args, operand);
    const struct cmd_range range = {.min = 1, .max = ID_MAX};

    if (!text) {
        return CLI_REFUSE(cli, "the id of a member is missing");
    }
    if (!args_number(text, range, ret_id)) {
        return CLI_REFUSE(cli, "\"%s\" is not the id of a member, a number from 1 to %d", text,
                          ID_MAX);
    }
    return true;
}

/* Checks that the options belong to the verb. */
static bool check_options(const struct cli *cli, const struct wish *wish, const char *word)
{
    static const struct {
        const char *option;
        uint32_t verbs; /* A bit for each. */
    } rules[] = {
        {"client", 1U << VERB_ADD | 1U << VERB_MOVE | 1U << VERB_REPLACE},
        {"zone", 1U << VERB_ADD | 1U << VERB_MOVE | 1U << VERB_REPLACE},
        {"auto-promote", 1U << VERB_ADD},
        {"wait", 1U << VERB_ADD | 1U << VERB_PROMOTE | 1U << VERB_REPLACE},
        {"wait-max", 1U << VERB_ADD | 1U << VERB_PROMOTE | 1U << VERB_REPLACE},
        {"force", 1U << VERB_PROMOTE | 1U << VERB_DEMOTE | 1U << VERB_REPLACE | 1U << VERB_REMOVE},
        {"min-tolerance",
         1U << VERB_PROMOTE | 1U << VERB_DEMOTE | 1U << VERB_REPLACE | 1U << VERB_REMOVE},
        {"dry-run", ~(1U << VERB_LIST)},
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (args_has(&cli->args, rules[i].option) && !(rules[i].verbs >> wish->verb & 1U)) {
            return CLI_REFUSE(cli, "--%s is not for %s", rules[i].option, word);
        }
    }
    if (wish->verb == VERB_ADD && !wish->address) {
        return CLI_REFUSE(cli, "the address for other replicas is missing: HOST:PORT");
    }
    if (wish->verb == VERB_MOVE && !wish->address && !wish->client && !wish->zone) {
        return CLI_REFUSE(cli, "move needs HOST:PORT, --client or --zone");
    }
    if (wish->verb == VERB_REPLACE && wish->id == wish->leaves) {
        return CLI_REFUSE(cli, "the new member needs an id of its own");
    }
    return true;
}

/* Takes the command line; false when an error has been reported. */
static bool take_wish(const struct cli *cli, struct wish *ret_wish)
{
    const char *word = args_operand(&cli->args, 0) ? args_operand(&cli->args, 0) : "list";
    int verb = cli_choice(cli, "", word, verbs);
    int used = 1;

    if (verb < 0) {
        return false;
    }
    *ret_wish = (struct wish){.verb = (enum verb)verb,
                              .client = args_get(&cli->args, "client"),
                              .zone = args_get(&cli->args, "zone"),
                              .auto_promote = args_has(&cli->args, "auto-promote"),
                              .waits = args_has(&cli->args, "wait") || verb == VERB_REPLACE,
                              .until_ms = os_now_ms() + (uint64_t)cli_number(cli, "wait-max")};
    if (verb == VERB_REPLACE && !take_id(cli, used++, &ret_wish->leaves)) {
        return false;
    }
    if (verb != VERB_LIST && !take_id(cli, used++, &ret_wish->id)) {
        return false;
    }
    if (verb == VERB_ADD || verb == VERB_MOVE || verb == VERB_REPLACE) {
        ret_wish->address = args_operand(&cli->args, used++);
    }
    if (args_operand(&cli->args, used)) {
        return CLI_REFUSE(cli, "unexpected argument \"%s\"", args_operand(&cli->args, used));
    }
    return check_options(cli, ret_wish, word);
}

static int run_members(struct cli *cli)
{
    struct wish wish;

    if (!take_wish(cli, &wish)) {
        return CMD_USAGE;
    }
    return wish.verb == VERB_LIST      ? list(cli)
           : wish.verb == VERB_ADD     ? add(cli, &wish)
           : wish.verb == VERB_REPLACE ? replace(cli, &wish)
                                       : say_result(cli, &wish, make_change(cli, &wish, wish.verb));
}

const struct cmd cmd_members = {
    .name = "members",
    .summary = "list the members of the ensemble, or change them",
    .usage = "[list | add ID HOST:PORT | promote ID | demote ID | move ID [HOST:PORT] | "
             "replace ID NEW-ID [HOST:PORT] | remove ID]",
    .text =
        "The list is as one replica sees it. LAG: time since the member last heard from a\n"
        "leader; SYNC99: 99th percentile of its log sync times; HEARD: age of this report;\n"
        "all in ms.\n"
        "Changes need --user super. HOST:PORT is the address for other replicas. 'add' makes\n"
        "an observer, which takes part in no majority; 'promote' makes it a voter once it has\n"
        "been in step for 10 s. 'move' changes addresses. 'replace' adds NEW-ID, waits until it\n"
        "is in step, and then removes ID and promotes NEW-ID in one change; it may be repeated.\n"
        "Exit code 1 when the ensemble refuses the change, 4 when its members have changed\n"
        "meanwhile, 7 when the wait is over.\n",
    .options = {CMD_VALUE("client", 0, "HOST:PORT", "the address for clients"),
                CMD_VALUE("zone", 0, "NAME", "where the member is, for people"),
                CMD_FLAG("auto-promote", 0, "add: it becomes a voter by itself once in step"),
                CMD_FLAG("wait", 0, "wait until the member is in step (replace always does)"),
                CMD_TIME("wait-max", 0, "end the wait after this time (10m)", 0, INT32_MAX,
                         WAIT_MS),
                CMD_NUMBER(
                    "min-tolerance", 0, "N",
                    "refuse the change if fewer voters than N could fail then (one fewer than now)",
                    0, VOTERS_MAX, -1),
                CMD_FLAG("force", 0, "also if no voter could fail then"),
                CMD_FLAG("dry-run", 0, "say what would happen, and change nothing")},
    .examples = {{"zabra members", "members, as seen by the replica that answers"},
                 {"zabra members --endpoints zk2:9998", "members, as seen by this replica"},
                 {"zabra members add 4 zk4:10998 --wait --user super", "a new observer"},
                 {"zabra members promote 4 --wait --user super", "which becomes a voter"},
                 {"zabra members replace 2 5 zk5:10998 --user super", "a new machine for an old"}},
    .operands = {0, 4, {CMD_OPERAND_TEXT, CMD_OPERAND_TEXT, CMD_OPERAND_TEXT, CMD_OPERAND_TEXT}},
    .run = run_members,
};
