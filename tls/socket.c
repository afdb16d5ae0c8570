#include "tls/socket.h"

#include "tls/socket_int.h"
#include "tls/system.h"

#include "base/os_clock.h"

#include <stdatomic.h>
#include <sys/socket.h>

/* The attached sockets, by descriptor. The kernel gives memory only for the part that is used. */
static _Atomic(struct tls_socket *) sockets[TLS_FDS_MAX];

struct tls_socket *tls_socket_of(int fd)
{
    return fd >= 0 && fd < TLS_FDS_MAX ? atomic_load_explicit(&sockets[fd], memory_order_acquire)
                                       : NULL;
}

/* ---- Life ---- */

static void on_alert(const SSL *ssl, int where, int value)
{
    struct tls_socket *socket = SSL_get_app_data(ssl);

    if ((where & SSL_CB_WRITE_ALERT) == SSL_CB_WRITE_ALERT &&
        (value & UINT8_MAX) == SSL_AD_NO_RENEGOTIATION) {
        socket->fault = TLS_RENEGOTIATION;
    }
}

/* A key update costs the server some microseconds, and a client can send fifty in one packet. */
static void on_update(struct tls_socket *socket)
{
    uint64_t now_ms = os_now_ms();
    uint64_t past = (now_ms - socket->updates_ms) / TLS_UPDATE_MS;

    if (past > 0) {
        socket->updates -= (uint32_t)min_u64(socket->updates, past);
        socket->updates_ms = now_ms;
    }
    socket->updates++;
    if (socket->updates > TLS_UPDATES_MAX) {
        socket->fault = TLS_FLOOD;
    }
}

// NOLINTNEXTLINE(readability-function-size): OpenSSL sets the parameters.
static void on_message(int is_sent, int version UNUSED, int type, const void *message, size_t len,
                       SSL *ssl, void *arg UNUSED)
{
    const uint8_t *bytes = message;

    if (!is_sent && type == SSL3_RT_HANDSHAKE && len > 0 && bytes[0] == SSL3_MT_KEY_UPDATE) {
        on_update(SSL_get_app_data(ssl));
    }
}

struct tls_socket *tls_socket_wrap(struct ssl_st *take_ssl, int fd)
{
    struct tls_socket *socket = mem_zalloc(1, sizeof(*socket));
    BIO *bio = NULL;

    ASSERT(fd >= 0 && fd < TLS_FDS_MAX);
    mutex_init(&socket->mutex);
    socket->fd = fd;
    socket->ssl = take_ssl;
    buf_init(&socket->plain, TLS_PEEK_MAX);
    buf_init(&socket->rest, TLS_REST_MAX);
    bio = BIO_new(tls_wire_method());
    ASSERT(bio);
    BIO_set_data(bio, socket);
    BIO_set_init(bio, 1);
    SSL_set_bio(socket->ssl, bio, bio);
    ASSERT(SSL_set_app_data(socket->ssl, socket) == 1);
    SSL_set_info_callback(socket->ssl, on_alert);
    SSL_set_msg_callback(socket->ssl, on_message);
    socket->credit = TLS_CREDIT_MAX;
    return socket;
}

struct tls_socket *tls_socket_new(struct tls_context *context, int fd)
{
    struct tls_socket *socket = tls_socket_wrap(tls_context_connection(context), fd);

    socket->context = tls_context_ref(context);
    return socket;
}

void tls_socket_free(struct tls_socket *socket)
{
    SSL_free(socket->ssl);
    tls_context_unref(socket->context);
    buf_release(&socket->plain);
    buf_release(&socket->rest);
    mem_free(socket->sealed);
    mem_free(socket->identity);
    mutex_destroy(&socket->mutex);
    mem_free(socket);
}

bool tls_socket_has_answered(const struct tls_socket *socket)
{
    return socket->answered;
}

void tls_socket_report(struct tls_socket *socket, const struct tls_socket_peer *peer)
{
    socket->peer = *peer;
}

void tls_socket_attach(struct tls_socket *take_socket)
{
    struct tls_socket *old = atomic_exchange(&sockets[take_socket->fd], take_socket);

    ASSERT(!old);
}

/* ---- Handshake ---- */

static void note_client(struct tls_socket *socket)
{
    X509 *certificate = SSL_get0_peer_certificate(socket->ssl);
    char text[TLS_IDENTITY_MAX];

    socket->resumed = SSL_session_reused(socket->ssl) == 1;
    if (certificate && socket->context &&
        tls_identity_of(certificate, tls_context_identity(socket->context), text)) {
        socket->identity = mem_strdup(text);
    }
}

static enum tls_step step(struct tls_socket *socket, enum tls_failure *failure,
                          char detail[TLS_DETAIL_MAX])
{
    int result = 0;

    ERR_clear_error();
    if (!tls_wire_flush(socket) && !socket->write_error) {
        return TLS_STEP_WRITE;
    }
    tls_wire_begin(socket);
    result = SSL_do_handshake(socket->ssl);
    tls_wire_end(socket);
    if (result == 1) {
        note_client(socket);
        return socket->rest.len > 0 ? TLS_STEP_WRITE : TLS_STEP_DONE;
    }
    if (SSL_get_error(socket->ssl, result) == SSL_ERROR_WANT_READ && !socket->error &&
        !socket->write_error) {
        return socket->rest.len > 0 ? TLS_STEP_WRITE : TLS_STEP_READ;
    }
    *failure = tls_failure_take(socket->ssl, detail);
    if (socket->fault != TLS_NONE) {
        *failure = socket->fault;
    } else if (socket->closed || socket->error || socket->write_error) {
        *failure = *failure == TLS_BROKEN ? TLS_TRUNCATED : *failure;
    }
    socket->finished = true;
    return TLS_STEP_FAILED;
}

enum tls_step tls_socket_shake(struct tls_socket *socket, enum tls_failure *ret_failure,
                               char ret_detail[TLS_DETAIL_MAX])
{
    MUTEX_HOLD(&socket->mutex);

    *ret_failure = TLS_NONE;
    ret_detail[0] = '\0';
    if (SSL_is_init_finished(socket->ssl)) { /* Only its last bytes have to be sent. */
        if (tls_wire_flush(socket)) {
            return TLS_STEP_DONE;
        }
        *ret_failure = socket->write_error ? TLS_TRUNCATED : TLS_NONE;
        return socket->write_error ? TLS_STEP_FAILED : TLS_STEP_WRITE;
    }
    return step(socket, ret_failure, ret_detail);
}

/* ---- The end ---- */

/* Sends close_notify, if the kernel has taken everything before it. */
static void notify(struct tls_socket *socket)
{
    if (!socket->finished && SSL_is_init_finished(socket->ssl) && tls_wire_flush(socket)) {
        ERR_clear_error();
        (void)SSL_shutdown(socket->ssl);
        ERR_clear_error();
    }
    socket->finished = true;
}

int tls_socket_shutdown(struct tls_socket *socket, int how)
{
    MUTEX_HOLD(&socket->mutex);

    if (how != SHUT_RD) {
        notify(socket);
    }
    return tls_system_shutdown(socket->fd, how);
}

void tls_socket_detach(struct tls_socket *socket)
{
    struct tls_socket *old = atomic_exchange(&sockets[socket->fd], NULL);

    ASSERT(old == socket);
    mutex_lock(&socket->mutex);
    notify(socket);
    mutex_unlock(&socket->mutex);
    tls_socket_free(socket);
}

/* ---- Questions ---- */

static bool holds(const struct tls_socket *socket)
{
    return socket->plain.len > 0 || socket->sealed || SSL_pending(socket->ssl) > 0;
}

bool tls_socket_waits(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);

    if (!socket) {
        return false;
    }
    MUTEX_HOLD(&socket->mutex);
    return holds(socket);
}

bool tls_socket_is_unread(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);
    uint8_t byte = 0;

    if (!socket) {
        return false;
    }
    MUTEX_HOLD(&socket->mutex);
    return holds(socket) || tls_system_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool tls_socket_is_truncated(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);

    if (!socket) {
        return false;
    }
    MUTEX_HOLD(&socket->mutex);
    return socket->end == END_TRUNCATED || socket->end == END_BROKEN;
}

bool tls_socket_is_ended(int fd)
{
    struct tls_socket *socket = tls_socket_of(fd);

    if (!socket) {
        return false;
    }
    MUTEX_HOLD(&socket->mutex);
    return socket->end != END_NOT;
}

const char *tls_socket_identity(const struct tls_socket *socket)
{
    return socket->identity ? socket->identity : "";
}

bool tls_socket_is_resumed(const struct tls_socket *socket)
{
    return socket->resumed;
}
