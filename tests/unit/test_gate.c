/* The gate without a core behind it: what was published, what the state holds, touches. */
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/op/ops.h"
#include "server/process/server_int.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    TEXT_MAX = 1 << 16
};

struct fixture {
    struct config config;
    struct server server;
    struct buf text;
};

static void setup(struct fixture *fixture)
{
    static const char *const args[] = {"--id=2",
                                       "--dataDir=/d",
                                       "--server.1=localhost:1",
                                       "--server.2=localhost:2",
                                       "--server.3=localhost:3:observer",
                                       "--advertiseClient=two.test:9998",
                                       "--maxSessions=10"};
    const struct config_sources sources = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    struct config_report report;
    struct server *server = &fixture->server;

    assert_int_equal(config_load(&sources, &fixture->config, &report), ERR_OK);
    server->config = &fixture->config;
    server->view = view_new();
    server->window = window_new(1 << 20, 10, 7);
    server->touched = touch_set_new(10);
    gate_init(&server->gate, server);
    server->gate.published.replica.zab.state = ZAB_LOOKING;
    buf_init(&fixture->text, TEXT_MAX);
}

static void teardown(struct fixture *fixture)
{
    gate_release(&fixture->server.gate);
    touch_set_free(fixture->server.touched);
    window_free(fixture->server.window);
    view_free(fixture->server.view);
    buf_release(&fixture->text);
}

/* The output of `write` as text, valid until the next call. */
static const char *said(struct fixture *fixture,
                        void (*write)(struct gate *gate, struct jsonw *json))
{
    struct jsonw json;

    buf_clear(&fixture->text);
    jsonw_init(&json, &fixture->text);
    write(&fixture->server.gate, &json);
    return buf_cstr(&fixture->text);
}

static void write_ensemble(struct gate *gate, struct jsonw *json)
{
    gate_write_ensemble(gate, false, json);
}

static void write_ensemble_https(struct gate *gate, struct jsonw *json)
{
    gate_write_ensemble(gate, true, json);
}

static void put_state(struct fixture *fixture)
{
    struct state *state = state_new(1);
    struct buf txn;

    assert_int_equal(kit_session(state, 1), ERR_OK);
    buf_init(&txn, 4096);
    kit_begin(&txn, KIT_TIME_MS);
    kit_create(&txn, "/e", "x", 1, 1);
    kit_create(&txn, "/f", "x", 1, 2);
    assert_int_equal(kit_apply(state, 2, &txn), ERR_OK);
    buf_release(&txn);
    view_replace(fixture->server.view, state);
}

TEST(touches_reach_the_core, fixture, setup, teardown)
{
    size_t count = 0;

    gate_touch(&fixture->server.gate, 5);
    gate_touch(&fixture->server.gate, 6);
    gate_touch(&fixture->server.gate, 5);
    const uint64_t *ids = touch_take(fixture->server.touched, &count);

    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 5);
    assert_int_equal(metric_get(&fixture->server.gate.touches_lost), 0);
    for (uint64_t id = 1; id <= 12; id++) {
        gate_touch(&fixture->server.gate, id);
    }
    assert_int_equal(metric_get(&fixture->server.gate.touches_lost), 2);
}

TEST(the_gate_returns_the_servers_window, fixture, setup, teardown)
{
    struct window_mark end;

    window_end(gate_window(&fixture->server.gate), &end);
    assert_int_equal(end.zxid, 7);
}

static void advertise(struct publication *published, uint32_t id, const char *address)
{
    struct core_peer *link = links_place(&published->links, id);

    assert_non_null(link);
    (void)snprintf(link->advertise, sizeof link->advertise, "%s", address);
}

/* Unknown addresses and this replica's own are left out. */
TEST(clients_are_redirected, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;

    assert_string_equal(said(fixture, gate_write_servers), "[]");
    advertise(published, 3, "three.test:1");
    advertise(published, 1, "one.test:9998");
    assert_string_equal(said(fixture, gate_write_servers), "[\"one.test:9998\",\"three.test:1\"]");
    assert_non_null(strstr(said(fixture, write_ensemble), "\"client\":\"http://two.test:9998\""));
    assert_non_null(
        strstr(said(fixture, write_ensemble_https), "\"client\":\"https://two.test:9998\""));

    struct buf all;

    buf_init(&all, 1000);
    gate_append_clients(&fixture->server.gate, &all);
    assert_string_equal(buf_cstr(&all), "two.test:9998 one.test:9998 three.test:1 ");
    buf_release(&all);
}

/* The members are in the committed configuration; the file gives their addresses only. */
TEST(the_members_are_those_of_the_committed_configuration, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;
    const struct zab_member members[] = {
        {.id = 1}, {.id = 2, .voter = true}, {.id = 9, .empty_seat = true}};

    memcpy(published->config.members, members, sizeof members);
    published->config.count = 3;
    published->peers[0].id = 9;
    published->peer_count = 1;
    advertise(published, 3, "three.test:1");
    advertise(published, 9, "nine.test:1");
    (void)snprintf(links_find(&published->links, 9)->refused, PEER_REFUSED_MAX, "a wrong secret");
    (void)snprintf(links_find(&published->links, 9)->address, LINK_ADDRESS_MAX, "zk9:10998");
    (void)snprintf(links_place(&published->links, 1)->address, LINK_ADDRESS_MAX, "zk1:10998");
    const char *text = said(fixture, write_ensemble);

    assert_non_null(strstr(text, "\"id\":1,\"role\":\"observer\",\"peer\":\"localhost:1\"}"));
    assert_non_null(strstr(text, "\"id\":2,\"role\":\"voter\",\"peer\":\"localhost:2\","));
    assert_null(strstr(text, "\"id\":3"));
    assert_non_null(
        strstr(text, "\"id\":9,\"role\":\"empty-seat\",\"peer\":\"zk9:10998\",\"state\":"));
    assert_non_null(strstr(text, "\"refused\":\"a wrong secret\""));
    assert_string_equal(said(fixture, gate_write_servers), "[\"nine.test:1\"]");

    struct buf all;

    buf_init(&all, 1000);
    gate_append_clients(&fixture->server.gate, &all);
    assert_string_equal(buf_cstr(&all), "two.test:9998 nine.test:1 ");
    buf_release(&all);
}

TEST(the_ensemble_shows_what_changes, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;
    const struct zab_member members[] = {{.id = 1, .voter = true},
                                         {.id = 2, .voter = true},
                                         {.id = 3, .voter = true},
                                         {.id = 4, .joining = true}};

    memcpy(published->config.members, members, sizeof members);
    published->config.count = 4;
    published->config.removed[0] = (struct zab_removed){.id = 9, .incarnation = 7, .zxid = 0x50a};
    published->config.removed_count = 1;
    (void)snprintf(links_place(&published->links, 4)->zone, ZAB_ZONE_MAX + 1, "rack-4");
    (void)snprintf(links_find(&published->links, 4)->client, ZAB_CLIENT_MAX + 1, "zk4:9998");
    published->peers[0] = (struct zab_peer_status){.id = 4};
    published->peer_count = 1;
    const char *text = said(fixture, write_ensemble);

    assert_non_null(strstr(text, "{\"id\":4,\"role\":\"observer\",\"joining\":true,"));
    assert_non_null(strstr(text, "\"client\":\"http://zk4:9998\",\"zone\":\"rack-4\"}"));
    assert_non_null(strstr(text, "\"tolerance\":null,\"pending\":null,"));
    assert_non_null(strstr(text, "\"removed\":[{\"id\":9,\"zxid\":\"0x50a\"}]"));
    assert_non_null(strstr(text, "\"waiting\":[]}"));
    published->waiting[0] =
        (struct waiting_row){.id = 7, .address = "zk7:10998", .zone = "b", .since_ms = 1000};
    published->waiting[1] = (struct waiting_row){.id = 8, .fault = ZAB_FAULT_TOO_MANY};
    published->waiting_count = 2;
    published->at_ms = 1500;
    text = said(fixture, write_ensemble);
    assert_non_null(strstr(
        text, "\"waiting\":[{\"id\":7,\"peer\":\"zk7:10998\",\"zone\":\"b\","
              "\"command\":\"zabra members add 7 zk7:10998 --zone b "
              "--endpoints http://two.test:9998\",\"waits_ms\":500},{\"id\":8,\"waits_ms\":1500,"
              "\"reason\":\"TooMany\"}]}"));
    published->has_pending = true;
    published->pending = published->config;
    published->pending.version = 0x50c;
    published->pending.count = 2;
    published->pending.members[0].empty_seat = true;
    published->pending_ms = 1200;
    published->replica.zab.leader = 1;
    text = said(fixture, write_ensemble);
    assert_non_null(strstr(text, "\"in_step\":0,\"tolerance\":-2,"));
    assert_non_null(strstr(text, "\"pending\":{\"version\":\"0x50c\",\"pending_ms\":300,"
                                 "\"members\":[{\"id\":1,\"role\":\"empty-seat\"},"
                                 "{\"id\":2,\"role\":\"voter\"}]}"));
}

static const char *role(struct fixture *fixture)
{
    struct gate_status status;

    gate_status(&fixture->server.gate, &status);
    return status.role;
}

TEST(the_role_is_that_of_the_committed_configuration, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;

    published->replica.zab.state = ZAB_OBSERVING;
    assert_string_equal(role(fixture), "follower"); /* The file says that it votes. */
    published->config.count = 1;
    published->config.members[0] = (struct zab_member){.id = 2};
    assert_string_equal(role(fixture), "observer");
    published->config.members[0].voter = true;
    assert_string_equal(role(fixture), "follower");
    published->config.members[0].id = 3;
    assert_string_equal(role(fixture), "observer");
}

TEST(every_limit_is_listed, fixture, setup, teardown)
{
    const char *text = said(fixture, gate_write_limits);
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    assert_non_null(strstr(text, "\"maxSessions\":10,"));
    for (size_t i = 0; i < count; i++) {
        char key[80];

        (void)snprintf(key, sizeof key, "\"%s\":", rows[i].key);
        assert_int_equal(strstr(text, key) != NULL, rows[i].is_limit);
    }
}

TEST(the_status_counts_what_the_state_holds, fixture, setup, teardown)
{
    assert_non_null(strstr(said(fixture, gate_write_status), "\"sessions\":0,\"ephemerals\":0,"));
    put_state(fixture);
    const char *text = said(fixture, gate_write_status);

    assert_non_null(strstr(text, "\"sessions\":1,\"ephemerals\":2,"));
    assert_non_null(strstr(text, "\"window_base\":\"0x7\""));
    assert_non_null(strstr(text, "\"zxid\":\"0x2\""));
}

/* Soft limits refuse nothing; this report is their only effect. */
TEST(soft_quotas_that_are_exceeded_are_counted, fixture, setup, teardown)
{
    static const char *const limits[] = {"count=2,bytes=-1",          "count=1", "count=-1,bytes=1",
                                         "count=1=;countHardLimit=9", "bytes=2", "nonsense"};
    struct state *state = state_new(1);
    struct gate_figures figures;
    struct buf txn;
    char path[80];

    buf_init(&txn, 8192);
    kit_begin(&txn, KIT_TIME_MS);
    for (uint32_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        (void)snprintf(path, sizeof path, "/q%u", i);
        kit_create(&txn, path, "x", 0, i + 1);
        (void)snprintf(path, sizeof path, "/q%u/c", i);
        kit_create(&txn, path, "x", 0, 1);
        (void)snprintf(path, sizeof path, "/zookeeper/quota/q%u", i);
        kit_create(&txn, path, "", 0, i + 1);
        (void)snprintf(path, sizeof path, "/zookeeper/quota/q%u/zookeeper_limits", i);
        kit_create(&txn, path, limits[i], 0, 1);
    }
    assert_int_equal(kit_apply(state, 1, &txn), ERR_OK);
    buf_release(&txn);
    view_replace(fixture->server.view, state);
    gate_figures(&fixture->server.gate, &figures);
    assert_int_equal(figures.quotas_exceeded, 3);
}

/* No client may see less than the tree has shown. */
TEST(an_applied_zxid_is_committed_and_durable, fixture, setup, teardown)
{
    struct gate_status status;

    put_state(fixture);
    gate_status(&fixture->server.gate, &status);
    assert_int_equal(status.applied, 2);
    assert_true(status.committed >= 2 && status.durable >= 2 && status.logged >= 2);
}

/* The clock started with the machine, long before this process. */
TEST(a_replica_that_never_heard_a_leader_lags_since_its_start, fixture, setup, teardown)
{
    struct gate_status status;

    fixture->server.start_ms = os_now_ms();
    gate_status(&fixture->server.gate, &status);
    assert_true(status.lag_ms < fixture->server.start_ms);
    atomic_store(&fixture->server.gate.heard_ms, UINT64_MAX);
    gate_status(&fixture->server.gate, &status);
    assert_int_equal(status.lag_ms, 0);
}

TEST(no_read_is_answered_before_the_state_is_readable, fixture, setup, teardown)
{
    struct gate *gate = &fixture->server.gate;
    const char *why = NULL;

    assert_int_equal(gate_check_local(gate, &why), ERR_NOT_READY);
    assert_non_null(strstr(why, "in step"));
    atomic_store(&gate->readable, true);
    atomic_store(&gate->heard_ms, UINT64_MAX);
    assert_int_equal(gate_check_local(gate, &why), ERR_OK);
}

/* A replica that was the leader, with no newer heartbeat from the present leader. */
TEST(only_one_leader_is_shown, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;
    uint64_t now_ms = os_now_ms();

    published->replica.zab.state = ZAB_FOLLOWING;
    published->replica.zab.leader = 3;
    published->replica.zab.epoch = 2;
    published->peers[published->peer_count++] = (struct zab_peer_status){
        .id = 1, .voter = true, .connected = true, .heard_ms = now_ms, .state = ZAB_FOLLOWING};
    published->peers[published->peer_count++] = (struct zab_peer_status){
        .id = 3, .voter = true, .connected = true, .heard_ms = now_ms, .state = ZAB_LEADING};
    published->heartbeats[published->heartbeat_count++] = (struct heartbeat){
        .id = 1, .at_ms = now_ms, .role = ROLE_LEADER, .flags = HEARTBEAT_SERVING, .epoch = 1};
    const char *text = said(fixture, write_ensemble);
    const char *leader = strstr(text, "\"state\":\"leader\"");

    assert_non_null(leader);
    assert_null(strstr(leader + 1, "\"state\":\"leader\""));
    assert_non_null(strstr(text, "\"state\":\"joining\""));
    published->heartbeats[0].role = ROLE_FOLLOWER;
    published->heartbeats[0].epoch = 2;
    assert_null(strstr(said(fixture, write_ensemble), "\"state\":\"joining\""));
}

static bool shows_silence(struct fixture *fixture, uint64_t heard_ago_ms)
{
    struct publication *published = &fixture->server.gate.published;

    published->peers[0].heard_ms = published->at_ms - heard_ago_ms;
    return strstr(said(fixture, write_ensemble), "\"state\":\"silent\"") != NULL;
}

/* Without a heartbeat, a replica is silent by the time at which one could have arrived: also with
 * the shortest ticks, and when this replica itself was paused. */
TEST(a_paused_replica_is_silent, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;

    published->at_ms = os_now_ms() - 1000000;
    published->peers[published->peer_count++] =
        (struct zab_peer_status){.id = 1, .voter = true, .connected = true};
    assert_false(shows_silence(fixture, 4900));
    assert_true(shows_silence(fixture, 5100));
    fixture->config.zab.tick_ms = 10;
    assert_false(shows_silence(fixture, 400));
    assert_true(shows_silence(fixture, 1100));
}

static enum err submit(struct fixture *fixture, enum op_id op)
{
    struct op_request *request = op_request_new();

    request->def = ops_by_id(op);
    op_args_init(&request->args, op);
    request->on_reply = op_request_free;

    enum err err = gate_submit(&fixture->server.gate, request);

    if (err == ERR_OK) {
        struct list taken;

        assert_int_equal(mailbox_drain(&fixture->server.core.requests, &taken), 1);
        list_remove(&request->node);
    }
    op_request_free(request);
    return err;
}

TEST(a_read_only_replica_refuses_writes, fixture, setup, teardown)
{
    mailbox_init(&fixture->server.core.requests, 10);
    assert_int_equal(submit(fixture, OP_SET), ERR_OK);
    fixture->config.clients.read_only = true;
    assert_int_equal(submit(fixture, OP_SET), ERR_NOT_READ_ONLY);
    assert_int_equal(submit(fixture, OP_SESSION), ERR_NOT_READ_ONLY);
    assert_int_equal(submit(fixture, OP_SYNC), ERR_OK);
    assert_int_equal(submit(fixture, OP_GETSESSION), ERR_OK);
    mailbox_release(&fixture->server.core.requests);
}

/* A replica that joins has more to say than the protocol; one that is a member says what it does
 * not reach, and stays ready. */
TEST(the_check_of_the_member_says_why_it_is_none, fixture, setup, teardown)
{
    struct publication *published = &fixture->server.gate.published;
    struct gate_check checks[GATE_CHECKS_MAX];

    published->config.count = 0;
    (void)snprintf(published->join_text, JOIN_TEXT_MAX, "not a member: zabra members add 2");
    (void)gate_readyz(&fixture->server.gate, checks);
    assert_string_equal(checks[0].name, "member");
    assert_false(checks[0].ok);
    assert_string_equal(checks[0].text, "not a member: zabra members add 2");
    published->join_text[0] = '\0';
    (void)gate_readyz(&fixture->server.gate, checks); /* There is no configuration yet. */
    assert_false(checks[0].ok);
    published->config.count = 1;
    published->config.members[0] = (struct zab_member){.id = fixture->config.id};
    (void)snprintf(published->join_missing, JOIN_TEXT_MAX, "; join: zk1 port 9: refused");
    (void)gate_readyz(&fixture->server.gate, checks);
    assert_true(checks[0].ok);
    assert_string_equal(checks[0].text,
                        "this disk is a member of the cluster; join: zk1 port 9: refused");
}

/* Readiness fails before the core drains: load balancers must see it while everything is still
 * served. */
TEST(a_stopping_replica_is_not_ready, fixture, setup, teardown)
{
    struct gate_check checks[GATE_CHECKS_MAX];
    struct gate_status status;

    for (int ending = 0; ending < 2; ending++) {
        atomic_store(&fixture->server.gate.ending, ending == 1);

        size_t count = gate_readyz(&fixture->server.gate, checks);

        assert_string_equal(checks[count - 1].name, "not_draining");
        assert_int_equal(checks[count - 1].ok, ending == 0);
        gate_status(&fixture->server.gate, &status);
        assert_int_equal(status.draining, ending == 1);
    }
}
