/* Logs why peers are refused. */
#include "server/process/server_int.h"

enum {
    REFUSAL_AGAIN_MS = 10000 /* Shortest time between log lines about one peer's refusals. */
};

void core_log_refusals(struct server *server)
{
    uint64_t now_ms = os_now_ms();

    for_each_link (entry, &server->core.links) {
        if (entry->refusal_waits && (entry->refusal_logged_ms == 0 ||
                                     now_ms - entry->refusal_logged_ms >= REFUSAL_AGAIN_MS)) {
            entry->refusal_waits = false;
            entry->refusal_logged_ms = now_ms;
            log_warn("zab", "peer {peer}%u is refused: {reason}%s", entry->id, entry->refused);
        }
    }
}
