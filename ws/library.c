/*
 * The callbacks of libwebsockets. It keeps our connections as raw sockets on a libev loop: it
 * reports arrived bytes and room for more, and closes. Handshake and frames are ours (handshake.c,
 * frame.c, out.c), because its own reader of frames accepts, silently, frames that RFC 6455
 * forbids. Its own poll loop would walk all connections at every wake-up.
 */
#include "base/check.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "ws/handshake.h"
#include "ws/ws_int.h"

#include <sys/socket.h>
#include <unistd.h>

enum {
    HANDSHAKE_MAX = 512 /* Bytes of our answer. */
};

static int on_library(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                      size_t len);

static const struct lws_protocols protocols[] = {
    {.name = OP_PROTOCOL, .callback = on_library, .rx_buffer_size = WS_READ_BYTES},
    {.name = NULL},
};

/* No validity checks: beat.c has its own. */
static const lws_retry_bo_t no_checks = {.secs_since_valid_ping = 0, .secs_since_valid_hangup = 0};

static void on_log(int level, const char *line)
{
    (void)level;
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

/* The request's head, which the acceptor has checked, is still in the socket. The kernel takes an
 * answer of this size at once, because the connection is new. */
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

static void opened(struct ws_socket *socket, struct lws *wsi)
{
    int bytes = WS_KERNEL_BYTES;

    socket->wsi = wsi;
    /* Some versions of the library make it as small as their read buffer. */
    (void)setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    ws_socket_opened(socket);
}

/* When it fails, the library has closed the descriptor, and may or may not have called back. */
static void adopt(struct ws_socket *socket, int fd)
{
    struct ws *ws = socket->ws;
    const lws_adopt_desc_t adopt = {
        .vh = ws->vhost,
        .type = LWS_ADOPT_SOCKET, /* Without LWS_ADOPT_HTTP: raw. */
        .fd = {.sockfd = fd},
        .vh_prot_name = OP_PROTOCOL,
        .opaque = socket,
    };
    struct lws *wsi = NULL;

    ws->adopting = socket;
    wsi = lws_adopt_descriptor_vhost_via_info(&adopt);
    if (wsi && ws->adopting) {
        opened(socket, wsi);
    } else if (ws->adopting) {
        ws_socket_gone(socket);
    }
    ws->adopting = NULL;
}

void ws_library_adopt(struct ws *ws, struct ws_arrival *take_arrival)
{
    struct ws_socket *socket = ws_socket_new(ws, take_arrival);

    if (shake_hands(take_arrival->fd, take_arrival)) {
        adopt(socket, take_arrival->fd);
    } else {
        close(take_arrival->fd);
        ws_socket_gone(socket);
    }
    mem_free(take_arrival);
}

/* The library closes the connection when this is not 0. */
static int writable(struct ws_socket *socket)
{
    if (!socket->open) {
        return -1;
    }
    socket->out.full = false;
    ws_turn_soon(socket);
    return 0;
}

static int on_library(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                      size_t len)
{
    struct ws_socket *socket = wsi ? lws_get_opaque_user_data(wsi) : NULL;

    (void)user;
    if (!socket) {
        return 0;
    }
    // NOLINTNEXTLINE(clang-diagnostic-switch-enum): the library has a hundred of them.
    switch ((int)reason) {
    case LWS_CALLBACK_RAW_RX:
        if (socket->open) {
            ws_read_bytes(socket, in, len);
        }
        return 0;
    case LWS_CALLBACK_RAW_WRITEABLE:
        return writable(socket);
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        ws_socket_gone(socket);
        return 0;
    default:
        return 0;
    }
}
