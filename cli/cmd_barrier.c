/* barrier: wait until the barrier is lowered, or until enough members have entered. */
#include "cli/wait.h"

enum {
    COUNT_MAX = 1000000
};

struct barrier {
    struct cli *cli;
    const char *path;
    const char *name;    /* The name of the member, or NULL. */
    const char *members; /* Path of the members. */
    const char *ready;   /* Path of the znode that marks the barrier as complete. */
    const char *mine;
};

/* ---- Requests ---- */

/* Creates a znode. `ephemeral` is "true" or NULL; `fine` as in wait_do. */
static int create(struct wait *wait, const char *path, const char *ephemeral, int fine)
{
    BUF_AUTO(parent, URL_MAX);

    const char *name = url_split(path, &parent);
    struct client_request request = {
        .method = "POST",
        .path = buf_cstr(&parent),
        .params = {{"op", "create"}, {"name", name}, {"parents", "true"}, {"ephemeral", ephemeral}},
        .has_body = true};

    return wait_do(wait, &request, fine);
}

static int delete_znode(struct wait *wait, const char *path)
{
    return wait_do(wait, &(struct client_request){.method = "DELETE", .path = path}, CMD_NO_NODE);
}

/* Counts the members; `first` gets the path of the first one. */
static int list_members(struct wait *wait, struct barrier *barrier, int64_t *ret_count,
                        struct buf *first)
{
    struct client_request request = {.path = barrier->members,
                                     .params = {{"view", "children"}, {"limit", "1"}}};
    int code = wait_ask(wait, &request);

    *ret_count = 0;
    if (code != CMD_OK) {
        return code == CMD_NO_NODE ? CMD_OK : code;
    }

    const json_t *json = cli_json(barrier->cli);
    const json_t *name = json_array_get(jsonr_at(json, "children"), 0);

    *ret_count = jsonr_number(json, "stat.numChildren");
    buf_clear(first);
    buf_printf(first, "%s/%s", barrier->members, name ? json_string_value(name) : "");
    return json ? CMD_OK : CMD_FAILED;
}

/* ---- One znode: raise, lower, wait ---- */

static int raise_barrier(struct wait *wait, struct barrier *barrier)
{
    return create(wait, barrier->path, NULL, CMD_CONFLICT);
}

static int lower(struct wait *wait, struct barrier *barrier)
{
    return delete_znode(wait, barrier->path);
}

/* Waits until the barrier is lowered. A lowered barrier may have been raised again, and any replica
 * may be behind, so a majority confirms that the barrier is down. */
static int pass(struct wait *wait, struct barrier *barrier)
{
    const char *path = barrier->path;
    bool up = false;
    int code = wait_look(wait, path, true, &up);

    while (code == CMD_OK && up) {
        code = wait_until(wait, path, false);
        if (code == CMD_OK) {
            code = wait_look(wait, path, true, &up);
        }
    }
    return code;
}

/* ---- Two sides: enter, leave ---- */

static int enter(struct wait *wait, struct barrier *barrier)
{
    int64_t count = 0;
    int code = create(wait, barrier->mine, "true", CMD_OK);
    BUF_AUTO(first, URL_MAX);

    if (code == CMD_OK) {
        code = list_members(wait, barrier, &count, &first);
    }
    if (code == CMD_OK && count >= cli_number(barrier->cli, "count")) {
        return create(wait, barrier->ready, NULL, CMD_CONFLICT);
    }
    return code == CMD_OK ? wait_until(wait, barrier->ready, true) : code;
}

static int leave(struct wait *wait, struct barrier *barrier)
{
    int64_t left = 0;
    int code = delete_znode(wait, barrier->mine);
    BUF_AUTO(first, URL_MAX);

    do {
        code = code == CMD_OK ? list_members(wait, barrier, &left, &first) : code;
        if (code == CMD_OK && left > 0) {
            code = wait_until(wait, buf_cstr(&first), false);
        }
    } while (code == CMD_OK && left > 0);
    return code;
}

/* Enters, runs a command and leaves, all in one session. */
static int run_between(struct hold *hold, void *ctx)
{
    struct barrier *barrier = ctx;
    int code = enter(&hold->wait, barrier);

    if (code == CMD_OK) {
        code = hold_run(hold, barrier->mine);
        if (code != CMD_CHILD_LOST) {
            /* Waits for the other members to leave. The command may have taken long, so the waiting
             * time starts again. The exit code is that of the command, whatever the wait gives. */
            wait_again(&hold->wait);
            (void)leave(&hold->wait, barrier);
        }
    }
    return code;
}

/* ---- The command ---- */

struct verb {
    const char *name;
    int (*act)(struct wait *wait, struct barrier *barrier);
    bool member; /* The verb takes the name of a member. */
};

static const struct verb verbs[] = {{"raise", raise_barrier, false},
                                    {"lower", lower, false},
                                    {"wait", pass, false},
                                    {"enter", enter, true},
                                    {"leave", leave, true}};

static int act(struct barrier *barrier, const struct verb *verb)
{
    struct wait wait;
    int code = wait_open(&wait, barrier->cli);

    if (code == CMD_OK) {
        code = verb->act(&wait, barrier);
    }
    wait_close(&wait);
    if (code == CMD_OK) {
        out_result(&barrier->cli->out,
                   json_pack("{s:s,s:s}", "path", barrier->path, "verb", verb->name));
    }
    return code;
}

/* Checks what `enter` and `leave` need besides the path. Returns CMD_OK or a reported error's
 * code. */
static int check_member(const struct barrier *barrier, const struct verb *verb)
{
    const struct cli *cli = barrier->cli;
    bool enters = verb->act == enter;

    if (!verb->member) {
        return barrier->name || cli->args.child ? CLI_USAGE(cli, "%s takes one path", verb->name)
                                                : CMD_OK;
    }
    if (!barrier->name || strchr(barrier->name, '/')) {
        return CLI_USAGE(cli, "%s needs the name of the member after the path", verb->name);
    }
    if (enters != args_has(&cli->args, "count") || (!enters && cli->args.child)) {
        return CLI_USAGE(cli, enters ? "--count N is missing: the number of members to wait for"
                                     : "leave takes neither --count nor a command");
    }
    if (enters && !cli->args.child && !cli->settings.session) {
        return CLI_USAGE(cli,
                         "a member needs a session, and ZABRA_SESSION is not set: give a COMMAND, "
                         "or run this within 'zabra session -- COMMAND'");
    }
    return CMD_OK;
}

static int run(struct cli *cli)
{
    int index =
        cli_choice(cli, "", args_operand(&cli->args, 0), "raise, lower, wait, enter, leave");
    struct barrier barrier = {
        .cli = cli, .path = buf_cstr(&cli->named), .name = args_operand(&cli->args, 2)};
    BUF_AUTO(members, URL_MAX);
    BUF_AUTO(ready, URL_MAX);
    BUF_AUTO(mine, URL_MAX);

    if (index < 0 || check_member(&barrier, &verbs[index]) != CMD_OK) {
        return CMD_USAGE;
    }
    buf_printf(&members, "%s/members", barrier.path);
    buf_printf(&ready, "%s/ready", barrier.path);
    buf_printf(&mine, "%s/members/%s", barrier.path, barrier.name ? barrier.name : "");
    barrier.members = buf_cstr(&members);
    barrier.ready = buf_cstr(&ready);
    barrier.mine = buf_cstr(&mine);
    return cli->args.child
               ? hold_around(cli, "docs/recipes/double-barrier.md", run_between, &barrier)
               : act(&barrier, &verbs[index]);
}

const struct cmd cmd_barrier = {
    .name = "barrier",
    .summary = "wait until a barrier is lowered, or until enough members have entered",
    .usage = "raise NAME | lower NAME | wait NAME | enter NAME MEMBER --count N [-- COMMAND...] | "
             "leave NAME MEMBER",
    .text = "NAME is a path or a name within /barriers; docs/recipes/barrier.md and\n"
            "double-barrier.md have the rules. 'wait' returns at once when the barrier is\n"
            "not raised. 'enter' with a command leaves when the command has ended; without a\n"
            "command, use it within 'zabra session'. --curl shows the first request.\n" HOLD_HELP,
    .options = {CMD_NUMBER("count", 0, "N", "enter: the number of members to wait for", 1,
                           COUNT_MAX, 1),
                WAIT_OPTIONS, HOLD_OPTIONS},
    .examples = {{"zabra barrier raise migration", "makes 'zabra barrier wait migration' wait"},
                 {"zabra barrier wait migration --wait 5m && ./serve",
                  "exit code 7 when it stays raised for longer"},
                 {"zabra barrier lower migration", "releases all waiting processes"},
                 {"zabra barrier enter step-1 \"$(hostname)\" --count 3 -- ./compute",
                  "three members start together and end together"}},
    .operands = {2, 3, {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_TEXT}},
    .folder = "/barriers",
    .has_child = true,
    .run = run,
};
