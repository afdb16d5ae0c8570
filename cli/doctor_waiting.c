/* What the doctor finds about replicas that wait to be added. */
#include "cli/doctor.h"

#include <inttypes.h>
#include <string.h>

static const char outside[] = "not a member of ensemble ";

static bool begins_with(const char *text, const char *head)
{
    return strncmp(text, head, strlen(head)) == 0;
}

enum doctor_kind doctor_kind_of_member(const char *text)
{
    if (begins_with(text, outside)) {
        return REPLICA_WAITS;
    }
    return begins_with(text, "this replica looks for an ensemble") ||
                   begins_with(text, "no ensemble is founded yet")
               ? NOT_READY
               : NOT_MEMBER;
}

/* Whether the replica was asked itself, and has said how it is added. */
static bool has_said_so(const struct look *look, int64_t id)
{
    JSONR_EACH (replica, look->replicas) {
        const json_t *check = doctor_with(jsonr_at(replica, "ready.checks"), "name", "member");

        if (jsonr_number(replica, "status.id") == id &&
            begins_with(jsonr_text(check, "text"), outside)) {
            return true;
        }
    }
    return false;
}

void doctor_look_at_waiting(struct look *look)
{
    JSONR_EACH (waiting, jsonr_at(look->ensemble, "waiting")) {
        const char *command = jsonr_text(waiting, "command");
        const char *reason = jsonr_text(waiting, "reason");

        if (!has_said_so(look, jsonr_number(waiting, "id"))) {
            doctor_find(look, REPLICA_WAITS, waiting, "the replica waits to be added%s%s%s%s",
                        *reason ? "; why autoJoin does not add it: " : "", reason,
                        *command ? ": " : "", command);
        }
    }
}
