/* What protects the connections between replicas: the file with the secrets, peerTls, certificates.
 */
#include "base/os_read.h"
#include "server/config/config_int.h"

#include <stdio.h>

enum {
    FILE_BYTES_MAX = CONFIG_SECRETS_MAX * (CONFIG_SECRET_MAX + 2) /* With line ends. */
};

#define MAKE_SECRET "make one with: head -c 32 /dev/urandom | base64 > FILE && chmod 600 FILE"

static enum err fail(char error[CONFIG_ERROR_MAX], const char *path, const char *what)
{
    (void)snprintf(error, CONFIG_ERROR_MAX, "peerSecretFile: %.256s %s", path, what);
    return ERR_CONFIG;
}

/* Adds a line; an empty one is skipped. */
static enum err add_line(const char *path, struct slice line, struct config_secrets *secrets,
                         char error[CONFIG_ERROR_MAX])
{
    char text[200];

    while (line.len > 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    if (line.len == 0) {
        return ERR_OK;
    }
    if (line.len < CONFIG_SECRET_MIN || line.len > CONFIG_SECRET_MAX) {
        (void)snprintf(text, sizeof(text), "must hold %d to %d bytes in each line; " MAKE_SECRET,
                       CONFIG_SECRET_MIN, CONFIG_SECRET_MAX);
        return fail(error, path, text);
    }
    if (secrets->count == CONFIG_SECRETS_MAX) {
        return fail(error, path,
                    "has more than two lines; the first is the secret, the second another one "
                    "that is accepted as well");
    }

    struct config_secret *secret = &secrets->items[secrets->count++];

    memcpy(secret->bytes, line.data, line.len);
    secret->len = (uint32_t)line.len;
    return ERR_OK;
}

static enum err add_lines(const char *path, struct slice bytes, struct config_secrets *secrets,
                          char error[CONFIG_ERROR_MAX])
{
    enum err err = ERR_OK;

    while (err == ERR_OK && bytes.len > 0) {
        const uint8_t *end = memchr(bytes.data, '\n', bytes.len);
        size_t len = end ? (size_t)(end - bytes.data) : bytes.len;

        err = add_line(path, slice_make(bytes.data, len), secrets, error);
        bytes = slice_from(bytes, end ? len + 1 : len);
    }
    if (err == ERR_OK && secrets->count == 0) {
        return fail(error, path, "is empty; " MAKE_SECRET);
    }
    return err;
}

enum err config_read_secrets(const char *path, struct config_secrets *ret_secrets,
                             char error[CONFIG_ERROR_MAX])
{
    const struct os_source source = {
        .key = "peerSecretFile", .path = path, .bytes_max = FILE_BYTES_MAX, .secret = true};
    struct buf bytes;
    enum err err = ERR_CONFIG;

    ret_secrets->count = 0;
    if (os_read(&source, &bytes, error, CONFIG_ERROR_MAX)) {
        err = add_lines(path, buf_slice(&bytes), ret_secrets, error);
    }
    os_read_release(&bytes);
    return err;
}

/* Returns the key and the host of an address for peers that is beyond loopback; false: none is. */
static bool find_beyond(const struct config *config, char ret_where[CONFIG_WHERE_MAX])
{
    if (config->peers.listen[0] && !config_is_loopback(config->peers.host)) {
        (void)snprintf(ret_where, CONFIG_WHERE_MAX, "peerListen (%.64s)", config->peers.listen);
        return true;
    }
    if (config->peers.advertise[0] && !config_is_loopback(config->peers.own.host)) {
        (void)snprintf(ret_where, CONFIG_WHERE_MAX, "advertisePeer (%s)", config->peers.advertise);
        return true;
    }
    for (uint32_t i = 0; i < config->peers.join_count; i++) {
        const char *host = config->peers.joins[i].host;

        if (!config_is_loopback(host)) {
            (void)snprintf(ret_where, CONFIG_WHERE_MAX, "join (%s)", host);
            return true;
        }
    }
    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        const struct config_server *server = &config->peers.servers[i];

        if (!config_is_loopback(server->host)) {
            (void)snprintf(ret_where, CONFIG_WHERE_MAX, "server.%u (%s)", server->id, server->host);
            return true;
        }
    }
    return false;
}

static enum err check_certificate(struct config_loader *loader)
{
    const struct config_peers *peers = &loader->config->peers;
    const char *given = peers->cert_file[0]  ? "peerCertFile"
                        : peers->key_file[0] ? "peerKeyFile"
                                             : "peerCaFile";
    const char *missing = !peers->cert_file[0]  ? "peerCertFile"
                          : !peers->key_file[0] ? "peerKeyFile"
                          : !peers->ca_file[0]  ? "peerCaFile"
                                                : NULL;
    bool any = peers->cert_file[0] || peers->key_file[0] || peers->ca_file[0];

    if (any && missing) {
        return config_fail(loader,
                           "%s: missing, but %s is given; give peerCertFile, peerKeyFile and "
                           "peerCaFile, or none of them",
                           missing, given);
    }
    return ERR_OK;
}

/* Whether there is something that proves the replicas to each other. Certificates alone do, if
 * every connection has TLS. */
static bool has_proof(const struct config_peers *peers)
{
    return peers->secrets.count > 0 || (peers->cert_file[0] && peers->tls == KEYS_REQUIRED);
}

bool config_may_dial(const struct config *config, const char *host)
{
    return config_is_loopback(host) ||
           (has_proof(&config->peers) &&
            (config->peers.tls == KEYS_REQUIRED || config->clients.insecure));
}

static enum err check_proof(struct config_loader *loader, const char *beyond)
{
    const struct config_peers *peers = &loader->config->peers;
    const char *tls = keys_mode_name((enum keys_mode)peers->tls);

    if (has_proof(peers)) {
        return ERR_OK;
    }
    if (beyond) {
        return config_fail(loader,
                           "peerSecretFile: missing, and %s is beyond loopback; give the same "
                           "secret file to all replicas",
                           beyond);
    }
    if (peers->tls != KEYS_OFF && !peers->cert_file[0]) {
        return config_fail(loader,
                           "peerTls: %s needs a secret or a certificate; give peerSecretFile, or "
                           "peerCertFile, peerKeyFile and peerCaFile",
                           tls);
    }
    return ERR_OK;
}

enum err config_check_peers(struct config_loader *loader)
{
    struct config *config = loader->config;
    struct config_peers *peers = &config->peers;
    char where[CONFIG_WHERE_MAX];
    bool beyond = find_beyond(config, where);
    enum err err = ERR_OK;

    if (peers->secret_file[0]) {
        err = config_read_secrets(peers->secret_file, &peers->secrets, loader->report->error);
    }
    THEN(err, check_certificate(loader));
    THEN(err, check_proof(loader, beyond ? where : NULL));
    if (err == ERR_OK && beyond && peers->tls != KEYS_REQUIRED && !config->clients.insecure) {
        return config_fail(loader,
                           "peerTls: %s, and %s is beyond loopback; set peerTls=required, or "
                           "accept the risk with insecure=true, for example during a rolling "
                           "change",
                           keys_mode_name((enum keys_mode)peers->tls), where);
    }
    return err;
}
