/* support: one archive with what is needed to find a fault from afar, without secrets. */
#include "cli/build.h"
#include "cli/doctor_ask.h"
#include "cli/journal.h"
#include "cli/redact.h"
#include "cli/replicas.h"
#include "cli/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    REQUEST_MS = 3000, /* Timeout of a request, so that a replica that hangs costs seconds. */
    JOURNAL_MS = 10000,
    FILE_BYTES_MAX = 8 << 20,   /* Of a log: its end; of an answer: all, or none. */
    CLEAN_BYTES_MAX = 32 << 20, /* The same with what stands in place of secrets. */
    ARCHIVE_BYTES_MAX = 128 << 20,
    LOGS_MAX = 8,
    PATH_BYTES = 4096,
    NAME_BYTES = 64
};

static const char usual_config[] = "/etc/zabra/zabra.cfg";

struct support {
    struct cli *cli;
    char path[PATH_BYTES]; /* Of the complete archive. */
    char part[PATH_BYTES]; /* While it is written. */
    char top[NAME_BYTES];  /* Folder within the archive. */
    int64_t now_s;
    int fd;
    int error;      /* Why writing failed; 0: it did not. */
    uint64_t bytes; /* Of the content so far. */
    json_t *files;  /* What is in it: {"name","bytes"}. */
    json_t *notes;  /* What is missing, and why: {"name","why"}. */
};

/* ---- The archive ---- */

static void note(struct support *support, const char *name, const char *why)
{
    (void)json_array_append_new(
        support->notes, json_pack("{s:o,s:o}", "name", out_string(name), "why", out_string(why)));
}

static void add(struct support *support, const char *name, struct slice content)
{
    char whole[TAR_NAME_MAX];

    if (support->error) {
        return;
    }
    if (support->bytes + content.len > ARCHIVE_BYTES_MAX) {
        note(support, name, "the archive would be larger than 128 MiB");
        return;
    }
    (void)snprintf(whole, sizeof(whole), "%s/%s", support->top, name);
    support->error = tar_add(support->fd, whole, content, support->now_s);
    support->bytes += content.len;
    (void)json_array_append_new(
        support->files, json_pack("{s:s,s:I}", "name", name, "bytes", (json_int_t)content.len));
}

static void add_json(struct support *support, const char *name, const json_t *value)
{
    BUF_AUTO(text, FILE_BYTES_MAX);

    jsonr_put(&text, value);
    buf_append_byte(&text, '\n');
    add(support, name, buf_slice(&text));
}

/* ---- Logs and configuration ---- */

/* Appends the lines of the text without secrets. */
static void redact(struct slice text, bool is_config, struct buf *out)
{
    struct redaction redaction = {.in_key = redact_begins_in_key(text)};

    while (text.len > 0) {
        size_t len = slice_find(text, '\n');
        struct slice line = slice_make(text.data, len);

        if (is_config) {
            redact_config_line(line, out);
        } else {
            redact_log_line(&redaction, line, out);
        }
        text = slice_from(text, min_size(len + 1, text.len));
    }
}

/* Reads the end of a file, from the beginning of a line: the rest of a line could be that of a
 * secret. Returns 0 or an errno. A pipe or a device, which could keep the command waiting, is
 * refused. */
static int read_end(const char *file, struct buf *out)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat stat = {.st_mode = 0};
    int error = fd < 0 || fstat(fd, &stat) != 0 ? errno : 0;
    bool is_cut = stat.st_size > FILE_BYTES_MAX;

    if (error == 0 && !S_ISREG(stat.st_mode)) {
        error = EINVAL;
    }
    if (error == 0 && is_cut) {
        (void)lseek(fd, -(off_t)FILE_BYTES_MAX, SEEK_END);
    }
    while (error == 0 && out->len < FILE_BYTES_MAX) {
        uint8_t piece[4096];
        ssize_t got = read(fd, piece, min_size(sizeof(piece), FILE_BYTES_MAX - out->len));

        error = got < 0 ? errno : 0;
        if (got <= 0) {
            break;
        }
        buf_append(out, piece, (size_t)got);
    }
    if (is_cut) {
        buf_consume(out, min_size(slice_find(buf_slice(out), '\n') + 1, out->len));
    }
    if (fd >= 0) {
        close(fd);
    }
    return error;
}

static void add_file(struct support *support, const char *name, const char *file, bool is_config)
{
    BUF_AUTO(text, FILE_BYTES_MAX);
    BUF_AUTO(clean, CLEAN_BYTES_MAX);
    int error = read_end(file, &text);

    if (error) {
        note(support, file, strerrordesc_np(error));
        return;
    }
    redact(buf_slice(&text), is_config, &clean);
    add(support, name, buf_slice(&clean));
}

static void add_logs(struct support *support)
{
    const struct args *args = &support->cli->args;

    for (int i = 0; i < LOGS_MAX && args_nth(args, "log", i); i++) {
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof(name), "logs/%d.log", i + 1);
        add_file(support, name, args_nth(args, "log", i), false);
    }
}

static void add_journal(struct support *support)
{
    const char *unit = args_get(&support->cli->args, "unit");
    BUF_AUTO(text, FILE_BYTES_MAX);
    BUF_AUTO(clean, CLEAN_BYTES_MAX);
    const char *why = journal_read(unit ? unit : "zabra", JOURNAL_MS, &text);

    if (why) {
        note(support, "logs/journal.log", why);
    }
    if (text.len > 0) {
        redact(buf_slice(&text), false, &clean);
        add(support, "logs/journal.log", buf_slice(&clean));
    }
}

static void add_config(struct support *support)
{
    const char *given = args_get(&support->cli->args, "config");
    const char *file = given ? given : usual_config;

    if (given || access(file, F_OK) == 0) {
        add_file(support, "zabra.cfg", file, true);
    } else {
        note(support, "zabra.cfg", "no /etc/zabra/zabra.cfg on this machine (--config)");
    }
}

/* ---- The replicas ---- */

/* Adds the metrics of each replica, with their labels, which the facts of the doctor lack. */
static int add_metrics(struct support *support)
{
    struct replicas *replicas = NULL;
    int code = replicas_ask(support->cli, "/metrics", &replicas);

    for (int i = 0; i < replicas->count; i++) {
        const struct replicas_answer *answer = &replicas->answers[i];
        char name[NAME_BYTES];

        (void)snprintf(name, sizeof(name), "replicas/%d/metrics.txt", i + 1);
        if (answer->status == HTTP_OK) {
            add(support, name, buf_slice(&answer->body));
        } else {
            note(support, name, answer->error[0] ? answer->error : "the replica refuses");
        }
    }
    replicas_free(replicas);
    return code;
}

static void add_replica(struct support *support, size_t number, const json_t *fact)
{
    static const char *const members[] = {"status", "ready", "limits", "ensemble"};
    char name[NAME_BYTES];

    json_auto_t *about = json_object();

    jsonr_copy(about, fact, "endpoint, http, error, foreign, tls, clock_ms, asked_ms, answered_ms");
    (void)snprintf(name, sizeof(name), "replicas/%zu/about.json", number);
    add_json(support, name, about);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const json_t *value = jsonr_at(fact, members[i]);

        (void)snprintf(name, sizeof(name), "replicas/%zu/%s.json", number, members[i]);
        if (value) {
            add_json(support, name, value);
        }
    }
}

static int add_replicas(struct support *support)
{
    json_auto_t *facts = json_object();
    int code = doctor_ask(support->cli, facts);
    size_t number = 1;

    if (code != CMD_OK) {
        return code;
    }
    json_auto_t *result = doctor_result(facts);

    add_json(support, "doctor.json", result);
    JSONR_EACH (fact, jsonr_at(facts, "replicas")) {
        add_replica(support, number++, fact);
    }
    return add_metrics(support);
}

static void add_version(struct support *support)
{
    json_auto_t *version =
        json_pack("{s:s,s:s,s:b,s:o}", "version", ZABRA_VERSION, "commit", build_commit, "modified",
                  build_modified, "made", out_time(support->now_s * 1000));

    add_json(support, "version.json", version);
}

/* ---- The file ---- */

static int fail_file(const struct support *support, const char *path, int error)
{
    return cli_fail(support->cli, CMD_FAILED, "File", "%.900s: %s", path, strerrordesc_np(error));
}

/* Makes the folder if it is missing, and the file that only its owner may read. */
static int begin(struct support *support)
{
    const char *dir = args_operand(&support->cli->args, 0);
    json_auto_t *time = out_time(support->now_s * 1000);
    const char *text = json_string_value(time);

    if (strlen(dir) + NAME_BYTES + 8 >= PATH_BYTES) {
        return CLI_USAGE(support->cli, "the path of the folder is too long");
    }
    (void)snprintf(support->top, sizeof(support->top), "zabra-support-%.4s%.2s%.2s-%.2s%.2s%.2s",
                   text, text + 5, text + 8, text + 11, text + 14, text + 17);
    (void)snprintf(support->path, sizeof(support->path), "%.3900s/%s.tar", dir, support->top);
    (void)snprintf(support->part, sizeof(support->part), "%.3900s/%s.part", dir, support->top);
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return fail_file(support, dir, errno);
    }
    support->fd = open(support->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return support->fd < 0 ? fail_file(support, support->part, errno) : CMD_OK;
}

/* Gives the complete file its name; an existing file is not replaced. Not all file systems can do
 * that in one step, and not all of these have hard links. Returns 0 or an errno. */
static int publish(const struct support *support)
{
    struct stat unused;

    if (renameat2(AT_FDCWD, support->part, AT_FDCWD, support->path, RENAME_NOREPLACE) == 0) {
        return 0;
    }
    if (errno != EINVAL && errno != ENOSYS) {
        return errno;
    }
    if (link(support->part, support->path) == 0) {
        return 0;
    }
    if (errno == EEXIST || lstat(support->path, &unused) == 0) {
        return EEXIST;
    }
    return rename(support->part, support->path) == 0 ? 0 : errno;
}

/* Completes the file, or removes what is there of it. Returns the exit code. */
static int end(struct support *support, int code)
{
    if (code == CMD_OK) {
        support->error = support->error ? support->error : tar_end(support->fd);
        support->error = support->error || fsync(support->fd) == 0 ? support->error : errno;
    }
    if (close(support->fd) != 0 && !support->error) {
        support->error = errno;
    }
    if (code == CMD_OK && !support->error) {
        support->error = publish(support);
    }
    (void)unlink(support->part);
    return code == CMD_OK && support->error ? fail_file(support, support->path, support->error)
                                            : code;
}

static void print(const struct support *support)
{
    const struct cli *cli = support->cli;
    json_auto_t *result =
        json_pack("{s:o,s:I,s:O,s:O}", "file", out_string(support->path), "bytes",
                  (json_int_t)support->bytes, "files", support->files, "missing", support->notes);

    if (cli->out.format != SETTINGS_TEXT) {
        out_list(&cli->out, result, "files", "BYTES:bytes>, NAME:name");
        return;
    }
    out_list(&cli->out, result, "files", "BYTES:bytes>, NAME:name");
    JSONR_EACH (missing, support->notes) {
        out_say(&cli->out, "not in it: ");
        out_text(&cli->out, jsonr_text(missing, "name"));
        out_say(&cli->out, ": ");
        out_text(&cli->out, jsonr_text(missing, "why"));
        out_say(&cli->out, "\n");
    }
    out_say(&cli->out,
            "%s\nIt has no secrets that zabra recognizes, but addresses, names of users, and paths "
            "in logs: look through it before you pass it on.\n",
            support->path);
}

static int run(struct cli *cli)
{
    struct support support = {.cli = cli, .now_s = os_wall_ms() / 1000};
    int code = cli->settings.curl ? CMD_OK : begin(&support);

    if (code != CMD_OK) {
        return code;
    }
    if (cli->settings.curl) {
        return cli_ask(cli, &(struct client_request){.target = "/status/v1"});
    }
    support.files = json_array();
    support.notes = json_array();
    cli->settings.timeout_ms = min_i64(cli->settings.timeout_ms, REQUEST_MS);
    add_version(&support);
    code = add_replicas(&support);
    if (code == CMD_OK) {
        add_config(&support);
        add_logs(&support);
        add_journal(&support);
        add_json(&support, "missing.json", support.notes);
    }
    code = end(&support, code);
    if (code == CMD_OK) {
        print(&support);
    }
    json_decref(support.files);
    json_decref(support.notes);
    return code;
}

const struct cmd cmd_support = {
    .name = "support",
    .summary = "collect what is needed to find a fault, without secrets",
    .usage = "DIR",
    .text = "Writes one archive (tar) into DIR: version, the doctor's findings, status,\n"
            "readiness, limits, members and metrics of each replica, and of this machine the\n"
            "configuration and the logs. Passwords, tokens, secrets of sessions, hashes and\n"
            "keys are taken out; comments and unknown keys of the configuration, too. Works\n"
            "also when no replica answers; one that hangs costs some seconds for each\n"
            "request. Of a log the last 8 MiB are taken, in all 128 MiB at most.\n",
    .options = {CMD_VALUE("log", 0, "FILE", "also this log; may be given 8 times"),
                CMD_VALUE("unit", 0, "NAME", "the unit whose journal is read (zabra)"),
                CMD_VALUE("config", 0, "FILE", "the configuration (/etc/zabra/zabra.cfg)")},
    .examples = {{"zabra support /tmp", "writes /tmp/zabra-support-DATE-TIME.tar"},
                 {"zabra support . --log /var/log/zabra.log --config zk1.cfg",
                  "a replica without systemd"}},
    .operands = {1, 1, {CMD_OPERAND_FILE}},
    .run = run,
};
