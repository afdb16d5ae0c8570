#include "base/os_clock.h"
#include "base/os_rng.h"
#include "cli/inspect_files.h"
#include "cli/out.h"
#include "server/process/notes.h"
#include "server/process/sole_voter.h"

enum {
    HISTORY_LEN = 16, /* Hexadecimal digits. */
    LINE_MAX_LEN = 128,
};

struct recovery {
    const char *dir;
    const char *accepted; /* The history that the command line names, or NULL. */
    uint32_t id;
    struct vfs vfs;
    struct store_report report;
    struct sole_voter survivor;
};

static int fail(const struct recovery *recovery, const char *why)
{
    (void)fprintf(stderr, "zabra recover: %s: %s\n", recovery->dir, why);
    return CMD_FAILED;
}

/* ---- What there is, and what may be lost. ---- */

static void print_members(const struct sole_voter *survivor)
{
    for (uint32_t i = 0; i < survivor->config.count; i++) {
        const struct zab_member *member = &survivor->config.members[i];

        (void)printf("  replica %-5" PRIu32 " %s%s\n", member->id,
                     member->voter        ? "voter"
                     : member->empty_seat ? "empty seat"
                                          : "observer",
                     member->id == survivor->identity.member_id ? ", this one" : "");
    }
}

static void print_survivor(const struct sole_voter *survivor)
{
    char cluster[INSPECT_CLUSTER_MAX];

    inspect_cluster(survivor->identity.cluster, cluster);
    (void)printf("cluster      %s\nhistory      %016" PRIx64 "\n", cluster,
                 survivor->config.history);
    print_members(survivor);
    (void)printf("promised     epoch %" PRIu32 "\nlast record  0x%016" PRIx64 " of epoch %" PRIu32
                 "\ncommitted    0x%016" PRIx64 " at least\n\n",
                 survivor->promised_epoch, survivor->last, survivor->epoch, survivor->committed);
    (void)printf("This replica will continue alone, as the only voter, with all of this log.\n"
                 "LOST: every write after 0x%016" PRIx64 " that the others acknowledged\n"
                 "without this one. KEPT: everything in this log after 0x%016" PRIx64
                 ", even if no client\n"
                 "received a success. The history gets a new id, so that clients learn that data\n"
                 "that they have seen may be lost.\n"
                 "Stop the other replicas before you start this one. Restart them only with empty\n"
                 "directories: move the old ones away. If a majority of the replicas still works,\n"
                 "do NOT do this.\n"
                 "\n",
                 survivor->last, survivor->committed);
}

/* ---- The decision. ---- */

static bool is_history(const struct recovery *recovery, const char *text)
{
    char history[HISTORY_LEN + 1];

    (void)snprintf(history, sizeof(history), "%016" PRIx64, recovery->survivor.config.history);
    return !strcmp(history, text);
}

static bool ask(const struct recovery *recovery)
{
    char line[LINE_MAX_LEN];

    (void)printf("To continue, type the id of the history: ");
    (void)fflush(stdout);
    if (!fgets(line, sizeof(line), stdin)) {
        return false;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return is_history(recovery, line);
}

/* ---- Recovery. ---- */

static int look(struct recovery *recovery)
{
    struct store *store;
    const char *why = NULL;
    zxid_t removal = 0;
    enum err err = inspect_open(recovery->vfs, true, &store, &recovery->report, NULL);

    if (err) {
        return fail(recovery, err_text(err));
    }
    err = sole_voter_check(store, &recovery->report, recovery->id, &recovery->survivor, &why);
    store_close(store, false);
    if (!err && notes_find_mark(&recovery->vfs, &recovery->survivor.identity, &removal)) {
        return fail(recovery, "a change of the members has removed this replica: choose another "
                              "survivor");
    }
    return err ? fail(recovery, why) : CMD_OK;
}

static int go_on(struct recovery *recovery)
{
    uint64_t history = os_random_u64() | 1;
    struct store *store;
    enum err err = inspect_open(recovery->vfs, false, &store, &recovery->report, NULL);

    if (!err) {
        err = sole_voter_write(store, &recovery->survivor, history, os_wall_ms());
        store_close(store, !err);
    }
    if (err) {
        (void)fprintf(stderr,
                      "zabra recover: %s: the disk failed (%s), and this replica may or may not "
                      "be the only voter now; repair the disk and run the command again\n",
                      recovery->dir, err_text(err));
        return CMD_FAILED;
    }
    (void)printf("done: history %016" PRIx64
                 "; start this replica, then the others with empty directories\n",
                 history);
    return CMD_OK;
}

static int recover_locked(struct recovery *recovery)
{
    int code = look(recovery);

    if (code != CMD_OK) {
        return code;
    }
    print_survivor(&recovery->survivor);
    if (recovery->accepted ? !is_history(recovery, recovery->accepted) : !ask(recovery)) {
        return fail(recovery, "not confirmed with the id of the history: nothing was changed");
    }
    return go_on(recovery);
}

static int recover(struct recovery *recovery)
{
    const char *why = inspect_lock(recovery->dir, &recovery->vfs);

    if (why) {
        return fail(recovery, why);
    }

    int code = recover_locked(recovery);

    vfs_posix_close(&recovery->vfs);
    return code;
}

static int take_args(struct recovery *recovery, int arg_count, char **args)
{
    const char *id = NULL;
    int64_t number = 0;

    for (int i = 0; i < arg_count;) {
        const char *value;

        if ((value = cmd_option("id", arg_count, args, &i))) {
            id = value;
        } else if ((value = cmd_option("yes-i-accept-data-loss", arg_count, args, &i))) {
            recovery->accepted = value;
        } else if (args[i][0] == '-' || recovery->dir) {
            return OUT_USAGE(&cmd_recover, "unexpected argument \"%s\"", args[i]);
        } else {
            recovery->dir = args[i++];
        }
    }
    if (!recovery->dir) {
        return OUT_USAGE(&cmd_recover, "the directory is missing");
    }
    if (!id || !args_number(id, (struct cmd_range){1, ZAB_ID_MAX, 0}, &number)) {
        return OUT_USAGE(&cmd_recover, "--id must be the number of this replica");
    }
    recovery->id = (uint32_t)number;
    return CMD_OK;
}

static int run(int arg_count, char **args)
{
    struct recovery *recovery = mem_zalloc(1, sizeof(*recovery));
    int code = take_args(recovery, arg_count, args);

    if (code == CMD_OK) {
        code = recover(recovery);
    }
    mem_free(recovery);
    return code;
}

const struct cmd cmd_recover = {
    .name = "recover",
    .summary = "recover from one surviving replica when a majority is lost for good",
    .usage = "DIR --id N [--yes-i-accept-data-loss=HISTORY]",
    .text = "Makes the stopped replica N, whose data directory is DIR, the only voter of its\n"
            "cluster. Prints what may be lost and asks for the id of the history;\n"
            "--yes-i-accept-data-loss gives it without a question. Afterwards start this\n"
            "replica, then the others with empty directories: they are refilled and become\n"
            "voters again, one by one. Choose the replica with the newest last record. Exit\n"
            "code 0: done; 1: refused or not confirmed, and nothing was changed, or the disk\n"
            "failed (the message says which).\n",
    .run_alone = run};
