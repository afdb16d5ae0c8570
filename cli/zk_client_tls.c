/* The handshake of a connection to a ZooKeeper that has TLS. */
#include "tls/dial.h"

#include "base/os_clock.h"
#include "cli/zk_client.h"

#include <poll.h>

const char *zk_client_hint(const struct zk_client *client)
{
    return !client->tls || tls_dial_proves(client->tls)
               ? ""
               : "; ZooKeeper demands a certificate of the client by default: --from-cert";
}

bool zk_client_secure(struct zk_client *client, uint64_t end_ms)
{
    const struct zk_client_host *host = &client->hosts[client->host];
    struct tls_socket *socket = tls_dial_socket(client->tls, client->fd, host->name);
    char why[TLS_DIAL_ERROR_MAX] = "the server does not answer";

    for (;;) {
        enum tls_step step = tls_dial_shake(socket, why);
        uint64_t now_ms = os_now_ms();
        struct pollfd polls[2] = {
            {.fd = client->fd, .events = step == TLS_STEP_WRITE ? POLLOUT : POLLIN},
            {.fd = client->stop_fd, .events = POLLIN}};

        if (step == TLS_STEP_DONE) {
            tls_socket_attach(socket);
            return true;
        }
        bool fails = step == TLS_STEP_FAILED || now_ms >= end_ms;

        if (!fails) {
            (void)poll(polls, client->stop_fd >= 0 ? 2 : 1, (int)(end_ms - now_ms));
        }
        if (fails || polls[1].revents != 0) {
            tls_socket_free(socket);
            return zk_client_fail(client, "%s:%s: TLS: %s%s", host->name, host->port,
                                  fails ? why : "interrupted", zk_client_hint(client));
        }
    }
}
