/* export, import: write a subtree as lines of JSON, and read such lines back. */
#include "cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DRY_RUN = 0, /* The place of "dry-run" among the parameters of an import. */
    ADVICE_MAX = 128
};

/* ---- export ---- */

/* The incoming stream: each complete line is printed, and the last one is kept. */
struct exporting {
    const struct cli *cli;
    struct buf line; /* A line that is not complete. */
    json_t *last;    /* The line that ends the export, or reports what failed. */
    bool too_long;
};

/* Prints a line. Lines of znodes are not parsed, because there may be millions. */
static bool take_line(struct exporting *exporting, struct slice line)
{
    if (slice_starts_with(line, slice_str("{\"end\"")) ||
        slice_starts_with(line, slice_str("{\"error\""))) {
        json_decref(exporting->last);
        exporting->last = jsonr_parse(line, NULL);
    }
    if (!jsonr_at(exporting->last, "error")) { /* judge_export() reports an error. */
        out_answer(&exporting->cli->out, line);
    }
    return !ferror(stdout);
}

static bool take(void *ctx, struct slice bytes)
{
    struct exporting *exporting = ctx;
    bool goes = buf_append_slice(&exporting->line, bytes);
    struct slice rest = buf_slice(&exporting->line);

    exporting->too_long = !goes;
    while (goes && slice_find(rest, '\n') < rest.len) {
        goes = take_line(exporting, slice_cut(&rest, '\n'));
    }
    buf_consume(&exporting->line, exporting->line.len - rest.len);
    return goes;
}

/* Checks the last line when the stream has ended. */
static int judge_export(const struct cli *cli, const struct exporting *exporting)
{
    const json_t *last = exporting->last;
    int64_t ephemerals = jsonr_number(last, "skippedEphemerals");
    int64_t unreadable = jsonr_number(last, "skippedUnreadable");
    int64_t masked = jsonr_number(last, "maskedAcls");
    int code = transfer_judge_end(cli, last);

    if (code != CMD_OK) {
        return code;
    }
    if (ephemerals > 0) {
        (void)fprintf(
            stderr,
            "zabra export: ephemeral znodes skipped, because they belong to sessions: %" PRId64
            "\n",
            ephemerals);
    }
    if (unreadable > 0) {
        return cli_fail(cli, CMD_PARTLY, "Unreadable",
                        "%" PRId64
                        " znodes and all znodes below them were skipped: you may not read them",
                        unreadable);
    }
    if (masked > 0) {
        return cli_fail(cli, CMD_PARTLY, "Masked",
                        "%" PRId64 " ACLs lack their password hashes, which are shown only with "
                        "admin permission: these znodes cannot be imported",
                        masked);
    }
    return CMD_OK;
}

static int run_export(struct cli *cli)
{
    struct exporting exporting = {.cli = cli};
    struct transfer transfer = {.input = -1,
                                .take = take,
                                .ctx = &exporting,
                                .progress = {.verb = "exported"},
                                .has_lines = true,
                                .request = {.target = "/export/v1",
                                            .path = cli_path(cli, 0),
                                            .accept = "application/x-ndjson"}};
    int code = CMD_OK;

    if (cli->settings.curl) {
        return cli_ask(cli, &transfer.request);
    }
    buf_init(&exporting.line, TRANSFER_LINE_MAX);
    code = transfer_run(cli, &transfer);
    if (exporting.too_long) {
        code = cli_fail(cli, CMD_LIMIT, "TooLarge", "a line is longer than %d bytes",
                        (int)TRANSFER_LINE_MAX);
    } else {
        code = code == CMD_OK ? judge_export(cli, &exporting) : cli_tell(cli);
    }
    json_decref(exporting.last);
    buf_release(&exporting.line);
    buf_release(&transfer.answer);
    return code;
}

const struct cmd cmd_export = {
    .name = "export",
    .summary = "print a consistent state of a subtree as lines of JSON",
    .usage = "[PATH]",
    .text = "Prints one line per znode with data, ACL and stat, parents first; the last line\n"
            "has the number of znodes. Ephemeral znodes are skipped and their number is\n"
            "reported. Check the exit code: it is not 0 when the export is incomplete, and 9\n"
            "when you may not read some of the znodes.\n",
    .examples = {{"zabra export /app > app.ndjson",
                  "a consistent state of the subtree, without stopping writes"},
                 {"zabra export /app | zabra import /copy --parents --endpoints other:9998",
                  "into another ensemble"}},
    .operands = {0, 1, {CMD_OPERAND_PATH}},
    .run = run_export,
};

/* ---- import ---- */

/* Opens the file with the lines. Returns CMD_OK, or the code of a reported error. */
static int open_input(const struct cli *cli, struct transfer *transfer)
{
    const char *name = args_operand(&cli->args, 1);
    struct stat stat;

    transfer->input = STDIN_FILENO;
    if (name && strcmp(name, "-") != 0) {
        transfer->input = open(name, O_RDONLY | O_CLOEXEC);
    }
    if (transfer->input < 0) {
        return cli_fail(cli, CMD_FAILED, "File", "cannot read %s: %s", name,
                        strerrordesc_np(errno));
    }
    if (transfer->input == STDIN_FILENO && isatty(STDIN_FILENO)) {
        return CLI_USAGE(cli, "no lines to import: use zabra import PATH FILE, or zabra import "
                              "PATH < FILE");
    }
    if (fstat(transfer->input, &stat) == 0 && S_ISREG(stat.st_mode)) {
        off_t here = lseek(transfer->input, 0, SEEK_CUR);

        transfer->progress.total = (uint64_t)(stat.st_size - (here > 0 ? here : 0));
    }
    return CMD_OK;
}

/* Reports the replica's error with advice; `done` (or NULL) is what the replica reports about the
 * import. */
static int tell_with(const struct cli *cli, int exit_code, const char *advice, json_t *done)
{
    const struct client_error *error = &cli->client->error;
    json_auto_t *extra = json_pack("{s:i,s:O*}", "status", (int)error->status, "import", done);
    char message[CLI_MESSAGE_MAX];

    (void)snprintf(message, sizeof(message), "%.700s; %s", error->message, advice);
    out_error(&cli->out, exit_code, error->code, message, extra);
    return exit_code;
}

/* Reports how far the failed import came, and how to continue. */
static int tell_partly(const struct cli *cli)
{
    json_t *done = jsonr_at(cli->client->error.problem, "import");
    int64_t lines = jsonr_number(done, "lines");
    char advice[ADVICE_MAX];

    if (lines == 0 || json_is_true(jsonr_at(done, "dryRun"))) {
        return cli_tell(cli); /* Nothing was imported. */
    }
    (void)snprintf(advice, sizeof(advice),
                   "the first %" PRId64
                   " znodes were imported and remain: continue with --conflict skip or overwrite",
                   lines);
    return tell_with(cli, CMD_PARTLY, advice, done);
}

static int finish_import(struct cli *cli, const struct transfer *transfer, int code)
{
    char fault[JSONR_ERROR_MAX];
    json_auto_t *json = NULL;

    if (transfer->input_errno) {
        return cli_fail(cli, CMD_PARTLY, "File",
                        "cannot read the lines to the end: %s; some may have been imported",
                        strerrordesc_np(transfer->input_errno));
    }
    if (code != CMD_OK) {
        bool unknown =
            !cli->client->error.problem && transfer->progress.bytes > 0 && code != CMD_NO_ENSEMBLE;

        return unknown ? cli_fail(cli, CMD_PARTLY, cli->client->error.code,
                                  "%s; some lines may have been imported: continue with "
                                  "--conflict skip or overwrite",
                                  cli->client->error.message)
                       : tell_partly(cli);
    }
    json = jsonr_parse(buf_slice(&transfer->answer), fault);
    if (!json) {
        return cli_fail(cli, CMD_FAILED, "BadAnswer", "the answer is not JSON: %s", fault);
    }
    if (jsonr_number(json, "lines") == 0) {
        return cli_fail(cli, CMD_FAILED, "File",
                        "nothing was imported: the input has no lines; check that the export "
                        "succeeded");
    }
    if (json_is_true(jsonr_at(json, "dryRun"))) {
        out_say(&cli->out, "dry run, nothing was changed; the import would do:\n");
    }
    out_facts(&cli->out, json,
              "created:created, overwritten:overwritten, skipped:skipped, transactions:multis, "
              "zxid:zxidHex");
    return CMD_OK;
}

/* ---- Before an import ---- */

/* Asks whether the identity is the super user: then no permission can be missing. Returns CMD_OK,
 * or the exit code when no replica answered. */
static int ask_super(struct cli *cli, int64_t *left_ms, bool *ret_super)
{
    const struct client_request request = {.target = "/whoami/v1", .timeout_ms = *left_ms};
    uint64_t start_ms = os_now_ms();
    int code = client_ask(cli->client, &request);
    int64_t waited_ms = (int64_t)(os_now_ms() - start_ms);

    *left_ms = *left_ms > waited_ms ? *left_ms - waited_ms : 1;
    *ret_super = code == CMD_OK && json_is_true(jsonr_at(client_json(cli->client), "super"));
    return client_unserved(code) ? code : CMD_OK; /* The next request would fail, too. */
}

/* Sends the lines as a dry run, and returns its exit code. The import gets the waiting time that
 * the dry run has not used. */
static int run_dry(struct cli *cli, struct transfer *transfer)
{
    struct transfer dry = *transfer;
    off_t start = lseek(transfer->input, 0, SEEK_CUR);
    int code = CMD_OK;

    dry.progress.verb = "checked";
    dry.request.params[DRY_RUN].value = "true";
    code = transfer_run(cli, &dry);
    transfer->patience_ms = dry.patience_ms;
    buf_release(&dry.answer);
    (void)lseek(transfer->input, start, SEEK_SET);
    return code;
}

/* Checks the permissions before an import. An import is not a transaction, and a missing permission
 * would stop it half done, so lines that can be read twice are sent as a dry run first. All
 * requests share --timeout. CMD_DENIED and a missing answer are reported here; the import itself
 * finds all other errors. */
static int ask_before(struct cli *cli, struct transfer *transfer)
{
    bool super = false;

    transfer->patience_ms = cli->settings.timeout_ms;
    if (transfer->progress.total == 0 || args_has(&cli->args, "dry-run")) {
        return CMD_OK;
    }

    int code = ask_super(cli, &transfer->patience_ms, &super);

    if (code == CMD_OK && !super) {
        code = run_dry(cli, transfer);
    }
    if (client_unserved(code)) {
        return cli_tell(cli);
    }
    return code == CMD_DENIED
               ? tell_with(cli, CMD_DENIED,
                           "nothing was imported: use the super user, or an identity with create "
                           "permission for each of these znodes (--user)",
                           NULL)
               : CMD_OK;
}

static int import_opened(struct cli *cli, struct transfer *transfer)
{
    int code = open_input(cli, transfer);

    if (code == CMD_OK) {
        code = ask_before(cli, transfer);
    }
    if (code == CMD_OK) {
        code = finish_import(cli, transfer, transfer_run(cli, transfer));
        buf_release(&transfer->answer);
    }
    if (transfer->input > STDIN_FILENO) {
        close(transfer->input);
    }
    return code;
}

static int run_import(struct cli *cli)
{
    const char *conflict = args_get(&cli->args, "conflict");
    struct transfer transfer = {
        .progress = {.verb = "imported"},
        .has_lines = true,
        .request = {.method = "POST",
                    .target = "/import/v1",
                    .path = cli_path(cli, 0),
                    .params = {[DRY_RUN] = {"dryRun", cli_flag(cli, "dry-run")},
                               {"parents", cli_flag(cli, "parents")},
                               {"conflict", conflict}},
                    .keyless = true,
                    .type = "application/x-ndjson",
                    .headers = {"Content-Type: application/x-ndjson"}}};
    const char *name = args_operand(&cli->args, 1);
    char from[CLIENT_MESSAGE_MAX];

    if (conflict && cli_choice(cli, "--conflict: ", conflict, "fail, skip, overwrite") < 0) {
        return CMD_USAGE;
    }
    if (!cli->settings.curl) {
        return import_opened(cli, &transfer);
    }
    (void)snprintf(from, sizeof(from), "@%s", name ? name : "-");
    transfer.request.has_body = true;
    transfer.request.body_from = from;
    transfer.request.headers[0] = NULL;
    return cli_ask(cli, &transfer.request);
}

const struct cmd cmd_import = {
    .name = "import",
    .summary = "create znodes from the lines of an export",
    .usage = "[PATH] [FILE]",
    .text = "Reads the lines from FILE or the standard input, and imports them in batches of\n"
            "a few hundred. The import is not atomic: after a failure the completed batches\n"
            "remain and are reported (exit code 9). A FILE is sent twice, first as a dry\n"
            "run: without permission for all of its znodes the import ends with exit code 5\n"
            "before it changes anything. Only the super user may write to all znodes.\n",
    .options = {CMD_FLAG("dry-run", 0, "change nothing, report what would change"),
                CMD_VALUE("conflict", 0, "fail|skip|overwrite",
                          "what to do with a znode that exists (fail)"),
                CMD_FLAG("parents", 'p', "create missing parents")},
    .examples = {{"zabra import /copy app.ndjson --parents", "imports the export below /copy"},
                 {"zabra import /app < app.ndjson --conflict overwrite",
                  "restores the exported state"},
                 {"echo '{\"path\":\"config\",\"dataUtf8\":\"x\"}' | zabra import /app",
                  "imports a line written by hand"}},
    .operands = {0, 2, {CMD_OPERAND_PATH, CMD_OPERAND_FILE}},
    .run = run_import,
};
