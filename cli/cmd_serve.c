#include "tls/chain.h"
#include "zk/zk.h"

#include "base/lack.h"
#include "base/log.h"
#include "base/os_files.h"
#include "base/os_process.h"
#include "cli/out.h"
#include "http/http.h"
#include "server/config/config.h"
#include "server/process/files.h"
#include "server/process/server.h"
#include "ws/ws.h"

#include <signal.h>
#include <unistd.h>

/* Warnings about the machine. */
struct notes {
    char connections[FILES_TEXT_MAX]; /* "": none. */
    char streams[FILES_TEXT_MAX];
};

/* Takes --config out of the arguments; the other arguments are keys of the configuration. Returns
 * false when the value of --config is missing. */
static bool split_args(int arg_count, char **args, struct config_sources *sources,
                       const char **ret_keys)
{
    int pos = 0;

    sources->args = ret_keys;
    while (pos < arg_count) {
        const char *file = cmd_option("config", arg_count, args, &pos);

        if (file && !*file) {
            return false;
        }
        if (file) {
            sources->file = file;
        } else {
            ret_keys[sources->arg_count++] = args[pos++];
        }
    }
    return true;
}

/* Lowers the limits on clients to what the limit of open files allows. Returns false, after a
 * message, when the limit of open files is too low. */
static bool fit_files(struct config *config, struct notes *notes)
{
    struct files_plan plan;

    files_plan(config, os_files_raise(), os_files_open(), &plan);
    if (plan.clients == 0) {
        files_explain(&plan, notes->connections);
        (void)fprintf(stderr, "zabra: %s\n", notes->connections);
        return false;
    }
    (void)files_warn_connections(&plan, config, notes->connections);
    (void)files_warn_streams(&plan, config, notes->streams);
    files_apply(&plan, config);
    return true;
}

/* Logs the warnings. Not called before the replica serves, because a refused start prints nothing
 * but its reason, in one line. */
static void report_notes(const struct notes *notes)
{
    if (*notes->connections) {
        log_warn("config", "%s", notes->connections);
    }
    if (*notes->streams) {
        log_warn("config", "%s", notes->streams);
    }
    if (os_is_root()) {
        log_warn("server", "this replica runs as root without need: run it as a separate user "
                           "that owns dataDir");
    }
}

/* The listeners for clients. */
struct fronts {
    struct ws *ws;
    struct zk *zk; /* NULL: no native clients are served. */
    struct http *http;
};

/* Starts the listeners. Returns CMD_OK, or the code of a reported error. */
static int start_fronts(const struct config *config, struct gate *gate, struct fronts *fronts)
{
    enum err err = ws_start(gate, http_seat_give, &fronts->ws);

    if (err) {
        (void)fprintf(stderr, "zabra: cannot serve WebSockets: libwebsockets does not start: "
                              "install its plugin for libev (package libwebsockets-evlib-ev)\n");
        return CMD_FAILED;
    }
    if (config->clients.zk_clients) {
        fronts->zk = zk_start(gate, http_seat_give);
    }
    const struct http_upgrade upgrade = {.take = ws_adopt,
                                         .ctx = fronts->ws,
                                         .take_native = fronts->zk ? zk_adopt : NULL,
                                         .native = fronts->zk};

    err = http_start(gate, &upgrade, &fronts->http);
    if (err) {
        /* Another process took the port after the port was checked. */
        (void)fprintf(stderr,
                      "zabra: clientPort: cannot listen on %s port %u, or on probeListen (%s); "
                      "stop the process that uses it, or choose another port\n",
                      config->clients.client_address, config->clients.client_port, err_text(err));
        return CMD_USAGE;
    }
    return CMD_OK;
}

/* Waits for a signal that ends the replica. */
static int wait_for_end(struct server *server)
{
    int signal_number = server_wait(server);

    while (signal_number == SIGHUP) {
        server_reload(server);
        signal_number = server_wait(server);
    }
    return signal_number;
}

/* Serves until a signal arrives, and then announces the end. Load balancers are first: readiness
 * fails, and they have drainDelay to notice. WebSockets are next: their clients must receive the
 * addresses of other replicas before server_drain() hands leadership over. */
static void run_until_signal(const struct config *config, const struct notes *notes,
                             struct server *server, const struct fronts *fronts)
{
    static const char *const schemes[] = {[CONFIG_TLS_OFF] = "http",
                                          [CONFIG_TLS_OPTIONAL] = "http(s)",
                                          [CONFIG_TLS_REQUIRED] = "https"};

    log_info("server", "replica {id}%u answers on {scheme}%s://{address}%s:{port}%u", config->id,
             schemes[config->clients.tls.mode], config->clients.client_address,
             config->clients.client_port);
    report_notes(notes);
    server_tell_ready(server);

    int signal_number = wait_for_end(server);

    log_info("server", "ending on signal {signal}%d", signal_number);
    server_announce_end(server);
    ws_drain(fronts->ws);
    if (fronts->zk) {
        zk_drain(fronts->zk);
    }
    server_drain(server);
    http_drain(fronts->http);
}

static int run_server(struct config *config)
{
    struct notes notes = {.streams = ""};
    struct server *server = NULL;
    struct fronts fronts = {.ws = NULL};
    struct tls_fault fault;
    char error[SERVER_ERROR_MAX];
    char lack[WS_LACK_MAX];

    if (!fit_files(config, &notes)) {
        return CMD_USAGE;
    }
    if (!ws_check(lack)) {
        (void)fprintf(stderr, "zabra: %s\n", lack);
        return CMD_USAGE;
    }
    if (!http_tls_check(&config->clients, &fault)) {
        (void)fprintf(stderr, "zabra: %s\n", fault.text);
        return CMD_USAGE;
    }
    enum err err = server_start(config, &server, error);

    if (err) {
        (void)fprintf(stderr, "zabra: %s\n", error);
        return err == ERR_REMOVED ? EXIT_REMOVED : CMD_USAGE;
    }

    int code = start_fronts(config, server_gate(server), &fronts);

    if (code == CMD_OK) {
        run_until_signal(config, &notes, server, &fronts);
        code = server_is_removed(server) ? EXIT_REMOVED : CMD_OK;
    }
    ws_stop(fronts.ws);
    zk_stop(fronts.zk);
    http_stop(fronts.http);
    if (!server_stop(server)) {
        /* A thread hangs in a file system and uses the configuration: nothing may be freed. */
        explicit_bzero(&config->peers.secrets, sizeof(config->peers.secrets));
        _exit(code);
    }
    return code;
}

/* Logs the last line of a process for which the machine has too few resources, and ends the
 * process. */
static void report_lack(const char *text)
{
    log_error("server", "stopping: {reason}%s; the process has {mib}%" PRIu64 " MiB in memory",
              text, os_memory_bytes() >> 20);
    _exit(EXIT_LACK);
}

static int serve(const struct config_sources *sources)
{
    struct config *config = mem_zalloc(1, sizeof(*config));
    struct config_report *report = mem_zalloc(1, sizeof(*report));
    int code = CMD_USAGE;

    server_block_signals();
    os_dumps_allow(false);
    if (config_load(sources, config, report)) {
        (void)fprintf(stderr, "zabra: %s\n", report->error);
    } else {
        log_setup((enum log_level)config->process.log_level, config->process.log_format == 1,
                  STDERR_FILENO);
        lack_setup(report_lack);
        for (uint32_t i = 0; i < report->warning_count; i++) {
            log_warn("config", "%s", report->warnings[i]);
        }
        if (config->process.core_dumps) {
            os_dumps_allow(true);
        }
        code = run_server(config);
    }
    explicit_bzero(&config->peers.secrets, sizeof(config->peers.secrets));
    mem_free(report);
    mem_free(config);
    return code;
}

static int run(int arg_count, char **args)
{
    const char **keys = mem_zalloc((size_t)arg_count + 1, sizeof(*keys));
    char host_name[CONFIG_HOST_MAX];
    struct config_sources sources = {.env = (const char *const *)environ, .host_name = host_name};
    int code = CMD_USAGE;

    os_host_name(host_name, sizeof host_name);

    if (!split_args(arg_count, args, &sources, keys)) {
        code = OUT_USAGE(&cmd_serve, "--config needs a file");
    } else {
        code = serve(&sources);
    }
    mem_free(keys);
    return code;
}

const struct cmd cmd_serve = {
    .name = "serve",
    .summary = "run one replica",
    .usage = "[--config FILE] [--KEY VALUE]...",
    .text = "FILE has lines key=value as in zoo.cfg; # begins a comment. Each key is also an\n"
            "environment variable (clientPort: ZABRA_CLIENT_PORT, server.1: ZABRA_SERVER_1)\n"
            "and a flag (--clientPort 9998). A flag overrides the environment, the\n"
            "environment overrides the file. Without any server.N and without join the\n"
            "replica is an ensemble of one; with join it looks for an ensemble there and waits\n"
            "until it is added: /readyz has the command. On SIGTERM readiness fails; after\n"
            "drainDelay the replica hands leadership over, answers the requests in flight and\n"
            "exits. On SIGHUP it reads certificates, keys and secrets again, and opens a\n"
            "renamed auditFile again, but does not read its configuration again.\n\n"
            "Keys:\n",
    .more = config_append_help,
    .run_alone = run};
