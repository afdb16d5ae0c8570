/*
 * Checks for errors that would make a start fail, before anything is written: ports, names, the
 * directory, and the certificate for other replicas. Sockets are opened and closed again, because
 * nothing can be served yet.
 */
#include "server/process/server_int.h"
#include "zab/tcp/resolve.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHECK_FDS_MAX = RESOLVE_ADDRESSES_MAX + 2,
    RESOLVE_MS = 2000, /* Longest look-up of the own name; the start then continues without it. */
    RESOLVE_STEP_MS = 50
};

/* Sockets that stay open until all ports are checked, so that two keys cannot name one port. */
struct held {
    int fds[CHECK_FDS_MAX];
    uint32_t count;
};

/* Returns 0, or a negative errno. */
static int try_address(const struct resolve_address *address, struct held *held)
{
    ASSERT(held->count < CHECK_FDS_MAX);

    int fd = loop_try_listen((const struct sockaddr *)&address->addr, address->len);

    if (fd >= 0) {
        held->fds[held->count++] = fd;
    }
    return fd < 0 ? fd : 0;
}

/* Writes the error about `key`. `address_key` is the key that gives the address; NULL: the same
 * key. */
static void explain(const char *key, const char *address_key, const char *address, uint16_t port,
                    int failed, char error[SERVER_ERROR_MAX])
{
    if (failed == -EADDRINUSE) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "%s: port %u is in use on %s; stop the process that uses the port or give another port",
            key, port, address);
    } else {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "%s: cannot listen on %s port %u: %s; give an address of this machine and a "
                       "port that this user may use",
                       address_key ? address_key : key, address, port, strerrordesc_np(-failed));
    }
}

/* Checks an address for clients or probes. */
static enum err check_listen(const char *key, const char *address_key, const char *address,
                             uint16_t port, struct held *held, char error[SERVER_ERROR_MAX])
{
    struct resolve_answer answer;
    bool numeric = resolve_numeric(address, port, &answer);

    ASSERT(numeric); /* config_check refuses other addresses. */

    int failed = try_address(&answer.addresses[0], held);

    if (failed) {
        explain(key, address_key, address, port, failed, error);
    }
    return failed ? ERR_CONFIG : ERR_OK;
}

static void explain_peer(const struct config *config, int failed, char error[SERVER_ERROR_MAX])
{
    const struct config_server *self = config_self(config);

    if (config->peers.listen[0]) {
        explain("peerListen", NULL, config->peers.host, config->peers.port, failed, error);
    } else if (!self || config->peers.is_alone) {
        explain("advertisePeer", NULL, config->peers.host, config->peers.port, failed, error);
    } else if (failed == -EADDRINUSE && self->port == config->clients.client_port) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "server.%u: port %u is also clientPort; change the port of one of these two keys",
            self->id, self->port);
    } else if (failed == -EADDRINUSE) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "server.%u: port %u is in use on %s; stop the process that uses the port or change "
            "the server list",
            self->id, self->port, self->host);
    } else {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "server.%u: cannot listen on %s port %u: %s; replica %u must run where its "
                       "entry says: correct id or the server list, or give the address of this "
                       "machine with peerListen",
                       self->id, self->host, self->port, strerrordesc_np(-failed), self->id);
    }
}

static bool is_to_end(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* Resolves the own name. The name service may be slow, or not know the name yet: then the answer
 * has no address, and the transport waits for one. */
static void resolve_own(const struct config *config, struct resolve_answer *ret_answer)
{
    if (resolve_numeric(config->peers.host, config->peers.port, ret_answer)) {
        return;
    }

    struct resolver *resolver = resolver_open();
    struct pollfd ready = {.fd = resolver_event_fd(resolver), .events = POLLIN};
    uint64_t end_ms = os_now_ms() + RESOLVE_MS;
    struct list jobs;

    resolver_ask(resolver, config->id, config->peers.host, config->peers.port);
    while (poll(&ready, 1, RESOLVE_STEP_MS) <= 0 && os_now_ms() < end_ms && !is_to_end()) {
    }
    resolver_answers(resolver, &jobs);
    list_take_each (struct resolve_job, done, node, &jobs) {
        *ret_answer = done->answer;
        mem_free(done);
    }
    resolver_close(resolver);
}

static bool is_name(const struct config *config)
{
    struct resolve_answer answer;

    return !resolve_numeric(config->peers.host, config->peers.port, &answer);
}

/* Checks the address for peers; one usable address of the name is enough, here and for the
 * transport. A name that resolves to another machine does not prevent the start, because a
 * container's name may still lead to its predecessor. But perhaps `id` is wrong, and the name is
 * that of another replica. So the transport makes no connections until the name leads to this
 * machine. */
static enum err check_peer(const struct config *config, struct held *held,
                           char error[SERVER_ERROR_MAX])
{
    struct resolve_answer answer;
    uint32_t before = held->count;
    bool elsewhere = false;
    int failed = 0;

    resolve_own(config, &answer);
    for (uint32_t i = 0; i < answer.count && failed != -EADDRINUSE; i++) {
        failed = try_address(&answer.addresses[i], held);
        elsewhere |= failed == -EADDRNOTAVAIL;
    }
    if (failed == -EADDRINUSE ||
        (failed && held->count == before && !(elsewhere && is_name(config)))) {
        explain_peer(config, failed, error);
        return ERR_CONFIG;
    }
    return ERR_OK;
}

static enum err check_ports(const struct config *config, char error[SERVER_ERROR_MAX])
{
    const struct config_clients *clients = &config->clients;
    struct held held = {.count = 0};
    enum err err = check_listen("clientPort", "clientAddress", clients->client_address,
                                clients->client_port, &held, error);

    if (err == ERR_OK && clients->probe_port != 0) {
        err = check_listen("probeListen", NULL, clients->probe_address, clients->probe_port, &held,
                           error);
    }
    if (err == ERR_OK && clients->zk_clients && clients->zk_port != 0) {
        err = check_listen("zkPort", "clientAddress", clients->client_address, clients->zk_port,
                           &held, error);
    }
    if (err == ERR_OK && config->peers.port != 0) {
        err = check_peer(config, &held, error);
    }
    for (uint32_t i = 0; i < held.count; i++) {
        close(held.fds[i]);
    }
    return err;
}

/* Sets `parent` to the directory that contains the path; "." when the path has one name. */
static void parent_of(const char *path, char parent[CONFIG_PATH_MAX])
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/') {
        len--;
    }
    while (len > 0 && path[len - 1] != '/') {
        len--;
    }
    (void)snprintf(parent, CONFIG_PATH_MAX, "%.*s", len > 0 ? (int)len : 1, len > 0 ? path : ".");
}

/* Checks the directory without writing; errors that only a write reveals are reported later. */
static enum err check_directory(const struct config *config, char error[SERVER_ERROR_MAX])
{
    char parent[CONFIG_PATH_MAX];
    struct stat stat_buf;
    bool there = stat(config->storage.data_dir, &stat_buf) == 0;

    parent_of(config->storage.data_dir, parent);
    if (there && !S_ISDIR(stat_buf.st_mode)) {
        (void)snprintf(error, SERVER_ERROR_MAX, "dataDir: %s is not a directory; change the key",
                       config->storage.data_dir);
        return ERR_CONFIG;
    }
    if (access(there ? config->storage.data_dir : parent, R_OK | W_OK | X_OK) == 0) {
        return ERR_OK;
    }
    (void)snprintf(
        error, SERVER_ERROR_MAX,
        there ? "dataDir: %s cannot be written: %s; give the directory to the user that runs zabra "
                "or change the key"
              : "dataDir: cannot make %s: %s; make the directory, or its parent directory, for the "
                "user that runs zabra or change the key",
        config->storage.data_dir, strerrordesc_np(errno));
    return ERR_CONFIG;
}

_Static_assert((int)SERVER_ERROR_MAX >= (int)AUDIT_ERROR_MAX, "an error about auditFile fits");

static enum err check_keys(const struct config *config, char error[SERVER_ERROR_MAX])
{
    struct keys *keys = NULL;
    enum err err = peer_keys_load(config, &config->peers.secrets, &keys, error);

    keys_release(keys);
    return err;
}

enum err server_check(const struct config *config, char error[SERVER_ERROR_MAX])
{
    const char *audit = config->process.audit_file;
    enum err err = check_ports(config, error);

    THEN(err, check_directory(config, error));
    if (err == ERR_OK && audit[0] != '\0' && strcmp(audit, "-") != 0) {
        err = audit_file_check(audit, error);
    }
    THEN(err, check_keys(config, error));
    return err;
}
