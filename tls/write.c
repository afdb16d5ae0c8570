/* Writes of attached descriptors; the rules are in socket.h. */
#include "tls/socket_int.h"

#include "base/crypto.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* A position in the parts of a write. */
struct place {
    const struct iovec *parts;
    size_t count;
    size_t part;
    size_t at; /* In the part. */
};

static void skip(struct place *place, size_t len)
{
    while (place->part < place->count) {
        size_t left = place->parts[place->part].iov_len - place->at;

        if (len < left) {
            place->at += len;
            return;
        }
        len -= left;
        place->part++;
        place->at = 0;
    }
}

/* Collects the bytes of the next record; `*ret_from` points to them: in the caller's memory if one
 * part fills the record, else in `room`. A record never ends with the first byte of a part
 * that has more of them (socket.h). */
static size_t collect(const struct place *from, uint8_t *room, const uint8_t **ret_from)
{
    struct place place = *from;
    size_t len = 0;

    *ret_from = room;
    if (place.part < place.count) {
        const struct iovec *part = &place.parts[place.part];

        if (part->iov_len - place.at >= TLS_RECORD_MAX || place.part + 1 == place.count) {
            *ret_from = (const uint8_t *)part->iov_base + place.at;
            return min_size(part->iov_len - place.at, TLS_RECORD_MAX);
        }
    }
    while (place.part < place.count && len < TLS_RECORD_MAX) {
        const struct iovec *part = &place.parts[place.part];
        size_t taken = min_size(part->iov_len - place.at, TLS_RECORD_MAX - len);

        if (taken == 1 && place.at == 0 && part->iov_len > 1 && len > 0) {
            break;
        }
        memcpy(room + len, (const uint8_t *)part->iov_base + place.at, taken);
        len += taken;
        skip(&place, taken);
    }
    return len;
}

/* Takes a new key when the present one has sealed enough; TLS 1.2 cannot. */
static bool renew(struct tls_socket *socket)
{
    socket->records++;
    if (socket->records < CRYPTO_KEY_RECORDS || SSL_version(socket->ssl) != TLS1_3_VERSION) {
        return true;
    }
    socket->records = 0;
    return SSL_key_update(socket->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1;
}

/* Seals one record and gives it to the kernel. False: the connection is broken. That includes a
 * client that has sent a part of a message of the handshake, which OpenSSL wants to finish first:
 * no client of good will splits the five bytes of a KeyUpdate, and a write must not wait for a
 * read. */
static bool seal(struct tls_socket *socket, const uint8_t *from, size_t len)
{
    size_t written = 0;

    ERR_clear_error();
    if (!renew(socket) || SSL_write_ex(socket->ssl, from, len, &written) != 1) {
        if (socket->write_error) {
            tls_read_break(socket, TLS_NONE, ""); /* An error of the connection, not of TLS. */
        } else {
            tls_read_fail(socket);
        }
        ERR_clear_error();
        return false;
    }
    ASSERT(written == len);
    return true;
}

/* Seals and sends until all is sent or the kernel takes no more; returns the bytes to report. */
static size_t send_records(struct tls_socket *socket, struct place *place, size_t done)
{
    static _Thread_local uint8_t room[TLS_RECORD_MAX];
    const uint8_t *from = NULL;
    size_t len = 0;

    while ((len = collect(place, room, &from)) > 0 && seal(socket, from, len)) {
        if (socket->rest.len > 0) {
            socket->owes = true;
            return done + len - 1;
        }
        done += len;
        skip(place, len);
    }
    return done;
}

/* The reason why nothing was sent. */
static int error_of(const struct tls_socket *socket)
{
    int error = socket->end == END_BROKEN ? socket->error : socket->write_error;

    return error ? error : EAGAIN;
}

static ssize_t send_parts(struct tls_socket *socket, const struct iovec *parts, size_t count)
{
    struct place place = {.parts = parts, .count = count};
    size_t done = 0;

    if (!tls_wire_flush(socket)) {
        errno = error_of(socket);
        return -1;
    }
    skip(&place, 0); /* To the first part that is not empty. */
    if (place.part == count) {
        return 0;
    }
    if (socket->owes) {
        socket->owes = false;
        skip(&place, 1);
        done = 1;
    }
    done = send_records(socket, &place, done);
    if (done == 0) {
        errno = error_of(socket);
        return -1;
    }
    return (ssize_t)done;
}

ssize_t tls_socket_send(struct tls_socket *socket, const struct iovec *parts, size_t count,
                        int flags)
{
    ssize_t sent = 0;

    MUTEX_HOLD(&socket->mutex);
    if (socket->end == END_BROKEN) {
        errno = socket->error;
        return -1;
    }
    if (socket->finished) {
        errno = EPIPE;
        return -1;
    }
    socket->flags = flags & MSG_MORE;
    sent = send_parts(socket, parts, count);
    socket->flags = 0;
    return sent;
}
