#include "tests/unit/http_gate.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/op/change.h"
#include "tests/lib/limits_kit.h"

#include <poll.h>
#include <stdio.h>

static struct gate_front_hooks metrics_hooks;

void gate_set_front(struct gate *gate, enum gate_front front, struct gate_front_hooks hooks)
{
    (void)pthread_mutex_lock(&gate->front_mutex);
    gate->fronts[front] = hooks;
    (void)pthread_mutex_unlock(&gate->front_mutex);
    if (front == GATE_FRONT_WS) {
        metrics_hooks = hooks;
    }
}

void watch_listing_pass(struct watch_listing *listing)
{
    struct gate *gate = listing->gate;
    bool asked = false;

    (void)pthread_mutex_lock(&gate->front_mutex);
    while (!asked && listing->next < GATE_FRONTS) {
        const struct gate_front_hooks *hooks = &gate->fronts[listing->next++];

        asked = hooks->listing != NULL;
        if (asked) {
            hooks->listing(hooks->ctx, listing);
        }
    }
    (void)pthread_mutex_unlock(&gate->front_mutex);
    if (!asked) {
        listing->on_done(listing);
    }
}

void kit_write_front_metrics(struct buf *out)
{
    metrics_hooks.metrics(metrics_hooks.ctx, out);
}

void gate_write_top(struct gate *gate, const struct op_principal *who, struct jsonw *json)
{
    (void)gate;
    (void)who;
    jsonw_object(json);
    jsonw_object_end(json);
}

void gate_write_trend(struct gate *gate, const struct op_args *args, struct jsonw *json)
{
    (void)gate;
    jsonw_object(json);
    jsonw_kv_u64(json, "step", args->step_s);
    jsonw_object_end(json);
}

const char gate_credentials_slowed[] = "passwords of this user have failed too often";

uint32_t gate_credentials_wait(struct gate *gate, const struct op_principal *who, uint32_t first)
{
    return guard_wait(&gate->guard, who, first, os_now_ns());
}

void gate_credentials_seen(struct gate *gate, const struct op_principal *who)
{
    guard_seen(&gate->guard, who, os_now_ns());
}

void gate_credentials_refused(struct gate *gate, const struct op_request *request)
{
    if (request->result.err == ERR_NO_AUTH && request->principal.auth) {
        view_note_refusal(gate->view, &request->principal, &request->args);
    }
}

void gate_credentials_failed(struct gate *gate, const struct op_principal *who,
                             enum gate_failure kind)
{
    guard_failed(&gate->guard, who, kind);
}

void gate_refused(struct gate *gate, const struct gate_refusal *refusal)
{
    (void)atomic_fetch_add(&gate->refused[refusal->err], 1);
}

struct view *gate_view(struct gate *gate)
{
    return gate->view;
}

struct backups *gate_backups(struct gate *gate)
{
    return &gate->backups;
}

struct reloads *gate_reloads(struct gate *gate)
{
    return &gate->reloads;
}

struct budget *gate_unsent(struct gate *gate)
{
    return &gate->unsent;
}

struct window *gate_window(struct gate *gate)
{
    return gate->window;
}

void gate_touch(struct gate *gate, uint64_t session)
{
    atomic_store(&gate->touched, session);
}

void gate_write_servers(struct gate *gate, struct jsonw *json)
{
    (void)gate;
    jsonw_array(json);
    jsonw_cstr(json, "127.0.0.1:9998");
    jsonw_array_end(json);
}

void gate_append_clients(struct gate *gate, struct buf *out)
{
    (void)gate;
    buf_append_str(out, "127.0.0.1:9998 two.test:9998 ");
}

enum err gate_submit(struct gate *gate, struct op_request *take_request)
{
    enum err err = (enum err)atomic_load(&gate->submit_err);

    if (err != ERR_OK) {
        return err;
    }
    atomic_fetch_add(&gate->inside, 1);
    return mailbox_post_always(&gate->box, &take_request->node);
}

enum err gate_check_local(struct gate *gate, const char **ret_why)
{
    *ret_why = "cut off from the leader for too long";
    (void)poll(NULL, 0, (int)atomic_load(&gate->stand_ms));
    return (enum err)atomic_load(&gate->local_err);
}

void gate_status(struct gate *gate, struct gate_status *ret_status)
{
    *ret_status = (struct gate_status){
        .id = 1,
        .role = "leader",
        .serving = true,
        .in_step = !atomic_load(&gate->leaderless),
        .applied = atomic_fetch_add(&gate->applied, atomic_load(&gate->applies)),
        .history = KIT_HISTORY,
    };
}

uint64_t gate_history(struct gate *gate)
{
    (void)gate;
    return KIT_HISTORY;
}

void gate_write_status(struct gate *gate, struct jsonw *json)
{
    (void)gate;
    jsonw_object(json);
    jsonw_kv_cstr(json, "role", "leader");
    jsonw_object_end(json);
}

zxid_t gate_write_ensemble(struct gate *gate, bool https, struct jsonw *json)
{
    (void)gate;
    jsonw_object(json);
    jsonw_kv_cstr(json, "role", https ? "https" : "leader");
    jsonw_object_end(json);
    return KIT_CONFIG_VERSION;
}

void gate_write_limits(struct gate *gate, struct jsonw *json)
{
    gate_write_status(gate, json);
}

static size_t kit_checks(bool ok, struct gate_check *checks)
{
    checks[0] = (struct gate_check){.name = "disk", .ok = true};
    checks[1] = (struct gate_check){.name = "leader", .ok = ok};
    (void)snprintf(checks[0].text, sizeof(checks[0].text), "there is room");
    (void)snprintf(checks[1].text, sizeof(checks[1].text), "in step with replica 1");
    return 2;
}

size_t gate_livez(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX])
{
    (void)gate;
    return kit_checks(true, checks);
}

size_t gate_readyz(struct gate *gate, struct gate_check checks[GATE_CHECKS_MAX])
{
    return kit_checks(atomic_load(&gate->ready), checks);
}

void gate_write_metrics(struct gate *gate, struct buf *out)
{
    (void)gate;
    metric_head(out, "zabra_znodes", "gauge", "Znodes.");
    metric_put(out, "zabra_znodes", NULL, 4);
}

void gate_count_op(struct gate *gate, enum op_id op, bool failed, uint64_t latency_us)
{
    (void)op;
    (void)failed;
    (void)latency_us;
    atomic_fetch_add(&gate->counted, 1);
}

void gate_note_request(struct gate *gate, const struct op_args *args,
                       const struct op_principal *who)
{
    (void)args;
    (void)who;
    atomic_fetch_add(&gate->noted, 1);
}

void gate_slow(struct gate *gate, const struct gate_slow *slow)
{
    MUTEX_HOLD(&gate->front_mutex);
    gate->slow = *slow;
    (void)snprintf(gate->slow_request, sizeof(gate->slow_request), "%s", slow->request);
    (void)snprintf(gate->slow_path, sizeof(gate->slow_path), "%.*s", (int)slow->path.len,
                   slow->path.len > 0 ? (const char *)slow->path.data : "");
    (void)snprintf(gate->slow_trace, sizeof(gate->slow_trace), "%.*s", (int)slow->trace.len,
                   slow->trace.len > 0 ? (const char *)slow->trace.data : "");
    gate->slow_count++;
}

const struct config_clients *gate_limits(struct gate *gate)
{
    return &gate->limits;
}

static void kit_take_change(const struct state *state, const struct state_change *change,
                            struct op_result *one)
{
    const struct state_session *session = state_session(state, change->session);

    if (change->type == TXN_SESSION_OPEN || change->type == TXN_SESSION_MOVE) {
        view_fill_session(session, &one->session);
        one->has_session = true;
        return;
    }
    if (change->type == TXN_ANSWER) {
        one->has_change = true;
        one->change = blob_ref(change->data);
        return;
    }
    one->has_stat =
        change->type == TXN_CREATE || change->type == TXN_SET || change->type == TXN_SET_ACL;
    one->stat = change->stat;
    buf_append_slice(&one->arena, change->path);
    one->path = buf_slice(&one->arena);
}

static void kit_publish(struct gate *gate, struct logrec *rec, const struct state_changes *changes)
{
    struct change_set *set = change_set_new(gate->zxid, rec, changes);

    if (set) {
        window_append(gate->window, set);
    } else {
        window_skip(gate->window, gate->zxid);
    }
}

/* What the delivery of a replica's own transaction does, under the write lock. */
static void kit_apply(struct gate *gate, struct state *state, struct slice txn,
                      struct op_request *request)
{
    struct state_changes changes = {.items = NULL};
    struct op_result *result = &request->result;
    uint32_t at = 0;

    gate->zxid++;
    result->zxid = gate->zxid;

    struct logrec *rec = logrec_new(LOGREC_TXN, gate->zxid, gate->zxid - 1, 0, txn);

    ASSERT(state_apply(state, gate->zxid, logrec_payload(rec), false, &changes) == ERR_OK);
    kit_publish(gate, rec, &changes);
    prep_applied(gate->prep, gate->zxid);
    if (request->args.op == OP_MULTI) {
        result->results = mem_zalloc(request->args.op_count, sizeof(*result->results));
        result->result_count = request->args.op_count;
    }
    for (size_t i = 0; i < changes.count; i++) {
        struct op_result *one = result->results ? &result->results[at] : result;

        if (!changes.items[i].reply) {
            continue;
        }
        at++;
        if (one != result) {
            op_result_init(one);
        }
        kit_take_change(state, &changes.items[i], one);
    }
    state_changes_release(&changes);
    logrec_unref(rec); /* The paths of changes point into it. */
}

/* The verdict about a change of the members, of which there are 1 and 2. Only the checks of the
 * protocol are missing: those of member 9 and of the version. */
static void kit_judge(struct gate *gate, const struct op_request *request,
                      struct prep_verdict *ret_verdict)
{
    const struct op_args *args = &request->args;
    struct op_change answer = {.version = args->dry_run ? 0 : gate->zxid + 1,
                               .previous = KIT_CONFIG_VERSION,
                               .tolerance_before = -1,
                               .tolerance_after = 1,
                               .in_step = 2,
                               .count = 2,
                               .members = {{1, OP_ROLE_VOTER, false}, {2, OP_ROLE_OBSERVER, true}}};

    *ret_verdict = (struct prep_verdict){.err = ERR_OK};
    buf_init(&ret_verdict->answer, OP_CHANGE_BYTES_MAX);
    if (!op_changes_members(args->op)) {
        return;
    }
    if (args->has_etag && args->etag_czxid != KIT_CONFIG_VERSION) {
        answer.version = 0;
        ret_verdict->err = ERR_BAD_VERSION;
    } else if (args->member == 9) {
        ret_verdict->err = ERR_CHANGE_REFUSED;
        ret_verdict->reason = "IdInUse";
    }
    (void)snprintf(ret_verdict->why, sizeof ret_verdict->why, "the kit says \"no\"");
    op_change_encode(&answer, &ret_verdict->answer);
}

/* What the leader does. The caller holds the write lock of the view. */
void kit_write_in(struct gate *gate, struct state *state, struct op_request *request)
{
    struct txn_header header = {.age_ms = 1, .stamp_ms = os_wall_ms()};
    struct op_result *result = &request->result;
    struct prep_verdict verdict;
    struct buf txn;

    kit_judge(gate, request, &verdict);
    buf_init(&txn, 64 << 20);
    result->err = prep_request(gate->prep, state,
                               &(struct prep_job){.args = &request->args,
                                                  .who = &request->principal,
                                                  .session = &request->session,
                                                  .key = request->key,
                                                  .header = &header,
                                                  .verdict = &verdict},
                               gate->zxid + 1, &txn, result);
    result->zxid = gate->zxid;
    if (result->err == ERR_OK && txn.len > 0) {
        kit_apply(gate, state, buf_slice(&txn), request);
    }
    atomic_store(&gate->applied, gate->zxid);
    buf_release(&txn);
    buf_release(&verdict.answer);
}

static void kit_write(struct gate *gate, struct op_request *request)
{
    kit_write_in(gate, view_write(gate->view), request);
    if (atomic_exchange(&gate->suspends, false)) {
        window_suspend(gate->window);
    }
    view_write_done(gate->view);
    window_wake(gate->window);
}

void kit_serve(struct gate *gate, struct op_request *request)
{
    enum err forced = (enum err)atomic_load(&gate->reply_err);

    if (forced != ERR_OK) {
        request->result.err = forced;
    } else if (op_args_kind(&request->args) == OP_KIND_WRITE) {
        kit_write(gate, request);
    } else {
        request->result.zxid = atomic_load(&gate->applied);
        request->wait_zxid = request->result.zxid;
        atomic_fetch_add(&gate->rounds, 1);
    }
}

static void kit_answer(struct gate *gate, struct list *done)
{
    list_for_each_safe (it, tmp, done) {
        struct op_request *request = list_entry(it, struct op_request, node);

        list_remove(it);
        atomic_fetch_sub(&gate->inside, 1);
        request->on_reply(request);
    }
}

/* Runs all requests that are held, in order; the replies come in that order or in reverse. */
static void kit_run(struct gate *gate, struct list *held)
{
    struct list done;

    list_init(&done);
    while (!atomic_load(&gate->held) && !list_empty(held)) {
        struct op_request *request = list_first(held, struct op_request, node);

        list_remove(&request->node);
        kit_serve(gate, request);
        if (atomic_load(&gate->reversed)) {
            list_push_back(done.next, &request->node); /* Before all others. */
        } else {
            list_push_back(&done, &request->node);
            kit_answer(gate, &done);
        }
    }
    kit_answer(gate, &done);
}

static void kit_core(void *arg)
{
    struct gate *gate = arg;
    enum err closed = ERR_OK;
    struct list held;

    list_init(&held);
    while (closed == ERR_OK || !list_empty(&held)) {
        struct list batch;

        mailbox_wait(&gate->box, 20);
        mailbox_drain(&gate->box, &batch);
        while (!list_empty(&batch)) {
            struct list *node = batch.next;

            list_remove(node);
            list_push_back(&held, node);
        }
        kit_run(gate, &held);
        pthread_mutex_lock(&gate->box.mutex);
        closed = gate->box.closed ? ERR_CLOSED : ERR_OK;
        pthread_mutex_unlock(&gate->box.mutex);
    }
}

void kit_replace(struct gate *gate)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
    struct state *state = NULL;

    pthread_mutex_lock(&turn);
    state = view_write(gate->view);
    gate->zxid++;
    state_skip(state, gate->zxid);
    atomic_store(&gate->applied, gate->zxid);
    window_restart(gate->window, gate->zxid);
    view_write_done(gate->view);
    window_wake(gate->window);
    pthread_mutex_unlock(&turn);
}

/* Ends what `suspends` began: the present state stays. */
void kit_resume(struct gate *gate)
{
    (void)view_write(gate->view);
    window_restart(gate->window, gate->zxid);
    view_write_done(gate->view);
    window_wake(gate->window);
}

/* Replaces the state by an empty one, as a snapshot would. */
void kit_load_state(struct gate *gate, zxid_t zxid)
{
    struct state *state = state_new(KIT_HISTORY);

    state_skip(state, zxid);
    view_replace(gate->view, state);
    (void)view_write(gate->view);
    window_restart(gate->window, zxid);
    view_write_done(gate->view);
    window_wake(gate->window);
}

void kit_put_state(struct gate *gate, zxid_t zxid)
{
    kit_load_state(gate, zxid);
    view_set_whole(gate->view, true);
}

struct gate *kit_gate_make(void)
{
    struct gate *gate = mem_zalloc(1, sizeof(*gate));
    struct prep_limits prep = kit_limits;

    /* The most bytes of data: the front end refuses more than 4096, or than a test has chosen. */
    prep.data_bytes_max = 1 << 16;
    prep.tree.session_ephemerals_max = 10000;
    prep.tree.session_ephemeral_bytes_max = 1 << 20;
    (void)pthread_mutex_init(&gate->front_mutex, NULL);
    budget_init(&gate->unsent, 256 << 20);
    guard_init(&gate->guard, "");
    gate->limits = (struct config_clients){
        .data_bytes_max = 4096,
        .multi_bytes_max = 64 << 10,
        .pool_bytes_max = 256 << 20,
        .address_pool_max = 128 << 20,
        .connections_max = 200,
        .connections_per_address_max = 100,
        .head_bytes_max = 8192,
        .head_timeout_ms = 5000,
        .body_timeout_ms = 5000,
        .idle_timeout_ms = 60000,
        .request_timeout_ms = 5000,
        .children_page_max = 500,
        .http_threads = 2,
        .socket_queue_bytes_max = 64 << 10,
        .slow_timeout_ms = 5000,
        .allowed_hosts = "zabra.test",
        .allowed_origins = "https://app.test",
        .client_address = "127.0.0.1",
        .super_digest = "",
        .heartbeat_ms = 1000,
        .watches_max = 100,
        .watch_bytes_max = 1 << 20,
        .streams_max = 100,
        .wait_max_ms = 5000,
        .transfers_max = 3, /* The clients of one address get 2 of them. */
        .export_bytes_max = 64 << 10,
        .multi_ops_max = 100,
    };
    gate->zxid = zxid_make(1, 0);
    gate->applied = gate->zxid;
    gate->ready = true;
    gate->view = view_new();
    gate->prep = prep_new(&prep);

    struct state *state = state_new(KIT_HISTORY);

    state_skip(state, gate->zxid);
    view_replace(gate->view, state);
    gate->window = window_new(4 << 20, 1000, gate->zxid);
    view_set_whole(gate->view, true);
    mailbox_init(&gate->box, 1000);
    reloads_init(&gate->reloads);
    backups_init(&gate->backups);
    return gate;
}

struct gate *kit_gate_new(void)
{
    struct gate *gate = kit_gate_make();

    thread_start(&gate->core, "core", kit_core, gate);
    reloads_start(&gate->reloads);
    return gate;
}

void kit_gate_free(struct gate *gate)
{
    atomic_store(&gate->held, false);
    reloads_stop(&gate->reloads, RELOAD_WAIT_MS);
    mailbox_close(&gate->box);
    thread_join(&gate->core);
    kit_gate_drop(gate);
}

void kit_gate_drop(struct gate *gate)
{
    reloads_release(&gate->reloads);
    backups_release(&gate->backups);
    mailbox_release(&gate->box);
    prep_free(gate->prep);
    window_free(gate->window);
    view_free(gate->view);
    (void)pthread_mutex_destroy(&gate->front_mutex);
    guard_release(&gate->guard);
    mem_free(gate);
}
