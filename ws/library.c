/*
 * What libwebsockets asks and is told. It parses the handshake and frames, answers pings and does
 * the closing handshake. Its sockets live on a libev loop: its own poll loop walks all connections
 * at every wake-up. Its timers of idle connections are off: each message would walk a list of them.
 */
#include "base/check.h"
#include "base/log.h"
#include "ws/ws_int.h"

#include <sys/socket.h>

enum {
    REASON_MAX = 64 /* Bytes of the text in a close frame. */
};

static int on_library(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                      size_t len);

static const struct lws_protocols protocols[] = {
    {.name = OP_PROTOCOL,
     .callback = on_library,
     .rx_buffer_size = WS_READ_BYTES,
     .tx_packet_size = WS_TURN_BYTES},
    {.name = NULL},
};

/* No validity checks: beat.c does that. */
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
        .pt_serv_buf_size = 2 * WS_READ_BYTES,
        .max_http_header_data2 = ws->limits->head_bytes_max + 1,
        .timeout_secs = WS_LINGER_MS / 1000,
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

/* When it fails, the library may or may not have told of it. */
void ws_library_adopt(struct ws_socket *socket, int fd)
{
    struct ws *ws = socket->ws;
    const lws_adopt_desc_t adopt = {
        .vh = ws->vhost,
        .type = LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP,
        .fd = {.sockfd = fd},
        .opaque = socket,
    };

    ws->adopting = socket;
    if (!lws_adopt_descriptor_vhost_via_info(&adopt) && ws->adopting) {
        ws_socket_gone(socket);
    }
    ws->adopting = NULL;
}

static void opened(struct ws_socket *socket, struct lws *wsi)
{
    int bytes = WS_KERNEL_BYTES;

    socket->wsi = wsi;
    /* Some versions of the library make it as small as their read buffer. */
    (void)setsockopt(lws_get_socket_fd(wsi), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    ws_socket_opened(socket);
}

/* The library closes the connection when this is not 0. */
static int writable(struct ws_socket *socket)
{
    unsigned char reason[REASON_MAX];
    size_t len = 0;

    if (!socket->open) {
        return -1;
    }
    ws_socket_turn(socket);
    if (!socket->farewell || socket->out.len > 0 || lws_partial_buffered(socket->wsi)) {
        return 0;
    }
    socket->open = false;
    len = strlen(socket->reason);
    ASSERT(len < sizeof(reason));
    memcpy(reason, socket->reason, len);
    lws_close_reason(socket->wsi, (enum lws_close_status)socket->code, reason, len);
    return -1;
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
    case LWS_CALLBACK_HTTP:
        return -1; /* It was no request for a WebSocket after all. */
    case LWS_CALLBACK_ESTABLISHED:
        opened(socket, wsi);
        return 0;
    case LWS_CALLBACK_RECEIVE:
        ws_socket_receive(socket, slice_make(in, len), !lws_frame_is_binary(wsi),
                          lws_is_final_fragment(wsi));
        return 0;
    case LWS_CALLBACK_RECEIVE_PONG:
        ws_socket_heard(socket);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        return writable(socket);
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        socket->open = false;
        return 0;
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        ws_socket_gone(socket);
        return 0;
    default:
        return 0;
    }
}
