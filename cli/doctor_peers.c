/* What the doctor finds about TLS between the replicas: the next step of a rolling change of
 * peerTls, and keys that could not be read again or expire. */
#include "cli/doctor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    STEPS = 4,
    UNKNOWN = -1,
    IDS_MAX = 64,
    LINKS_MAX = 256,
    DAY_S = 86400,
    EXPIRES_DAYS = 14
};

static const char *const steps[STEPS] = {"off", "accept", "dial", "required"};

/* Returns the step of a member; UNKNOWN, because it is not connected or has an old release. */
static int step_of(const json_t *member)
{
    const char *tls = jsonr_text(member, "peer_tls");

    for (int i = 0; i < STEPS; i++) {
        if (strcmp(tls, steps[i]) == 0) {
            return i;
        }
    }
    return UNKNOWN;
}

/* Lists the ids of the members at this step: "1, 3". */
static void list_ids(const json_t *members, int step, char ids[IDS_MAX])
{
    size_t len = 0;

    ids[0] = '\0';
    JSONR_EACH (member, members) {
        if (step_of(member) == step && len < IDS_MAX) {
            len += (size_t)snprintf(ids + len, IDS_MAX - len, "%s%" PRId64, len > 0 ? ", " : "",
                                    jsonr_number(member, "id"));
        }
    }
}

/* Whether a connection between replicas may leave a machine. A host in a server list without a dot
 * or colon, other than localhost, is another machine as well. */
static bool is_remote(const json_t *members)
{
    JSONR_EACH (member, members) {
        const char *peer = jsonr_text(member, "peer");

        if (strncmp(peer, "127.", 4) != 0 && strncmp(peer, "localhost:", 10) != 0 &&
            strncmp(peer, "::1:", 4) != 0) {
            return true;
        }
    }
    return false;
}

static const char *plural(const char *ids)
{
    return strchr(ids, ',') ? "s" : "";
}

/* Whether the replica has told about its connections. */
static bool has_told(const struct look *look, int64_t id)
{
    JSONR_EACH (replica, look->replicas) {
        if (jsonr_number(replica, "status.id") == id && jsonr_at(replica, "ensemble.members")) {
            return true;
        }
    }
    return false;
}

/* Lists the connections without TLS: "; plain connections: 1 with 2, 1 with 3". Of the two replicas
 * of a connection the one with the lower id tells, unless only the other one has answered. */
static void list_plain(const struct look *look, char links[LINKS_MAX])
{
    size_t len = 0;

    links[0] = '\0';
    JSONR_EACH (replica, look->replicas) {
        int64_t own = jsonr_number(replica, "status.id");

        JSONR_EACH (member, jsonr_at(replica, "ensemble.members")) {
            int64_t id = jsonr_number(member, "id");

            if (strcmp(jsonr_text(member, "sealed"), "no") == 0 &&
                (own < id || !has_told(look, id)) && len < LINKS_MAX) {
                len +=
                    (size_t)snprintf(links + len, LINKS_MAX - len, "%s %" PRId64 " with %" PRId64,
                                     len > 0 ? "," : "; plain connections:", own, id);
            }
        }
    }
}

/* A step needs all replicas: with one whose peerTls is not known, the step is to bring it back. */
static void find_step(struct look *look, const json_t *members, int least)
{
    char ids[IDS_MAX];
    char unknown[IDS_MAX];
    char links[LINKS_MAX];

    list_ids(members, least, ids);
    list_ids(members, UNKNOWN, unknown);
    list_plain(look, links);
    if (unknown[0]) {
        doctor_find(look, PEER_TLS_STEP, NULL,
                    "the rolling change is not complete: replica%s %s with peerTls=%s; first bring "
                    "back replica%s %s, whose peerTls is unknown%s",
                    plural(ids), ids, steps[least], plural(unknown), unknown, links);
    } else {
        doctor_find(look, PEER_TLS_STEP, NULL,
                    "the next step of the rolling change: set peerTls=%s on replica%s %s and "
                    "restart it, one replica after the other%s",
                    steps[least + 1], plural(ids), ids, links);
    }
}

static void find_plain(struct look *look, const json_t *members)
{
    char unknown[IDS_MAX];

    list_ids(members, UNKNOWN, unknown);
    doctor_find(look, PEERS_PLAIN, NULL,
                unknown[0] ? "all replicas have peerTls=off, except perhaps replica%s %s, whose "
                             "peerTls is unknown"
                           : "all replicas have peerTls=off%s%s",
                unknown[0] ? plural(unknown) : "", unknown);
}

void doctor_look_at_peer_tls(struct look *look)
{
    const json_t *members = jsonr_at(look->ensemble, "members");
    int least = STEPS;
    int most = UNKNOWN;

    JSONR_EACH (member, members) {
        int step = step_of(member);

        least = step != UNKNOWN && step < least ? step : least;
        most = step > most ? step : most;
    }
    if (json_array_size(members) < 2 || least >= STEPS - 1) {
        return; /* Also if the peerTls of no replica is known. */
    }
    if (most == 0 && is_remote(members)) {
        find_plain(look, members);
    } else if (most > 0) {
        find_step(look, members, least);
    }
}

void doctor_look_at_peer_keys(struct look *look, const json_t *replica)
{
    double left_s = doctor_figure(replica, "zabra_peer_certificate_expires_seconds");

    if (doctor_figure(replica, "zabra_peer_key_reload_failed") > 0) {
        doctor_find(look, PEER_KEYS_BAD, replica,
                    "the replica cannot use the files of its keys as they are now");
    }
    if (left_s < 0) {
        doctor_find(look, PEER_CERTIFICATE, replica,
                    "the certificate for other replicas has expired");
    } else if (left_s > 0 && left_s < (double)EXPIRES_DAYS * DAY_S) {
        doctor_find(look, PEER_CERTIFICATE, replica,
                    "the certificate for other replicas expires in %.0f days", left_s / DAY_S);
    }
}
