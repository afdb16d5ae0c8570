/* watch: prints the changes of a znode, or runs a command for each. */
#include "cli/live.h"

#include <sys/mman.h>
#include <unistd.h>

enum {
    BOOKMARK_MAX = 128,
    LOOK_MS = 1000,
    GO_ON = -2 /* No exit code: the watch continues. */
};

struct watch {
    struct cli *cli;
    struct live *live;
    bool begun; /* A replica has served the watch, which then survives the loss of replicas. */
    bool said;  /* The lack of a serving replica was reported. */
    /* The position after the last whole transaction taken. The bookmark of the stream is ahead
     * while events wait for a running command to end. */
    char bookmark[BOOKMARK_MAX];
};

/* ---- What is printed ---- */

static void print_event(const struct watch *watch, const json_t *event)
{
    const struct out *out = &watch->cli->out;
    const char *name = jsonr_text(event, "event");

    if (!out_is_text(out) && out->format != SETTINGS_TABLE) {
        out_json(out, event);
        return;
    }
    if (strcmp(name, "watch") == 0) {
        return;
    }
    if (*jsonr_text(event, "path")) {
        (void)printf("%s %s %s\n", jsonr_text(event, "zxid"), name, jsonr_text(event, "path"));
    } else {
        (void)fprintf(stderr, "zabra watch: %s: %s\n", name,
                      strcmp(name, "gap") == 0 ? "events were lost: read the data again"
                                               : jsonr_text(event, "reason"));
    }
    if (jsonr_at(event, "dataUtf8")) {
        (void)printf("%s\n", jsonr_text(event, "dataUtf8"));
    }
}

/* ---- The command ---- */

/* Returns a descriptor of a file without a name, which has the event for the command; -1: none. */
static int event_file(const json_t *event)
{
    int fd = memfd_create("event", MFD_CLOEXEC);
    BUF_AUTO(line, STREAM_LINE_MAX);

    jsonr_put(&line, event);
    buf_append_byte(&line, '\n');
    if (fd >= 0 && write(fd, line.data, line.len) != (ssize_t)line.len) { /* Memory is short. */
        close(fd);
        fd = -1;
    }
    (void)lseek(fd, 0, SEEK_SET);
    return fd;
}

static int run_command(struct watch *watch, const json_t *event)
{
    struct live *live = watch->live;
    int input = event_file(event);
    int code = CMD_OK;

    if (input < 0) {
        return cli_fail(watch->cli, CMD_CHILD_FAILED, "NoMemory",
                        "not enough memory to pass the event to the command");
    }
    live_env(live, "ZABRA_EVENT_TYPE", jsonr_text(event, "event"));
    live_env(live, "ZABRA_EVENT_PATH", jsonr_text(event, "path"));
    live_env(live, "ZABRA_EVENT_ZXID", jsonr_text(event, "zxid"));
    live_env(live, "ZABRA_EVENT_BOOKMARK", watch->bookmark);
    live_env_replicas(live);
    code = live_run(live, watch->cli->args.child, input);
    close(input);
    return code;
}

/* ---- The loop ---- */

/* Whether an event runs the command: a change, or a report of lost events. */
static bool is_change(const json_t *event)
{
    const char *name = jsonr_text(event, "event");

    return strncmp(name, "Node", 4) == 0 || words_find("gap, overrun", name) >= 0;
}

static void remember(struct watch *watch, const json_t *event)
{
    const char *newest = watch->live->stream->bookmark;
    const char *zxid = jsonr_text(event, "zxid");

    if (*zxid && (json_is_true(jsonr_at(event, "end")) || !is_change(event))) {
        (void)snprintf(watch->bookmark, sizeof(watch->bookmark), "%.*s:%s",
                       (int)strcspn(newest, ":"), newest, zxid);
    }
}

/* The functions take_... return GO_ON, or the exit code when the watch ends. */

static int take_event(struct watch *watch, const json_t *event)
{
    bool change = is_change(event);

    watch->begun = true;
    watch->said = false;
    if (strcmp(jsonr_text(event, "event"), "heartbeat") == 0) {
        return GO_ON;
    }
    remember(watch, event);
    if (watch->cli->args.child) {
        int code = change ? run_command(watch, event) : CMD_OK;

        return code == CMD_OK ? GO_ON : code;
    }
    print_event(watch, event);
    return change && args_has(&watch->cli->args, "once") ? CMD_OK : GO_ON;
}

/* Handles the end of the command. A signal that was meant to end zabra has gone to the command
 * instead: then the watch ends as well, with the command's exit code. */
static int take_child(struct watch *watch, int status)
{
    int code = live_exit_code(status);
    int number = watch->live->last_signal;
    bool ending = number != 0 && number != SIGUSR1 && number != SIGUSR2;

    if (ending || args_has(&watch->cli->args, "once")) {
        return code;
    }
    if (code != CMD_OK) {
        (void)fprintf(stderr, "zabra watch: the command failed with exit code %d\n", code);
    }
    return GO_ON;
}

/* Reports that no replica has served the watch within the timeout of a request. This is an error if
 * the watch has not begun; later the watch waits. */
static int take_time(struct watch *watch)
{
    const struct settings *settings = &watch->cli->settings;
    uint64_t since_ms = watch->live->stream->down_ms;

    if (!since_ms || watch->said || os_now_ms() < since_ms + (uint64_t)settings->timeout_ms) {
        return GO_ON;
    }
    if (!watch->begun) {
        return live_report_down(watch->live);
    }
    watch->said = true;
    (void)fprintf(stderr, "zabra watch: no replica serves at %s, waiting\n", settings->endpoints);
    return GO_ON;
}

static int take_news(struct watch *watch, const struct live_news *news)
{
    int code = GO_ON;

    switch (news->kind) {
    case LIVE_EVENT:
        code = take_event(watch, news->event);
        json_decref(news->event);
        return code;
    case LIVE_CHILD:
        return take_child(watch, news->status);
    case LIVE_SIGNAL:
        return CMD_SIGNAL + news->signal_number;
    case LIVE_OVER:
        return cli_tell(watch->cli);
    case LIVE_TIME:
    case LIVE_LOST:
        break;
    }
    return take_time(watch);
}

/* Runs the watch to its end. While a command runs, events stay in the stream. */
static int watch_all(struct watch *watch)
{
    int code = GO_ON;

    while (code == GO_ON) {
        struct live_news news;

        watch->live->held = watch->live->child > 0;
        live_wait(watch->live, os_now_ms() + LOOK_MS, &news);
        code = take_news(watch, &news);
    }
    return code;
}

static int show(struct cli *cli, const struct stream_request *request)
{
    return cli_ask(cli, &(struct client_request){.target = "/watch/v1",
                                                 .path = request->path,
                                                 .params = {{"kind", request->kind},
                                                            {"values", url_flag(request->values)},
                                                            {"since", request->since}},
                                                 .accept = "application/x-ndjson"});
}

static int run(struct cli *cli)
{
    struct watch watch = {.cli = cli};
    struct stream_request request = {
        .path = cli_path(cli, 0),
        .kind = args_has(&cli->args, "recursive") ? "recursive" : "persistent",
        .values = args_has(&cli->args, "values"),
        .since = args_get(&cli->args, "since"),
    };
    int code = CMD_OK;

    if (cli->args.child && cli->args.child_count == 0) {
        return CLI_USAGE(cli, "a command must follow --");
    }
    if (cli->settings.curl) {
        return show(cli, &request);
    }
    watch.live = live_open(cli);
    (void)live_watch(watch.live, &request);
    code = watch_all(&watch);
    live_close(watch.live);
    return code;
}

const struct cmd cmd_watch = {
    .name = "watch",
    .group = "Watching",
    .summary = "print the changes of a znode, or run a command for each",
    .usage = "PATH [-- COMMAND [ARGUMENT...]]",
    .text = "The znode need not exist yet. When a replica stops, the watch resumes at\n"
            "another one without lost or repeated events. If that is not possible it prints\n"
            "\"gap\": read the data again. Commands run one after the other, without a\n"
            "shell. Each receives the event as JSON on its standard input, and\n"
            "ZABRA_EVENT_TYPE, ZABRA_EVENT_PATH, ZABRA_EVENT_ZXID and ZABRA_EVENT_BOOKMARK\n"
            "(a value for --since). A failed command is reported on stderr, and the watch\n"
            "continues. In JSON the first line, \"watch\", confirms that the watch is set.\n",
    .options = {CMD_FLAG(
                    "recursive", 'r',
                    "also watch everything below; otherwise the znode and its list of children"),
                CMD_FLAG("values", 0, "include stat and data after the change"),
                CMD_VALUE("since", 0, "ZXID",
                          "first replay the changes since then: a zxid, or history:zxid"),
                CMD_FLAG("once", 0,
                         "end after the first change, with the exit code of the command")},
    .examples = {{"zabra watch /app --recursive -o ndjson | jq .path",
                  "prints each change below /app"},
                 {"zabra watch /app/config -- systemctl reload app",
                  "runs the command for each change"},
                 {"zabra watch /app -r -- sh -c 'echo \"$ZABRA_EVENT_TYPE $ZABRA_EVENT_PATH\"'",
                  "the environment describes the event; the standard input has it as JSON"}},
    .operands = {1, 1, {CMD_OPERAND_PATH}},
    .has_child = true,
    .run = run,
};
