/* The life of a socket: made, opened, freed. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/network.h"
#include "ws/ws_int.h"

/* Of the network of its address; never 0. */
static uint64_t address_key(const struct op_principal *principal)
{
    char text[NETWORK_TEXT_MAX];

    return hash64(0, network_of(slice_str(principal->address), text)) | 1;
}

struct ws_socket *ws_socket_new(struct ws *ws, const struct ws_arrival *arrival)
{
    struct ws_socket *socket = mem_zalloc(1, sizeof(*socket));
    const struct config_clients *limits = ws->limits;

    socket->ws = ws;
    socket->queue.fifo = ++ws->fifos;
    socket->seat = arrival->seat;
    socket->principal = arrival->principal;
    watch_owner_init(&socket->owner, &socket->principal, limits->watches_max,
                     limits->watch_bytes_max);
    list_push_back(&ws->sockets, &socket->node);
    list_init(&socket->turn);
    list_init(&socket->queue.held);
    list_init(&socket->lags.line);
    list_init(&socket->out.stalled);
    list_init(&socket->order.waiting);
    list_init(&socket->queue.messages);
    socket->queue.next = &socket->queue.messages;
    socket->intake.address_key = address_key(&socket->principal);
    buf_init(&socket->intake.message, limits->message_bytes_max);
    buf_init(&socket->intake.kept, 3 * (size_t)WS_READ_BYTES); /* The library may read once more. */
    ws_frame_init(&socket->intake.frames, limits->message_bytes_max);
    /* Bounded by ws_out_is_full and overrun.c. */
    pieces_init(&socket->out.pieces, gate_unsent(ws->gate));
    ws_beat_start(socket);
    metric_add(&ws->metrics.sockets_ever, 1);
    atomic_fetch_add_explicit(&ws->metrics.sockets.value, 1, memory_order_relaxed);
    return socket;
}

static void send_hello(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;
    struct gate_status status;
    struct jsonw json;

    gate_status(ws->gate, &status);
    ws_order_pump(ws, ZXID_MAX);
    json = ws_out_begin(ws);
    op_json_hello(&json, &(struct op_hello){.server = status.id,
                                            .role = status.role,
                                            .history = status.history,
                                            .zxid = subscribe_at(ws->subscriber),
                                            .heartbeat_ms = ws->limits->heartbeat_ms,
                                            .limits = buf_slice(&ws->limits_json)});
    (void)ws_out_end(socket, PIECE_FIXED);
}

void ws_socket_opened(struct ws_socket *socket)
{
    socket->open = true;
    socket->intake.reads = true;
    send_hello(socket);
    if (atomic_load(&socket->ws->draining)) {
        ws_close_begin(socket, WS_CODE_GOING_AWAY, "drain");
    }
}

void ws_socket_gone(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    socket->open = false;
    ws_intake_drop_message(socket);
    ws_read_release(socket);
    if (ws->adopting == socket) {
        ws->adopting = NULL;
    }
    ws_metrics_closed(ws, socket->closing.code);
    ws_session_detach(socket);
    ws_message_release_all(socket);
    ws_lags_forget(socket);
    list_remove(&socket->lags.line);
    ws_beat_stop(socket);
    watch_owner_release(subscribe_table(ws->subscriber), &socket->owner);
    list_remove(&socket->node);
    list_remove(&socket->turn);
    list_remove(&socket->queue.held);
    list_remove(&socket->order.waiting);
    ws_out_release(socket);
    principal_release(&socket->principal);
    ws->give_seat(socket->seat);
    mem_free(socket);
    atomic_fetch_sub_explicit(&ws->metrics.sockets.value, 1, memory_order_relaxed);
    atomic_fetch_sub(&ws->taken, 1);
}
