/* The table of commands, the table of exit codes, and what commands with their own command line
 * share. */
#include "cli/args.h"

#define POINTER(name) &cmd_##name,

const struct cmd *const cmd_table[] = {CMD_ROWS(POINTER) NULL};

const struct cmd_exit_code cmd_exit_codes[] = {
    {CMD_OK, "ok", "done"},
    {CMD_FAILED, "failed", "any other failure"},
    {CMD_USAGE, "usage",
     "wrong usage or configuration, or the replica rejected a malformed request"},
    {CMD_NO_NODE, "no-node", "the znode does not exist"},
    {CMD_CONFLICT, "conflict", "the version differs, the znode exists already, or it has children"},
    {CMD_DENIED, "denied", "authentication or permission is missing"},
    {CMD_NO_ENSEMBLE, "no-ensemble", "no replica answers, or there is no quorum"},
    {CMD_TIMED_OUT, "timed-out",
     "no answer in time, or the waiting time is over; a write may or may not have been applied"},
    {CMD_EXPIRED, "expired", "the session has expired"},
    {CMD_PARTLY, "partly",
     "only a part was done (import, export, multi of reads, bench, shell -k)"},
    {CMD_LIMIT, "limit", "a limit or quota was reached, or the data is too large"},
    {CMD_CHILD_LOST, "lost",
     "the lock, place in the queue or session was lost while the command ran"},
    {CMD_CHILD_TIMED_OUT, "wait-over", "the waiting time was over before the command could run"},
    {CMD_CHILD_FAILED, "zabra-failed", "zabra itself failed before the command could run"},
    {CMD_CHILD_NOT_RUN, "not-run", "the command could not be run"},
    {CMD_CHILD_NOT_FOUND, "not-found", "the command was not found"},
    {.name = NULL},
};

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
    int wrong = ARGS_WRONG_MAX;

    for (size_t i = 0; i < sizeof(other_names) / sizeof(other_names[0]); i++) {
        if (strcmp(other_names[i][0], name) == 0) {
            return other_names[i][1];
        }
    }
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        int limit = (int)strlen((*at)->name);

        limit = limit < wrong ? limit : wrong; /* At least one letter of a short name must match. */
        if (!(*at)->hidden && args_is_nearer(name, (*at)->name, &limit)) {
            wrong = limit;
            best = (*at)->name;
        }
    }
    return best;
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
