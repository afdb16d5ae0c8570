/* lock, elect, semaphore: run a command while holding a place in a queue. */
#include "cli/wait.h"

#include <stdlib.h>
#include <unistd.h>

#define CANDIDATE "candidate-"

enum {
    DIGITS = 10, /* Digits of the number that the ensemble appends to a name. */
    NUMBER_MAX = 32,
    NAME_MAX_LEN = 256,
    LEASES_MAX = 1000000
};

/* ---- A place ---- */

/*
 * A place in a queue: an ephemeral, sequential znode. The first place holds what the queue is for:
 * the lock, the leadership, or the turn to take a lease. The recipes of docs/recipes use the same
 * znodes, so their programs can share a queue with these commands.
 *
 * Only the number of a place decides the order, whatever prefix its name has: a lock and an
 * election at one path are one queue, in the order of arrival. A znode without a number has no
 * place in the queue.
 *
 * A create whose answer was lost is retried with the same Idempotency-Key, so it makes no second
 * znode. Each process waits for the place just before its own, so that one release wakes one
 * process.
 */
struct place {
    struct wait *wait;
    const char *line;   /* Path of the queue: the parent of its places. */
    const char *prefix; /* "lock-" */
    struct slice data;
    struct buf path; /* The znode; empty before the place is taken. */
    int64_t fence;   /* The czxid of the znode; grows from holder to holder. */
};

static void place_release(struct place *place)
{
    buf_release(&place->path);
}

/* Declares a place, which is released where its block ends. */
#define PLACE_AUTO(name, ...)                                                              \
    __attribute__((cleanup(place_release))) struct place name = {.path.size_max = URL_MAX, \
                                                                 __VA_ARGS__}

/* Returns the number that the ensemble has appended to the name of a sequential znode; -1: none. */
static int64_t place_number(const char *name)
{
    size_t len = strlen(name);
    const char *digits = len >= DIGITS ? name + len - DIGITS : "";

    return strspn(digits, "0123456789") == DIGITS ? strtoll(digits, NULL, 10) : -1;
}

static const char *name_of(struct place *place)
{
    const char *path = buf_cstr(&place->path);
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int take_answer(struct place *place)
{
    const json_t *json = cli_json(place->wait->cli);

    if (!json) {
        return CMD_FAILED;
    }
    buf_append_str(&place->path, jsonr_text(json, "path"));
    place->fence = jsonr_number(json, "czxid");
    if (place_number(name_of(place)) < 0) {
        return cli_fail(place->wait->cli, CMD_FAILED, "BadAnswer",
                        "%s: the replica created this znode without a sequence number",
                        buf_cstr(&place->path));
    }
    return CMD_OK;
}

/* Makes the znode, and missing parents. Returns CMD_OK, CMD_SHOWN, or the code of a reported
 * error. */
static int place_take(struct place *place)
{
    struct client_request request = {.method = "POST",
                                     .path = place->line,
                                     .params = {{"op", "create"},
                                                {"name", place->prefix},
                                                {"sequence", "true"},
                                                {"ephemeral", "true"},
                                                {"parents", "true"}},
                                     .body = place->data,
                                     .has_body = true};
    int code = wait_do(place->wait, &request, CMD_OK);

    return code == CMD_OK ? take_answer(place) : code;
}

/* ---- The places before ours ---- */

/* The state of a walk through the list. */
struct walk {
    const char *mine; /* The name of our znode. */
    int64_t number;   /* The number of our znode. */
    int64_t before;   /* How many znodes have a lower number. */
    int64_t highest;  /* The highest number below ours; -1 if there is none. */
    struct buf *last; /* The path of the znode with the number `highest`. */
    bool found;       /* Our znode exists. */
};

/* Takes one name. Names come in any order, because a queue may have more than one prefix. */
static void take_name(struct walk *walk, const char *line, const char *name)
{
    int64_t number = place_number(name);

    walk->found = walk->found || strcmp(name, walk->mine) == 0;
    if (number < 0 || number >= walk->number) {
        return;
    }
    walk->before++;
    if (number > walk->highest) {
        walk->highest = number;
        buf_clear(walk->last);
        buf_printf(walk->last, "%s/%s", line, name);
    }
}

/* Takes one page of the list, which begins behind `after`. Then `after` becomes the start of the
 * next page; "" when there is none. */
static int take_page(struct place *place, struct walk *walk, struct buf *after)
{
    struct client_request request = {
        .path = place->line,
        .params = {{"view", "children"}, {"after", after->len > 0 ? buf_cstr(after) : NULL}}};
    int code = wait_do(place->wait, &request, CMD_OK);
    const json_t *page = code == CMD_OK ? cli_json(place->wait->cli) : NULL;

    JSONR_EACH (name, jsonr_at(page, "children")) {
        take_name(walk, place->line, json_is_string(name) ? json_string_value(name) : "");
    }
    buf_clear(after);
    buf_append_str(after, jsonr_text(page, "after"));
    return code == CMD_OK && !page ? CMD_FAILED : code;
}

/* Gives the number of places before ours, and the path of the last one. Returns CMD_OK, or the code
 * of a reported error. */
static int place_look(struct place *place, int64_t *ret_before, struct buf *ret_last)
{
    const char *mine = name_of(place);
    struct walk walk = {
        .mine = mine, .number = place_number(mine), .highest = -1, .last = ret_last};
    int code = CMD_OK;
    BUF_AUTO(after, URL_MAX);

    do {
        code = take_page(place, &walk, &after);
    } while (code == CMD_OK && after.len > 0);
    if (code == CMD_OK && !walk.found) {
        code = cli_fail(place->wait->cli, CMD_FAILED, "PlaceLost",
                        "%s was deleted: it was the place of this command among those that wait",
                        buf_cstr(&place->path));
    }
    *ret_before = walk.before;
    return code;
}

/* Takes a place, and waits until there is none before it. Returns CMD_OK, CMD_SHOWN, or the code of
 * a reported error or of a signal. */
static int place_come_first(struct place *place)
{
    int64_t before = 1;
    int code = place_take(place);
    BUF_AUTO(last, URL_MAX);

    while (code == CMD_OK && before > 0) {
        code = place_look(place, &before, &last);
        if (code == CMD_OK && before > 0) {
            code = wait_until(place->wait, buf_cstr(&last), false);
        }
    }
    return code;
}

/* Deletes the znode. Returns CMD_OK, or the code of a reported error. */
static int place_leave(struct place *place)
{
    struct client_request request = {.method = "DELETE", .path = buf_cstr(&place->path)};

    return wait_do(place->wait, &request, CMD_NO_NODE);
}

/* ---- Holding a place ---- */

static int run_in(struct hold *hold, struct place *place)
{
    char fence[NUMBER_MAX];

    (void)snprintf(fence, sizeof(fence), "%" PRId64, place->fence);
    live_env(hold->wait.live, "ZABRA_LOCK_PATH", buf_cstr(&place->path));
    live_env(hold->wait.live, "ZABRA_LOCK_FENCE", fence);
    live_env(hold->wait.live, "ZABRA_FENCE", fence); /* The name in the recipes. */
    return hold_run(hold, buf_cstr(&place->path));
}

/* ---- lock ---- */

static int hold_lock(struct hold *hold, void *ctx)
{
    PLACE_AUTO(place, .wait = &hold->wait, .line = ctx, .prefix = "lock-");
    int code = place_come_first(&place);

    return code == CMD_OK ? run_in(hold, &place) : code;
}

static int run_lock(struct cli *cli)
{
    return hold_around(cli, "docs/recipes/lock.md", hold_lock, buf_cstr(&cli->named));
}

const struct cmd cmd_lock = {
    .name = "lock",
    .group = "Recipes",
    .summary = "run a command while holding a lock",
    .usage = "NAME -- COMMAND [ARGUMENT...]",
    .text = "NAME is a path or a name within /locks. Programs written after\n"
            "docs/recipes/lock.md can use the same lock. zabra releases it when the command\n"
            "has ended. The environment of the command has ZABRA_LOCK_PATH, the znode;\n"
            "ZABRA_LOCK_FENCE and ZABRA_FENCE, its czxid; ZABRA_SESSION and ZABRA_ENDPOINTS,\n"
            "so that 'zabra' in it uses the same session; ZABRA_MIN_ZXID, so that its reads\n"
            "see all writes of the previous holder.\n" HOLD_HELP,
    .options = {WAIT_OPTIONS, HOLD_OPTIONS},
    .examples =
        {{"zabra lock backup -- ./backup.sh", "one process at a time, in the order of arrival"},
         {"zabra lock backup --try -- ./backup.sh", "exit code 124 when another process holds it"},
         {"zabra lock /locks/db --wait 30s -- sh -c 'write --fence \"$ZABRA_LOCK_FENCE\"'",
          "the fencing number grows with each holder: let the guarded resource refuse lower ones"}},
    .operands = {1, 1, {CMD_OPERAND_NAME}},
    .folder = "/locks",
    .has_child = true,
    .run = run_lock,
};

/* ---- elect ---- */

static void own_name(const struct cli *cli, char name[NAME_MAX_LEN])
{
    const char *given = args_get(&cli->args, "name");
    char host[NAME_MAX_LEN / 2] = "";

    if (given) {
        (void)snprintf(name, NAME_MAX_LEN, "%s", given);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(name, NAME_MAX_LEN, "%s:%ld", host, (long)getpid());
}

static int run_candidate(struct hold *hold, void *ctx)
{
    char name[NAME_MAX_LEN];
    int code = CMD_OK;
    PLACE_AUTO(place, .wait = &hold->wait, .line = ctx, .prefix = CANDIDATE);

    own_name(hold->cli, name);
    place.data = slice_str(name);
    code = place_come_first(&place);
    if (code == CMD_OK) {
        live_env(hold->wait.live, "ZABRA_CANDIDATE", buf_cstr(&place.path));
        code = run_in(hold, &place);
    }
    return code;
}

/* Prints the leader: the first place in the queue, if it belongs to a candidate. The first place
 * may belong to a lock instead. */
static int print_leader(const struct cli *cli, const char *path, const json_t *first)
{
    const char *name = jsonr_text(first, "name");
    BUF_AUTO(znode, URL_MAX);

    if (strncmp(name, CANDIDATE, strlen(CANDIDATE)) != 0) {
        return cli_fail(cli, CMD_NO_NODE, "NoLeader", "%s: %s%s, so there is no leader", path,
                        first ? "a lock is held: " : "the election has no candidate", name);
    }
    if (jsonr_at(first, "hidden")) {
        return cli_fail(cli, CMD_DENIED, "NoAuth", "%s/%s leads, and you may not read its name",
                        path, name);
    }

    const char *leader = jsonr_text(first, jsonr_at(first, "data64") ? "data64" : "dataUtf8");

    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%s\n", leader);
        return CMD_OK;
    }
    buf_printf(&znode, "%s/%s", path, name);
    out_result(&cli->out, json_pack("{s:s,s:s}", "leader", leader, "path", buf_cstr(&znode)));
    return CMD_OK;
}

static int ask_leader(const struct cli *cli, const char *path)
{
    struct client_request request = {.path = path,
                                     .params = {{"view", "children"},
                                                {"with", "data"},
                                                {"dataformat", "auto"},
                                                {"consistency", "linearizable"}}};
    json_auto_t *whole = NULL;
    const json_t *first = NULL;
    int64_t lowest = INT64_MAX;

    if (cli->args.child) {
        return CLI_USAGE(cli, "--leader only prints the leader: it takes no command");
    }

    int code = cli_ask_pages(cli, &request, "children", &whole);

    JSONR_EACH (child, jsonr_at(whole, "children")) {
        int64_t number = place_number(jsonr_text(child, "name"));

        if (number >= 0 && number < lowest) {
            lowest = number;
            first = child;
        }
    }
    return code == CMD_OK ? print_leader(cli, path, first) : code;
}

static int run_elect(struct cli *cli)
{
    return args_has(&cli->args, "leader")
               ? ask_leader(cli, buf_cstr(&cli->named))
               : hold_around(cli, "docs/recipes/election.md", run_candidate, buf_cstr(&cli->named));
}

const struct cmd cmd_elect = {
    .name = "elect",
    .summary = "wait to be elected, then run a command as the leader",
    .usage = "NAME -- COMMAND [ARGUMENT...] | NAME --leader",
    .text = "NAME is a path or a name within /election; docs/recipes/election.md has the\n"
            "rules. When the command ends, the next candidate leads. The environment is that\n"
            "of 'zabra lock' and ZABRA_CANDIDATE, the znode of this candidate: let each\n"
            "write of the leader check it first, in one multi.\n" HOLD_HELP,
    .options = {CMD_VALUE("name", 0, "TEXT",
                          "the name of this candidate that others see (host:pid)"),
                CMD_FLAG("leader", 0,
                         "only print the name of the leader; exit code 3 without a leader"),
                WAIT_OPTIONS, HOLD_OPTIONS},
    .examples = {{"zabra elect scheduler -- ./scheduler",
                  "waits until it is elected, then runs the command"},
                 {"zabra elect scheduler --leader", "prints the name of the leader"}},
    .operands = {1, 1, {CMD_OPERAND_NAME}},
    .folder = "/election",
    .has_child = true,
    .run = run_elect,
};

/* ---- semaphore ---- */

/* Waits until one of the leases is free. Only the first process in the queue does this. */
static int wait_lease(struct place *lease, int64_t leases)
{
    int64_t before = 0;
    int code = place_take(lease);
    BUF_AUTO(last, URL_MAX);

    if (code == CMD_OK) {
        wait_watch(lease->wait, lease->line);
    }
    do {
        code = code == CMD_OK ? wait_next(lease->wait) : code;
        code = code == CMD_OK ? place_look(lease, &before, &last) : code;
    } while (code == CMD_OK && before >= leases);
    live_unwatch(lease->wait->live);
    return code;
}

/* Takes a lease after a turn in the queue, and runs the command. The queue has one znode per
 * waiting process, so that a returned lease wakes one process. */
static int hold_lease(struct hold *hold, void *ctx)
{
    const char *path = ctx;
    BUF_AUTO(line, URL_MAX);
    BUF_AUTO(held, URL_MAX);

    buf_printf(&line, "%s/line", path);
    buf_printf(&held, "%s/leases", path);

    PLACE_AUTO(turn, .wait = &hold->wait, .line = buf_cstr(&line), .prefix = "lock-");
    PLACE_AUTO(lease, .wait = &hold->wait, .line = buf_cstr(&held), .prefix = "lease-");
    int code = place_come_first(&turn);

    code = code == CMD_OK ? wait_lease(&lease, cli_number(hold->cli, "leases")) : code;
    code = code == CMD_OK ? place_leave(&turn) : code;
    return code == CMD_OK ? run_in(hold, &lease) : code;
}

static int run_semaphore(struct cli *cli)
{
    if (!args_has(&cli->args, "leases")) {
        return CLI_USAGE(cli, "--leases N is missing: the number of processes that may hold it "
                              "at the same time");
    }
    return hold_around(cli, NULL, hold_lease, buf_cstr(&cli->named));
}

const struct cmd cmd_semaphore = {
    .name = "semaphore",
    .summary = "run a command while holding one of several leases",
    .usage = "NAME --leases N -- COMMAND [ARGUMENT...]",
    .text = "NAME is a path or a name within /semaphores. Processes queue in NAME/line; the\n"
            "first one waits for a lease, one of at most N znodes in NAME/leases. The\n"
            "environment of the command is that of 'zabra lock'; ZABRA_LOCK_PATH is the\n"
            "lease.\n" HOLD_HELP,
    .options = {CMD_NUMBER(
                    "leases", 'n', "N",
                    "how many processes may hold it at the same time; give all the same number", 1,
                    LEASES_MAX, 0),
                WAIT_OPTIONS, HOLD_OPTIONS},
    .examples = {{"zabra semaphore licences --leases 5 -- ./simulate",
                  "at most five processes at the same time"}},
    .operands = {1, 1, {CMD_OPERAND_NAME}},
    .folder = "/semaphores",
    .has_child = true,
    .run = run_semaphore,
};
