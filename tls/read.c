/* Reads of attached descriptors; the rules are in socket.h. */
#include "tls/socket_int.h"
#include "tls/system.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PEEK_SLACK = 512 /* Unused bytes of `plain`, at most. */
};

void tls_read_break(struct tls_socket *socket, enum tls_failure failure, const char *detail)
{
    if (socket->end == END_BROKEN) {
        return;
    }
    socket->end = END_BROKEN;
    if (socket->error == 0) {
        socket->error = socket->write_error ? socket->write_error : ECONNRESET;
    }
    socket->finished = true;
    if (failure != TLS_NONE && socket->peer.broke) {
        socket->peer.broke(socket->peer.ctx, &socket->peer, failure, detail);
    }
}

/* The reasons of a handshake are none here: bytes that are not TLS are a damaged record. */
void tls_read_fail(struct tls_socket *socket)
{
    char detail[TLS_DETAIL_MAX];
    enum tls_failure failure = tls_failure_take(socket->ssl, detail);

    tls_read_break(socket, failure == TLS_ALERT ? TLS_ALERT : TLS_BROKEN, detail);
}

/* Notes why OpenSSL gave no bytes. False: there are none now. */
static bool note_end(struct tls_socket *socket, int result)
{
    int error = SSL_get_error(socket->ssl, result);

    if (socket->error || socket->write_error) {
        tls_read_break(socket, TLS_NONE, ""); /* An error of the connection, not of TLS. */
    } else if (error == SSL_ERROR_WANT_READ) {
        return false;
    } else if (error == SSL_ERROR_ZERO_RETURN) {
        socket->end = END_NOTIFIED;
    } else if (socket->closed) {
        socket->end = END_TRUNCATED;
    } else {
        tls_read_fail(socket);
    }
    ERR_clear_error();
    return true;
}

/* A part of a record has arrived, and gives no byte. Before the caller waits, the kernel
 * must say itself that it has no more: the end of the connection may follow. */
static bool look_again(struct tls_socket *socket, size_t done)
{
    if (done > 0 || socket->empty) {
        return false;
    }
    socket->drained = false;
    return true;
}

/* Decrypts up to `len` bytes: until they are complete, or there is nothing more. */
static size_t decrypt(struct tls_socket *socket, uint8_t *to, size_t len)
{
    size_t done = 0;

    if (len == 0) {
        return 0;
    }
    tls_wire_begin(socket);
    ERR_clear_error();
    while (done < len && socket->end == END_NOT) {
        size_t got = 0;
        int result = SSL_read_ex(socket->ssl, to + done, len - done, &got);

        if (socket->fault != TLS_NONE) {
            tls_read_break(socket, socket->fault, "");
            ERR_clear_error();
        } else if (result == 1) {
            done += got;
            tls_wire_delivered(socket, got);
        } else if (!note_end(socket, result) && !look_again(socket, done)) {
            break;
        }
    }
    tls_wire_end(socket);
    return done;
}

/* Makes the descriptor readable for ever, as after the end of a plain connection: the end may have
 * been found together with bytes, and then the reader must come back for it. */
static void show_end(struct tls_socket *socket)
{
    if (socket->end != END_NOT && !socket->shown) {
        socket->shown = true;
        (void)tls_system_shutdown(socket->fd, SHUT_RD);
    }
}

/* The result of a read that found no byte. */
static ssize_t no_bytes(const struct tls_socket *socket)
{
    if (socket->end == END_NOT || socket->end == END_BROKEN) {
        errno = socket->end == END_NOT ? EAGAIN : socket->error;
        return -1;
    }
    return 0;
}

/* Gives back the room that a peek has reserved and not filled: a client that sends its head bit by
 * bit must not hold all that a head may have. */
static void fit(struct buf *plain)
{
    struct buf whole = *plain;

    if (whole.len == 0) {
        buf_release(plain);
    } else if (whole.cap - whole.len >= PEEK_SLACK) {
        buf_init(plain, TLS_PEEK_MAX);
        (void)buf_append(plain, whole.data, whole.len);
        buf_release(&whole);
    }
}

static ssize_t peek(struct tls_socket *socket, void *to, size_t len)
{
    size_t most = min_size(len, TLS_PEEK_MAX);
    size_t given = 0;

    if (socket->plain.len < most) {
        uint8_t *room = buf_reserve(&socket->plain, most - socket->plain.len);
        size_t got = decrypt(socket, room, most - socket->plain.len);

        socket->plain.len += got;
        fit(&socket->plain);
        show_end(socket);
    }
    given = min_size(most, socket->plain.len);
    if (given == 0) {
        return no_bytes(socket);
    }
    memcpy(to, socket->plain.data, given);
    return (ssize_t)given;
}

static size_t take_peeked(struct tls_socket *socket, uint8_t *to, size_t len)
{
    size_t given = min_size(len, socket->plain.len);

    if (given > 0) {
        memcpy(to, socket->plain.data, given);
        buf_consume(&socket->plain, given);
    }
    if (socket->plain.len == 0) {
        buf_release(&socket->plain);
    }
    return given;
}

ssize_t tls_socket_recv(struct tls_socket *socket, void *to, size_t len, int flags)
{
    uint8_t *bytes = to;
    size_t given = 0;
    size_t got = 0;

    MUTEX_HOLD(&socket->mutex);
    if (len == 0) {
        return 0;
    }
    if (flags & MSG_PEEK) {
        return peek(socket, to, len);
    }
    given = take_peeked(socket, bytes, len);
    got = decrypt(socket, bytes + given, len - given);
    show_end(socket);
    return given + got > 0 ? (ssize_t)(given + got) : no_bytes(socket);
}
