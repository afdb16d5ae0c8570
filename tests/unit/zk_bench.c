#include "tests/unit/zk_bench.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
    REQUESTS_MAX = 40,    /* Half of them are inside the gate at a time. */
    FLIGHT_MAX = 30,      /* Of one connection. */
    FRAME_MAX = 4 << 20,  /* setWatches has the longest. */
    REPLY_MAX = 16 << 10, /* Longer than any reply that a test asks for. */
    WAITS_MAX = 3 << 20   /* Bytes of one incomplete frame and one read. */
};

static const struct op_principal client = {.address = "127.0.0.1"};

static void give_seat(void *seat)
{
    size_t *seats = seat;

    ASSERT(*seats > 0);
    (*seats)--;
}

void zk_bench_open_with(struct zk_bench *bench, void (*adjust)(struct config_clients *limits))
{
    *bench = (struct zk_bench){.gate = kit_gate_make()};
    bench->gate->limits.requests_max = REQUESTS_MAX;
    bench->gate->limits.socket_in_flight_max = FLIGHT_MAX;
    if (adjust) {
        adjust(&bench->gate->limits);
    }
    bench->zk = zk_open(bench->gate, give_seat);
    list_init(&bench->inside);
    list_init(&bench->ran);
}

void zk_bench_open(struct zk_bench *bench)
{
    zk_bench_open_with(bench, NULL);
}

int zk_bench_dial(struct zk_bench *bench, int room)
{
    int ends[2];
    int failed = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);

    ASSERT(failed == 0);
    if (room > 0) {
        failed = setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        ASSERT(failed == 0);
    }
    bench->seats++;

    bool taken = zk_adopt(bench->zk, ends[0], &client, &bench->seats);

    ASSERT(taken);
    return ends[1];
}

/* Takes what the front end has submitted. */
static void take(struct zk_bench *bench)
{
    struct list batch;

    (void)mailbox_drain(&bench->gate->box, &batch);
    list_take_each (struct op_request, request, node, &batch) {
        list_push_back(&bench->inside, &request->node);
        bench->inside_count++;
    }
}

static void wake(struct zk_bench *bench)
{
    if (bench->unwoken) {
        bench->unwoken = false;
        bench->zk->listener.wake(bench->zk->listener.ctx);
    }
}

void zk_bench_round(struct zk_bench *bench)
{
    (void)ev_run(bench->zk->loop, EVRUN_NOWAIT);
    wake(bench);
    take(bench);
}

/* Runs a request, without waking the front end. */
static void serve(struct zk_bench *bench, struct op_request *request)
{
    struct gate *gate = bench->gate;
    bool suspends = atomic_load(&gate->suspends);

    window_unlisten(gate->window, &bench->zk->listener);
    kit_serve(gate, request);
    window_listen(gate->window, &bench->zk->listener);
    bench->unwoken = true;
    if (bench->prompt) {
        wake(bench);
    }
    bench->suspended = suspends && !atomic_load(&gate->suspends);
}

/* Whether an earlier request of the same connection waits. */
static bool is_behind(const struct zk_bench *bench, const struct op_request *request)
{
    list_for_each_entry (struct op_request, one, node, &bench->inside) {
        if (one == request) {
            return false;
        }
        if (one->fifo == request->fifo) {
            return true;
        }
    }
    return false;
}

const struct op_request *zk_bench_run(struct zk_bench *bench, size_t pick)
{
    struct op_request *chosen = NULL;
    size_t left = bench->inside_count > 0 ? pick % bench->inside_count : 0;

    list_for_each_entry (struct op_request, request, node, &bench->inside) {
        if (!is_behind(bench, request)) {
            chosen = request;
        }
        if (left-- == 0) {
            break;
        }
    }
    if (!chosen || bench->suspended) {
        return NULL;
    }
    list_remove(&chosen->node);
    bench->inside_count--;
    serve(bench, chosen);
    list_push_back(&bench->ran, &chosen->node);
    bench->ran_count++;
    return chosen;
}

const struct op_request *zk_bench_answer(struct zk_bench *bench, size_t pick)
{
    size_t left = bench->ran_count > 0 ? pick % bench->ran_count : 0;
    struct list *node = bench->ran.next;

    if (bench->ran_count == 0) {
        return NULL;
    }
    while (left-- > 0) {
        node = node->next;
    }
    struct op_request *request = list_entry(node, struct op_request, node);

    list_remove(node);
    bench->ran_count--;
    atomic_fetch_sub(&bench->gate->inside, 1);
    request->on_reply(request);
    return request;
}

void zk_bench_retry(struct zk_bench *bench)
{
    ev_feed_event(bench->zk->loop, &bench->zk->retry, EV_TIMER);
}

void zk_bench_suspend(struct zk_bench *bench)
{
    atomic_store(&bench->gate->suspends, true);
}

void zk_bench_replace(struct zk_bench *bench)
{
    kit_replace(bench->gate);
    bench->suspended = false;
}

static void age(uint64_t *time_ms, uint64_t ms)
{
    *time_ms -= *time_ms != 0 ? min_u64(ms, *time_ms - 1) : 0;
}

void zk_bench_pass(struct zk_bench *bench, uint64_t ms)
{
    struct zk *zk = bench->zk;

    list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
        age(&conn->heard_ms, ms);
        age(&conn->deadline_ms, ms);
        age(&conn->identity_ms, ms);
        age(&conn->stall_ms, ms);
        age(&conn->session.touched_ms, ms);
        if (conn->opening) {
            age(&conn->opening->since_ms, ms);
        }
        list_for_each_entry (struct zk_call, call, node, &conn->calls) {
            age(&call->waits_since_us, 1000 * ms);
        }
    }
    age(&zk->unfit_ms, ms);
    zk->tick_ms = os_now_ms() + ZK_TICK_MS; /* The tick is on time. */
    zk_tick(zk);
}

static void drop(struct op_request *request)
{
    (void)request;
}

enum err zk_bench_write(struct zk_bench *bench, const struct op_args *args)
{
    struct op_request *request = NULL;
    enum err err = ERR_OK;

    if (bench->suspended) {
        return ERR_NOT_READY;
    }
    request = op_request_new();
    request->def = ops_by_id(args->op);
    request->on_reply = drop;
    request->args = *args;
    request->principal = principal_copy(&bench->zk->self);
    serve(bench, request);
    err = request->result.err;
    op_request_free(request);
    return err;
}

static void check_conn(const struct zk *zk, const struct zk_conn *conn)
{
    uint32_t calls_max = max_u32(min_u32(ZK_CALLS_MAX, zk->limits->socket_in_flight_max), 1);

    ASSERT(conn->count <= calls_max && conn->unrun <= conn->count);
    ASSERT(conn->bytes <= ZK_FLIGHT_BYTES + (size_t)FRAME_MAX);
    ASSERT(conn->in.len <= FRAME_MAX + (size_t)WAITS_MAX);
    ASSERT(zk_out_unsent(conn) <=
           ZK_UNREAD_BYTES + zk->limits->socket_queue_bytes_max + (size_t)REPLY_MAX);
    ASSERT(conn->owner.count <= zk->limits->watches_max);
    ASSERT(conn->in.len > 0 || !conn->in.data || conn->state == ZK_CUT);
}

void zk_bench_check(struct zk_bench *bench)
{
    const struct zk *zk = bench->zk;
    size_t conns = mailbox_count(&bench->zk->arrivals.box);
    size_t bytes = 0;
    size_t pieces = 0;
    size_t unsent = 0;
    size_t watches = 0;
    uint64_t promised = 0;

    list_for_each_entry (struct zk_conn, conn, node, &zk->conns) {
        check_conn(zk, conn);
        conns++;
        bytes += conn->bytes;
        pieces += conn->in_counted;
        unsent += conn->out.cost;
        watches += conn->owner.count;
        promised += conn->share;
    }
    ASSERT(conns == bench->seats);
    ASSERT(bytes <= budget_used(&zk->calls.budget) && pieces == budget_used(&zk->pieces.budget));
    ASSERT(unsent <= budget_used(gate_unsent(bench->gate)));
    ASSERT(conns > 0 || budget_used(gate_unsent(bench->gate)) == 0);
    ASSERT(watches == watch_table_count(subscribe_table(zk->subscriber)));
    ASSERT(zk->inside ==
           bench->inside_count + bench->ran_count + mailbox_count(&bench->zk->replies.box));
    ASSERT(promised == zk->promised && zk->inside + promised <= zk->inside_max);
}

void zk_bench_close(struct zk_bench *bench)
{
    take(bench);
    bench->suspended = false;
    while (zk_bench_run(bench, 0) || zk_bench_answer(bench, 0)) {
        ;
    }
    zk_close(bench->zk);
    ASSERT(bench->seats == 0 && budget_used(gate_unsent(bench->gate)) == 0);
    kit_gate_drop(bench->gate);
}
