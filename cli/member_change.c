#include "cli/member_change.h"

#include <poll.h>

enum {
    TARGET_MAX = 64,
    BODY_MAX = 4096,
    HINT_MAX = 128,
    LOOK_MS = 500,  /* Between two looks of a wait. */
    LIST_MS = 3000, /* For so long a list that is out of date is taken again. */
    LATE_MS = 50,
    NOTE_MS = 10000 /* Between two notes of a wait. */
};

static const char route[] = "/ensemble/v1/members";

/* ---- The request ---- */

/* A request that changes the members. */
struct change {
    const char *method;
    char target[TARGET_MAX];
    json_t *body; /* Its members; the options that all changes have are added. NULL: no body. */
};

static void name_member(struct change *change, const char *method, int64_t id)
{
    change->method = method;
    (void)snprintf(change->target, TARGET_MAX, "%s/%" PRId64, route, id);
}

static void put_text(json_t *body, const char *name, const char *text)
{
    if (text) {
        (void)json_object_set_new(body, name, out_string(text));
    }
}

static void put_texts(const struct member_wish *wish, json_t *body)
{
    put_text(body, "peer", wish->address);
    put_text(body, "client", wish->client);
    put_text(body, "zone", wish->zone);
}

static void build_add(const struct member_wish *wish, struct change *change)
{
    change->method = "POST";
    (void)snprintf(change->target, TARGET_MAX, "%s", route);
    change->body = json_pack("{s:I}", "id", (json_int_t)wish->id);
    put_texts(wish, change->body);
    if (wish->auto_promote) {
        (void)json_object_set_new(change->body, "autoPromote", json_true());
    }
}

/* Removes one member and promotes the other one in one change, if the one that leaves votes. */
static void build_replace(const struct member_wish *wish, const json_t *members,
                          struct change *change)
{
    change->method = "PATCH";
    (void)snprintf(change->target, TARGET_MAX, "%s", route);
    change->body = json_pack("{s:[I]}", "remove", (json_int_t)wish->leaves);
    if (member_list_votes(member_list_find(members, wish->leaves))) {
        (void)json_object_set_new(change->body, "promote", json_pack("[I]", (json_int_t)wish->id));
    }
}

static void build(const struct member_wish *wish, enum member_verb verb, const json_t *members,
                  struct change *change)
{
    *change = (struct change){.method = NULL};
    switch (verb) {
    case MEMBER_ADD:
        build_add(wish, change);
        break;
    case MEMBER_PROMOTE:
    case MEMBER_DEMOTE:
        name_member(change, "PUT", wish->id);
        change->body = json_pack("{s:s}", "role", verb == MEMBER_PROMOTE ? "voter" : "observer");
        break;
    case MEMBER_MOVE:
        name_member(change, "PUT", wish->id);
        change->body = json_object();
        put_texts(wish, change->body);
        break;
    case MEMBER_REPLACE:
        build_replace(wish, members, change);
        break;
    case MEMBER_LIST:
    case MEMBER_REMOVE:
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

/* ---- Refusals ---- */

/* What to do about a refusal, where its sentence does not say it in words of the command line. */
static const struct {
    const char *reason;
    const char *hint;
} hints[] = {
    {"NoTolerance", "; --force forces it"},
    {"MinTolerance", "; --min-tolerance N asks for another number"},
    {"IdInUse", "; 'zabra members move' edits a member"},
    {"MembersLevel", "; see 'zabra upgrade'"},
};

/* Adds what to do to the message of the last error. */
static void put_hint(struct client_error *error, bool waits)
{
    const char *reason = jsonr_text(error->problem, "reason");
    size_t len = strlen(error->message);
    char hint[HINT_MAX] = "";

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
        if (strcmp(reason, hints[i].reason) == 0) {
            (void)snprintf(hint, sizeof(hint), "%s", hints[i].hint);
        }
    }
    if (strcmp(reason, "NotInStep") == 0 && !waits) {
        (void)snprintf(hint, sizeof(hint), "; --wait waits for it");
    } else if (error->status == HTTP_LATE) {
        (void)snprintf(hint, sizeof(hint),
                       "; the members have changed meanwhile, see 'zabra members'");
    }
    (void)snprintf(error->message + len, sizeof(error->message) - len, "%s", hint);
}

/* Whether the ensemble has refused the change for a reason that passes: also if the members have
 * changed since the list was read, as the change is built from the next list. */
static bool may_pass(const struct client_error *error)
{
    const char *reason = jsonr_text(error->problem, "reason");

    return words_find("NotInStep, UnderWay", reason) >= 0 || error->status == HTTP_LATE;
}

/* ---- Waiting ---- */

/* Says why a wait continues: at once, and later when there is another reason. */
struct note {
    char why[CLI_MESSAGE_MAX];
    uint64_t next_ms;
};

static void say_waiting(const struct cli *cli, struct note *note, const char *why)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms >= note->next_ms && strcmp(note->why, why) != 0) {
        out_note(&cli->out, "waiting: %s", why);
        (void)snprintf(note->why, sizeof(note->why), "%s", why);
        note->next_ms = now_ms + NOTE_MS;
    }
}

static bool is_over(const struct member_wish *wish)
{
    return os_now_ms() >= wish->until_ms;
}

int member_change_make(const struct cli *cli, const struct member_wish *wish, enum member_verb verb)
{
    struct client_error *error = &cli->client->error;
    struct note note = {.next_ms = 0};
    /* The replica that answers may not have what it has just changed itself in its list yet. */
    uint64_t late_ms = os_now_ms() + min_u64((uint64_t)cli->client->settings->timeout_ms, LIST_MS);

    for (;;) {
        struct member_list list;
        struct change change;
        int code = member_list_take(cli, &list);

        if (code != CMD_OK) {
            return code;
        }
        build(wish, verb, list.members, &change);
        code = send_change(cli, &change, list.tag);
        json_decref(change.body);
        if (code <= CMD_OK) {
            return code;
        }
        put_hint(error, wish->waits);
        if (error->status == HTTP_LATE && os_now_ms() < late_ms) {
            (void)poll(NULL, 0, LATE_MS);
            continue;
        }
        if (!wish->waits || !may_pass(error)) {
            return cli_tell(cli);
        }
        if (is_over(wish)) {
            return cli_fail(cli, CMD_TIMED_OUT, "TimedOut", "the wait is over: %s", error->message);
        }
        say_waiting(cli, &note, jsonr_text(error->problem, "detail"));
        (void)poll(NULL, 0, LOOK_MS);
    }
}

static bool is_in_step(const json_t *member)
{
    return words_find("leader, follower, observer", jsonr_text(member, "state")) >= 0;
}

/* Describes a member that the command waits for. */
static void describe(const json_t *member, int64_t id, char why[CLI_MESSAGE_MAX])
{
    const char *refused = jsonr_text(member, "refused");

    if (!member) {
        (void)snprintf(why, CLI_MESSAGE_MAX,
                       "member %" PRId64 " is not in the list of the replica that answers yet", id);
    } else if (is_in_step(member)) {
        (void)snprintf(why, CLI_MESSAGE_MAX, "member %" PRId64 " is in step, but does not vote yet",
                       id);
    } else {
        (void)snprintf(why, CLI_MESSAGE_MAX, "member %" PRId64 " at %s is %s%s%s", id,
                       jsonr_text(member, "peer"), jsonr_text(member, "state"),
                       *refused ? ": " : "", refused);
    }
}

int member_change_await(const struct cli *cli, const struct member_wish *wish)
{
    struct note note = {.next_ms = 0};
    char why[CLI_MESSAGE_MAX];
    bool was_listed = false;

    for (;;) {
        struct member_list list;
        int code = member_list_take(cli, &list);
        const json_t *member = member_list_find(list.members, wish->id);

        if (code != CMD_OK) {
            return code;
        }
        if (!member && was_listed) {
            return cli_fail(cli, CMD_FAILED, "NotFound",
                            "member %" PRId64 " was added, but it was removed meanwhile", wish->id);
        }
        was_listed = member != NULL;
        if (is_in_step(member) && (!wish->auto_promote || member_list_votes(member))) {
            return CMD_OK;
        }
        describe(member, wish->id, why);
        if (is_over(wish)) {
            return cli_fail(cli, CMD_TIMED_OUT, "TimedOut",
                            "the wait is over: %s; replica %" PRId64 " must run with this address "
                            "(its log says why it does not join)",
                            why, wish->id);
        }
        if (member) {
            say_waiting(cli, &note, why);
        }
        (void)poll(NULL, 0, member ? LOOK_MS : LATE_MS);
    }
}
