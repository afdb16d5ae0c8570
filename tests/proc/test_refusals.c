/*
 * Changes of the members that are refused, and replicas that may not join as they are: each answer
 * names its subject and what to do, and neither the configuration nor the data changes.
 */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/membership.h"
#include "tests/proc/shell.h"

#include <stdio.h>
#include <string.h>

#define ROOT    "Authorization: Basic c3VwZXI6cm9vdA==\n" /* super:root */
#define BOB     "Authorization: Basic Ym9iOnB3\n"         /* bob:pw */
#define JSON    "Content-Type: application/json"
#define MEMBERS "/ensemble/v1/members"

enum {
    COUNT = 4,
    FOUNDERS = 3,
    ADDED = 3, /* Index of the replica that is added. */
    TEXT_MAX = 2048,
    WRITES = 40 /* More than the log keeps with the keys below. */
};

static struct ensemble ensemble;

static bool says(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

/* Whether replica `at` shows `key` of a member with this text. */
static bool shows(uint32_t at, uint32_t index, const char *key, const char *text)
{
    json_t *all = membership_seen_by(&ensemble, at);
    const char *value = json_string_value(json_object_get(membership_find(all, index), key));
    bool does = value && strstr(value, text);

    json_decref(all);
    return does;
}

/* Whether replica `at` sees so many voters in step. */
static bool in_step(uint32_t at, json_int_t count)
{
    json_t *all = membership_seen_by(&ensemble, at);
    bool are = json_integer_value(json_object_get(all, "in_step")) == count;

    json_decref(all);
    return are;
}

/* ---- What a refusal must leave as it is. ---- */

struct stand {
    char members[TEXT_MAX]; /* Version, and id, role and address of each member. */
    char config[TEXT_MAX];  /* The znode of the configuration. */
    char kept[TEXT_MAX];    /* A znode with its data and versions. */
};

static void note_members(uint32_t at, char out[TEXT_MAX])
{
    json_t *all = membership_seen_by(&ensemble, at);
    size_t index;
    json_t *one;
    int len =
        snprintf(out, TEXT_MAX, "%s", json_string_value(json_object_get(all, "config_version")));

    json_array_foreach(json_object_get(all, "members"), index, one)
    {
        const char *peer = json_string_value(json_object_get(one, "peer"));

        len += snprintf(out + len, TEXT_MAX - (size_t)len, " %d %s %s",
                        (int)json_integer_value(json_object_get(one, "id")),
                        json_string_value(json_object_get(one, "role")), peer ? peer : "");
    }
    json_decref(all);
}

/* Without `uri`, which names the replica. */
static void note_znode(uint32_t at, const char *path, char out[TEXT_MAX])
{
    ensemble_call_until(&ensemble, at, "GET", path, NULL, 200);
    json_t *znode = web_json(&ensemble.reply);

    (void)json_object_del(znode, "uri");
    size_t len = json_dumpb(znode, out, TEXT_MAX - 1, JSON_SORT_KEYS);

    assert_in_range(len, 1, TEXT_MAX - 1);
    out[len] = '\0';
    json_decref(znode);
}

static void note_stand(uint32_t at, struct stand *stand)
{
    memset(stand, 0, sizeof *stand); /* Two of them are compared. */
    note_members(at, stand->members);
    note_znode(at, "/znodes/v1/zookeeper/config", stand->config);
    note_znode(at, "/znodes/v1/kept", stand->kept);
}

static struct stand before;

/* The configuration and the data are what they were at the last note_stand(). */
static void expect_unchanged(uint32_t at)
{
    struct stand now;

    note_stand(at, &now);
    assert_string_equal(now.members, before.members);
    assert_string_equal(now.config, before.config);
    assert_string_equal(now.kept, before.kept);
}

static bool is_unchanged(uint32_t at)
{
    struct stand now;

    note_stand(at, &now);
    return memcmp(&now, &before, sizeof now) == 0;
}

/* ---- Refusals. ---- */

struct refusal {
    const char *method;
    const char *path;
    const char *body;
    long status;
    const char *code;
    const char *said[2]; /* Subject, and what to do. */
};

static long ask(uint32_t at, const struct refusal *refusal, const char *more)
{
    char headers[256];
    struct web_call call = {.method = refusal->method,
                            .port = ensemble.replicas[at].client_port,
                            .path = refusal->path,
                            .body = refusal->body,
                            .headers = headers};

    (void)snprintf(headers, sizeof headers, "%s%s", more, refusal->body ? JSON : "Prefer: wait=9");
    return web_do(ensemble.web, &call, &ensemble.reply);
}

static void expect_refused(uint32_t at, const struct refusal *refusal, const char *more)
{
    char code[64];
    long status = ask(at, refusal, more);

    (void)snprintf(code, sizeof code, "\"%s\"", refusal->code);
    if (status != refusal->status || !says(code) || !says(refusal->said[0]) ||
        !says(refusal->said[1]) || !says("\"outcome\":\"not-applied\"")) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s %s: %ld, not %ld with %s, %s, %s: %s", refusal->method, refusal->path,
                 refusal->body ? refusal->body : "", status, refusal->status, code,
                 refusal->said[0], refusal->said[1], web_text(&ensemble.reply));
    }
    expect_unchanged(at);
}

/* Fills the address for other replicas of a member into a request. */
static const char *with_address(const char *form, uint32_t index)
{
    static char body[TEXT_MAX];
    char address[64];

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ensemble.replicas[index].peer_port);
    const char *mark = strchr(form, '@');

    assert_non_null(mark);
    (void)snprintf(body, sizeof body, "%.*s%s%s", (int)(mark - form), form, address, mark + 1);
    return body;
}

/* ---- The ensemble: three voters, and an observer that has not started. ---- */

static void open_founders(void)
{
    struct membership_call add;

    membership_open(&ensemble, COUNT, FOUNDERS,
                    ENSEMBLE_SUPER "snapCount=10\nsnapRetainCount=1\nwalSegmentBytes=65536\n");
    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/kept?upsert=true", "kept", 201);
    membership_add(&ensemble, ADDED, &add);
    membership_change(&ensemble, 0, &add);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ENSEMBLE_WAIT(&ensemble, shows(i, ADDED, "role", "observer") && in_step(i, FOUNDERS));
    }
    note_stand(0, &before);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_founders, close_all)

TEST(only_the_super_user_may_ask)
{
    struct refusal refusal = {"DELETE", MEMBERS "/4",
                              NULL,     401,
                              "NoAuth", {"only the super user", "may change the members"}};

    expect_refused(0, &refusal, "");
    refusal.status = 403;
    expect_refused(1, &refusal, BOB);
}

TEST(what_a_request_itself_shows)
{
    static const struct refusal refusals[] = {
        {"POST", MEMBERS, "{\"id\":5}", 400, "BadArguments", {"peer must be given", "host:port"}},
        {"POST",
         MEMBERS,
         "{\"id\":5,\"peer\":\"zk5\"}",
         400,
         "BadArguments",
         {"peer must be host:port", "a port from 1 to 65535"}},
        {"POST",
         MEMBERS,
         "{\"id\":5,\"peer\":\"zk5:0\"}",
         400,
         "BadArguments",
         {"peer must be host:port", "a port from 1 to 65535"}},
        {"POST",
         MEMBERS,
         "{\"id\":5,\"peer\":\"::1:7000\"}",
         400,
         "BadArguments",
         {"peer must be host:port", "an IPv6 address in brackets"}},
        {"POST",
         MEMBERS,
         "{\"id\":5,\"peer\":\"0.0.0.0:7000\"}",
         400,
         "BadArguments",
         {"peer is the address of no machine", "the one at which the others reach this member"}},
        {"PUT",
         MEMBERS "/2",
         "{\"peer\":\"[::]:7000\"}",
         400,
         "BadArguments",
         {"peer is the address of no machine", "the one at which the others reach this member"}},
        {"PUT",
         MEMBERS "/4",
         "{\"client\":\"0.0.0.0:9998\"}",
         400,
         "BadArguments",
         {"client is the address of no machine", "the one at which clients reach this member"}},
        {"POST",
         MEMBERS,
         "{\"id\":65536,\"peer\":\"zk5:1\"}",
         400,
         "BadArguments",
         {"id must be", "from 1 to 65535"}},
        {"PATCH",
         MEMBERS,
         "{\"remove\":[2],\"promote\":[2]}",
         400,
         "BadArguments",
         {"name one id twice", "name each id once"}},
    };

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        expect_refused((uint32_t)i % FOUNDERS, &refusals[i], ROOT);
    }
}

TEST(what_does_not_fit_the_members)
{
    static const struct refusal refusals[] = {
        {"PUT",
         MEMBERS "/9",
         "{\"role\":\"voter\"}",
         404,
         "NotFound",
         {"there is no member 9", "the list of the members shows all ids"}},
        {"DELETE",
         MEMBERS "/9",
         NULL,
         404,
         "NotFound",
         {"there is no member 9", "the list of the members shows all ids"}},
        {"POST",
         MEMBERS,
         "{\"id\":3,\"peer\":\"zk5:7000\"}",
         409,
         "IdInUse",
         {"member 3 exists already", "choose another id"}},
        {"PATCH",
         MEMBERS,
         "{\"remove\":[1,2,3]}",
         409,
         "LastVoter",
         {"no voter would be left", "promote another member first"}},
        {"PATCH",
         MEMBERS,
         "{\"remove\":[1,2]}",
         409,
         "NoTolerance",
         {"none after the change, 1 now", "promote other members first, or force the change"}},
        {"DELETE",
         MEMBERS "/2?minTolerance=1",
         NULL,
         409,
         "MinTolerance",
         {"0 after the change, 1 now", "or ask for fewer"}},
        {"PUT",
         MEMBERS "/4",
         "{\"role\":\"voter\"}",
         409,
         "NotInStep",
         {"replica 4 is not connected", "within 1 s of the leader for"}},
        {"PUT",
         MEMBERS "/4",
         "{\"role\":\"observer\"}",
         409,
         "NotVoter",
         {"member 4 observes already", "it has no vote to lose"}},
    };

    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        expect_refused((uint32_t)i % FOUNDERS, &refusals[i], ROOT);
    }
}

TEST(an_address_in_use_is_refused)
{
    struct refusal refusal = {
        "POST",
        MEMBERS,
        with_address("{\"id\":5,\"peer\":\"@\"}", 0),
        409,
        "AddressInUse",
        {"members 5 and 1 would have the same address", "give each an address of its own"}};

    expect_refused(1, &refusal, ROOT);
    refusal.method = "PUT";
    refusal.path = MEMBERS "/2";
    refusal.body = with_address("{\"peer\":\"@\"}", ADDED);
    refusal.said[0] = "members 2 and 4 would have the same address";
    expect_refused(2, &refusal, ROOT);
}

TEST(another_version_is_refused)
{
    expect_refused(1,
                   &(struct refusal){"DELETE",
                                     MEMBERS "/4",
                                     NULL,
                                     412,
                                     "BadVersion",
                                     {"the configuration has another version: read it again",
                                      "\"config_version\":\"0x"}},
                   ROOT "If-Match: \"mfff\"\n");
}

/* Nothing answers at the address, which is the operator's to say; the member gets no vote. */
TEST(a_member_that_nothing_reaches_gets_no_vote)
{
    static const struct refusal add = {
        .method = "POST", .path = MEMBERS, .body = "{\"id\":5,\"peer\":\"127.0.0.1:1\"}"};

    ENSEMBLE_WAIT(&ensemble, ask(1, &add, ROOT) == 201 || !says("\"UnderWay\""));
    assert_int_equal(ensemble.reply.status, 201);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ENSEMBLE_WAIT(&ensemble, shows(i, 4, "state", "unreachable"));
    }
    note_stand(0, &before);
    expect_refused(0,
                   &(struct refusal){"PUT",
                                     MEMBERS "/5",
                                     "{\"role\":\"voter\"}",
                                     409,
                                     "NotInStep",
                                     {"replica 5 is not connected", "within 1 s of the leader"}},
                   ROOT);
    struct membership_call remove;

    membership_remove(4, &remove);
    membership_change(&ensemble, 0, &remove);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ENSEMBLE_WAIT(&ensemble, in_step(i, FOUNDERS) && !shows(i, 4, "role", ""));
    }
    note_stand(0, &before);
}

/* Of the voters that would be left one is down. */
TEST(a_majority_must_be_left)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t down = (leader + 1) % FOUNDERS;
    uint32_t other = (leader + 2) % FOUNDERS;
    char path[64];

    (void)snprintf(path, sizeof path, MEMBERS "/%u?minTolerance=0&force=true", other + 1);
    ensemble_kill(&ensemble, down);
    ENSEMBLE_WAIT(&ensemble, in_step(leader, 2));
    expect_refused(leader,
                   &(struct refusal){
                       "DELETE",
                       path,
                       NULL,
                       409,
                       "NoMajority",
                       {"1 of 2 voters would be in step, and a majority is 2", "start the others"}},
                   ROOT);
    ensemble_start(&ensemble, down);
    ensemble_wait_ready(&ensemble, down);
    /* It applies the last records of its log once the leader has told that they are committed. */
    ENSEMBLE_WAIT(&ensemble, is_unchanged(down));
}

/* ---- Replicas that may not join as they are. ---- */

/* Replica 4 has founded an ensemble of its own, whose members the founders shall be, too. */
TEST(a_replica_of_another_ensemble_may_not_join)
{
    struct membership_call add;

    assert_int_equal(shell("sed -i '/^server.[123]=/d' %s", ensemble.replicas[ADDED].config), 0);
    ensemble_start(&ensemble, ADDED);
    ensemble_wait_ready(&ensemble, ADDED);
    ensemble_call_until(&ensemble, ADDED, "PUT", "/znodes/v1/foreign?upsert=true", "f", 201);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        membership_add(&ensemble, i, &add);
        membership_change(&ensemble, ADDED, &add);
    }
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        static const char why[] = "the peer belongs to another cluster: check the data directory";

        ENSEMBLE_WAIT(&ensemble, shows(i, ADDED, "refused", why));
        ENSEMBLE_WAIT(&ensemble, shows(ADDED, i, "refused", "the log of the peer has the reason"));
        assert_int_equal(ensemble_call(&ensemble, i, "GET", "/znodes/v1/foreign", NULL), 404);
        expect_unchanged(i);
    }
    ensemble_kill(&ensemble, ADDED);
    ensemble_empty(&ensemble, ADDED);
    ensemble_write_configs(&ensemble);
}

static void write_all(const char *name)
{
    char path[64];

    for (uint32_t i = 0; i < WRITES; i++) {
        (void)snprintf(path, sizeof path, "/znodes/v1/%s%u?upsert=true", name, i);
        ensemble_call_until(&ensemble, i % FOUNDERS, "PUT", path, "value", 201);
    }
}

static void wait_for_all(uint32_t at, const char *name)
{
    char path[64];

    for (uint32_t i = 0; i < WRITES; i++) {
        (void)snprintf(path, sizeof path, "/znodes/v1/%s%u", name, i);
        ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, at, "GET", path, NULL) == 200);
    }
}

/* Its directory is a copy from before, and the others have purged the log since. */
TEST(a_replica_with_an_old_snapshot_catches_up)
{
    const char *data = ensemble.replicas[ADDED].data;

    ensemble_start(&ensemble, ADDED);
    ENSEMBLE_WAIT(&ensemble, shows(ADDED, ADDED, "state", "observer"));
    write_all("early");
    wait_for_all(ADDED, "early");
    assert_int_equal(ensemble_stop(&ensemble, ADDED), 0);
    assert_int_equal(shell("cp -a %s %s.old", data, data), 0);
    ensemble_start(&ensemble, ADDED);
    write_all("late");
    wait_for_all(ADDED, "late");
    assert_int_equal(ensemble_stop(&ensemble, ADDED), 0);
    assert_int_equal(shell("rm -r %s && mv %s.old %s", data, data, data), 0);
    ensemble_start(&ensemble, ADDED);
    ensemble_wait_ready(&ensemble, ADDED);
    for (uint32_t i = 0; i < COUNT; i++) {
        wait_for_all(i, "early");
        wait_for_all(i, "late");
        ENSEMBLE_WAIT(&ensemble, shows(i, ADDED, "state", "observer"));
        expect_unchanged(i);
    }
    ensemble_call_until(&ensemble, ADDED, "PUT", "/znodes/v1/by4?upsert=true", "x", 201);
}
