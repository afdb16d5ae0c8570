/* members: the members of the ensemble, and changes of them. */
#include "cli/member_change.h"

enum {
    ID_MAX = UINT16_MAX,
    VOTERS_MAX = 64,
    WAIT_MS = 600000
};

static const char verbs[] = "list, add, promote, demote, move, replace, remove";

/* ---- list ---- */

static const char columns[] =
    "ID:id>, ROLE:role, STATE:state, VOTES:votes, ZXID:zxid, LAG:lag_ms>, "
    "SYNC99:log_sync_p99_ms>, HEARD:heard_ms>, PEER:peer, CLIENT:client, ZONE:zone, "
    "REFUSED:refused";

/* The replica that answers quotes the texts of the one that waits, for a shell. */
static void say_waiting(const struct cli *cli, const json_t *waiting)
{
    const char *command = jsonr_text(waiting, "command");

    out_say(&cli->out, "replica %" PRId64 " waits to be added%s", jsonr_number(waiting, "id"),
            *command ? ": " : "");
    out_text(&cli->out, command);
    out_say(&cli->out, "\n");
}

static void say_list(const struct cli *cli, const json_t *whole)
{
    const json_t *pending = jsonr_at(whole, "pending");

    if (json_array_size(jsonr_at(whole, "members")) == 0) {
        out_say(&cli->out, "this replica is no member of an ensemble yet: zabra doctor says what "
                           "it waits for\n");
    }
    if (json_is_object(pending)) {
        out_say(&cli->out, "a change of the members is not committed yet: version ");
        out_text(&cli->out, jsonr_text(pending, "version"));
        out_say(&cli->out, "\n");
    }
    JSONR_EACH (member, jsonr_at(whole, "members")) {
        if (json_is_true(jsonr_at(member, "joining"))) {
            out_say(&cli->out, "member %" PRId64 " becomes a voter by itself after 10 s in step\n",
                    jsonr_number(member, "id"));
        }
    }
    JSONR_EACH (waiting, jsonr_at(whole, "waiting")) {
        say_waiting(cli, waiting);
    }
    out_say(&cli->out, "seen by replica %" PRId64 ", feature level %" PRId64,
            jsonr_number(whole, "seen_by"), jsonr_number(whole, "level"));
    if (json_is_integer(jsonr_at(whole, "tolerance"))) {
        out_say(&cli->out, ", tolerance %" PRId64, jsonr_number(whole, "tolerance"));
    }
    out_say(&cli->out, "\n");
}

/* ---- The result of a change ---- */

static int count_voters(const json_t *members)
{
    int count = 0;

    JSONR_EACH (member, members) {
        count += strcmp(jsonr_text(member, "role"), "voter") == 0;
    }
    return count;
}

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
                "note: %d voters tolerate no more failures than %d: promote or demote one more\n",
                voters, voters - 1);
    } else if (after <= 0) {
        out_say(&cli->out, "note: no voter may fail then\n");
    }
}

/* Keeps the answer of a change beyond the next request; the caller drops it. Returns `code`, or
 * that of a reported error. */
static int take_answer(const struct cli *cli, int code, json_t **ret_answer)
{
    json_t *answer = code == CMD_OK ? cli_json(cli) : NULL;

    if (code == CMD_OK && answer && !json_is_array(jsonr_at(answer, "members"))) {
        return cli_fail(cli, CMD_FAILED, "BadAnswer",
                        "%s has taken the change, but its answer does not say what has become of "
                        "it; see 'zabra members'",
                        endpoints_url(&cli->client->endpoints));
    }
    *ret_answer = json_incref(answer);
    return code == CMD_OK && !answer ? CMD_FAILED : code;
}

static void say_change(const struct cli *cli, const struct member_wish *wish, const json_t *answer)
{
    if (wish->dry_run) {
        out_say(&cli->out, "would be changed; nothing is changed (--dry-run)\n");
    } else {
        out_say(&cli->out, "changed: version ");
        out_text(&cli->out, jsonr_text(answer, "version"));
        out_say(&cli->out, "\n");
    }
    say_tolerance(cli, answer);
}

/* What the caller may do next. */
static void say_next(const struct cli *cli, const struct member_wish *wish)
{
    switch (wish->verb) {
    case MEMBER_ADD:
        if (wish->waits) {
            out_say(&cli->out, "member %" PRId64 " %s\n", wish->id,
                    wish->auto_promote ? "is in step and votes" : "is in step");
        } else {
            out_say(&cli->out, "next: start replica %" PRId64 ", if it does not run yet\n",
                    wish->id);
        }
        if (!wish->auto_promote) {
            out_say(&cli->out, "next: zabra members promote %" PRId64 " --wait, if it is to vote\n",
                    wish->id);
        } else if (!wish->waits) {
            out_say(&cli->out, "it becomes a voter by itself after 10 s in step\n");
        }
        break;
    case MEMBER_DEMOTE:
        out_say(&cli->out, "next: zabra members remove %" PRId64 ", if it is to leave\n", wish->id);
        break;
    case MEMBER_MOVE:
        if (wish->address) {
            out_say(&cli->out,
                    "next: restart replica %" PRId64 " with its new address, if it does not listen "
                    "there yet; a line server.%" PRId64 " in the file of another replica still "
                    "wins there: correct it\n",
                    wish->id, wish->id);
        }
        break;
    case MEMBER_REPLACE:
    case MEMBER_REMOVE:
        out_say(&cli->out,
                "next: replica %" PRId64 " ends by itself (exit code 6) when it is reached; empty "
                "its directory, or destroy its disk\n",
                wish->verb == MEMBER_REPLACE ? wish->leaves : wish->id);
        break;
    case MEMBER_LIST:
    case MEMBER_PROMOTE:
        break;
    }
}

/* ---- The verbs ---- */

/* Ends a change, whose answer is dropped. */
static int end_change(const struct cli *cli, const struct member_wish *wish, json_t *answer)
{
    if (out_is_json(&cli->out)) {
        out_json(&cli->out, answer);
    } else if (!wish->dry_run) {
        say_next(cli, wish);
    }
    json_decref(answer);
    return CMD_OK;
}

/* Makes the change `verb` and says its result. */
static int change(const struct cli *cli, const struct member_wish *wish, enum member_verb verb)
{
    json_t *answer = NULL;
    int code = take_answer(cli, member_change_make(cli, wish, verb), &answer);

    if (code != CMD_OK) {
        return code;
    }
    say_change(cli, wish, answer);
    if (verb == MEMBER_ADD && wish->waits) {
        code = member_change_await(cli, wish);
    }
    if (code != CMD_OK) {
        json_decref(answer);
        return code;
    }
    return end_change(cli, wish, answer);
}

/* Whether a replica with this id was removed. */
static bool was_removed(const struct member_list *list, int64_t id)
{
    return member_list_find(jsonr_at(list->whole, "removed"), id) != NULL;
}

/* Whether both name one place; an IPv6 address may be in brackets. */
static bool is_same_place(const char *a, const char *b)
{
    while (*a || *b) {
        a += strspn(a, "[]");
        b += strspn(b, "[]");
        if (*a != *b) {
            return false;
        }
        a += *a ? 1 : 0;
        b += *b ? 1 : 0;
    }
    return true;
}

/* Checks whether the replacement can begin, or continue where an earlier call has ended. CMD_OK, or
 * the code of a reported error. */
static int check_replace(const struct cli *cli, const struct member_wish *wish,
                         const struct member_list *list)
{
    const json_t *leaves = member_list_find(list->members, wish->leaves);
    const json_t *joins = member_list_find(list->members, wish->id);

    if (!leaves) {
        return cli_fail(cli, CMD_FAILED, "NotFound",
                        "there is no member %" PRId64 "; 'zabra members' lists them", wish->leaves);
    }
    if (!joins && !wish->address) {
        return CLI_USAGE(cli, "the address of replica %" PRId64 " is missing: HOST:PORT", wish->id);
    }
    if (member_list_votes(joins)) {
        return cli_fail(cli, CMD_FAILED, "ChangeRefused",
                        "member %" PRId64 " votes already, so it cannot take the place of member "
                        "%" PRId64 "; 'zabra members remove %" PRId64 "' removes that one",
                        wish->id, wish->leaves, wish->leaves);
    }
    if (joins && wish->address && !is_same_place(jsonr_text(joins, "peer"), wish->address)) {
        return cli_fail(cli, CMD_FAILED, "ChangeRefused",
                        "member %" PRId64 " exists with the address %s; leave the address out, or "
                        "correct it with 'zabra members move'",
                        wish->id, jsonr_text(joins, "peer"));
    }
    return CMD_OK;
}

/* Adds the new member, as a first step of the replacement. */
static int add_new(const struct cli *cli, const struct member_wish *wish)
{
    json_auto_t *answer = NULL;
    int code = take_answer(cli, member_change_make(cli, wish, MEMBER_ADD), &answer);

    if (code == CMD_OK && wish->dry_run) {
        say_change(cli, wish, answer);
        out_say(&cli->out,
                "this is the first step, which adds member %" PRId64 "; whether member %" PRId64
                " may leave is judged once it is in step\n",
                wish->id, wish->leaves);
        return end_change(cli, wish, json_incref(answer));
    }
    if (code == CMD_OK) {
        out_say(&cli->out, "added: member %" PRId64 "; next it must come in step\n", wish->id);
        code = member_change_await(cli, wish);
    }
    return code;
}

/* Repeatable: what an earlier call has done already is left out. */
static int replace(const struct cli *cli, const struct member_wish *wish)
{
    struct member_list list;
    int code = member_list_take(cli, &list);

    if (code != CMD_OK) {
        return code;
    }
    if (!member_list_find(list.members, wish->leaves) && was_removed(&list, wish->leaves) &&
        member_list_find(list.members, wish->id)) {
        out_say(&cli->out,
                "nothing to do: member %" PRId64 " was removed, and %" PRId64 " is a member\n",
                wish->leaves, wish->id);
        if (out_is_json(&cli->out)) {
            cli_answer(cli);
        }
        return CMD_OK;
    }
    code = check_replace(cli, wish, &list);
    if (code == CMD_OK && !member_list_find(list.members, wish->id)) {
        code = add_new(cli, wish);
        if (wish->dry_run) {
            return code;
        }
    }
    return code == CMD_OK ? change(cli, wish, MEMBER_REPLACE) : code;
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
static bool check_options(const struct cli *cli, const struct member_wish *wish, const char *word)
{
    static const struct {
        const char *option;
        uint32_t verbs; /* A bit for each. */
    } rules[] = {
        {"client", 1U << MEMBER_ADD | 1U << MEMBER_MOVE | 1U << MEMBER_REPLACE},
        {"zone", 1U << MEMBER_ADD | 1U << MEMBER_MOVE | 1U << MEMBER_REPLACE},
        {"auto-promote", 1U << MEMBER_ADD},
        {"wait", 1U << MEMBER_ADD | 1U << MEMBER_PROMOTE | 1U << MEMBER_REPLACE},
        {"wait-max", 1U << MEMBER_ADD | 1U << MEMBER_PROMOTE | 1U << MEMBER_REPLACE},
        {"force",
         1U << MEMBER_PROMOTE | 1U << MEMBER_DEMOTE | 1U << MEMBER_REPLACE | 1U << MEMBER_REMOVE},
        {"min-tolerance",
         1U << MEMBER_PROMOTE | 1U << MEMBER_DEMOTE | 1U << MEMBER_REPLACE | 1U << MEMBER_REMOVE},
        {"dry-run", ~(1U << MEMBER_LIST)},
    };

    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (args_has(&cli->args, rules[i].option) && !(rules[i].verbs >> wish->verb & 1U)) {
            return CLI_REFUSE(cli, "--%s is not for %s", rules[i].option, word);
        }
    }
    if (wish->verb == MEMBER_ADD && !wish->address) {
        return CLI_REFUSE(cli, "the address for other replicas is missing: HOST:PORT");
    }
    if (wish->verb == MEMBER_MOVE && !wish->address && !wish->client && !wish->zone) {
        return CLI_REFUSE(cli, "move needs HOST:PORT, --client or --zone");
    }
    if (wish->verb == MEMBER_REPLACE && wish->id == wish->leaves) {
        return CLI_REFUSE(cli, "the new member needs an id of its own");
    }
    return true;
}

/* Takes the command line; false when an error has been reported. */
static bool take_wish(const struct cli *cli, struct member_wish *ret_wish)
{
    const char *word = args_operand(&cli->args, 0) ? args_operand(&cli->args, 0) : "list";
    int verb = cli_choice(cli, "", word, verbs);
    int used = 1;

    if (verb < 0) {
        return false;
    }
    *ret_wish =
        (struct member_wish){.verb = (enum member_verb)verb,
                             .client = args_get(&cli->args, "client"),
                             .zone = args_get(&cli->args, "zone"),
                             .auto_promote = args_has(&cli->args, "auto-promote"),
                             .dry_run = args_has(&cli->args, "dry-run"),
                             .until_ms = os_now_ms() + (uint64_t)cli_number(cli, "wait-max")};
    ret_wish->waits =
        !ret_wish->dry_run && (args_has(&cli->args, "wait") || verb == MEMBER_REPLACE);
    if (verb == MEMBER_REPLACE && !take_id(cli, used++, &ret_wish->leaves)) {
        return false;
    }
    if (verb != MEMBER_LIST && !take_id(cli, used++, &ret_wish->id)) {
        return false;
    }
    if (verb == MEMBER_ADD || verb == MEMBER_MOVE || verb == MEMBER_REPLACE) {
        ret_wish->address = args_operand(&cli->args, used++);
    }
    if (args_operand(&cli->args, used)) {
        return CLI_REFUSE(cli, "unexpected argument \"%s\"", args_operand(&cli->args, used));
    }
    return check_options(cli, ret_wish, word);
}

static int run_members(struct cli *cli)
{
    struct member_wish wish;

    if (!take_wish(cli, &wish)) {
        return CMD_USAGE;
    }
    return wish.verb == MEMBER_LIST      ? member_list_print(cli, columns, say_list)
           : wish.verb == MEMBER_REPLACE ? replace(cli, &wish)
                                         : change(cli, &wish, wish.verb);
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
        "Exit code 1 when the ensemble refuses the change, 4 when its members change\n"
        "again and again meanwhile, 7 when the wait is over.\n",
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
