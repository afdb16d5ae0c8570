/* Shares of the remembered results: which clients may add one while half of the room is in use. */
#include "base/mem.h"
#include "server/op/ops.h"
#include "server/process/server_int.h"
#include "server/state/state.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"

#include <stdio.h>

enum {
    POOL = 100,       /* maxRemembered, */
    CLIENT_TOKENS = 2 /* half of an eighth of it, at one of three replicas. */
};

struct fixture {
    struct config config;
    struct server server;
    struct op_principal who;
    const char *key;
    uint64_t session; /* 0: none. */
    uint32_t retry_after_ms;
    zxid_t zxid;
};

static void setup(struct fixture *fixture)
{
    static const char *const args[] = {"--id=2",
                                       "--dataDir=/d",
                                       "--server.1=localhost:1",
                                       "--server.2=localhost:2",
                                       "--server.3=localhost:3",
                                       "--maxRemembered=100"};
    const struct config_sources sources = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    struct config_report report;

    assert_int_equal(config_load(&sources, &fixture->config, &report), ERR_OK);
    fixture->server.config = &fixture->config;
    fixture->server.view = view_new();
    mailbox_init(&fixture->server.core.requests, 1000);
    gate_init(&fixture->server.gate, &fixture->server);
    fixture->key = "new";
    (void)snprintf(fixture->who.address, sizeof(fixture->who.address), "10.0.0.7");
}

static void teardown(struct fixture *fixture)
{
    principal_release(&fixture->who);
    gate_release(&fixture->server.gate);
    mailbox_release(&fixture->server.core.requests);
    view_free(fixture->server.view);
}

/* A state with that many results: scope "", keys "key0", "key1" and so on. */
static void remember(struct fixture *fixture, uint32_t count)
{
    struct state *state = state_new(1);
    struct buf txn;
    zxid_t zxid = 1;

    assert_int_equal(kit_session(state, zxid++), ERR_OK);
    buf_init(&txn, 4096);
    for (uint32_t i = 0; i <= count; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "key%u", i);
        kit_begin(&txn, KIT_TIME_MS);
        kit_remember(&txn, i < count ? "" : "session:1", key, "answer");
        assert_int_equal(kit_apply(state, zxid++, &txn), ERR_OK);
    }
    buf_release(&txn);
    view_replace(fixture->server.view, state);
}

static void come_from(struct fixture *fixture, const char *address, const char *credential,
                      const char *super)
{
    principal_release(&fixture->who);
    (void)snprintf(fixture->who.address, sizeof(fixture->who.address), "%s", address);
    if (credential) {
        assert_int_equal(
            auth_add(NULL, slice_str("digest"), slice_str(credential), super, &fixture->who.auth),
            ERR_OK);
    }
}

static void on_reply(struct op_request *request)
{
    struct fixture *fixture = request->ctx;

    assert_int_equal(request->result.err, ERR_THROTTLED);
    assert_non_null(strstr(request->result.detail, "maxRememberedPer"));
    fixture->retry_after_ms = request->result.retry_after_ms;
}

/* Sends a write with a key; true when the core receives it. */
static bool enters_as(struct fixture *fixture, enum op_id op)
{
    struct op_request *request = op_request_new();
    struct list taken;

    request->def = ops_by_id(op);
    op_args_init(&request->args, op);
    request->on_reply = on_reply;
    request->ctx = fixture;
    request->key = slice_str(fixture->key);
    request->principal = fixture->who;
    request->principal.auth = auth_ref(fixture->who.auth);
    request->session = (struct op_session){.shown = fixture->session != 0, .id = fixture->session};
    assert_int_equal(gate_submit(&fixture->server.gate, request), ERR_OK);

    bool entered = mailbox_drain(&fixture->server.core.requests, &taken) == 1;

    if (entered) {
        list_remove(&request->node);
    }
    op_request_free(request);
    return entered;
}

static uint32_t enter(struct fixture *fixture, uint32_t count)
{
    uint32_t entered = 0;

    for (uint32_t i = 0; i < count; i++) {
        entered += enters_as(fixture, OP_SET) ? 1 : 0;
    }
    return entered;
}

TEST(half_of_the_remembered_results_is_shared_among_clients, fixture, setup, teardown)
{
    remember(fixture, POOL / 2 - 2);
    assert_int_equal(enter(fixture, POOL), POOL); /* No tokens are needed yet. */
    remember(fixture, POOL / 2);
    assert_int_equal(enter(fixture, POOL), 0);
    assert_true(fixture->retry_after_ms > 1000 && fixture->retry_after_ms <= 600000);
    assert_int_equal(metric_get(&fixture->server.gate.share_refused), POOL);
    come_from(fixture, "10.0.0.8", NULL, "");
    assert_int_equal(enter(fixture, POOL), CLIENT_TOKENS);
    come_from(fixture, "2001:db8::1", NULL, "");
    assert_int_equal(enter(fixture, POOL), CLIENT_TOKENS);
    come_from(fixture, "2001:db8::2", NULL, "");
    assert_int_equal(enter(fixture, POOL), 0);
}

/* Six members: each replica hands out half as much as before. */
TEST(the_shares_follow_the_number_of_members, fixture, setup, teardown)
{
    remember(fixture, POOL / 2);
    gate_shares_divide(&fixture->server.gate, 6);
    assert_int_equal(enter(fixture, POOL), CLIENT_TOKENS / 2);
    gate_shares_divide(&fixture->server.gate, 1);
    come_from(fixture, "10.0.0.8", NULL, "");
    assert_int_equal(enter(fixture, POOL), 3 * CLIENT_TOKENS);
}

TEST(made_up_identities_bring_no_tokens, fixture, setup, teardown)
{
    uint32_t entered = 0;

    remember(fixture, POOL / 2);
    for (uint32_t i = 0; i < POOL; i++) {
        char credential[32];

        (void)snprintf(credential, sizeof credential, "mallory%u:x", i);
        come_from(fixture, "10.0.0.7", credential, "");
        entered += enter(fixture, 1);
    }
    assert_int_equal(entered, 2 * CLIENT_TOKENS);
    come_from(fixture, "10.0.0.8", "alice:x", "");
    assert_int_equal(enter(fixture, POOL), CLIENT_TOKENS);
    come_from(fixture, "10.0.0.9", "alice:x", "");
    assert_int_equal(enter(fixture, POOL), 0);
}

TEST(a_request_without_a_new_result_needs_no_tokens, fixture, setup, teardown)
{
    remember(fixture, POOL / 2);
    (void)enter(fixture, POOL);
    assert_int_equal(enter(fixture, 1), 0);
    fixture->key = "key7"; /* A retry. */
    assert_int_equal(enter(fixture, POOL), POOL);
    fixture->key = "key50"; /* Of the session. */
    assert_int_equal(enter(fixture, 1), 0);
    fixture->session = 1;
    assert_int_equal(enter(fixture, POOL), POOL);
    fixture->key = "key7";
    assert_int_equal(enter(fixture, 1), 0);
    assert_true(enters_as(fixture, OP_CLOSE));
    fixture->key = "";
    assert_int_equal(enter(fixture, POOL), POOL);
}

TEST(the_super_user_needs_no_tokens, fixture, setup, teardown)
{
    remember(fixture, POOL / 2);
    come_from(fixture, "10.0.0.7", "root:secret", "root:J1scEM42CKaLPP5+ElgpgGsuONg=");
    assert_int_equal(enter(fixture, POOL), POOL);
}

/* A large multi costs as much as its results take; one larger than a bucket waits for a full
 * bucket. */
TEST(large_answers_cost_more, fixture, setup, teardown)
{
    struct op_args ops[3] = {{.op = OP_SET}, {.op = OP_SET}, {.op = OP_SET}};
    struct op_request *request = op_request_new();
    struct share_ticket ticket;

    fixture->config.tree.remembered_bytes_max = POOL * UINT64_C(200);
    request->def = ops_by_id(OP_MULTI);
    op_args_init(&request->args, OP_MULTI);
    request->key = slice_str("key");
    assert_true(gate_shares_ask(&fixture->server.gate, request, &ticket));
    assert_int_equal(ticket.cost, 1);
    request->args.ops = ops;
    request->args.op_count = 3;
    assert_true(gate_shares_ask(&fixture->server.gate, request, &ticket));
    assert_in_range(ticket.cost, 3, 5);
    request->args.ops = NULL;
    op_request_free(request);
}
