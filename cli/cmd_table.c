/* The table of commands, that of exit codes, and what commands with a line of their own share. */
#include "cli/args.h"
#include "cli/commands.h"
#include "cli/help.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    GUESS_WITHIN = 2 /* Letters that may be wrong in a name. */
};

const struct cmd *const cmd_table[] = {
    &cmd_get,       &cmd_set,   &cmd_create,     &cmd_rm,      &cmd_ls,      &cmd_tree,
    &cmd_stat,      &cmd_cp,    &cmd_mv,         &cmd_edit,    &cmd_find,    &cmd_touch,
    &cmd_incr,      &cmd_multi, &cmd_export,     &cmd_import,  &cmd_watch,   &cmd_lock,
    &cmd_semaphore, &cmd_elect, &cmd_barrier,    &cmd_queue,   &cmd_counter, &cmd_session,
    &cmd_acl,       &cmd_quota, &cmd_whoami,     &cmd_status,  &cmd_members, &cmd_metrics,
    &cmd_doctor,    &cmd_serve, &cmd_dev,        &cmd_inspect, &cmd_recover, &cmd_shell,
    &cmd_api,       &cmd_bench, &cmd_completion, &cmd_version, &cmd_help,    &cmd_complete,
    &cmd_man,       NULL,
};

const struct cmd_group cmd_groups[] = {
    {"Data", &cmd_get},
    {"Watching", &cmd_watch},
    {"Recipes", &cmd_lock},
    {"Sessions and rights", &cmd_session},
    {"Cluster", &cmd_status},
    {"Tools", &cmd_shell},
    {NULL, NULL},
};

const struct cmd_exit_code cmd_exit_codes[] = {
    {CMD_OK, "ok", "done"},
    {CMD_FAILED, "failed", "any other failure"},
    {CMD_USAGE, "usage",
     "wrong usage or configuration, or the replica rejected a malformed "
     "request"},
    {CMD_NO_NODE, "no-node", "the znode does not exist"},
    {CMD_CONFLICT, "conflict", "the version differs, the znode exists already, or it has children"},
    {CMD_DENIED, "denied", "authentication or permission is missing"},
    {CMD_NO_ENSEMBLE, "no-ensemble", "no replica answers, or there is no quorum"},
    {CMD_TIMED_OUT, "timed-out",
     "no answer in time, or the waiting time is over; a write may or may not have been "
     "applied"},
    {CMD_EXPIRED, "expired", "the session has expired"},
    {CMD_PARTLY, "partly",
     "only a part was done (import, export, multi of reads, bench, shell -k)"},
    {CMD_LIMIT, "limit", "a limit or quota was reached, or the data is too large"},
    {CMD_CHILD_LOST, "lost",
     "the lock, place in the queue or session was lost while the command "
     "ran"},
    {CMD_CHILD_TIMED_OUT, "wait-over", "the waiting time was over before the command could run"},
    {CMD_CHILD_FAILED, "zabra-failed", "zabra itself failed before the command could run"},
    {CMD_CHILD_NOT_RUN, "not-run", "the command could not be run"},
    {CMD_CHILD_NOT_FOUND, "not-found", "the command was not found"},
    {.name = NULL},
};

const char *cmd_group_title(const struct cmd *cmd)
{
    for (const struct cmd_group *at = cmd_groups; at->title; at++) {
        if (at->first == cmd) {
            return at->title;
        }
    }
    return NULL;
}

const struct cmd *cmd_by_name(const char *name)
{
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if (strcmp((*at)->name, name) == 0) {
            return *at;
        }
    }
    return NULL;
}

/* Names of the same commands in other tools. */
static const char *const other_names[][2] = {
    {"put", "set"},    {"delete", "rm"},   {"remove", "rm"},      {"list", "ls"},
    {"txn", "multi"},  {"exists", "stat"}, {"deleteall", "rm"},   {"rmr", "rm"},
    {"getAcl", "acl"}, {"setAcl", "acl"},  {"setquota", "quota"}, {"listquota", "quota"},
};

const char *cmd_guess(const char *name)
{
    const char *best = NULL;
    int least_wrong = GUESS_WITHIN + 1;

    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
        if (strcmp(other_names[i][0], name) == 0) {
            return other_names[i][1];
        }
    }
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        int wrong = args_distance(name, (*at)->name, GUESS_WITHIN);

        if (!(*at)->hidden && wrong < least_wrong && wrong < (int)strlen((*at)->name)) {
            least_wrong = wrong;
            best = (*at)->name;
        }
    }
    return best;
}

int cmd_usage_error(const struct cmd *cmd, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fprintf(stderr, "zabra %s: ", cmd->name);
    (void)vfprintf(stderr, format, args);
    (void)fprintf(stderr, "; see 'zabra help %s'\n", cmd->name);
    va_end(args);
    return CMD_USAGE;
}

const char *cmd_option(const char *name, int arg_count, char **args, int *pos)
{
    const char *arg = args[*pos];
    size_t len = strlen(name);

    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, len) != 0) {
        return NULL;
    }
    arg += 2 + len;
    if (*arg == '=') {
        (*pos)++;
        return arg + 1;
    }
    if (*arg) {
        return NULL;
    }

    const char *value = *pos + 1 < arg_count ? args[*pos + 1] : "";

    *pos += 2;
    return value;
}
