/*
 * What would make a start fail is tried before anything is written: the two ports, the names, the
 * directory. Sockets are opened and let go again, since nothing can be served yet.
 */
#include "base/check.h"
#include "base/loop.h"
#include "server/process/server_int.h"
#include "zab/tcp/resolve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CHECK_FDS_MAX = RESOLVE_ADDRESSES_MAX + 2
};

/* Sockets that are held until the end, so that one key cannot take what another one needs. */
struct held {
    int fds[CHECK_FDS_MAX];
    uint32_t count;
};

static void let_go(struct held *held)
{
    for (uint32_t i = 0; i < held->count; i++) {
        close(held->fds[i]);
    }
    held->count = 0;
}

/* 0, or a negative errno. */
static int try_address(const struct resolve_address *address, struct held *held)
{
    ASSERT(held->count < CHECK_FDS_MAX);

    int fd = loop_try_listen((const struct sockaddr *)&address->addr, address->len);

    if (fd >= 0) {
        held->fds[held->count++] = fd;
    }
    return fd < 0 ? fd : 0;
}

static enum err check_client(const struct config *config, struct held *held,
                             char error[SERVER_ERROR_MAX])
{
    struct resolve_answer answer;
    bool numeric = resolve_numeric(config->client_address, config->client_port, &answer);

    ASSERT(numeric); /* As the configuration was checked. */

    int failed = try_address(&answer.addresses[0], held);

    if (failed == -EADDRINUSE) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "clientPort: port %u is in use on %s; stop what uses it or give another one",
                       config->client_port, config->client_address);
    } else if (failed) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "clientAddress: cannot listen on %s port %u: %s; give an address of this "
                       "machine and a port that this user may use",
                       config->client_address, config->client_port, strerrordesc_np(-failed));
    }
    return failed ? ERR_CONFIG : ERR_OK;
}

static enum err check_probes(const struct config *config, struct held *held,
                             char error[SERVER_ERROR_MAX])
{
    struct resolve_answer answer;
    bool numeric = resolve_numeric(config->probe_address, config->probe_port, &answer);

    ASSERT(numeric); /* As the configuration was checked. */

    int failed = try_address(&answer.addresses[0], held);

    if (failed == -EADDRINUSE) {
        (void)snprintf(
            error, SERVER_ERROR_MAX,
            "probeListen: port %u is in use on %s; stop what uses it or give another one",
            config->probe_port, config->probe_address);
    } else if (failed) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "probeListen: cannot listen on %s port %u: %s; give an address of this "
                       "machine and a port that this user may use",
                       config->probe_address, config->probe_port, strerrordesc_np(-failed));
    }
    return failed ? ERR_CONFIG : ERR_OK;
}

static void explain_peer(const struct config *config, int failed, char error[SERVER_ERROR_MAX])
{
    const struct config_server *self = config_self(config);

    if (failed == -EADDRINUSE && self->port == config->client_port) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "server.%u: port %u is the clientPort as well; give one of the two another "
                       "one",
                       self->id, self->port);
    } else if (failed == -EADDRINUSE) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "server.%u: port %u is in use on %s; stop what uses it or change the server "
                       "list",
                       self->id, self->port, self->host);
    } else {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "server.%u: cannot listen on %s port %u: %s; replica %u must run where its "
                       "entry says, correct id or the server list",
                       self->id, self->host, self->port, strerrordesc_np(-failed), self->id);
    }
}

/* One address of the name is enough, as for the transport. */
static enum err check_peer(const struct config *config, struct held *held,
                           char error[SERVER_ERROR_MAX])
{
    const struct config_server *self = config_self(config);
    struct resolve_answer answer;
    uint32_t before = held->count;
    int failed = 0;

    resolve_now(self->host, self->port, &answer);
    if (answer.count == 0) {
        (void)snprintf(error, SERVER_ERROR_MAX,
                       "server.%u: the name %s has no address; correct the server list or the name "
                       "service",
                       self->id, self->host);
        return ERR_CONFIG;
    }
    for (uint32_t i = 0; i < answer.count && failed != -EADDRINUSE; i++) {
        failed = try_address(&answer.addresses[i], held);
    }
    if (failed && (failed == -EADDRINUSE || held->count == before)) {
        explain_peer(config, failed, error);
        return ERR_CONFIG;
    }
    return ERR_OK;
}

static enum err check_ports(const struct config *config, char error[SERVER_ERROR_MAX])
{
    struct held held = {.count = 0};
    enum err err = check_client(config, &held, error);

    if (err == ERR_OK && config->probe_port != 0) {
        err = check_probes(config, &held, error);
    }
    if (err == ERR_OK && config_self(config)->port != 0) {
        err = check_peer(config, &held, error);
    }
    let_go(&held);
    return err;
}

/* The directory that the last name of a path is in; "." when there is but one. */
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

/* Not the last word: what only writing shows is told when it fails. */
static enum err check_directory(const struct config *config, char error[SERVER_ERROR_MAX])
{
    char parent[CONFIG_PATH_MAX];
    struct stat stat_buf;
    bool there = stat(config->data_dir, &stat_buf) == 0;

    parent_of(config->data_dir, parent);
    if (there && !S_ISDIR(stat_buf.st_mode)) {
        (void)snprintf(error, SERVER_ERROR_MAX, "dataDir: %s is no directory; change the key",
                       config->data_dir);
        return ERR_CONFIG;
    }
    if (access(there ? config->data_dir : parent, R_OK | W_OK | X_OK) == 0) {
        return ERR_OK;
    }
    (void)snprintf(error, SERVER_ERROR_MAX,
                   there ? "dataDir: %s cannot be written: %s; give it to the user that runs zabra "
                           "or change the key"
                         : "dataDir: cannot make %s: %s; make it, or its parent directory, for the "
                           "user that runs zabra or change the key",
                   config->data_dir, strerrordesc_np(errno));
    return ERR_CONFIG;
}

enum err server_check(const struct config *config, char error[SERVER_ERROR_MAX])
{
    enum err err = check_ports(config, error);

    return err == ERR_OK ? check_directory(config, error) : err;
}
