#include "base/os_process.h"
#include "cli/curl_handles.h"
#include "cli/dev.h"
#include "cli/inherited.h"
#include "cli/out.h"
#include "cli/words.h"
#include "server/config/config.h"
#include "server/process/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODES_DEFAULT = 3,
    NODES_MAX = 9,
    PORT_DEFAULT = 9998,
    PEER_PORT_OFFSET = 1000,
    PORT_MAX = 65535 - PEER_PORT_OFFSET - NODES_MAX,
    CONFIG_BYTES_MAX = 64 << 10,
    DIR_MODE = 0755,
    FILE_MODE = 0644,
    NAME_BYTES = 64,
    STEP_MS = 50,        /* Time between two checks of the replicas. */
    ASK_MS = 500,        /* Timeout of one answer of /readyz. */
    WAIT_DEFAULT_S = 60, /* Time for all replicas to serve. */
    WAIT_MAX_S = 3600,
    STOP_MS = 10000,        /* Time from SIGTERM to SIGKILL. */
    DRAIN_MS = 5000,        /* drainTimeout of a replica: it ends by itself before STOP_MS. */
    RESTART_MIN_MS = 500,   /* First delay from an unexpected end to the next start. */
    RESTART_MAX_MS = 30000, /* Longest delay; each one is twice as long as the one before. */
    LASTED_MS = 20000       /* After a run of this length the delay is RESTART_MIN_MS again. */
};

struct dev {
    uint32_t nodes;
    uint32_t port;                /* The port of the first replica. */
    const char *data;             /* The value of --data. */
    char data_path[DEV_PATH_MAX]; /* The absolute path of `data`. */
    struct buf keys;              /* Lines of each configuration, from the command line. */
    bool secure;                  /* --tls */
    struct dev_tls tls;
    struct loop loop;
    struct loop_watch signals;
    struct child children[NODES_MAX];
    uint32_t wait_s;  /* Time for all replicas to serve. */
    uint32_t stops;   /* Signals to end that have come. */
    bool served;      /* The ensemble has served. */
    bool refused;     /* A replica refused to start while not `served`: a retry would not help. */
    uint32_t unclean; /* Replicas that ended by a signal or with an error while dev stopped them. */
};

/* ---- Command line. ---- */

/* The options of dev itself that are numbers; --data is the only other one. */
static const struct number {
    const char *name;
    size_t offset; /* Offset of an uint32_t in struct dev. */
    uint32_t max;
} numbers[] = {{"nodes", offsetof(struct dev, nodes), NODES_MAX},
               {"port", offsetof(struct dev, port), PORT_MAX},
               {"wait", offsetof(struct dev, wait_s), WAIT_MAX_S}};

/* Whether `arg` ("--name" or "--name=value") names a key of the configuration, or is not an option.
 * Otherwise `ret_meant` gets the option of dev, or the key, that the user may have meant, or
 * NULL. */
static bool is_key(const char *arg, const char **ret_meant)
{
    static const char *const own[] = {"nodes", "data", "port", "wait", "tls"};
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);
    int wrong = ARGS_WRONG_MAX;
    char name[NAME_BYTES];

    *ret_meant = NULL;
    if (strncmp(arg, "--", 2) != 0 || strncmp(arg, "--server.", strlen("--server.")) == 0) {
        return true;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        *ret_meant = args_is_nearer(name, own[i], &wrong) ? own[i] : *ret_meant;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].key, name) == 0) {
            return true;
        }
        *ret_meant = args_is_nearer(name, rows[i].key, &wrong) ? rows[i].key : *ret_meant;
    }
    return false;
}

/* Turns `--key value` or `--key=value` into a line of each configuration. */
static int take_key(struct dev *dev, int arg_count, char **args, int *pos)
{
    const char *arg = args[*pos];
    const char *equals = strchr(arg, '=');
    const char *meant = NULL;
    int len = (int)strcspn(arg, "=");

    if (!is_key(arg, &meant)) {
        return meant ? OUT_USAGE(&cmd_dev, "unknown option or key %.*s; did you mean --%s?", len,
                                 arg, meant)
                     : OUT_USAGE(&cmd_dev, "unknown option or key %.*s; see 'zabra help serve'",
                                 len, arg);
    }
    if (strncmp(arg, "--", 2) != 0 || (!equals && *pos + 1 == arg_count)) {
        return OUT_USAGE(&cmd_dev, "\"%s\" is neither an option nor a key", arg);
    }
    (*pos)++;
    if (equals) {
        buf_printf(&dev->keys, "%s\n", arg + 2);
    } else {
        buf_printf(&dev->keys, "%s=%s\n", arg + 2, args[(*pos)++]);
    }
    return dev->keys.overflow ? OUT_USAGE(&cmd_dev, "\"%s\" is neither an option nor a key", arg)
                              : CMD_OK;
}

/* Takes one of the options of dev itself. CMD_SHOWN: it is another option. */
static int take_option(struct dev *dev, int arg_count, char **args, int *pos)
{
    if (strcmp(args[*pos], "--tls") == 0) {
        (*pos)++;
        dev->secure = true;
        return CMD_OK;
    }

    const char *data = cmd_option("data", arg_count, args, pos);

    for (size_t i = 0; !data && i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        const char *text = cmd_option(numbers[i].name, arg_count, args, pos);
        int64_t given = 0;

        if (text && !args_number(text, (struct cmd_range){1, numbers[i].max, 0}, &given)) {
            return OUT_USAGE(&cmd_dev, "--%s: \"%s\" is not a number from 1 to %u", numbers[i].name,
                             text, numbers[i].max);
        }
        if (text) {
            *(uint32_t *)(void *)((char *)dev + numbers[i].offset) = (uint32_t)given;
            return CMD_OK;
        }
    }
    dev->data = data ? data : dev->data;
    return !data ? CMD_SHOWN : *data ? CMD_OK : OUT_USAGE(&cmd_dev, "--data needs a directory");
}

static int parse(struct dev *dev, int arg_count, char **args)
{
    int code = CMD_OK;

    for (int pos = 0; code == CMD_OK && pos < arg_count;) {
        code = take_option(dev, arg_count, args, &pos);
        code = code == CMD_SHOWN ? take_key(dev, arg_count, args, &pos) : code;
    }
    return code;
}

/* ---- Files. ---- */

static int complain(const char *path, const char *what)
{
    (void)fprintf(stderr, "zabra dev: --data: %s %s: %s; choose another directory\n", path, what,
                  strerrordesc_np(errno));
    return CMD_USAGE;
}

/* Whether the command line sets the key, which is given with its "=". */
static bool is_set(struct dev *dev, const char *key)
{
    const char *keys = buf_cstr(&dev->keys);
    const char *at = strstr(keys, key);

    while (at && at > keys && at[-1] != '\n') {
        at = strstr(at + 1, key);
    }
    return at != NULL;
}

/* Appends a memory limit, unless the command line sets one. All replicas are on one machine, so
 * each gets an equal share of half the memory. */
static void append_tree_bytes(struct dev *dev, struct buf *out)
{
    uint64_t bytes = os_memory_max() / 2 / max_u32(dev->nodes, 1);

    if (bytes > 0 && !is_set(dev, "maxTreeBytes=")) {
        buf_printf(out, "maxTreeBytes=%" PRIu64 "\n", bytes);
    }
}

static void build_config(struct dev *dev, const struct child *child, struct buf *out)
{
    buf_append_str(out, "# Written by 'zabra dev' at each start.\n");
    buf_printf(out, "id=%u\ndataDir=%s/%u\n", child->id, dev->data_path, child->id);
    buf_printf(out, "clientPort=%u\nadvertiseClient=127.0.0.1:%u\ndrainTimeout=%d\n",
               child->client_port, child->client_port, DRAIN_MS);
    for (uint32_t i = 0; i < dev->nodes; i++) {
        buf_printf(out, "server.%u=127.0.0.1:%u\n", i + 1, dev->port + PEER_PORT_OFFSET + i);
    }
    if (dev->secure) {
        dev_tls_config(&dev->tls, out);
    }
    append_tree_bytes(dev, out);
    dev_secret_config(dev->data_path, !is_set(dev, "peerTls="), !is_set(dev, "peerSecretFile="),
                      out);
    buf_append_slice(out, buf_slice(&dev->keys));
}

static int write_config(struct dev *dev, const struct child *child)
{
    int fd = open(child->config_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    BUF_AUTO(text, 2 * (size_t)CONFIG_BYTES_MAX);

    if (fd < 0) {
        return complain(child->config_path, "cannot be written");
    }
    build_config(dev, child, &text);

    bool written = write(fd, text.data, text.len) == (ssize_t)text.len;

    close(fd);
    return written ? CMD_OK : complain(child->config_path, "cannot be written");
}

static int prepare_files(struct dev *dev)
{
    int code = CMD_OK;

    if (mkdir(dev->data, DIR_MODE) && errno != EEXIST) {
        return complain(dev->data, "cannot be made");
    }

    if (!realpath(dev->data, dev->data_path)) {
        return complain(dev->data, "cannot be used");
    }
    if (!is_set(dev, "peerSecretFile=") && !dev_secret_make(dev->data_path)) {
        return complain(dev->data_path, "cannot hold the secret");
    }
    code = dev->secure ? dev_tls_prepare(dev->data_path, &dev->tls) : CMD_OK;
    for (uint32_t i = 0; i < dev->nodes && code == CMD_OK; i++) {
        struct child *child = &dev->children[i];

        child->id = i + 1;
        child->client_port = (uint16_t)(dev->port + i);
        child->loop = &dev->loop;
        child->watch.fd = -1;
        (void)snprintf(child->config_path, sizeof(child->config_path), "%s/%u.cfg", dev->data_path,
                       child->id);
        (void)snprintf(child->log_path, sizeof(child->log_path), "%s/%u.log", dev->data_path,
                       child->id);
        code = write_config(dev, child);
    }
    return code;
}

/* ---- Children. ---- */

static void plan_restart(struct child *child)
{
    uint64_t now_ms = os_now_ms();
    bool lasted = now_ms - child->started_ms >= LASTED_MS;

    child->backoff_ms = lasted || child->backoff_ms == 0
                            ? RESTART_MIN_MS
                            : min_u32(child->backoff_ms * 2, RESTART_MAX_MS);
    child->restart_at_ms = now_ms + child->backoff_ms;
}

static void on_unexpected_end(struct dev *dev, struct child *child)
{
    bool refused = WIFEXITED(child->status) && WEXITSTATUS(child->status) == EXIT_CONFIG;

    child_report_end(child);
    child->ready = false;
    if (refused && !dev->served) {
        dev->refused = true;
        return;
    }
    plan_restart(child);
    (void)fprintf(stderr, "  next  restart in %.1f s\n", child->backoff_ms / 1000.0);
}

static void reap_children(struct dev *dev)
{
    for (struct child *child = dev->children; child < dev->children + dev->nodes; child++) {
        if (child->pid == 0 || waitpid(child->pid, &child->status, WNOHANG) != child->pid) {
            continue;
        }
        child->pid = 0;
        child_drain(child);
        if (dev->stops > 0) {
            dev->unclean += WIFEXITED(child->status) && !WEXITSTATUS(child->status) ? 0U : 1U;
        } else {
            on_unexpected_end(dev, child);
        }
    }
}

static void on_signal(struct loop_watch *watch, uint32_t ready)
{
    struct dev *dev = watch->ctx;
    struct signalfd_siginfo info;

    (void)ready;
    while (read(watch->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap_children(dev);
        } else {
            dev->stops++;
        }
    }
}

/* Opens the descriptor of signals. SIGINT gets its default action: a shell starts background
 * processes with SIGINT ignored, and POSIX lets a system discard an ignored signal even while it is
 * blocked. A closed terminal (SIGHUP) ends all replicas, unless nohup was used. */
static void open_signals(struct dev *dev)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD, 0};
    struct sigaction plain = {.sa_handler = SIG_DFL};

    dev->signals = (struct loop_watch){.fd = inherited_take_signals(signals, NULL),
                                       .interest = LOOP_READ,
                                       .on_ready = on_signal,
                                       .ctx = dev};
    (void)sigaction(SIGINT, &plain, NULL);
    loop_add(&dev->loop, &dev->signals);
}

static const char *scheme(const struct dev *dev)
{
    return dev->secure ? "https" : "http";
}

/* Returns the status of the answer; 0: there is none. */
static long ask(const struct dev *dev, const struct child *child, const char *route,
                struct buf *body)
{
    char url[64];

    (void)snprintf(url, sizeof(url), "%s://127.0.0.1:%u%s", scheme(dev), child->client_port, route);
    return curl_handles_get(url, dev->secure ? dev->tls.ca : NULL, ASK_MS, body);
}

static void start_due(struct dev *dev)
{
    uint64_t now_ms = os_now_ms();

    for (struct child *child = dev->children; child < dev->children + dev->nodes; child++) {
        if (child->pid > 0 || now_ms < child->restart_at_ms) {
            continue;
        }
        /* The replica does not run yet: an answer is from another process on its port, often a
         * replica of a forgotten `zabra dev`. */
        child->foreign = ask(dev, child, "/livez", NULL) != 0;
        if (!child_start(child)) {
            plan_restart(child);
        }
    }
}

/* ---- Phases. ---- */

static uint32_t count_ready(struct dev *dev)
{
    uint32_t count = 0;

    for (struct child *child = dev->children; child < dev->children + dev->nodes; child++) {
        if (child->pid > 0 && !child->ready && !child->foreign) {
            child->ready = ask(dev, child, "/readyz", NULL) == 200;
        }
        count += child->ready ? 1U : 0U;
    }
    return count;
}

/* Prints the reason that a replica gives for not serving. */
static void tell_unready(const struct dev *dev, const struct child *child)
{
    BUF_AUTO(text, DEV_LINE_MAX);
    long status = child->pid > 0 ? ask(dev, child, "/readyz?verbose", &text) : 0;

    (void)fprintf(stderr, "zabra dev: replica %u does not serve yet; its log: %s\n%s", child->id,
                  child->log_path, status ? buf_cstr(&text) : "  it does not answer /readyz\n");
}

/* Whether a majority serves; called when the waiting time is over. A majority is enough, because
 * the other replicas can still come up. Prints why each of them does not serve. */
static bool is_enough(struct dev *dev, uint32_t ready)
{
    for (uint32_t i = 0; i < dev->nodes; i++) {
        if (!dev->children[i].ready) {
            tell_unready(dev, &dev->children[i]);
        }
    }
    (void)fprintf(stderr, "zabra dev: %u of %u replicas serve after %u s\n", ready, dev->nodes,
                  dev->wait_s);
    return ready > dev->nodes / 2;
}

static bool wait_ready(struct dev *dev)
{
    uint64_t end_ms = os_now_ms() + dev->wait_s * 1000ULL;

    while (!dev->stops && !dev->refused) {
        loop_run_once(&dev->loop, STEP_MS);
        start_due(dev);

        uint32_t ready = count_ready(dev);

        if (ready == dev->nodes) {
            return true;
        }
        if (os_now_ms() >= end_ms) {
            return is_enough(dev, ready);
        }
    }
    if (dev->refused) {
        (void)fprintf(stderr, "zabra dev: stopping all: a replica refused its configuration\n");
    }
    return false;
}

/* Prints how to set ZABRA_ENDPOINTS for these replicas, if they are not at the endpoints that
 * commands use by default. */
static void print_endpoints(const struct dev *dev)
{
    BUF_AUTO(list, DEV_LINE_MAX);

    for (uint32_t i = 0; i < dev->nodes; i++) {
        buf_printf(&list, "%s%s127.0.0.1:%u", i ? "," : "", dev->secure ? "https://" : "",
                   dev->children[i].client_port);
    }
    if (dev->secure) {
        dev_tls_welcome(&dev->tls, buf_cstr(&list));
    } else if (dev->port != PORT_DEFAULT || dev->nodes != NODES_DEFAULT) {
        (void)printf("\nTo use these replicas from the command line:\n"
                     "\n"
                     "  export ZABRA_ENDPOINTS=%s\n",
                     buf_cstr(&list));
    }
}

/* Prints requests that a user may try first. */
static void print_requests(const struct dev *dev)
{
    uint16_t last = (uint16_t)(dev->port + dev->nodes - 1);
    uint16_t middle = (uint16_t)(dev->port + (dev->nodes > 1 ? 1 : 0));
    BUF_AUTO(option, DEV_LINE_MAX);

    if (dev->secure) {
        buf_append_str(&option, "--cacert ");
        words_quote_path(&option, dev->tls.ca);
        buf_append_byte(&option, ' ');
    }
    (void)printf("\nWrite through one replica, read from another, look at all:\n"
                 "\n"
                 "  curl %s-X PUT -d hello '%s://127.0.0.1:%u/znodes/v1/greeting?upsert=true'\n"
                 "  curl %s'%s://127.0.0.1:%u/znodes/v1/greeting?dataformat=utf8'\n"
                 "  curl %s%s://127.0.0.1:%u/ensemble/v1\n",
                 buf_cstr(&option), scheme(dev), dev->port, buf_cstr(&option), scheme(dev), middle,
                 buf_cstr(&option), scheme(dev), last);
}

static void print_welcome(const struct dev *dev)
{
    (void)printf("\n%u replica%s serve%s one tree:\n\n", dev->nodes, dev->nodes == 1 ? "" : "s",
                 dev->nodes == 1 ? "s" : "");
    for (const struct child *child = dev->children; child < dev->children + dev->nodes; child++) {
        (void)printf("  %s://127.0.0.1:%u   pid %d, log %s%s\n", scheme(dev), child->client_port,
                     (int)child->pid, child->log_path, child->ready ? "" : "   (not yet)");
    }
    print_requests(dev);
    print_endpoints(dev);
    (void)printf("\nDashboard: %s://127.0.0.1:%u/ui/\n"
                 "Data: %s. Ctrl-C stops all replicas; the next start finds the data again.\n",
                 scheme(dev), dev->port, dev->data_path);
    (void)fflush(stdout);
}

static bool any_running(const struct dev *dev)
{
    for (uint32_t i = 0; i < dev->nodes; i++) {
        if (dev->children[i].pid > 0) {
            return true;
        }
    }
    return false;
}

static void signal_all(const struct dev *dev, int signal_number)
{
    for (uint32_t i = 0; i < dev->nodes; i++) {
        pid_t pid = dev->children[i].pid;

        if (pid > 0) {
            (void)kill(pid, signal_number);
            (void)kill(pid, SIGCONT); /* A suspended process could not end. */
        }
    }
}

/* Stops all replicas. After a second signal to end, or after STOP_MS, they get SIGKILL. */
static void stop_all(struct dev *dev)
{
    uint64_t end_ms = os_now_ms() + STOP_MS;
    uint32_t asked = dev->stops ? dev->stops : 1;
    bool killed = false;

    dev->stops = asked;
    signal_all(dev, SIGTERM);
    while (any_running(dev)) {
        if (!killed && (dev->stops > asked || os_now_ms() >= end_ms)) {
            (void)fprintf(stderr, "zabra dev: killing the replicas that have not stopped\n");
            signal_all(dev, SIGKILL);
            killed = true;
        }
        loop_run_once(&dev->loop, STEP_MS);
    }
}

static int run_ensemble(struct dev *dev)
{
    start_due(dev);
    (void)printf("zabra dev: starting %u replica%s in %s\n", dev->nodes, dev->nodes == 1 ? "" : "s",
                 dev->data_path);
    (void)fflush(stdout);

    bool serving = wait_ready(dev);
    bool asked = dev->stops > 0;

    if (serving) {
        dev->served = true;
        print_welcome(dev);
        while (!dev->stops) {
            loop_run_once(&dev->loop, STEP_MS * 4);
            start_due(dev);
        }
        (void)printf("\nzabra dev: stopping all replicas\n");
        (void)fflush(stdout);
    }
    stop_all(dev);
    return (serving || asked) && dev->unclean == 0 ? CMD_OK : CMD_FAILED;
}

static int run_prepared(struct dev *dev)
{
    curl_handles_need();
    loop_init(&dev->loop);
    open_signals(dev);

    int code = run_ensemble(dev);

    loop_remove(&dev->loop, &dev->signals);
    close(dev->signals.fd);
    loop_release(&dev->loop);
    return code;
}

static int run(int arg_count, char **args)
{
    struct dev *dev = mem_zalloc(1, sizeof(*dev));

    dev->nodes = NODES_DEFAULT;
    dev->port = PORT_DEFAULT;
    dev->wait_s = WAIT_DEFAULT_S;
    dev->data = "./zabra-data";
    buf_init(&dev->keys, CONFIG_BYTES_MAX);

    int code = parse(dev, arg_count, args);

    code = code == CMD_OK ? prepare_files(dev) : code;
    code = code == CMD_OK ? run_prepared(dev) : code;
    buf_release(&dev->keys);
    mem_free(dev);
    return code;
}

const struct cmd cmd_dev = {
    .name = "dev",
    .summary = "run a local ensemble to try zabra",
    .usage = "[--nodes N] [--data DIR] [--port BASE] [--wait SECONDS] [--tls] [--KEY VALUE]...",
    .text = "Starts N (default 3) replicas as separate processes on loopback. Client ports\n"
            "start at BASE (default 9998), peer ports at BASE + 1000. Data, configuration\n"
            "and log of replica 1 are DIR/1, DIR/1.cfg and DIR/1.log (DIR: ./zabra-data).\n"
            "The replicas speak TLS with each other (peerTls=required), with a secret that is\n"
            "made in DIR/secret.\n"
            "--tls makes an authority and certificates in DIR/tls, unless they are there, and\n"
            "the replicas speak only https (clientTls=required).\n"
            "--KEY VALUE sets a key in every configuration. A replica that ends is\n"
            "restarted, after a growing delay. Ctrl-C, SIGTERM and SIGHUP (a closed\n"
            "terminal, unless nohup was used) stop all replicas in an orderly way. Exit code\n"
            "1 when a replica refuses to start, or when no majority serves within SECONDS\n"
            "(default 60).\n",
    .run_alone = run};
