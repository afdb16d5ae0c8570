/* edit: opens a znode in an editor, and saves it only if no other client changed it meanwhile. */
#include "cli/live.h"
#include "cli/revise.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    NAME_MAX_LEN = 512,
    COMMAND_MAX = 1024
};

/* Writes the data to a new file that only this user may read. Returns false when an error has been
 * reported. */
static bool write_file(const struct revise *revise, char name[NAME_MAX_LEN])
{
    const char *dir = settings_env("TMPDIR");
    int len = snprintf(name, NAME_MAX_LEN, "%.400s/zabra-edit-XXXXXX", dir ? dir : "/tmp");
    int fd = len < NAME_MAX_LEN ? mkstemp(name) : -1;
    const struct buf *data = &revise->data;
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool ok = file && fwrite(data->data, 1, data->len, file) == data->len;

    ok = file && fclose(file) == 0 && ok;
    if (!ok) {
        (void)cli_fail(revise->cli, CMD_FAILED, "File", "%s: %s", name, strerrordesc_np(errno));
    }
    return ok;
}

/* Waits for the editor to end. Returns whether its exit code was 0. */
static bool wait_editor(struct live *live, int *ret_code)
{
    struct live_news news;

    do {
        live_wait(live, UINT64_MAX, &news);
    } while (news.kind != LIVE_CHILD);
    *ret_code = live_exit_code(news.status);
    return *ret_code == 0;
}

/* Runs the editor. $VISUAL and $EDITOR may hold options, so a shell splits them, as usual. */
static int run_editor(struct cli *cli, char *name)
{
    const char *editor = settings_env("VISUAL");
    char command[COMMAND_MAX];
    char shell[] = "sh";
    char option[] = "-c";
    char zero[] = "zabra";
    char *args[] = {shell, option, command, zero, name, NULL};
    struct live *live = NULL;
    int editor_code = 0;
    int code = CMD_OK;

    editor = editor ? editor : settings_env("EDITOR");
    (void)snprintf(command, sizeof(command), "%.900s \"$1\"", editor ? editor : "vi");
    live = live_open(cli);
    code = live_run(live, args, -1) == CMD_OK ? CMD_OK : CMD_FAILED;
    if (code == CMD_OK && !wait_editor(live, &editor_code)) {
        code = cli_fail(cli, CMD_FAILED, "Editor",
                        "nothing was saved: the editor exited with code %d; your text is in %s",
                        editor_code, name);
    }
    live_close(live);
    return code;
}

static void print_done(const struct revise *revise, bool changed)
{
    out_result(&revise->cli->out, json_pack("{s:s,s:b}", "path", revise->path, "changed", changed));
}

static int edit(struct revise *revise, char *name)
{
    int code = run_editor(revise->cli, name);
    BUF_AUTO(edited, VALUE_MAX);

    if (code != CMD_OK) {
        return code;
    }
    if (!cli_read_file(revise->cli, name, &edited)) {
        return CMD_FAILED;
    }
    if (slice_eq(buf_slice(&edited), buf_slice(&revise->data)) && revise->exists) {
        (void)fprintf(stderr, "zabra edit: not changed\n");
        print_done(revise, false);
        return CMD_OK;
    }
    revise->end_ms = 0; /* No retry: the user must see the other client's change first. */
    code = revise_write(revise, buf_slice(&edited), false);
    if (code > CMD_OK) {
        (void)fprintf(stderr, "zabra edit: your text is in %s\n", name);
    } else if (code == CMD_OK) {
        print_done(revise, true);
    }
    return code;
}

static int edit_once(struct revise *revise, void *ctx)
{
    char name[NAME_MAX_LEN];
    int code = revise_read(revise);

    (void)ctx;
    if (code != CMD_OK) {
        return code;
    }
    if (!revise->exists && !args_has(&revise->cli->args, "create")) {
        return cli_tell(revise->cli);
    }
    if (!write_file(revise, name)) {
        return CMD_FAILED;
    }
    code = edit(revise, name);
    if (code <= CMD_OK) {
        (void)unlink(name);
    }
    return code;
}

static int run(struct cli *cli)
{
    struct revise revise = {
        .cli = cli, .path = cli_path(cli, 0), .parents = args_has(&cli->args, "parents")};

    return revise_run(&revise, edit_once, NULL);
}

const struct cmd cmd_edit = {
    .name = "edit",
    .summary = "edit the data of a znode",
    .usage = "PATH",
    .text = "Saves only if the znode has not changed since it was read. Otherwise the exit\n"
            "code is 4, and zabra keeps the file with your text and prints its name.\n",
    .options = {CMD_FLAG("create", 'c', "start with empty data when the znode does not exist"),
                CMD_FLAG("parents", 'p', "with --create: also create missing parents")},
    .examples = {{"zabra edit /app/config", "in $VISUAL, $EDITOR, or vi"},
                 {"EDITOR='code --wait' zabra edit /app/config", "uses an editor with options"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .run = run,
};
