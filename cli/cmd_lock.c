/* lock, elect, semaphore: run a command while holding a place. */
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/hold.h"
#include "cli/place.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CANDIDATE "candidate-"

enum {
    NUMBER_MAX = 32,
    NAME_MAX_LEN = 256,
    LEASES_MAX = 1000000
};

static int run_in(struct hold *hold, struct place *place)
{
    char fence[NUMBER_MAX];

    (void)snprintf(fence, sizeof(fence), "%" PRId64, place->fence);
    hold_env(hold, "ZABRA_LOCK_PATH", buf_cstr(&place->path));
    hold_env(hold, "ZABRA_LOCK_FENCE", fence);
    hold_env(hold, "ZABRA_FENCE", fence); /* The same, as the recipes call it. */
    return hold_run(hold, buf_cstr(&place->path));
}

/* With the session and the path of a command: `page` is the recipe that --curl names. `act` may
 * change the path. */
static int run_held(struct cli *cli, const char *page,
                    int (*act)(struct hold *hold, struct buf *path))
{
    struct hold hold;
    struct buf path;
    int code = CMD_USAGE;

    buf_init(&path, URL_MAX);
    if (cli_named(cli, 0, &path)) {
        code = hold_open(&hold, cli, page);
        if (code == CMD_OK) {
            code = act(&hold, &path);
        }
        hold_close(&hold);
    }
    buf_release(&path);
    return code;
}

/* ---- lock ---- */

static int lock_at(struct hold *hold, struct buf *path)
{
    struct place place;
    int code = CMD_OK;

    place_init(&place, &hold->wait, buf_cstr(path), "lock-");
    code = place_take(&place);
    if (code == CMD_OK) {
        code = place_come_first(&place);
    }
    if (code == CMD_OK) {
        code = run_in(hold, &place);
    }
    place_release(&place);
    return code;
}

static int run_lock(struct cli *cli)
{
    return run_held(cli, "docs/recipes/lock.md", lock_at);
}

static const struct cmd_option lock_options[] = {
    WAIT_OPTIONS,
    HOLD_OPTIONS,
    {.name = NULL},
};

static const struct cmd_example lock_examples[] = {
    {"zabra lock backup -- ./backup.sh", "one process at a time, in the order of arrival"},
    {"zabra lock backup --try -- ./backup.sh", "exit code 124 when another process holds it"},
    {"zabra lock /locks/db --wait 30s -- sh -c 'write --fence \"$ZABRA_LOCK_FENCE\"'",
     "the fencing number grows with each holder: let the guarded resource refuse lower ones"},
    {.line = NULL},
};

const struct cmd cmd_lock = {
    .name = "lock",
    .summary = "run a command while holding a lock",
    .usage = "NAME -- COMMAND [ARGUMENT...]",
    .text = "NAME is a path or a name within /locks. Programs written after\n"
            "docs/recipes/lock.md can use the same lock. zabra releases it when the command\n"
            "has ended. The environment of the command has ZABRA_LOCK_PATH, the znode;\n"
            "ZABRA_LOCK_FENCE and ZABRA_FENCE, its czxid; ZABRA_SESSION and ZABRA_ENDPOINTS,\n"
            "so that 'zabra' in it uses the same session; ZABRA_MIN_ZXID, so that its reads\n"
            "see all writes of the previous holder.\n" HOLD_HELP,
    .options = lock_options,
    .examples = lock_examples,
    .operands = {CMD_OPERAND_NAME},
    .folder = "/locks",
    .operands_min = 1,
    .operands_max = 1,
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

static int stand(struct hold *hold, struct buf *path)
{
    char name[NAME_MAX_LEN];
    struct place place;
    int code = CMD_OK;

    own_name(hold->cli, name);
    place_init(&place, &hold->wait, buf_cstr(path), CANDIDATE);
    place.data = slice_str(name);
    code = place_take(&place);
    if (code == CMD_OK) {
        code = place_come_first(&place);
    }
    if (code == CMD_OK) {
        hold_env(hold, "ZABRA_CANDIDATE", buf_cstr(&place.path));
        code = run_in(hold, &place);
    }
    place_release(&place);
    return code;
}

/* `*first` becomes the first in the queue; NULL: the queue is empty. The caller drops it. */
static void take_first(const json_t *page, json_t **first)
{
    json_t *child = NULL;
    size_t i = 0;

    json_array_foreach(jsonr_at(page, "children"), i, child)
    {
        int64_t number = place_number(jsonr_text(child, "name"));

        if (number >= 0 && (!*first || number < place_number(jsonr_text(*first, "name")))) {
            json_decref(*first);
            *first = json_incref(child);
        }
    }
}

/* The leader is the first in the queue, if that is a candidate: it may be a lock. */
static int print_leader(const struct cli *cli, const char *path, const json_t *first)
{
    static const struct out_column columns[] = {
        {"leader", "leader", false}, {"path", "path", false}, {.title = NULL}};
    const char *name = jsonr_text(first, "name");
    struct buf znode;
    json_t *value = NULL;

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
    buf_init(&znode, URL_MAX);
    buf_printf(&znode, "%s/%s", path, name);
    value = json_pack("{s:s,s:s}", "leader", leader, "path", buf_cstr(&znode));
    out_facts(&cli->out, value, columns);
    json_decref(value);
    buf_release(&znode);
    return CMD_OK;
}

/* One page of the queue; `after` is where it begins, then where the next one begins ("": the end).
 */
static int ask_line(const struct cli *cli, const char *path, struct buf *after, json_t **first)
{
    json_t *page = NULL;
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", path);
    url_param(&url, "view", "children");
    url_param(&url, "with", "data");
    url_param(&url, "dataformat", "auto");
    if (after->len > 0) {
        url_param(&url, "after", buf_cstr(after));
    }
    url_param(&url, "consistency", "linearizable");
    code = cli_read(cli, buf_cstr(&url), &page);
    buf_release(&url);
    if (code != CMD_OK) {
        return code;
    }
    take_first(page, first);
    buf_clear(after);
    buf_append_str(after, jsonr_text(page, "after"));
    return CMD_OK;
}

static int ask_leader(const struct cli *cli, const char *path)
{
    json_t *first = NULL;
    struct buf after;
    int code = CMD_OK;

    if (cli->args.child) {
        return cli_usage(cli, "--leader only prints the leader: it takes no command");
    }
    buf_init(&after, URL_MAX);
    do {
        code = ask_line(cli, path, &after, &first);
    } while (code == CMD_OK && after.len > 0);
    if (code == CMD_OK) {
        code = print_leader(cli, path, first);
    }
    buf_release(&after);
    json_decref(first);
    return code;
}

static int run_elect(struct cli *cli)
{
    struct buf path;
    int code = CMD_USAGE;

    if (!args_has(&cli->args, "leader")) {
        return run_held(cli, "docs/recipes/election.md", stand);
    }
    buf_init(&path, URL_MAX);
    if (cli_named(cli, 0, &path)) {
        code = ask_leader(cli, buf_cstr(&path));
    }
    buf_release(&path);
    return code;
}

static const struct cmd_option elect_options[] = {
    {"name", 0, "TEXT", "the name of this candidate that others see (host:pid)", NULL},
    {"leader", 0, NULL, "only print the name of the leader; exit code 3 without a leader", NULL},
    WAIT_OPTIONS,
    HOLD_OPTIONS,
    {.name = NULL},
};

static const struct cmd_example elect_examples[] = {
    {"zabra elect scheduler -- ./scheduler", "waits until it is elected, then runs the command"},
    {"zabra elect scheduler --leader", "prints the name of the leader"},
    {.line = NULL},
};

const struct cmd cmd_elect = {
    .name = "elect",
    .summary = "wait to be elected, then run a command as the leader",
    .usage = "NAME -- COMMAND [ARGUMENT...] | NAME --leader",
    .text = "NAME is a path or a name within /election; docs/recipes/election.md has the\n"
            "rules. When the command ends, the next candidate leads. The environment is that\n"
            "of 'zabra lock' and ZABRA_CANDIDATE, the znode of this candidate: let each\n"
            "write of the leader check it first, in one multi.\n" HOLD_HELP,
    .options = elect_options,
    .examples = elect_examples,
    .operands = {CMD_OPERAND_NAME},
    .folder = "/election",
    .operands_min = 1,
    .operands_max = 1,
    .has_child = true,
    .run = run_elect,
};

/* ---- semaphore ---- */

/* Waits until one of the leases is free. Only the first in the queue does this. */
static int wait_lease(struct place *lease, int64_t leases)
{
    struct buf last;
    int64_t before = 0;
    int code = place_take(lease);

    buf_init(&last, URL_MAX);
    if (code == CMD_OK) {
        wait_watch(lease->wait, lease->line);
    }
    do {
        code = code == CMD_OK ? wait_next(lease->wait) : code;
        code = code == CMD_OK ? place_look(lease, &before, &last) : code;
    } while (code == CMD_OK && before >= leases);
    wait_unwatch(lease->wait);
    buf_release(&last);
    return code;
}

/* The queue has one znode per waiting process, so that a returned lease wakes one. */
static int take_lease(struct hold *hold, struct place *turn, struct place *lease, int64_t leases)
{
    int code = place_take(turn);

    if (code == CMD_OK) {
        code = place_come_first(turn);
    }
    if (code == CMD_OK) {
        code = wait_lease(lease, leases);
    }
    if (code == CMD_OK) {
        code = place_leave(turn);
    }
    return code == CMD_OK ? run_in(hold, lease) : code;
}

static const struct args_range lease_range = {.min = 1, .max = LEASES_MAX};

static int semaphore_at(struct hold *hold, struct buf *path)
{
    int64_t leases = 0;
    struct place turn;
    struct place lease;
    struct buf line;
    int code = CMD_OK;

    (void)cli_number(hold->cli, "leases", lease_range, &leases);
    buf_init(&line, URL_MAX);
    buf_printf(&line, "%s/line", buf_cstr(path));
    buf_append_str(path, "/leases");
    place_init(&turn, &hold->wait, buf_cstr(&line), "lock-");
    place_init(&lease, &hold->wait, buf_cstr(path), "lease-");
    code = take_lease(hold, &turn, &lease, leases);
    place_release(&turn);
    place_release(&lease);
    buf_release(&line);
    return code;
}

static int run_semaphore(struct cli *cli)
{
    int64_t leases = 0;

    if (!args_has(&cli->args, "leases")) {
        return cli_usage(cli, "--leases N is missing: the number of processes that may hold it "
                              "at the same time");
    }
    return cli_number(cli, "leases", lease_range, &leases) ? run_held(cli, NULL, semaphore_at)
                                                           : CMD_USAGE;
}

static const struct cmd_option semaphore_options[] = {
    {"leases", 'n', "N",
     "how many processes may hold it at the same time; give all the same "
     "number",
     NULL},
    WAIT_OPTIONS,
    HOLD_OPTIONS,
    {.name = NULL},
};

static const struct cmd_example semaphore_examples[] = {
    {"zabra semaphore licences --leases 5 -- ./simulate",
     "at most five processes at the same time"},
    {.line = NULL},
};

const struct cmd cmd_semaphore = {
    .name = "semaphore",
    .summary = "run a command while holding one of several leases",
    .usage = "NAME --leases N -- COMMAND [ARGUMENT...]",
    .text = "NAME is a path or a name within /semaphores. Processes queue in NAME/line; the\n"
            "first one waits for a lease, one of at most N znodes in NAME/leases. The\n"
            "environment of the command is that of 'zabra lock'; ZABRA_LOCK_PATH is the\n"
            "lease.\n" HOLD_HELP,
    .options = semaphore_options,
    .examples = semaphore_examples,
    .operands = {CMD_OPERAND_NAME},
    .folder = "/semaphores",
    .operands_min = 1,
    .operands_max = 1,
    .has_child = true,
    .run = run_semaphore,
};
