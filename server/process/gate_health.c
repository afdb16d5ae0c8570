/* The answers of /livez and /readyz: named checks, each with a sentence. */
#include "server/process/server_int.h"

#include <inttypes.h>

static void check_add(struct gate_check *checks, size_t *count, const char *name, bool ok,
                      const char *text)
{
    ASSERT(*count < GATE_CHECKS_MAX);

    struct gate_check *check = &checks[(*count)++];

    check->name = name;
    check->ok = ok;
    (void)snprintf(check->text, sizeof check->text, "%s", text);
}

size_t gate_livez(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX])
{
    size_t count = 0;
    uint64_t turn_ms = atomic_load(&gate->server->core.turn_ms);
    uint64_t now_ms = os_now_ms();
    bool turns = now_ms < turn_ms + LIVE_TURN_MS;

    check_add(checks, &count, "core", turns,
              turns ? "the core thread works" : "the core thread has done no work for seconds");
    return count;
}

/* Writes why no leader is known. The usual reason is that peers refuse this replica, or that this
 * replica refuses them. */
static void explain_no_leader(const struct publication *published, char *text, size_t size)
{
    int len = snprintf(text, size, "no leader is known");

    if (published->not_listening[0] != '\0') {
        len += snprintf(text + len, size - (size_t)len, "; other replicas cannot connect yet: %s",
                        published->not_listening);
    }
    for_each_link (link, &published->links) {
        if (link->refused[0] != '\0' && len > 0 && (size_t)len < size) {
            len += snprintf(text + len, size - (size_t)len, "; peer %u is refused: %s", link->id,
                            link->refused);
        }
    }
}

/* Adds the check of the tree, which never fails. A full tree does not make a replica unready:
 * reads, deletes and the end of sessions still work, and another replica would refuse the same
 * writes. */
static void check_tree(struct gate *gate, const struct prep_room *room, struct gate_check *checks,
                       size_t *count)
{
    struct gate_figures figures;
    char text[GATE_CHECK_TEXT_MAX] = "the tree has no limit: no voter has reported its memory";

    gate_figures(gate, &figures);
    if (room->bytes_max != 0) {
        (void)snprintf(text, sizeof text,
                       "the tree takes %" PRIu64 " of %" PRIu64 " bytes (maxTreeBytes of replica "
                       "%" PRIu32 ")%s",
                       figures.memory_bytes, room->bytes_max, room->member,
                       figures.memory_bytes >= room->bytes_max
                           ? ": it is full; only requests that free memory are accepted"
                           : "");
    }
    check_add(checks, count, "tree", true, text);
}

static void check_disk(struct gate *gate, struct gate_check *checks, size_t *count)
{
    const char *aside = atomic_load(&gate->aside);
    bool low = atomic_load(&gate->server->worker.low);
    bool lacks_files = atomic_load(&gate->server->log.lacks_files);

    check_add(checks, count, "disk", !aside && !low && !lacks_files,
              lacks_files ? "out of file descriptors: no write is acknowledged"
              : aside     ? aside
                          : (low ? gate_disk_is_low : "there is disk space"));
}

/* Adds the check of the server list, which never fails: the members are those of the replicated
 * configuration. */
static void check_list(struct gate *gate, const struct publication *published,
                       struct gate_check *checks, size_t *count)
{
    const struct config_peers *file = &gate->server->config->peers;
    const char *agrees = file->server_count == 0 ? "the configuration has no server list"
                                                 : "the server list names the members";

    check_add(checks, count, "server_list", true,
              published->list_differs[0] != '\0' ? published->list_differs : agrees);
}

/* Returns why this disk is not, or not yet, that of a member; NULL: it is. A replica that joins has
 * more to say than the protocol, which knows no addresses. */
static const char *why_no_member(const struct gate *gate, const struct publication *published)
{
    const struct zab_status *zab = &published->replica.zab;
    bool is_sound = !zab->quarantined && !zab->unknown_disk && !zab->bootstrapping;

    if (published->join_text[0] != '\0') {
        return published->join_text;
    }
    if (is_sound && zab_config_find(&published->config, gate->server->config->id)) {
        return NULL;
    }
    return zab->reason ? zab->reason : ""; /* NULL before the first turn. */
}

static void check_member(struct gate *gate, const struct publication *published,
                         struct gate_check *checks, size_t *count)
{
    const char *why = why_no_member(gate, published);
    uint64_t zxid = atomic_load(&gate->removed);
    char text[2 * GATE_CHECK_TEXT_MAX]; /* check_add shortens it. */

    if (zxid != 0) {
        (void)snprintf(text, sizeof text,
                       "the change of the members at zxid 0x%" PRIx64
                       " has removed this replica: it ends",
                       zxid);
    } else {
        (void)snprintf(text, sizeof text, "%s%s",
                       why ? why : "this disk is a member of the cluster", published->join_missing);
    }
    check_add(checks, count, "member", !why && zxid == 0, text);
}

size_t gate_readyz(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX])
{
    struct publication *published = gate_published(gate);
    const struct zab_status *zab = &published->replica.zab;
    const char *text = zab->reason ? zab->reason : ""; /* NULL before the first turn. */
    struct gate_status status;
    char no_leader[GATE_CHECK_TEXT_MAX];
    const char *why = "";
    size_t count = 0;

    gate_status(gate, &status);
    check_member(gate, published, checks, &count);
    explain_no_leader(published, no_leader, sizeof no_leader);
    check_add(checks, &count, "leader", status.leader != 0,
              status.leader != 0 ? "a leader is known" : no_leader);
    check_add(checks, &count, "in_step", status.in_step,
              status.in_step ? "in step with the leader" : text);
    bool fresh = gate_check_local(gate, &why) == ERR_OK;

    check_add(checks, &count, "fresh", fresh, fresh ? "recent contact with the leader" : why);
    check_disk(gate, checks, &count);
    check_tree(gate, &published->replica.room, checks, &count);
    check_list(gate, published, checks, &count);
    check_add(checks, &count, "not_draining", !status.draining,
              status.draining ? "shutting down" : "not shutting down");
    mem_free(published);
    return count;
}
