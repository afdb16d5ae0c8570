#include "base/base64.h"
#include "base/crypto.h"
#include "base/os_process.h"
#include "server/config/config_int.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
    SEGMENT_ALIGN = 4096,
    TXN_OVERHEAD = 4096, /* A transaction holds the data plus path, stat and header. */
    MIN_SESSION_TICKS = 2,
    HSTS_MIN_MS = 1000,          /* A second, the unit of browsers. */
    MIN_SESSION_MS = 100,        /* Minimum of minSessionTimeout in the table of keys. */
    TREE_BYTES_MIN = 1 << 20,    /* A smaller maxTreeBytes is a typing error. */
    UNSENT_BYTES_MIN = 16 << 20, /* Minimum of maxUnsentBytes. */
    POOL_BYTES_MAX = 256 << 20,
    POOLS = 7,                  /* See config_clients.pool_bytes_max. */
    POOL_PART = 4 * (POOLS + 1) /* The pools and unsent bytes have a quarter of the memory. */
};

static enum err check_addresses(struct config_loader *loader)
{
    const struct config *config = loader->config;

    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        for (uint32_t j = i + 1; j < config->peers.server_count; j++) {
            const struct config_server *a = &config->peers.servers[i];
            const struct config_server *b = &config->peers.servers[j];

            if (a->port == b->port && !strcmp(a->host, b->host)) {
                return config_fail(loader,
                                   "server.%u: same address as server.%u (%s:%u); give each "
                                   "replica its own host or port",
                                   b->id, a->id, a->host, a->port);
            }
        }
    }
    return ERR_OK;
}

static enum err check_servers(struct config_loader *loader)
{
    struct config *config = loader->config;
    uint32_t voters = 0;

    bool joins = config->peers.join_count > 0;

    if (config->peers.server_count == 0 && !joins) {
        config->peers.servers[0] =
            (struct config_server){.id = config->id, .voter = true, .host = "127.0.0.1"};
        config->peers.server_count = 1;
        config->peers.is_alone = true;
    }
    if (config->peers.server_count == 0) {
        return ERR_OK;
    }
    if (!config_self(config) && !joins) {
        return config_fail(loader,
                           "id: %u is not in the list of servers; add server.%u=host:peerPort or "
                           "correct id",
                           config->id, config->id);
    }
    for (uint32_t i = 0; i < config->peers.server_count; i++) {
        voters += config->peers.servers[i].voter ? 1U : 0U;
    }
    if (voters == 0) {
        return config_fail(loader, "server.%u: all servers are observers; at least one must vote",
                           config->peers.servers[0].id);
    }
    if (voters % 2 == 0) {
        config_warn(loader,
                    "server.N: %u voters tolerate no more failures than %u; use an odd number",
                    voters, voters - 1);
    }
    return check_addresses(loader);
}

/* The rules of TLS on the client port, besides the contents of the files. */
static enum err check_tls(struct config_loader *loader)
{
    const struct config_clients *clients = &loader->config->clients;
    const struct config_tls *tls = &clients->tls;
    bool on = tls->mode != CONFIG_TLS_OFF;

    const struct {
        bool fails;
        const char *text;
    } checks[] = {
        {on && !tls->cert_files[0],
         "tlsCertFile: missing, and clientTls is not off; give the certificate of this replica"},
        {on && !tls->key_files[0],
         "tlsKeyFile: missing, and clientTls is not off; give the private key of tlsCertFile"},
        {!on && tls->cert_files[0],
         "clientTls: off, so tlsCertFile has no use; give clientTls=optional or required"},
        {!on && tls->clients != 0,
         "clientCertificates: needs TLS; give clientTls=optional or required"},
        {tls->clients != 0 && !tls->ca_file[0],
         "clientCaFile: missing, and clientCertificates is not off; give the CAs of the clients"},
        {tls->clients == 0 && tls->ca_file[0],
         "clientCertificates: off, so clientCaFile has no use; give clientCertificates=ask or "
         "required"},
        {tls->crl_file[0] && !tls->ca_file[0],
         "clientCrlFile: needs clientCaFile; give the CAs of the clients"},
        {tls->super_x509[0] && tls->clients == 0,
         "superX509: needs certificates of clients; give clientCertificates=ask or required"},
        {tls->hsts_ms != 0 && tls->mode != CONFIG_TLS_REQUIRED,
         "tlsHsts: browsers would use TLS only, so it needs clientTls=required"},
        {tls->hsts_ms > 0 && tls->hsts_ms < HSTS_MIN_MS,
         "tlsHsts: browsers count in seconds, and 0 s would end their rule; give at least 1000 ms, "
         "or 0 to send nothing"},
    };

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        if (checks[i].fails) {
            return config_fail(loader, "%s", checks[i].text);
        }
    }
    return ERR_OK;
}

/* Refuses an address beyond loopback, unless its bytes are sealed or the operator has accepted the
 * risk. */
static enum err check_client_address(struct config_loader *loader)
{
    struct in6_addr address;
    const char *text = loader->config->clients.client_address;

    if (inet_pton(AF_INET, text, &address) != 1 && inet_pton(AF_INET6, text, &address) != 1) {
        return config_fail(loader,
                           "clientAddress: \"%.64s\" is not a numeric address; give for example "
                           "127.0.0.1, 0.0.0.0 or ::1",
                           text);
    }
    if (loader->config->clients.tls.mode == CONFIG_TLS_REQUIRED || config_is_loopback(text) ||
        loader->config->clients.insecure) {
        return ERR_OK;
    }
    return config_fail(loader,
                       "clientAddress: %s is beyond loopback and serves clients without TLS; keep "
                       "127.0.0.1, give clientTls=required, or accept the risk with insecure=true",
                       text);
}

enum err config_split_listen(struct config_loader *loader, const char *key, const char *text,
                             char ret_address[CONFIG_HOST_MAX], uint16_t *ret_port)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    bool bracketed = len > 2 && text[0] == '[' && text[len - 1] == ']';
    struct in6_addr address;
    uint64_t port = 0;

    (void)snprintf(ret_address, CONFIG_HOST_MAX, "%.*s", (int)(bracketed ? len - 2 : len),
                   bracketed ? text + 1 : text);
    if (!colon || !config_parse_number(colon + 1, &port) || port == 0 || port > UINT16_MAX ||
        inet_pton(bracketed ? AF_INET6 : AF_INET, ret_address, &address) != 1) {
        return config_fail(loader,
                           "%s: \"%.64s\" is not a numeric address with a port; give for example "
                           "127.0.0.1:9990, 0.0.0.0:10998 or [::1]:9990",
                           key, text);
    }
    *ret_port = (uint16_t)port;
    return ERR_OK;
}

/* Checks probeListen. It has no TLS: beyond loopback it tells health alone, which probes of other
 * machines need and which is no secret, and /metrics only with insecure=true. */
static enum err check_probe_address(struct config_loader *loader)
{
    struct config_clients *clients = &loader->config->clients;
    const char *text = clients->probe_listen;

    if (text[0] == '\0') {
        return ERR_OK;
    }

    enum err err = config_split_listen(loader, "probeListen", text, clients->probe_address,
                                       &clients->probe_port);

    clients->probe_metrics = clients->insecure || config_is_loopback(clients->probe_address);
    if (err == ERR_OK && clients->probe_port == clients->client_port) {
        err = config_fail(
            loader,
            "probeListen: port %u is also clientPort; change the port of one of these two keys",
            clients->probe_port);
    }
    return err;
}

/* Sets the address on which this replica listens for peers. Peers may reach it through another
 * address. */
static enum err check_peer_address(struct config_loader *loader)
{
    const struct config_clients *clients = &loader->config->clients;
    struct config_peers *peers = &loader->config->peers;
    enum err err = ERR_OK;

    if (peers->listen[0] != '\0') {
        err = config_split_listen(loader, "peerListen", peers->listen, peers->host, &peers->port);
    }
    THEN(err, config_set_own(loader));
    if (err == ERR_OK && peers->listen[0] != '\0' &&
        (peers->port == clients->client_port || peers->port == clients->probe_port)) {
        err = config_fail(
            loader,
            "peerListen: port %u is also that of %s; change the port of one of these two keys",
            peers->port, peers->port == clients->client_port ? "clientPort" : "probeListen");
    }
    return err;
}

/* Checks the keys about native clients. */
static enum err check_native(struct config_loader *loader)
{
    static const char words[] =
        ",ruok,srvr,stat,mntr,conf,cons,envi,isro,dump,dirs,wchs,wchc,wchp,*,";
    const struct config *config = loader->config;
    const struct config_clients *clients = &config->clients;
    uint16_t port = clients->zk_port;
    struct slice rest = slice_str(clients->zk_words);

    if (port != 0 && (port == clients->client_port || port == clients->probe_port ||
                      port == config->peers.port)) {
        return config_fail(loader,
                           "zkPort: port %u is also that of %s; native clients need no port of "
                           "their own, or give another one",
                           port,
                           port == clients->client_port  ? "clientPort"
                           : port == clients->probe_port ? "probeListen"
                                                         : "the other replicas");
    }
    while (rest.len > 0) {
        struct slice word = slice_cut(&rest, ',');
        char wanted[CONFIG_LABEL_MAX * 2 + 3];

        (void)snprintf(wanted, sizeof(wanted), ",%.*s,", (int)word.len, (const char *)word.data);
        if (word.len == 0 || !strstr(words, wanted)) {
            return config_fail(loader,
                               "zkWords: \"%.*s\" is no command word; give some of ruok, srvr, "
                               "stat, mntr, conf, cons, envi, isro, dump, dirs, wchs, wchc, wchp, "
                               "or *",
                               (int)word.len, (const char *)word.data);
        }
    }
    return ERR_OK;
}

static enum err check_sizes(struct config_loader *loader)
{
    struct config_clients *clients = &loader->config->clients;
    uint64_t least = (uint64_t)clients->data_bytes_max + TXN_OVERHEAD;

    /* By default one address may have a quarter of all connections. Clients behind one proxy may
     * need a higher limit. */
    if (clients->connections_per_address_max == 0) {
        clients->connections_per_address_max = max_u32(clients->connections_max / 4, 1);
    }
    if (loader->config->storage.wal_segment_bytes % SEGMENT_ALIGN != 0) {
        return config_fail(loader,
                           "walSegmentBytes: %" PRIu64 " is not a multiple of %d; give a multiple",
                           loader->config->storage.wal_segment_bytes, SEGMENT_ALIGN);
    }
    if (clients->multi_bytes_max < least) {
        return config_fail(loader,
                           "maxMultiBytes: %u cannot hold one write of maxDataBytes=%u; give at "
                           "least %" PRIu64,
                           clients->multi_bytes_max, clients->data_bytes_max, least);
    }
    return ERR_OK;
}

enum {
    SESSIONS_CLIENT_PART = 4, /* By default a client may have a quarter of all sessions. */
    SESSIONS_ADDRESS_PART = 2,
    REMEMBERED_CLIENT_PART = 8,
    REMEMBERED_ADDRESS_PART = 4
};

/* Replaces a `share` of 0 by its default: `pool` divided by `part`, rounded up. */
static void follow_pool(uint32_t *share, uint32_t pool, uint32_t part)
{
    if (*share == 0) {
        *share = (pool + part - 1) / part;
    }
}

/* Sets the defaults that depend on tickTime, maxSessions or maxRemembered, and checks the session
 * timeouts. Replicas report active sessions to the leader twice a tick. A session must not expire
 * when some reports are late, so its timeout is two ticks or more. */
static enum err check_sessions(struct config_loader *loader)
{
    struct config_tree *tree = &loader->config->tree;
    uint32_t tick_ms = loader->config->zab.tick_ms;

    if (!config_is_given(loader, "minSessionTimeout")) {
        tree->session_min_ms = max_u32(MIN_SESSION_TICKS * tick_ms, MIN_SESSION_MS);
    }
    follow_pool(&tree->sessions_client_max, tree->sessions_max, SESSIONS_CLIENT_PART);
    follow_pool(&tree->sessions_network_max, tree->sessions_max, SESSIONS_ADDRESS_PART);
    follow_pool(&tree->remembered_client_max, tree->remembered_max, REMEMBERED_CLIENT_PART);
    follow_pool(&tree->remembered_network_max, tree->remembered_max, REMEMBERED_ADDRESS_PART);
    if (tree->session_min_ms > tree->session_max_ms) {
        return config_fail(loader, "minSessionTimeout: %u is above maxSessionTimeout=%u; swap them",
                           tree->session_min_ms, tree->session_max_ms);
    }
    if (tree->session_default_ms < tree->session_min_ms ||
        tree->session_default_ms > tree->session_max_ms) {
        return config_fail(loader,
                           "sessionTimeout: %u is not between minSessionTimeout=%u and "
                           "maxSessionTimeout=%u; give a number between them",
                           tree->session_default_ms, tree->session_min_ms, tree->session_max_ms);
    }
    if (tree->session_min_ms < MIN_SESSION_TICKS * tick_ms) {
        return config_fail(loader,
                           "minSessionTimeout: %u is shorter than %d ticks of %u ms; give at least "
                           "%u or lower tickTime",
                           tree->session_min_ms, MIN_SESSION_TICKS, tick_ms,
                           MIN_SESSION_TICKS * tick_ms);
    }
    return ERR_OK;
}

/* Sets the default of maxTreeBytes: half of the memory. The other half is for everything besides
 * the tree (docs/operating.md). */
static enum err check_tree_bytes(struct config_loader *loader)
{
    uint64_t *bytes_max = &loader->config->tree.bytes_max;
    uint64_t machine = os_memory_max();

    if (*bytes_max == 0) {
        *bytes_max = machine / 2;
    } else if (*bytes_max < TREE_BYTES_MIN) {
        return config_fail(loader,
                           "maxTreeBytes: %" PRIu64 " has no room for a tree; give at least "
                           "%d, or 0 for half of the memory",
                           *bytes_max, TREE_BYTES_MIN);
    } else if (machine != 0 && *bytes_max > machine) {
        config_warn(
            loader,
            "maxTreeBytes: %" PRIu64 " is more than the %" PRIu64
            " bytes that this process may use: the kernel may kill the process before the limit "
            "is reached",
            *bytes_max, machine);
    }
    return ERR_OK;
}

/* Returns the memory that one request may need: its bytes, its decoded strings, its operations. */
static uint64_t largest_request(const struct config_clients *clients)
{
    return 3 * (uint64_t)max_u32(clients->multi_bytes_max, clients->message_bytes_max);
}

uint64_t config_pool_bytes(uint64_t machine, uint64_t request)
{
    uint64_t part = machine != 0 ? machine / POOL_PART : POOL_BYTES_MAX;

    return max_u64(min_u64(POOL_BYTES_MAX, part), 2 * request);
}

/* Sets the bounds of the memory that clients can occupy besides the tree: of each pool, and of
 * unsent bytes. On a small machine the bounds shrink, so that the tree reaches its bound before the
 * kernel ends the process. */
static enum err check_pools(struct config_loader *loader)
{
    struct config_clients *clients = &loader->config->clients;
    uint64_t pool = config_pool_bytes(os_memory_max(), largest_request(clients));

    clients->pool_bytes_max = pool;
    /* The share of one address in a pool is its share of the connections, but at least the size of
     * one request. */
    uint64_t all = clients->connections_max;
    uint64_t part = pool * min_u64(clients->connections_per_address_max, all) / all;

    clients->address_pool_max = min_u64(pool, max_u64(part, largest_request(clients)));
    if (clients->unsent_bytes_max == 0) {
        clients->unsent_bytes_max = pool;
    } else if (clients->unsent_bytes_max < UNSENT_BYTES_MIN) {
        return config_fail(loader,
                           "maxUnsentBytes: %" PRIu64 " is too small for large answers; give at "
                           "least %d, or 0 for the default",
                           clients->unsent_bytes_max, UNSENT_BYTES_MIN);
    }
    return ERR_OK;
}

/* Parses trustedProxies. A block of all addresses would let every client choose its address. */
static enum err check_proxies(struct config_loader *loader)
{
    struct config_clients *clients = &loader->config->clients;
    struct slice rest = slice_str(clients->trusted_proxies);

    clients->proxy_count = 0;
    while (rest.len > 0) {
        struct slice item = config_trim(slice_cut(&rest, ','));
        struct address_block *block = &clients->proxies[clients->proxy_count];

        if (clients->proxy_count == CONFIG_PROXIES_MAX) {
            return config_fail(loader,
                               "trustedProxies: more than %d entries; give blocks that cover "
                               "several proxies",
                               CONFIG_PROXIES_MAX);
        }
        if (!address_block_parse(item, block)) {
            return config_fail(
                loader,
                "trustedProxies: \"%.*s\" is neither an address nor a block; give for "
                "example 10.0.0.5, 10.0.0.0/24 or 2001:db8::/64",
                (int)min_size(item.len, 64), item.len ? (const char *)item.data : "");
        }
        if (block->bits == 0 || (block->bits == 96 && address_is_v4(&block->address))) {
            return config_fail(loader,
                               "trustedProxies: %.*s trusts every client to name its own address; "
                               "give the addresses of the proxies",
                               (int)item.len, (const char *)item.data);
        }
        clients->proxy_count++;
    }
    return ERR_OK;
}

/* Checks "user:base64(SHA1(user:password))". A malformed value is not shown: it may be the
 * password. */
static enum err check_super(struct config_loader *loader)
{
    const char *text = loader->config->clients.super_digest;
    const char *colon = strchr(text, ':');
    struct buf hash;

    if (text[0] == '\0') {
        return ERR_OK;
    }
    buf_init(&hash, CONFIG_HOST_MAX);
    bool sound = colon && colon != text && base64_decode(&hash, slice_str(colon + 1)) == ERR_OK &&
                 hash.len == CRYPTO_SHA1_LEN;

    buf_release(&hash);
    if (!sound) {
        return config_fail(loader,
                           "superDigest: the value is not user:base64(SHA1(user:password)); make "
                           "the hash with: printf %%s user:password | openssl sha1 -binary | "
                           "base64");
    }
    return ERR_OK;
}

static enum err check_web_dir(struct config_loader *loader)
{
    const char *path = loader->config->clients.web_dir;
    struct stat about;

    if (path[0] == '\0') {
        return ERR_OK;
    }
    if (stat(path, &about) != 0 || !S_ISDIR(about.st_mode)) {
        return config_fail(
            loader,
            "webDir: %.256s is not a directory; give the directory that web/build.mjs writes",
            path);
    }
    config_warn(loader, "webDir: the dashboard is served from %.256s, not from this binary", path);
    return ERR_OK;
}

enum err config_check(struct config_loader *loader)
{
    enum err (*const checks[])(struct config_loader * loader) = {
        config_check_join,   check_servers,      check_tls,          check_client_address,
        check_probe_address, check_peer_address, check_sizes,        check_sessions,
        check_tree_bytes,    check_pools,        check_super,        check_proxies,
        check_web_dir,       check_native,       config_check_peers,
    };
    enum err err = ERR_OK;

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && err == ERR_OK; i++) {
        err = checks[i](loader);
    }
    return err;
}
