/* The addresses and identities of a client. */
#include "cli/zk_client.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    ROOM_BYTES = 128 << 10, /* Of the buffer for replies, beyond the largest one. */
    OUT_MAX = 64 << 20,
    AUTH_MAX = 4096
};

bool zk_client_fail(struct zk_client *client, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(client->error, sizeof(client->error), format, args);
    va_end(args);
    return false;
}

/* Splits "name:port", "name", "[address]:port" or "[address]". */
static bool split_host(struct slice text, struct zk_client_host *host)
{
    struct slice name = text;
    struct slice port;
    bool bracket = text.len > 0 && text.data[0] == '[';

    if (bracket) {
        name.data++;
        name.len--;
        text = name;
        name = slice_cut(&text, ']');
        port = text.len > 0 && text.data[0] == ':' ? slice_make(text.data + 1, text.len - 1) : text;
    } else {
        name = slice_cut(&text, ':');
        port = text;
    }
    if (name.len == 0 || name.len >= sizeof(host->name) || port.len >= sizeof(host->port) - 1) {
        return false;
    }
    uint32_t number = 0;

    for (size_t i = 0; i < port.len; i++) {
        if (port.data[i] < '0' || port.data[i] > '9') {
            return false;
        }
        number = number * 10 + (port.data[i] - '0');
    }
    number = port.len > 0 ? number : ZK_CLIENT_PORT;
    (void)snprintf(host->name, sizeof(host->name), "%.*s", (int)name.len, (const char *)name.data);
    (void)snprintf(host->port, sizeof(host->port), "%" PRIu32, number % 1000000);
    return number > 0 && number <= UINT16_MAX;
}

bool zk_client_init(struct zk_client *client, const char *hosts, int64_t timeout_ms)
{
    struct slice rest = slice_str(hosts);
    struct slice list = slice_cut(&rest, '/');
    size_t len = list.len < strlen(hosts) ? strlen(hosts) - list.len : 0;

    *client = (struct zk_client){.fd = -1, .stop_fd = -1, .timeout_ms = timeout_ms};
    buf_init(&client->in, (size_t)ZK_CLIENT_FRAME_MAX + ROOM_BYTES);
    buf_init(&client->out, OUT_MAX);
    if (len >= sizeof(client->chroot)) {
        return zk_client_fail(client, "the path behind the addresses is too long");
    }
    memcpy(client->chroot, hosts + list.len, len);
    while (len > 0 && client->chroot[len - 1] == '/') {
        client->chroot[--len] = '\0';
    }
    while (list.len > 0) {
        struct slice one = slice_cut(&list, ',');

        if (client->host_count == ZK_CLIENT_HOSTS_MAX) {
            return zk_client_fail(client, "more than %d addresses", (int)ZK_CLIENT_HOSTS_MAX);
        }
        if (!split_host(one, &client->hosts[client->host_count++])) {
            return zk_client_fail(client, "\"%.*s\" is not an address host:port",
                                  (int)min_size(one.len, ZK_CLIENT_HOST_MAX),
                                  (const char *)one.data);
        }
    }
    return client->host_count > 0 || zk_client_fail(client, "no address host:port");
}

bool zk_client_auth(struct zk_client *client, struct slice identity)
{
    size_t colon = slice_find(identity, ':');

    if (client->auth_count == ZK_CLIENT_AUTHS_MAX || colon == 0 || colon + 1 >= identity.len ||
        identity.len > AUTH_MAX) {
        return false;
    }
    struct buf *auth = &client->auths[client->auth_count++];

    buf_init(auth, AUTH_MAX);
    buf_append_slice(auth, identity);
    return true;
}
