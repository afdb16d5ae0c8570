/*
 * Shares of the results that are kept for retries. Half of maxRemembered is free for all. In the
 * other half each client, and each address, has a share, which its token bucket hands out over
 * rememberFor. A client may use all replicas, so each replica hands out an equal part of the share.
 * For a write without a key all this costs one comparison.
 */
#include "server/op/ops.h"
#include "server/process/server_int.h"

#include <inttypes.h>

enum {
    NS_PER_MS = 1000000,
    BURST_PART = 2,     /* Half of a share may be used at once, the other half over rememberFor. */
    FREE_PART = 2,      /* Half of the pool is free for all. */
    RESULT_BYTES = 160, /* About the size of an encoded result without its path. */
    NAME_BYTES = 16,    /* Size of a sequence number after a path, and of length fields. */
    SESSION_SCOPE_MAX = 32
};

enum {
    KIND_CLIENT = 1,
    KIND_ADDRESS = 2
};

/* Returns this replica's part of a share: half of the part may be used at once, the other half
 * comes back within rememberFor. */
static uint64_t part_of(uint32_t share, uint32_t members)
{
    return max_u64(share / members / BURST_PART, 1);
}

static uint64_t token_ns_of(const struct config *config, uint64_t tokens)
{
    return max_u64((uint64_t)config->tree.remember_ms * NS_PER_MS / tokens, 1);
}

static void init_buckets(struct buckets *buckets, const struct config *config, uint64_t tokens)
{
    buckets_init(buckets, tokens, token_ns_of(config, tokens), 0);
}

static void divide(struct buckets *buckets, const struct config *config, uint64_t tokens)
{
    buckets_set(buckets, tokens, token_ns_of(config, tokens), 0);
}

void gate_shares_init(struct gate *gate)
{
    const struct config *config = gate->server->config;
    uint32_t members = max_u32(config->peers.server_count + config->peers.bootstrap, 1);

    gate->share_members = members;
    init_buckets(&gate->remembered_client, config,
                 part_of(config->tree.remembered_client_max, members));
    init_buckets(&gate->remembered_address, config,
                 part_of(config->tree.remembered_network_max, members));
}

void gate_shares_divide(struct gate *gate, uint32_t members)
{
    const struct config *config = gate->server->config;

    ASSERT(members > 0);
    if (members == gate->share_members) {
        return;
    }
    gate->share_members = members;
    divide(&gate->remembered_client, config, part_of(config->tree.remembered_client_max, members));
    divide(&gate->remembered_address, config,
           part_of(config->tree.remembered_network_max, members));
}

void gate_shares_release(struct gate *gate)
{
    buckets_release(&gate->remembered_client);
    buckets_release(&gate->remembered_address);
}

/* ---- What a request costs. ---- */

/* Returns the approximate size of the kept answer, in bytes. */
static uint64_t kept_bytes(const struct op_request *request)
{
    const struct op_args *args = &request->args;
    uint64_t bytes = request->key.len + RESULT_BYTES + args->path.len + NAME_BYTES;

    for (uint32_t i = 0; i < args->op_count; i++) {
        bytes += RESULT_BYTES + args->ops[i].path.len + NAME_BYTES;
    }
    return bytes;
}

/* Returns the cost in tokens: one for the answer, and one for each `mean` bytes of it. So a share
 * limits both the number of answers (maxRemembered) and their bytes (maxRememberedBytes). */
static uint64_t cost_of(const struct config *config, const struct op_request *request)
{
    uint64_t mean = config->tree.remembered_bytes_max / config->tree.remembered_max;

    return mean > 0 ? 1 + kept_bytes(request) / mean : kept_bytes(request);
}

/* ---- Whether a request needs tokens. ---- */

static const struct state_session *session_of(const struct state *state,
                                              const struct op_session *session)
{
    return session->id != 0 ? state_session(state, session->id)
                            : state_session_by_hash(state, session->hash);
}

/* Whether the request's result is kept already. A retry is answered with the kept result and needs
 * no more room. */
static bool is_known(const struct state *state, const struct op_request *request)
{
    char text[SESSION_SCOPE_MAX];
    struct slice scope = principal_scope(&request->principal);

    if (request->session.shown) {
        const struct state_session *session = session_of(state, &request->session);

        if (!session) {
            return false;
        }
        (void)snprintf(text, sizeof text, "session:%" PRIx64, session->id);
        scope = slice_str(text);
    }
    return state_remembered(state, scope, request->key) != NULL;
}

static bool needs_tokens(struct gate *gate, const struct op_request *request)
{
    const struct config_tree *limits = &gate->server->config->tree;
    const struct state *state = view_read(gate->server->view);
    bool needs = false;

    if (state) {
        needs = (state_remembered_count(state) >= limits->remembered_max / FREE_PART ||
                 state_remembered_bytes(state) >= limits->remembered_bytes_max / FREE_PART) &&
                !is_known(state, request);
        view_read_done(gate->server->view);
    }
    return needs;
}

/* ---- Tokens. ---- */

static bool refuse(struct gate *gate, struct op_request *request, uint64_t wait_ns,
                   const char *detail)
{
    metric_add(&gate->share_refused, 1);
    request->result.err = ERR_THROTTLED;
    request->result.detail = detail;
    request->result.retry_after_ms = (uint32_t)min_u64(wait_ns / NS_PER_MS + 1, UINT32_MAX);
    return false;
}

/* Sets which buckets pay, and how many tokens. */
static void fill_ticket(struct gate *gate, const struct op_request *request,
                        struct share_ticket *ticket)
{
    const struct op_principal *who = &request->principal;
    char text[NETWORK_TEXT_MAX];
    struct slice network = network_of(slice_str(who->address), text);
    struct slice identity = principal_scope(who);

    *ticket = (struct share_ticket){
        .cost = cost_of(gate->server->config, request),
        .now_ns = os_now_ns(),
        .address = buckets_key(&gate->remembered_address, KIND_ADDRESS, network),
        .client = identity.len > 0 ? buckets_key(&gate->remembered_client, KIND_CLIENT, identity)
                                   : buckets_key(&gate->remembered_client, KIND_ADDRESS, network),
    };
}

bool gate_shares_ask(struct gate *gate, struct op_request *request, struct share_ticket *ret_ticket)
{
    struct share_ticket *ticket = ret_ticket;

    fill_ticket(gate, request, ticket);
    if (request->principal.auth && request->principal.auth->super) {
        ticket->cost = 0;
        return true;
    }
    uint64_t address_ns =
        buckets_wait(&gate->remembered_address, ticket->address, ticket->cost, ticket->now_ns);
    uint64_t client_ns =
        buckets_wait(&gate->remembered_client, ticket->client, ticket->cost, ticket->now_ns);

    ticket->pays_client = address_ns == 0;
    if ((address_ns == 0 && client_ns == 0) || !needs_tokens(gate, request)) {
        return true;
    }
    return address_ns > client_ns
               ? refuse(gate, request, address_ns,
                        "half of maxRemembered is in use, and this address has used up "
                        "maxRememberedPerAddress; try again later, or without Idempotency-Key")
               : refuse(gate, request, client_ns,
                        "half of maxRemembered is in use, and this client has used up "
                        "maxRememberedPerClient; try again later, or without Idempotency-Key");
}

void gate_shares_pay(struct gate *gate, const struct share_ticket *ticket)
{
    if (ticket->cost == 0) {
        return;
    }
    buckets_charge(&gate->remembered_address, ticket->address, ticket->cost, ticket->now_ns);
    if (ticket->pays_client) {
        buckets_charge(&gate->remembered_client, ticket->client, ticket->cost, ticket->now_ns);
    }
}
