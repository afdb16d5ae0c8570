#include "cli/doctor.h"

#include "cli/words.h"
#include "server/config/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SKEW_MS = 3000,            /* Allowed difference of clocks; a Date has whole seconds. */
    BEHIND_MAX = 10000,        /* Transactions that a replica may lag behind. */
    AUDIT_BEHIND_MAX = 100000, /* Applied records that are not recorded yet. */
    SYNCS_MIN = 20,            /* Fewer syncs are too few for an average. */
    NEAR_PERCENT = 80,
    HOST_MAX = 256,
    SUBJECT_MAX = 32, /* Bytes of "replica N". */
    /* From this percentage of maxUnsentBytes on, replicas close slow clients (base/budget.h). */
    UNSENT_SHORT_PERCENT = 75
};

#define SLOW_SYNC_S 0.1

/* The checks of /readyz that fail without a leader. A failed check may also make the checks after
 * it in this list fail. */
#define LEADER "leader, in_step, fresh"

/* ---- Facts ---- */

/* Returns the first failed check in the replica's /readyz among `names` ("a, b, c"); NULL: none. */
static const json_t *failed_check(const json_t *replica, const char *names)
{
    JSONR_EACH (check, jsonr_at(replica, "ready.checks")) {
        if (!json_is_true(jsonr_at(check, "ok")) &&
            words_find(names, jsonr_text(check, "name")) >= 0) {
            return check;
        }
    }
    return NULL;
}

/* Returns the first object in the list whose `member` is this number; NULL: none. */
static const json_t *with_number(const json_t *list, const char *member, int64_t number)
{
    JSONR_EACH (one, list) {
        if (jsonr_number(one, member) == number) {
            return one;
        }
    }
    return NULL;
}

/* Whether the cause of the replica's failed checks is reported as another finding: two processes
 * with the replica's id, or a full disk. */
static bool is_explained(const json_t *replica)
{
    bool duplicate = *jsonr_text(replica, "status.duplicate") &&
                     !json_is_true(jsonr_at(replica, "status.serving"));

    return duplicate || doctor_figure(replica, "zabra_log_stuck") > 0 ||
           doctor_figure(replica, "zabra_audit_failing") > 0;
}

/* ---- One replica ---- */

/* Finds the failed checks that a replica reports, except those about its disk or the leader. */
static void look_at_checks(struct look *look, const json_t *replica)
{
    if (is_explained(replica)) {
        return;
    }
    JSONR_EACH (check, jsonr_at(replica, "ready.checks")) {
        const char *name = jsonr_text(check, "name");

        if (!json_is_true(jsonr_at(check, "ok")) && words_find("disk, " LEADER, name) < 0) {
            const char *text = jsonr_text(check, "text");

            doctor_find(look, strcmp(name, "member") == 0 ? doctor_kind_of_member(text) : NOT_READY,
                        replica, "%s: %s", name, text);
        }
    }
}

static void look_at_audit(struct look *look, const json_t *replica)
{
    double behind = doctor_figure(replica, "zabra_audit_behind");

    if (doctor_figure(replica, "zabra_audit_failing") > 0) {
        doctor_find(look, AUDIT_FAILING, replica,
                    "the audit file of the replica cannot be written");
    } else if (behind > AUDIT_BEHIND_MAX) {
        doctor_find(look, AUDIT_BEHIND, replica, "%.0f applied changes are not recorded", behind);
    }
}

/* Finds a replica whose server list differs from the members; its readiness does not fail. */
static void look_at_list(struct look *look, const json_t *replica)
{
    static const char head[] = "server.N: ";
    const json_t *check = doctor_with(jsonr_at(replica, "ready.checks"), "name", "server_list");
    const char *text = jsonr_text(check, "text");

    if (strncmp(text, head, strlen(head)) == 0) {
        doctor_find(look, LIST_DIFFERS, replica, "%s", text + strlen(head));
    }
}

static void look_at_disk(struct look *look, const json_t *replica)
{
    double syncs = doctor_figure(replica, "zabra_log_sync_seconds_count");
    double mean_s = syncs > 0 ? doctor_figure(replica, "zabra_log_sync_seconds_sum") / syncs : 0;
    double failed = doctor_figure(replica, "zabra_snapshot_errors_total");
    double lost = doctor_figure(replica, "zabra_refill_log_lost_total");
    double stalled = doctor_figure(replica, "zabra_refills_stalled");

    if (doctor_figure(replica, "zabra_log_stuck") > 0) {
        doctor_find(look, LOG_STUCK, replica, "the disk of the replica is full");
    } else if (doctor_figure(replica, "zabra_disk_low") > 0) {
        doctor_find(look, DISK_LOW, replica, "the disk of the replica is nearly full");
    }
    look_at_audit(look, replica);
    if (syncs >= SYNCS_MIN && mean_s > SLOW_SYNC_S) {
        doctor_find(look, DISK_SLOW, replica,
                    "a sync of the log takes %.0f ms on average over %.0f syncs", mean_s * 1000,
                    syncs);
    }
    if (failed > 0) {
        doctor_find(look, SNAPSHOTS_FAIL, replica, "%.0f snapshots could not be written", failed);
    }
    if (lost > 0 && doctor_figure(replica, "zabra_refills") > 0) {
        doctor_find(look, REFILL_LOST, replica,
                    "%.0f times the leader purged log that a joining replica still needed", lost);
    }
    if (stalled > 0) {
        doctor_find(look, REFILL_STALLED, replica,
                    "the leader refills %.0f replicas that make no progress", stalled);
    }
}

static const struct {
    enum doctor_kind kind;
    const char *metric;
    const char *limit;
    const char *what;
} limited[] = {
    {NEAR_LIMIT, "zabra_sessions", "maxSessions", "sessions"},
    {TREE_FULL, "zabra_tree_bytes", "maxTreeBytes", "bytes of memory for the tree"},
    {NEAR_LIMIT, "zabra_remembered_results", "maxRemembered", "answers kept for retries"},
    {NEAR_LIMIT, "zabra_remembered_result_bytes", "maxRememberedBytes",
     "bytes of answers kept for retries"},
    {NEAR_LIMIT, "zabra_http_connections", "maxConnections", "connections"},
    {NEAR_LIMIT, "zabra_ws_sockets", "maxWebSockets", "WebSockets"},
    {NEAR_LIMIT, "zabra_http_streams", "maxStreams", "streams"},
    {NEAR_LIMIT, "zabra_outstanding_requests", "maxRequests", "requests in flight"},
};

static void look_at_limits(struct look *look, const json_t *replica)
{
    for (size_t i = 0; i < sizeof(limited) / sizeof(limited[0]); i++) {
        double used = doctor_figure(replica, limited[i].metric);
        double limit = json_number_value(
            json_object_get(json_object_get(replica, "limits"), limited[i].limit));

        if (limit > 0 && used * 100 >= limit * NEAR_PERCENT) {
            doctor_find(look, limited[i].kind, replica, "%.0f %s; the limit %s is %.0f", used,
                        limited[i].what, limited[i].limit, limit);
        }
    }
    if (doctor_figure(replica, "zabra_quotas_exceeded") > 0) {
        doctor_find(look, QUOTA_EXCEEDED, replica, "%.0f soft quotas are exceeded",
                    doctor_figure(replica, "zabra_quotas_exceeded"));
    }
}

static void look_at_unsent(struct look *look, const json_t *replica)
{
    double used = doctor_figure(replica, "zabra_unsent_bytes");
    double limit = doctor_figure(replica, "zabra_unsent_max_bytes");

    if (limit > 0 && used * 100 >= limit * UNSENT_SHORT_PERCENT) {
        doctor_find(look, used >= limit ? UNSENT_FULL : UNSENT_SHORT, replica,
                    "%.0f bytes wait to be sent to clients; the limit maxUnsentBytes is %.0f", used,
                    limit);
    }
}

static void look_at_one(struct look *look, const json_t *replica)
{
    if (json_is_true(jsonr_at(replica, "foreign"))) {
        doctor_find(look, NOT_ZABRA, replica, "%s", jsonr_text(replica, "error"));
    } else if (jsonr_at(replica, "error")) {
        look->nameless += doctor_at(jsonr_at(look->ensemble, "members"), "client",
                                    jsonr_text(replica, "endpoint"))
                              ? 0
                              : 1;
        if (json_is_true(jsonr_at(replica, "tls"))) {
            doctor_find(look, TLS_FAILED, replica, "%s", jsonr_text(replica, "error"));
            return;
        }
        doctor_find(look, UNREACHABLE, replica, "no answer: %s", jsonr_text(replica, "error"));
    } else if (!json_is_object(jsonr_at(replica, "status"))) {
        doctor_find(look, REFUSED, replica, "the replica answers with HTTP status %" PRId64,
                    jsonr_number(replica, "http"));
    } else {
        look_at_checks(look, replica);
        look_at_list(look, replica);
        look_at_disk(look, replica);
        look_at_limits(look, replica);
        look_at_unsent(look, replica);
        doctor_look_at_host(look, replica);
        doctor_look_at_tls(look, replica);
        doctor_look_at_peer_keys(look, replica);
    }
}

/* ---- All replicas ---- */

static uint64_t hex(const json_t *value, const char *path)
{
    return strtoull(jsonr_text(value, path), NULL, 16);
}

/* Finds the first replica whose `member` differs from that of a replica before it. */
static void look_at_same(struct look *look, const char *member, enum doctor_kind kind)
{
    const json_t *first = NULL;

    JSONR_EACH (replica, look->replicas) {
        const char *value = jsonr_text(replica, member);

        if (value[strspn(value, "0x")] == '\0') {
            continue; /* A replica with an empty directory has no id yet. */
        }
        if (!first) {
            first = replica;
        } else if (strcmp(jsonr_text(first, member), value) != 0) {
            doctor_find(look, kind, replica, "this replica has %s, replica %" PRId64 " has %s",
                        value, jsonr_number(first, "status.id"), jsonr_text(first, member));
            return;
        }
    }
}

static void look_at_pair(struct look *look, const json_t *a, const json_t *b)
{
    bool same_zxid = hex(a, "status.zxid") == hex(b, "status.zxid");

    if (same_zxid && jsonr_at(a, "status") && jsonr_at(b, "status") &&
        strcmp(jsonr_text(a, "status.cluster"), jsonr_text(b, "status.cluster")) == 0 &&
        strcmp(jsonr_text(a, "status.history"), jsonr_text(b, "status.history")) == 0 &&
        strcmp(jsonr_text(a, "status.digest"), jsonr_text(b, "status.digest")) != 0) {
        doctor_find(look, STATES_DIFFER, b,
                    "at zxid %s this replica has the digest %s, replica %" PRId64 " has %s",
                    jsonr_text(b, "status.zxid"), jsonr_text(b, "status.digest"),
                    jsonr_number(a, "status.id"), jsonr_text(a, "status.digest"));
    }
}

static void look_at_clocks(struct look *look)
{
    const json_t *first = NULL;
    int64_t first_least = 0;
    int64_t first_most = 0;

    JSONR_EACH (replica, look->replicas) {
        /* The replica's clock is ahead of the local clock by `least` to `most` ms. A Date leaves
         * out the milliseconds, so its true time is up to 1,000 ms after `clock_ms`. */
        int64_t clock_ms = jsonr_number(replica, "clock_ms");
        int64_t least = clock_ms - jsonr_number(replica, "answered_ms");
        int64_t most = clock_ms + 1000 - jsonr_number(replica, "asked_ms");

        if (clock_ms == 0) {
            continue;
        }
        if (!first) {
            first = replica;
            first_least = least;
            first_most = most;
            continue;
        }

        int64_t ahead = least - first_most;
        int64_t behind = first_least - most;
        int64_t apart = max_i64(ahead, behind);

        if (apart >= SKEW_MS) {
            doctor_find(look, CLOCK_SKEW, replica,
                        "the clock of this replica is at least %.1f s %s that of replica %" PRId64,
                        (double)apart / 1000, ahead > behind ? "ahead of" : "behind",
                        jsonr_number(first, "status.id"));
        }
    }
}

static void look_at_lag(struct look *look)
{
    uint64_t newest = 0;

    JSONR_EACH (replica, look->replicas) {
        newest = max_u64(hex(replica, "status.zxid"), newest);
    }
    JSONR_EACH (replica, look->replicas) {
        uint64_t zxid = hex(replica, "status.zxid");

        if (zxid > 0 && zxid >> 32 == newest >> 32 && newest - zxid > BEHIND_MAX) {
            doctor_find(look, LAGGING, replica, "the replica is %" PRIu64 " transactions behind",
                        newest - zxid);
        }
    }
}

static const char *switch_text(const json_t *value)
{
    return json_is_true(value) ? "true" : "false";
}

/* Finds a replica whose `member` of the status, a bool, differs from that of a replica before it.
 * Replicas of a release that has no such member are left out. */
static void look_at_switch(struct look *look, const char *member, const char *key)
{
    const json_t *first = NULL;

    JSONR_EACH (replica, look->replicas) {
        const json_t *value = jsonr_at(replica, member);

        if (!json_is_boolean(value)) {
            continue;
        }
        first = first ? first : replica;
        if (!json_equal(value, jsonr_at(first, member))) {
            doctor_find(look, CONFIG_DIFFERS, replica, "%s is %s, and %s with replica %" PRId64,
                        key, switch_text(value), switch_text(jsonr_at(first, member)),
                        jsonr_number(first, "status.id"));
            return;
        }
    }
}

/* Finds each limit in which a replica differs from the first one. */
static void look_at_config(struct look *look)
{
    const json_t *first = NULL;

    JSONR_EACH (replica, look->replicas) {
        json_t *limits = jsonr_at(replica, "limits");
        const char *name = NULL;
        json_t *value = NULL;

        if (!limits) {
            continue;
        }
        first = first ? first : replica;
        json_object_foreach(limits, name, value)
        {
            const json_t *other = json_object_get(jsonr_at(first, "limits"), name);

            /* Machines may differ in maxTreeBytes: the smallest value applies to all replicas. */
            if (other && strcmp(name, "maxTreeBytes") != 0 && !json_equal(other, value)) {
                doctor_find(look, CONFIG_DIFFERS, replica,
                            "%s is %.0f, and %.0f with replica %" PRId64, name,
                            json_number_value(value), json_number_value(other),
                            jsonr_number(first, "status.id"));
            }
        }
    }
}

/* ---- Two processes with one id ---- */

/* Adds a finding for the id. Every replica that knows of the problem reports it, so only the first
 * report counts. */
static void find_duplicate(struct look *look, int64_t id, const char *text)
{
    json_auto_t *member = json_pack("{s:I}", "id", (json_int_t)id);
    char subject[SUBJECT_MAX];

    (void)snprintf(subject, sizeof(subject), "replica %" PRId64, id);
    if (*text && !doctor_with(look->findings, "subject", subject)) {
        doctor_find(look, DUPLICATE_ID, member, "%s", text);
    }
}

/* Finds ids that two processes use. Called first: these findings explain the ones after them. */
static void look_at_duplicates(struct look *look)
{
    JSONR_EACH (one, jsonr_at(look->ensemble, "members")) {
        find_duplicate(look, jsonr_number(one, "id"), jsonr_text(one, "duplicate"));
    }
    JSONR_EACH (one, look->replicas) {
        find_duplicate(look, jsonr_number(one, "status.id"), jsonr_text(one, "status.duplicate"));
    }
}

/* ---- Why a replica does not serve ---- */

/* Adds one finding for a replica without a leader: the first failed check, which causes the later
 * ones. A replica that is no member is left out: it already has the finding NOT_MEMBER. */
static void look_at_leader(struct look *look, const json_t *replica)
{
    const json_t *check = failed_check(replica, LEADER);

    if (check && !failed_check(replica, "member") && !is_explained(replica)) {
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

/* Whether a finding about an endpoint already explains why a member is missing. Either the endpoint
 * that the member advertises has not answered; or the member advertises none, and an endpoint that
 * no member advertises has not answered. Each endpoint of this second kind explains one member. */
static bool is_told(struct look *look, const char *client)
{
    bool nameless = !*client && look->nameless > 0;

    look->nameless -= nameless ? 1 : 0;
    return nameless ||
           (*client && jsonr_at(doctor_at(look->replicas, "endpoint", client), "error"));
}

static bool is_away(const json_t *member)
{
    return words_find("unreachable, silent", jsonr_text(member, "state")) >= 0;
}

static bool is_asked(const struct look *look, const json_t *member)
{
    return with_number(look->replicas, "status.id", jsonr_number(member, "id")) != NULL;
}

static void look_at_missing(struct look *look, const json_t *member)
{
    int64_t seen_by = jsonr_number(look->ensemble, "seen_by");

    if (!is_asked(look, member) && is_told(look, jsonr_text(member, "client"))) {
        return;
    }
    if (strcmp(jsonr_text(member, "state"), "unreachable") == 0) {
        doctor_find(look, MISSING, member, "replica %" PRId64 " is not connected to this member",
                    seen_by);
    } else {
        doctor_find(look, MISSING, member,
                    "replica %" PRId64 " last heard from this member %" PRId64 " s ago", seen_by,
                    jsonr_number(member, "heard_ms") / 1000);
    }
}

static void look_at_member(struct look *look, const json_t *member)
{
    static const char two[] = "two processes";
    const char *client = jsonr_text(member, "client");
    const char *refused = jsonr_text(member, "refused");

    /* A refusal that begins with `two` is already reported as DUPLICATE_ID. */
    if (*refused && strncmp(refused, two, strlen(two)) != 0) {
        doctor_find(look, PEER_REFUSED, member, "%s", refused);
    }
    if (is_away(member)) {
        look_at_missing(look, member);
    } else if (!*client && json_array_size(jsonr_at(look->ensemble, "members")) > 1 &&
               !is_asked(look, member)) {
        doctor_find(look, NO_CLIENT_ADDRESS, member,
                    "this member does not advertise an address for clients");
    }
    if (*client && is_loopback(client) && !is_loopback(jsonr_text(member, "peer"))) {
        doctor_find(look, LOOPBACK_ADDRESS, member, "this member advertises %s to clients", client);
    }
}

static void look_at_members(struct look *look)
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
        doctor_find(look, EVEN_VOTERS, NULL, "the ensemble has %d voters", voters);
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

/* Finds replicas without a leader, and a missing quorum. Called after the checks of replicas and
 * members: if no replica serves and these checks have found errors, the errors are the causes to
 * act on, and a missing leader is not reported as well. */
static void look_at_quorum(struct look *look)
{
    bool serves = any_serves(look);
    bool explained = !serves && look->errors > 0;

    JSONR_EACH (replica, look->replicas) {
        int64_t id = jsonr_number(replica, "status.id");

        if (!explained && !is_away(with_number(jsonr_at(look->ensemble, "members"), "id", id))) {
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

/* ---- All checks ---- */

json_t *doctor_look(const json_t *facts)
{
    struct look look = {.replicas = jsonr_at(facts, "replicas"),
                        .ensemble = jsonr_at(facts, "ensemble"),
                        .findings = json_array()};

    look_at_duplicates(&look);
    look_at_same(&look, "status.cluster", OTHER_CLUSTER);
    look_at_same(&look, "status.history", OTHER_HISTORY);
    look_at_same(&look, "status.version", VERSIONS_DIFFER);
    JSONR_EACH (replica, look.replicas) {
        look_at_one(&look, replica);
        look_at_pair(&look, json_array_get(look.replicas, 0), replica);
    }
    look_at_members(&look);
    doctor_look_at_waiting(&look);
    doctor_look_at_change(&look);
    look_at_quorum(&look);
    doctor_look_at_peer_tls(&look);
    look_at_lag(&look);
    look_at_clocks(&look);
    doctor_look_at_backups(&look);
    look_at_config(&look);
    look_at_switch(&look, "status.require_identity", "requireIdentity");
    look_at_switch(&look, "status.inherit_acl", "inheritAcl");
    return look.findings;
}
