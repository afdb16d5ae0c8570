/*
 * socket.h - TLS in place: the bytes of an attached descriptor are encrypted and decrypted by the
 * calls that send and receive them.
 *
 * libmicrohttpd and libwebsockets serve descriptors with recv(), send(), sendmsg(), shutdown() and
 * close(). calls.c defines these functions for the whole process, as http/inlet.c defines recv().
 * For an attached descriptor they work on decrypted bytes, for all others they are the plain system
 * calls. So all that holds for plain connections holds for TLS, and a connection needs one
 * descriptor. Two connected sockets with a thread between them cost 2 more descriptors and 2.2
 * times the processor time.
 *
 * Reading. An epoll set sees the kernel's socket only, not bytes that this module holds. Therefore:
 *
 *   1. A read that returns fewer bytes than it was asked for, or EAGAIN, has emptied the socket:
 *      neither the kernel nor this module holds a byte that could be delivered. The next byte makes
 *      the descriptor readable again, and so does close_notify, also when it arrived with the
 * bytes: it is turned into shutdown(SHUT_RD), which wakes epoll. So an edge-triggered reader waits
 * only after a short read, as with a plain socket.
 *   2. After a read that filled its buffer, bytes may be held. A level-triggered reader that does
 *      not read on at once must ask tls_socket_waits() before it waits for epoll.
 *
 * MSG_PEEK decrypts, and keeps the bytes for the next read. Only the thread that reads may peek,
 * because a peek takes bytes from the kernel.
 *
 * Writing. A record is sealed once and cannot be taken back. When the kernel does not take all of a
 * record, its rest is kept, and the call reports all of its bytes except the last one as sent. So
 * the caller comes back when the descriptor is writable, first sends the kept rest and only then
 * counts that byte. So "everything is sent" always means that the kernel has everything, and at
 * most one record is held. The caller must continue with the byte that follows those reported as
 * sent. Only whole parts of at least two bytes, of a sendmsg() that reported no byte of them, may
 * be replaced; therefore a record never ends with the first byte of such a part.
 *
 * The end. close_notify is the end of the file. An end of the connection without close_notify is
 * also the end of the file, because HTTP requests and WebSocket frames have lengths of their own;
 * tls_socket_is_truncated() tells a reader in the middle of a body that bytes are missing. A
 * damaged record or a renegotiation is ECONNRESET, and nothing more is read or written. So is a
 * write after only a part of a message of the handshake has arrived.
 *
 * Floods. The work of a call is bounded by the data that it delivers: OpenSSL returns from a read
 * only with data, so a client that sends other records without an end would keep the thread. Such a
 * client, or one that changes its keys again and again, is ended with TLS_FLOOD.
 *
 * Any thread may call, one mutex for each socket; but a descriptor that is being closed has one
 * owner, as always.
 */
#ifndef TLS_SOCKET_H
#define TLS_SOCKET_H

#include "tls/context.h"
#include "tls/failure.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Larger descriptors cannot be attached. At the end of a process the leak checker of the address
 * sanitizer reads tables of this length as a whole, so it has shorter ones. */
#ifdef __SANITIZE_ADDRESS__
enum {
    TLS_FDS_MAX = 1 << 16
};
#else
enum {
    TLS_FDS_MAX = 1 << 21
};
#endif

enum {
    TLS_RECORD_MAX = 16384,        /* Bytes of a record before sealing. */
    TLS_PEEK_MAX = (64 << 10) + 1, /* Bytes that a peek decrypts and keeps, at most. */
    TLS_REST_MAX = 24 << 10,       /* Sealed bytes that the kernel has not taken, at most. */
    TLS_CREDIT_MAX = 128 << 10,    /* Sealed bytes without data, at most; the handshake included. */
    TLS_CREDIT_PER_BYTE = 32,      /* So many more for each byte of data. */
    TLS_UPDATES_MAX = 32,          /* Key updates of the client at once, at most; */
    TLS_UPDATE_MS = 1000           /* one more for each such time. */
};

struct tls_socket;

/* What is known of the other side, and what to call when its connection breaks after the handshake:
 * at most once, on the thread that found it, which holds the socket. `failure` is one of
 * TLS_BREAKS, `detail` OpenSSL's words or "". */
struct tls_socket_peer {
    void (*broke)(void *ctx, const struct tls_socket_peer *peer, enum tls_failure failure,
                  const char *detail);
    void *ctx;

    union { /* As small as can be: there is one for each connection. */
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
};

enum tls_step {
    TLS_STEP_DONE,
    TLS_STEP_READ,  /* Continue when the descriptor is readable. */
    TLS_STEP_WRITE, /* Continue when it is writable. */
    TLS_STEP_FAILED
};

/* A connection before its handshake. The descriptor stays the caller's and must not block. Holds
 * the context. */
struct tls_socket *tls_socket_new(struct tls_context *context, int fd);

/* The same for either side of a connection whose settings are the caller's; it proves no identity.
 */
struct tls_socket *tls_socket_wrap(struct ssl_st *take_ssl, int fd);

/* Frees a socket that is not attached. */
void tls_socket_free(struct tls_socket *socket);

/* Continues the handshake without waiting. `*ret_failure` and `ret_detail` are set when it failed;
 * then an alert has been sent. */
enum tls_step tls_socket_shake(struct tls_socket *socket, enum tls_failure *ret_failure,
                               char ret_detail[TLS_DETAIL_MAX]);

/* Whether the server has sent something: so the client's hello was complete. Before the socket is
 * attached. */
bool tls_socket_has_answered(const struct tls_socket *socket);

/* Sets what to call; before the socket is attached. */
void tls_socket_report(struct tls_socket *socket, const struct tls_socket_peer *peer);

/* After the handshake: from now on the process's calls for this descriptor encrypt and decrypt, and
 * close() frees the socket. */
void tls_socket_attach(struct tls_socket *take_socket);

/* The attached socket of a descriptor; NULL: the descriptor is plain. */
struct tls_socket *tls_socket_of(int fd);

/* Whether the descriptor is attached and this module holds bytes for the next read. The end needs
 * no question: the kernel reports it. */
bool tls_socket_waits(int fd);

/* Like tls_socket_waits, and also true when the kernel holds bytes. Takes nothing, so that any
 * thread may ask. */
bool tls_socket_is_unread(int fd);

/* Whether the other side has ended the connection without close_notify, or by an error. */
bool tls_socket_is_truncated(int fd);

/* Whether no byte follows those that were read or peeked: the other side has ended. */
bool tls_socket_is_ended(int fd);

/* The identity that the client's certificate proves; "": none. Valid until the socket is closed. */
const char *tls_socket_identity(const struct tls_socket *socket);
bool tls_socket_is_resumed(const struct tls_socket *socket);

/* These functions are the calls of attached descriptors; the results are those of the calls of the
 * same names. The only flags with a meaning are MSG_PEEK and MSG_MORE: no call ever waits. */
ssize_t tls_socket_recv(struct tls_socket *socket, void *to, size_t len, int flags);
struct iovec;
ssize_t tls_socket_send(struct tls_socket *socket, const struct iovec *parts, size_t count,
                        int flags);
int tls_socket_shutdown(struct tls_socket *socket, int how);

/* Detaches and frees the socket; sends close_notify unless the connection is broken. The caller
 * then closes the descriptor. */
void tls_socket_detach(struct tls_socket *socket);

#endif
