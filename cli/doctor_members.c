/* The findings of the doctor about members that other replicas report as away, and about the
 * quorum. */
#include "cli/doctor.h"
#include "cli/jsonr.h"
#include "cli/words.h"
#include "server/config/config.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    HOST_MAX = 256
};

/* ---- Why a replica does not serve ---- */

/* Finds why a replica has no leader, once: the first failed check causes the later ones. A replica
 * that is no member is left out: its disk is new or not trusted, and the leader is filling it. */
static void look_at_leader(struct look *look, const json_t *replica)
{
    const json_t *check = doctor_failed(replica, DOCTOR_LEADER);

    if (check && !doctor_failed(replica, "member") && !doctor_is_explained(replica)) {
        doctor_find(look, NOT_READY, replica, "%s: %s", jsonr_text(check, "name"),
                    jsonr_text(check, "text"));
    }
}

/* ---- Members ---- */

/* Whether an address ("host:port", "[address]:port", or a URL of one) is a loopback address. */
static bool is_loopback(const char *address)
{
    const char *scheme = strstr(address, "://");
    const char *start = scheme ? scheme + 3 : address;
    bool bracket = *start == '[';
    char host[HOST_MAX];

    start += bracket;
    (void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(start, bracket ? "]" : ":/"), start);
    return config_is_loopback(host);
}

/* Whether the reason why a member is away has been reported: its endpoint was asked and has not
 * answered, or another endpoint that may be the member's has not answered. */
static bool is_told(struct look *look, const char *client)
{
    bool nameless = !*client && look->nameless > 0;

    look->nameless -= nameless ? 1 : 0;
    return nameless ||
           (*client && jsonr_at(doctor_with(look->replicas, "endpoint", client), "error"));
}

static bool is_away(const json_t *member)
{
    return words_find("unreachable, silent", jsonr_text(member, "state")) >= 0;
}

static bool is_asked(const struct look *look, const json_t *member)
{
    return doctor_with_number(look->replicas, "status.id", jsonr_number(member, "id")) != NULL;
}

static void look_at_missing(struct look *look, const json_t *member)
{
    int64_t seen_by = jsonr_number(look->ensemble, "seen_by");

    if (!is_asked(look, member) && is_told(look, jsonr_text(member, "client"))) {
        return;
    }
    if (strcmp(jsonr_text(member, "state"), "unreachable") == 0) {
        doctor_find(look, MISSING, member, "replica %" PRId64 " is not connected to it", seen_by);
    } else {
        doctor_find(look, MISSING, member,
                    "replica %" PRId64 " last heard from it %" PRId64 " s ago", seen_by,
                    jsonr_number(member, "heard_ms") / 1000);
    }
}

static void look_at_member(struct look *look, const json_t *member)
{
    static const char two[] = "two processes";
    const char *client = jsonr_text(member, "client");
    const char *refused = jsonr_text(member, "refused");

    if (*refused && strncmp(refused, two, strlen(two)) != 0) { /* DUPLICATE_ID covers the others. */
        doctor_find(look, PEER_REFUSED, member, "%s", refused);
    }
    if (is_away(member)) {
        look_at_missing(look, member);
    } else if (!*client && json_array_size(jsonr_at(look->ensemble, "members")) > 1 &&
               !is_asked(look, member)) {
        doctor_find(look, NO_CLIENT_ADDRESS, member,
                    "it does not advertise an address for clients");
    }
    if (*client && is_loopback(client) && !is_loopback(jsonr_text(member, "peer"))) {
        doctor_find(look, LOOPBACK_ADDRESS, member, "it advertises %s to clients", client);
    }
}

void doctor_look_at_members(struct look *look)
{
    int voters = 0;
    int there = 0;

    JSONR_EACH (member, jsonr_at(look->ensemble, "members")) {
        bool voter = strcmp(jsonr_text(member, "role"), "voter") == 0;

        look_at_member(look, member);
        voters += voter;
        there += voter && !is_away(member);
    }
    look->voters = voters;
    look->there = there;
    if (voters > 0 && voters % 2 == 0) {
        doctor_find(look, EVEN_VOTERS, NULL, "it has %d voters", voters);
    }
    if (voters > 2 && there < voters && there == voters / 2 + 1) {
        doctor_find(look, NO_SPARE, NULL, "%d of %d voters work together", there, voters);
    }
}

static bool any_serves(const struct look *look)
{
    JSONR_EACH (replica, look->replicas) {
        if (json_is_true(jsonr_at(replica, "status.serving"))) {
            return true;
        }
    }
    return false;
}

/* Looks at the quorum after the findings about single replicas, which are the causes to act on. A
 * missing leader, or replicas that do not serve, follow from those causes. */
void doctor_look_at_quorum(struct look *look)
{
    bool serves = any_serves(look);
    bool explained = !serves && look->errors > 0;

    JSONR_EACH (replica, look->replicas) {
        int64_t id = jsonr_number(replica, "status.id");

        if (!explained &&
            !is_away(doctor_with_number(jsonr_at(look->ensemble, "members"), "id", id))) {
            look_at_leader(look, replica);
        }
    }
    if (!serves && look->there > 0) {
        doctor_find(look, NO_QUORUM, NULL,
                    "no replica serves: %d of %d voters work together, %d are needed", look->there,
                    look->voters, look->voters / 2 + 1);
    } else if (!serves) {
        doctor_find(look, NO_QUORUM, NULL, "none of the %zu endpoints serves",
                    json_array_size(look->replicas));
    }
}
