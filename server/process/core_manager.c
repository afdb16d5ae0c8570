/* What the core thread tells the service manager: that this thread works, and its role. */
#include "server/process/server_int.h"

enum {
    ALIVE_PER_INTERVAL = 4 /* Signs of life in the interval of the watchdog. */
};

static void write_status(const struct server *server, const struct zab_status *status,
                         char text[SD_NOTIFY_TEXT_MAX])
{
    uint32_t id = server->config->id;

    if (atomic_load(&server->gate.removed) != 0) {
        (void)snprintf(text, SD_NOTIFY_TEXT_MAX, "replica %u has been removed from its ensemble",
                       id);
    } else if (atomic_load(&server->gate.ending)) {
        (void)snprintf(text, SD_NOTIFY_TEXT_MAX, "replica %u is stopping", id);
    } else if (status->state == ZAB_LOOKING || !status->serving) {
        (void)snprintf(text, SD_NOTIFY_TEXT_MAX, "replica %u does not serve: %s", id,
                       status->reason[0] ? status->reason : "looking for a leader");
    } else if (status->state == ZAB_LEADING) {
        (void)snprintf(text, SD_NOTIFY_TEXT_MAX, "replica %u leads epoch %u", id, status->epoch);
    } else {
        (void)snprintf(text, SD_NOTIFY_TEXT_MAX, "replica %u is in step with leader %u in epoch %u",
                       id, status->leader, status->epoch);
    }
}

void core_tell_manager(struct server *server, const struct zab_status *status)
{
    struct core *core = &server->core;
    uint32_t interval_ms = server->manager.watchdog_ms;
    char text[SD_NOTIFY_TEXT_MAX];

    if (server->manager.fd < 0) {
        return;
    }
    if (interval_ms > 0 && core->now_ms - core->alive_ms >= interval_ms / ALIVE_PER_INTERVAL) {
        core->alive_ms = core->now_ms;
        sd_notify_send(&server->manager, "WATCHDOG=1");
    }
    write_status(server, status, text);
    if (strcmp(text, core->told_status) != 0) {
        (void)snprintf(core->told_status, sizeof core->told_status, "%s", text);
        sd_notify_send(&server->manager, "STATUS=%s", text);
    }
}
