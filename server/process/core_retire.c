/*
 * Connections that began with a secret which has been removed from peerSecretFile, or with a
 * certificate of a CA which has been removed from peerCaFile. They are closed, because an intruder
 * that knew the secret or had the certificate may have opened one. They come back at once, with the
 * present secret or certificate. retire.h says when.
 */
#include "server/process/retire.h"
#include "server/process/server_int.h"

enum {
    PAUSE_MS = 3000, /* Between two closed connections. */
};

/* Notes how the connection is sealed, and since when its secret or CA is removed. */
static void look(struct core *core, struct core_peer *peer)
{
    tcp_seal(core->tcp, peer->id, &peer->seal);
    if (!peer->seal.up || !peer->seal.removed) {
        peer->removed_ms = 0;
    } else if (peer->removed_ms == 0) {
        peer->removed_ms = core->now_ms;
    }
}

/* Notes how each connection is sealed; returns whether one is to be closed, now or later. */
static bool look_at_all(struct server *server)
{
    struct core *core = &server->core;
    bool any = false;

    if (!core->tcp) {
        return false;
    }
    for_each_link (link, &core->links) {
        look(core, link);
        any |= link->removed_ms != 0;
    }
    return any && core->now_ms >= core->retire_ms;
}

void core_look_at_seals(struct server *server)
{
    struct core *core = &server->core;
    struct heartbeat heartbeats[ZAB_MEMBERS_MAX];
    struct retire_view view = {.config = server->config,
                               .members = zab_config(replica_zab(core->replica)),
                               .now_ms = core->now_ms,
                               .wall_ms = (uint64_t)os_wall_ms(),
                               .heartbeats = heartbeats};

    core->retire_id = 0;
    if (!look_at_all(server)) {
        return;
    }
    view.heartbeat_count = replica_heartbeats(core->replica, heartbeats);
    zab_status(replica_zab(core->replica), &view.status);
    for_each_link (link, &core->links) {
        enum retire retire =
            link->removed_ms != 0 ? retire_judge(&view, link->id, link->removed_ms) : RETIRE_NOT;

        if (core->retire_id == 0 && retire != RETIRE_NOT) {
            core->retire_late = retire == RETIRE_NOW;
            core->retire_id = link->id;
        }
    }
}

static const char *reason_of(const struct core *core, uint32_t id)
{
    struct tcp_seal seal;

    tcp_seal(core->tcp, id, &seal);
    return seal.up && seal.kind == KEYS_SEAL_CERTIFICATE
               ? "it began with a certificate of a CA that has been removed from peerCaFile"
               : "it began with a secret that has been removed from peerSecretFile";
}

void core_retire_peer(struct server *server)
{
    struct core *core = &server->core;
    struct replica_status status;

    if (core->retire_id == 0) {
        return;
    }
    replica_status(core->replica, &status);
    if (core->retire_late || status.requests == 0) {
        log_info("zab", "closes the connection with peer {peer}%u: {reason}%s", core->retire_id,
                 reason_of(core, core->retire_id));
        tcp_disconnect(core->tcp, core->retire_id);
        core->retire_id = 0;
        core->retire_ms = core->now_ms + PAUSE_MS;
    }
}
