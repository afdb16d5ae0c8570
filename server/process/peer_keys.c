/*
 * The secrets and the certificate with which this replica proves itself to the others, and the
 * thread that reads them again: on SIGHUP, and when it sees that one of the files has changed. The
 * thread may wait for a slow disk, which neither the core nor the signals must do.
 */
#include "base/loop.h"
#include "server/process/server_int.h"

#include <sys/stat.h>

enum {
    LOOK_MS = 2000, /* Time between two looks at the files. */
};

enum err peer_keys_load(const struct config *config, const struct config_secrets *secrets,
                        struct keys **ret_keys, char error[SERVER_ERROR_MAX])
{
    struct keys_options options = {.secret_count = secrets->count,
                                   .cert_file = config->peers.cert_file,
                                   .key_file = config->peers.key_file,
                                   .ca_file = config->peers.ca_file};

    for (uint32_t i = 0; i < secrets->count; i++) {
        options.secrets[i] = slice_make(secrets->items[i].bytes, secrets->items[i].len);
    }
    return keys_load(&options, ret_keys, error);
}

/* ---- Has a file changed? ---- */

static void stamp_file(const char *path, struct peer_file *ret_file)
{
    struct stat about;

    *ret_file = (struct peer_file){.inode = 0};
    if (path[0] && stat(path, &about) == 0) {
        *ret_file = (struct peer_file){.inode = about.st_ino,
                                       .size = (uint64_t)about.st_size,
                                       .mode = about.st_mode,
                                       .written_s = about.st_mtim.tv_sec,
                                       .written_ns = about.st_mtim.tv_nsec,
                                       .changed_s = about.st_ctim.tv_sec,
                                       .changed_ns = about.st_ctim.tv_nsec};
    }
}

/* Stamps all files; returns whether a stamp differs from the last one. */
static bool look(struct peer_keys *keys, const struct config_peers *peers)
{
    const char *const paths[PEER_KEY_FILES] = {peers->secret_file, peers->cert_file,
                                               peers->key_file, peers->ca_file};
    bool changed = false;

    for (size_t i = 0; i < PEER_KEY_FILES; i++) {
        struct peer_file *before = &keys->files[i];
        struct peer_file now;

        stamp_file(paths[i], &now);
        changed |= now.inode != before->inode || now.size != before->size ||
                   now.mode != before->mode || now.written_s != before->written_s ||
                   now.written_ns != before->written_ns || now.changed_s != before->changed_s ||
                   now.changed_ns != before->changed_ns;
        *before = now;
    }
    return changed;
}

/* ---- The thread. ---- */

/* Reads the files and gives the keys to the core. If one of the files is bad, the keys stay. A
 * start reads the files a second time, because they may have changed since; that is no news. */
static void reload(struct server *server, bool is_start)
{
    const struct config *config = server->config;
    struct peer_keys *keys = &server->peer_keys;
    struct config_secrets *secrets = mem_zalloc(1, sizeof *secrets);
    struct peer_keys_done *done = mem_zalloc(1, sizeof *done);
    char error[SERVER_ERROR_MAX] = "";
    enum err err = ERR_OK;

    if (config->peers.secret_file[0]) {
        err = config_read_secrets(config->peers.secret_file, secrets, error);
    }
    THEN(err, peer_keys_load(config, secrets, &done->keys, error));
    atomic_store(&keys->failed, err != ERR_OK);
    if (err) {
        metric_add(&keys->errors, 1);
        log_error("zab",
                  "{reason}%s; this replica continues with the secrets and the certificate that it "
                  "has",
                  error);
        mem_free(done);
    } else {
        atomic_store(&keys->expire_s, keys_expire_s(done->keys));
        if (!is_start) {
            metric_add(&keys->reloads, 1);
            log_info("zab",
                     "the keys for other replicas were read again: {secrets}%u secrets, "
                     "{certificates}%d certificates",
                     secrets->count, config->peers.cert_file[0] ? 1 : 0);
        }
        mailbox_must_post(&keys->dones, &done->node);
    }
    explicit_bzero(secrets, sizeof *secrets);
    mem_free(secrets);
}

static void run(void *arg)
{
    struct server *server = arg;
    struct peer_keys *keys = &server->peer_keys;

    (void)look(keys, &server->config->peers);
    reload(server, true);
    while (!mailbox_is_closed(&keys->orders)) {
        struct list orders;
        bool ordered = false;

        (void)mailbox_wait(&keys->orders, LOOK_MS);
        ordered = mailbox_drain(&keys->orders, &orders) > 0;
        list_take_each (struct peer_keys_order, order, node, &orders) {
            mem_free(order);
        }
        if (!mailbox_is_closed(&keys->orders) && (look(keys, &server->config->peers) || ordered)) {
            reload(server, false);
        }
    }
}

static bool has_files(const struct config *config)
{
    return config->peers.port != 0 &&
           (config->peers.secret_file[0] != '\0' || config->peers.cert_file[0] != '\0');
}

void peer_keys_open(struct server *server)
{
    mailbox_init(&server->peer_keys.orders, 1);
    mailbox_init(&server->peer_keys.dones, 1);
}

void peer_keys_start(struct server *server)
{
    struct peer_keys *keys = &server->peer_keys;

    if (has_files(server->config)) {
        keys->runs = true;
        thread_start(&keys->thread, "zabra-keys", run, server);
    }
}

bool peer_keys_reload(struct server *server)
{
    struct peer_keys *keys = &server->peer_keys;

    if (!keys->runs) {
        return false;
    }

    struct peer_keys_order *order = mem_zalloc(1, sizeof *order);

    if (mailbox_post(&keys->orders, &order->node) != ERR_OK) {
        mem_free(order); /* An order waits already. */
    }
    return true;
}

void peer_keys_take(struct server *server)
{
    struct list dones;

    (void)mailbox_drain(&server->peer_keys.dones, &dones);
    list_take_each (struct peer_keys_done, done, node, &dones) {
        if (server->core.tcp) {
            tcp_set_keys(server->core.tcp, done->keys);
        }
        keys_release(done->keys);
        mem_free(done);
    }
}

void peer_keys_stop(struct server *server)
{
    struct peer_keys *keys = &server->peer_keys;

    if (keys->runs) {
        mailbox_close(&keys->orders);
        thread_join(&keys->thread);
        keys->runs = false;
    }
}

void peer_keys_close(struct server *server)
{
    struct list orders;

    peer_keys_take(server);
    (void)mailbox_drain(&server->peer_keys.orders, &orders);
    list_take_each (struct peer_keys_order, order, node, &orders) {
        mem_free(order);
    }
    mailbox_release(&server->peer_keys.dones);
    mailbox_release(&server->peer_keys.orders);
}
