/* Logs why peers are refused. */
#include "server/process/server_int.h"

enum {
    REFUSAL_AGAIN_MS = 10000 /* Shortest time between log lines about one peer's refusals. */
};

void core_log_refusals(struct server *server)
{
    const struct config_peers *peers = &server->config->peers;
    uint64_t now_ms = os_now_ms();

    for (uint32_t i = 0; i < peers->server_count; i++) {
        struct core_peer *entry = &server->core.links[i];

        if (entry->refusal_waits && (entry->refusal_logged_ms == 0 ||
                                     now_ms - entry->refusal_logged_ms >= REFUSAL_AGAIN_MS)) {
            entry->refusal_waits = false;
            entry->refusal_logged_ms = now_ms;
            log_warn("zab", "peer {peer}%u is refused: {reason}%s", peers->servers[i].id,
                     entry->refused);
        }
    }
}
