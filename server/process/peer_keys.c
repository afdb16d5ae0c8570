/*
 * The secrets and the certificate with which this replica proves itself to the others, and the
 * thread that reads them again when it sees that one of the files has changed. The thread of the
 * reloads reads them, too. Both may wait for a slow disk, which the core must not do.
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

/* ---- Reading them again. ---- */

/* Reads the files and gives the keys to the core. If one of the files is bad, the keys stay. A
 * start reads the files a second time, because they may have changed since; that is no news. False,
 * with a sentence: one is bad. Under keys->mutex. */
static bool reload(struct server *server, bool is_start, char error[SERVER_ERROR_MAX])
{
    const struct config *config = server->config;
    struct peer_keys *keys = &server->peer_keys;
    struct config_secrets *secrets = mem_zalloc(1, sizeof *secrets);
    struct peer_keys_done *done = mem_zalloc(1, sizeof *done);
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
    return err == ERR_OK;
}

/* Reads the files if one has changed; at the start in any case. */
static void look_again(struct server *server, bool is_start)
{
    struct peer_keys *keys = &server->peer_keys;
    char error[SERVER_ERROR_MAX] = "";

    MUTEX_HOLD(&keys->mutex);
    if (look(keys, &server->config->peers) || is_start) {
        (void)reload(server, is_start, error);
    }
}

/* The part of a reload. */
static bool reload_now(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct server *server = ctx;
    struct peer_keys *keys = &server->peer_keys;

    MUTEX_HOLD(&keys->mutex);
    (void)look(keys, &server->config->peers);
    return reload(server, false, why);
}

/* ---- The thread. ---- */

static void run(void *arg)
{
    struct server *server = arg;
    struct peer_keys *keys = &server->peer_keys;

    look_again(server, true);
    while (!mailbox_is_closed(&keys->ended)) {
        (void)mailbox_wait(&keys->ended, LOOK_MS);
        if (!mailbox_is_closed(&keys->ended)) {
            look_again(server, false);
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
    mutex_init(&server->peer_keys.mutex);
    mailbox_init(&server->peer_keys.ended, 1);
    mailbox_init(&server->peer_keys.dones, 1);
}

void peer_keys_start(struct server *server)
{
    struct peer_keys *keys = &server->peer_keys;

    if (has_files(server->config)) {
        keys->runs = true;
        thread_start(&keys->thread, "zabra-keys", run, server);
        reloads_add(&server->reloads,
                    (struct reload_part){.name = "peerKeys", .run = reload_now, .ctx = server});
    }
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
        mailbox_close(&keys->ended);
        thread_join(&keys->thread);
        keys->runs = false;
    }
}

void peer_keys_close(struct server *server)
{
    peer_keys_take(server);
    mailbox_release(&server->peer_keys.dones);
    mailbox_release(&server->peer_keys.ended);
    mutex_destroy(&server->peer_keys.mutex);
}
