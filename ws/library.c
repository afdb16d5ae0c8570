/*
 * The callbacks of libwebsockets, and the life of a socket. The library keeps our connections as
 * raw sockets on a libev loop: it reports arrived bytes and room for more bytes, and closes
 * connections.
 *
 * What we work around in libwebsockets 4.1:
 * - Its reader of frames accepts unmasked frames, forbidden forms of lengths, and forbidden close
 *   codes. It answers only one of two pings that arrive together. So we handle the handshake and
 *   frames ourselves (frame.c, out.c).
 * - It does not keep bytes of a raw socket that arrive while reading is stopped: read.c keeps them.
 * - The costs of its own poll loop and of its timers of idle connections grow with the number of
 *   connections. So we use a libev loop of our own, without the library's checks of idle
 *   connections, and one timer per socket (turn.c).
 * - Its libev plugin does not see a timer that is set outside of the library's callbacks. So we
 *   cannot end a connection by a timeout of the library: ws_close_cut shuts the connection down.
 * - fd_limit_per_thread must stay 0: otherwise the library finds a connection by a linear scan.
 * - We offer no extensions: permessage-deflate costs 140 KiB per connection.
 */
#include "tls/socket.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/network.h"
#include "ws/ws_int.h"

#include <sys/socket.h>
#include <unistd.h>

/* ---- The life of a socket ---- */

/* Returns the key of the network of the client's address; never 0. */
static uint64_t address_key(const struct op_principal *principal)
{
    char text[NETWORK_TEXT_MAX];

    return hash64(0, network_of(slice_str(principal->address), text)) | 1;
}

/* Makes a socket, which takes over the principal of the arrival. */
static struct ws_socket *socket_new(struct ws *ws, const struct ws_arrival *arrival)
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
    list_init(&socket->out.news);
    list_init(&socket->order.waiting);
    list_init(&socket->queue.messages);
    socket->queue.next = &socket->queue.messages;
    socket->intake.address_key = address_key(&socket->principal);
    watch_owner_share(&socket->owner, &ws->watches, socket->intake.address_key);
    buf_init(&socket->intake.message, limits->message_bytes_max);
    /* Up to two reads are kept (ws_int.h), and the library may read once more after it was stopped.
     */
    buf_init(&socket->intake.kept, 3 * (size_t)WS_READ_BYTES);
    ws_frame_init(&socket->intake.frames, limits->message_bytes_max);
    /* The bytes in out.pieces are bounded by ws_out_is_full and by overrun.c. */
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
                                            .limits = buf_slice(&ws->limits_json),
                                            .identity_required = socket->clock.identity_ms != 0});
    (void)ws_out_end(socket, PIECE_FIXED);
}

/* Gives the socket a turn when bytes wait that the loop does not report. */
static void look_for_unread(struct ws_socket *socket)
{
    if (socket->open && socket->intake.reads && tls_socket_waits(lws_get_socket_fd(socket->wsi))) {
        ws_turn_soon(socket);
    }
}

static void socket_opened(struct ws_socket *socket, struct lws *wsi)
{
    int bytes = WS_KERNEL_BYTES;

    socket->wsi = wsi;
    /* Some versions of the library make the send buffer as small as their read buffer. */
    (void)setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    socket->open = true;
    socket->intake.reads = true;
    send_hello(socket);
    look_for_unread(socket);
    if (atomic_load(&socket->ws->draining)) {
        ws_close_begin(socket, WS_CODE_GOING_AWAY, "drain");
    }
}

static void socket_free(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;

    socket->open = false;
    ws_intake_drop_message(socket);
    ws->bytes -= socket->intake.kept.len;
    buf_release(&socket->intake.kept);
    if (ws->adopting == socket) {
        ws->adopting = NULL;
    }
    ws_close_count(ws, socket->closing.code);
    ws_session_detach(socket);
    ws_message_release_all(socket);
    ws_lags_forget(socket);
    list_remove(&socket->lags.line);
    ev_timer_stop(ws->loop, &socket->clock.timer);
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

/* ---- The library ---- */

enum {
    UNREAD_READS_MAX = 4, /* Before other sockets have their turn. */
    HANDSHAKE_MAX = 512   /* Upper bound of the bytes of an answer to a handshake. */
};

static int on_library(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                      size_t len);

static const struct lws_protocols protocols[] = {
    {.name = OP_PROTOCOL, .callback = on_library, .rx_buffer_size = WS_READ_BYTES},
    {.name = NULL},
};

/* Turns off the library's checks of idle connections: beat.c has its own. */
static const lws_retry_bo_t no_checks = {.secs_since_valid_ping = 0, .secs_since_valid_hangup = 0};

static void on_log(int level UNUSED, const char *line)
{
    if (log_enabled(LOG_DEBUG)) {
        log_debug("ws", "%.*s", (int)strcspn(line, "\r\n"), line);
    }
}

bool ws_library_open(struct ws *ws)
{
    void *loops[] = {ws->loop};
    const struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = protocols,
        .options = LWS_SERVER_OPTION_LIBEV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
        .foreign_loops = loops,
        .pt_serv_buf_size = WS_READ_BYTES,
        .retry_and_idle_policy = &no_checks,
    };

    lws_set_log_level(LLL_ERR | LLL_WARN, on_log);
    ws->context = lws_create_context(&info);
    if (ws->context) {
        ws->vhost = lws_create_vhost(ws->context, &info);
    }
    return ws->vhost != NULL;
}

/* Closes all connections that are left. */
void ws_library_close(struct ws *ws)
{
    if (ws->context) {
        lws_context_destroy(ws->context);
        ws->context = NULL;
    }
}

/* Skips the request's head, which the acceptor has checked and left in the socket, and sends the
 * answer. The kernel takes an answer of this size at once, because the connection is new. */
static bool shake_hands(int fd, const struct ws_arrival *arrival)
{
    struct buf answer;
    bool done = loop_skip(fd, arrival->head_len);

    buf_init(&answer, HANDSHAKE_MAX);
    ws_handshake_answer(&answer, slice_str(arrival->key));
    ASSERT(!answer.overflow);
    done = done && loop_send(fd, answer.data, answer.len) == (ssize_t)answer.len;
    buf_release(&answer);
    return done;
}

/* Gives the descriptor to the library. When that fails, the library has closed the descriptor, and
 * may or may not have called on_library, which frees the socket. */
static void adopt(struct ws_socket *socket, int fd)
{
    struct ws *ws = socket->ws;
    const lws_adopt_desc_t adopt = {
        .vh = ws->vhost,
        .type = LWS_ADOPT_SOCKET, /* Without LWS_ADOPT_HTTP the socket is raw. */
        .fd = {.sockfd = fd},
        .vh_prot_name = OP_PROTOCOL,
        .opaque = socket,
    };
    struct lws *wsi = NULL;

    ws->adopting = socket;
    wsi = lws_adopt_descriptor_vhost_via_info(&adopt);
    if (wsi && ws->adopting) {
        socket_opened(socket, wsi);
    } else if (ws->adopting) {
        socket_free(socket);
    }
    ws->adopting = NULL;
}

/* The loop reports what the kernel holds. Bytes that TLS has decrypted, but that did not fit into
 * the last read or came with the request's head, are read here. */
void ws_library_read_unread(struct ws_socket *socket)
{
    int fd = socket->open ? lws_get_socket_fd(socket->wsi) : -1;

    for (int i = 0; socket->open && socket->intake.reads && tls_socket_waits(fd); i++) {
        ssize_t got = -1;

        if (i == UNREAD_READS_MAX) {
            ws_turn_later(socket);
            return;
        }
        got = recv(fd, socket->ws->unread, WS_READ_BYTES, MSG_DONTWAIT);
        if (got <= 0) {
            return; /* The loop reports the end or the error. */
        }
        ws_read_bytes(socket, socket->ws->unread, (size_t)got);
    }
}

void ws_library_adopt(struct ws *ws, struct ws_arrival *take_arrival)
{
    struct ws_socket *socket = socket_new(ws, take_arrival);

    if (shake_hands(take_arrival->fd, take_arrival)) {
        adopt(socket, take_arrival->fd);
    } else {
        close(take_arrival->fd);
        socket_free(socket);
    }
    mem_free(take_arrival);
}

static int on_library(struct lws *wsi, enum lws_callback_reasons reason, void *user UNUSED,
                      void *in, size_t len)
{
    struct ws_socket *socket = wsi ? lws_get_opaque_user_data(wsi) : NULL;

    if (!socket) {
        return 0;
    }
    // NOLINTNEXTLINE(clang-diagnostic-switch-enum): the library has a hundred reasons.
    switch ((int)reason) {
    case LWS_CALLBACK_RAW_RX:
        if (socket->open) {
            ws_read_bytes(socket, in, len);
            look_for_unread(socket);
            ws_events_let_out(socket->ws);
        }
        return 0;
    case LWS_CALLBACK_RAW_WRITEABLE:
        if (!socket->open) {
            return -1; /* The library closes the connection. */
        }
        socket->out.full = false;
        ws_turn_soon(socket);
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        socket_free(socket);
        return 0;
    default:
        return 0;
    }
}
