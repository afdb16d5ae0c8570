/*
 * Sealed bytes between the kernel and OpenSSL. OpenSSL asks for five bytes, then for the rest of
 * the record. So each call reads once into a buffer of its thread, and OpenSSL takes its pieces
 * from there: an incomplete record moves to OpenSSL, and what is left when the caller's buffer is
 * full stays with the socket.
 */
#include "tls/socket_int.h"
#include "tls/system.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SCRATCH_BYTES = TLS_RECORD_MAX + 512 /* A sealed record fits. */
};

/* Bytes from the kernel on their way to OpenSSL: read and used in the same call. What is left at
 * its end moves to `sealed`. So an idle connection needs no buffer. */
static _Thread_local struct {
    uint8_t bytes[SCRATCH_BYTES];
    size_t at;
    size_t len;
} scratch;

static void drop_sealed(struct tls_socket *socket)
{
    mem_free(socket->sealed);
    socket->sealed = NULL;
    socket->sealed_at = 0;
    socket->sealed_len = 0;
}

void tls_wire_begin(struct tls_socket *socket)
{
    ASSERT(scratch.len == 0 && !socket->reading);
    socket->reading = true;
    socket->drained = false;
    socket->empty = false;
}

void tls_wire_end(struct tls_socket *socket)
{
    size_t left = scratch.len - scratch.at;

    socket->reading = false;
    if (left > 0) {
        ASSERT(!socket->sealed);
        socket->sealed = mem_dup(scratch.bytes + scratch.at, left);
        socket->sealed_len = left;
    }
    scratch.at = 0;
    scratch.len = 0;
}

void tls_wire_delivered(struct tls_socket *socket, size_t len)
{
    size_t more = min_size(len, TLS_CREDIT_MAX) * TLS_CREDIT_PER_BYTE;

    socket->credit = (uint32_t)min_size(socket->credit + more, TLS_CREDIT_MAX);
}

static int take_sealed(struct tls_socket *socket, char *to, size_t len)
{
    size_t given = min_size(len, socket->sealed_len - socket->sealed_at);

    memcpy(to, socket->sealed + socket->sealed_at, given);
    socket->sealed_at += given;
    if (socket->sealed_at == socket->sealed_len) {
        drop_sealed(socket);
    }
    return (int)given;
}

static int take_scratch(char *to, size_t len)
{
    size_t given = min_size(len, scratch.len - scratch.at);

    memcpy(to, scratch.bytes + scratch.at, given);
    scratch.at += given;
    return (int)given;
}

/* Fills the scratch buffer; false: there is nothing now, or the connection has ended. */
static bool fill_scratch(struct tls_socket *socket)
{
    ssize_t got = 0;

    if (socket->drained || socket->closed || socket->error) {
        return false;
    }
    do {
        got = tls_system_recv(socket->fd, scratch.bytes, sizeof(scratch.bytes), MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    socket->drained = got < (ssize_t)sizeof(scratch.bytes);
    socket->empty = got < 0;
    socket->closed = got == 0;
    if (got < 0 && errno != EAGAIN) {
        socket->error = errno;
    }
    scratch.at = 0;
    scratch.len = got > 0 ? (size_t)got : 0;
    return got > 0;
}

/* Gives OpenSSL up to `len` bytes; 0: there are none now. */
static int take(struct tls_socket *socket, char *to, size_t len)
{
    if (socket->sealed) {
        return take_sealed(socket, to, len);
    }
    if (scratch.at < scratch.len || fill_scratch(socket)) {
        return take_scratch(to, len);
    }
    return 0;
}

static int on_bio_read(BIO *bio, char *to, int len)
{
    struct tls_socket *socket = BIO_get_data(bio);
    bool may_read = socket->reading && socket->fault == TLS_NONE;
    int taken = may_read && len > 0 ? take(socket, to, (size_t)len) : 0;

    BIO_clear_retry_flags(bio);
    if (taken > 0) {
        socket->credit -= min_u32(socket->credit, (uint32_t)taken);
        socket->fault = socket->credit == 0 ? TLS_FLOOD : TLS_NONE;
        return taken;
    }
    if (len <= 0 || socket->closed) {
        return 0;
    }
    if (!socket->error && socket->fault == TLS_NONE) {
        BIO_set_retry_read(bio);
    }
    return -1;
}

/* Sends what the kernel takes now; the number of bytes, or -1 when the connection is gone. */
static ssize_t push(struct tls_socket *socket, const void *from, size_t len)
{
    ssize_t sent = 0;

    do {
        sent = tls_system_send(socket->fd, from, len, socket->flags | MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 && errno == EAGAIN ? 0 : sent;
}

/* Takes all bytes: those that the kernel does not take now are kept. A client that makes the server
 * answer (by key updates) and does not read would fill that buffer: then the connection breaks. */
static int on_bio_write(BIO *bio, const char *from, int len)
{
    struct tls_socket *socket = BIO_get_data(bio);
    ssize_t sent = 0;

    BIO_clear_retry_flags(bio);
    if (len <= 0) {
        return 0;
    }
    if (socket->finished) { /* Nothing follows close_notify: no answer to a key update, no alert. */
        return len;
    }
    socket->answered = true;
    if (socket->rest.len == 0) {
        sent = push(socket, from, (size_t)len);
    }
    if (sent < 0) {
        socket->write_error = errno;
        return -1;
    }
    if (!buf_append(&socket->rest, from + sent, (size_t)len - (size_t)sent)) {
        socket->write_error = ECONNRESET;
        return -1;
    }
    return len;
}

static long on_bio_ctrl(BIO *bio UNUSED, int what, long number UNUSED, void *arg UNUSED)
{
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "zabra");
    ASSERT(method && BIO_meth_set_read(method, on_bio_read) == 1 &&
           BIO_meth_set_write(method, on_bio_write) == 1 &&
           BIO_meth_set_ctrl(method, on_bio_ctrl) == 1);
}

bool tls_wire_flush(struct tls_socket *socket)
{
    ssize_t sent = 0;

    if (socket->rest.len == 0) {
        return true;
    }
    sent = push(socket, socket->rest.data, socket->rest.len);
    if (sent < 0) {
        socket->write_error = errno;
        return false;
    }
    buf_consume(&socket->rest, (size_t)sent);
    if (socket->rest.len > 0) {
        return false;
    }
    buf_release(&socket->rest);
    return true;
}

const BIO_METHOD *tls_wire_method(void)
{
    (void)pthread_once(&method_once, make_method);
    return method;
}
