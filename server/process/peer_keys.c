/*
 * The secrets and the certificate with which this replica proves itself to the others, as a part of
 * a reload: its thread reads them again on request, and when one of the files has changed. It may
 * wait for a slow disk, which the core must not do.
 */
#include "server/process/server_int.h"

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

/* ---- Reading them again. ---- */

/* Returns NULL, with a sentence, if one of the files is bad. */
static struct keys *read_files(const struct config *config, uint32_t *ret_secrets,
                               char error[SERVER_ERROR_MAX])
{
    const char *secret_file = config->peers.secret_file;
    struct config_secrets *secrets = mem_zalloc(1, sizeof *secrets);
    struct keys *keys = NULL;
    enum err err = secret_file[0] ? config_read_secrets(secret_file, secrets, error) : ERR_OK;

    THEN(err, peer_keys_load(config, secrets, &keys, error));
    *ret_secrets = secrets->count;
    explicit_bzero(secrets, sizeof *secrets);
    mem_free(secrets);
    return err ? NULL : keys;
}

/* Reads the files and gives the keys to the core. The first time only the start has read them
 * before: they may have changed since, but it counts as no reload. */
static bool reload(void *ctx, char why[RELOAD_WHY_MAX])
{
    struct server *server = ctx;
    struct peer_keys *keys = &server->peer_keys;
    struct peer_keys_done *done = mem_zalloc(1, sizeof *done);
    bool is_first = !keys->was_read;
    uint32_t secrets = 0;

    _Static_assert((int)SERVER_ERROR_MAX <= (int)RELOAD_WHY_MAX, "a sentence fits");
    keys->was_read = true;
    os_changes_begin(&keys->changes);
    done->keys = read_files(server->config, &secrets, why);
    os_changes_end(&keys->changes, done->keys != NULL, os_now_ms());
    atomic_store(&keys->failed, done->keys == NULL);
    if (!done->keys) {
        metric_add(&keys->errors, 1);
        mem_free(done);
        return false;
    }
    atomic_store(&keys->expire_s, keys_expire_s(done->keys));
    if (!is_first) {
        metric_add(&keys->reloads, 1);
        log_info("zab",
                 "the keys for other replicas were read again: {secrets}%u secrets, "
                 "{certificates}%d certificates",
                 secrets, server->config->peers.cert_file[0] ? 1 : 0);
    }
    mailbox_must_post(&keys->dones, &done->node);
    return true;
}

static enum os_due look(void *ctx, uint64_t now_ms)
{
    struct peer_keys *keys = &((struct server *)ctx)->peer_keys;

    return keys->was_read ? os_changes_look(&keys->changes, now_ms) : OS_CHANGED;
}

/* ---- Life. ---- */

static bool has_files(const struct config *config)
{
    return config->peers.port != 0 &&
           (config->peers.secret_file[0] != '\0' || config->peers.cert_file[0] != '\0');
}

void peer_keys_open(struct server *server)
{
    mailbox_init(&server->peer_keys.dones, 1);
}

void peer_keys_start(struct server *server)
{
    const struct config_peers *peers = &server->config->peers;
    struct os_changes *changes = &server->peer_keys.changes;

    if (!has_files(server->config)) {
        return;
    }
    os_changes_add(changes, peers->secret_file);
    os_changes_add(changes, peers->cert_file);
    os_changes_add(changes, peers->key_file);
    os_changes_add(changes, peers->ca_file);
    reloads_add(&server->reloads, (struct reload_part){
                                      .name = "peerKeys",
                                      .run = reload,
                                      .look = look,
                                      .ctx = server,
                                  });
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

void peer_keys_close(struct server *server)
{
    peer_keys_take(server);
    if (!reloads_has_lost(&server->reloads)) { /* Else its thread may still post. */
        mailbox_release(&server->peer_keys.dones);
    }
}
