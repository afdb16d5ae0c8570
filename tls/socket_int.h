/* socket_int.h - the parts of a socket: wire.c, read.c, write.c, socket.c. */
#ifndef TLS_SOCKET_INT_H
#define TLS_SOCKET_INT_H

#include "tls/socket.h"

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/thread.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

/* How reading has ended. */
enum end {
    END_NOT,
    END_NOTIFIED,  /* close_notify. */
    END_TRUNCATED, /* The connection ended without it. */
    END_BROKEN     /* `error`. */
};

struct tls_socket {
    pthread_mutex_t mutex;
    struct tls_context *context; /* NULL: the settings are the caller's. */
    SSL *ssl;
    int fd;
    enum end end;
    bool shown;                  /* The kernel reports the end. */
    int error;                   /* Of END_BROKEN, and of the kernel when it reads; as errno. */
    int write_error;             /* Of the kernel when it writes. */
    struct tls_socket_peer peer; /* `broke` NULL: nothing to call. */
    bool answered;               /* A byte was sent, or kept. */
    bool resumed;
    bool finished;          /* close_notify was sent, or must not be sent any more. */
    enum tls_failure fault; /* What the client has done that OpenSSL itself permits. */
    uint32_t credit;        /* Sealed bytes that may still come without data. */
    uint32_t records;       /* That the present key has sealed. */
    uint32_t updates;       /* Key updates of the client, less those that are long past. */
    uint64_t updates_ms;    /* When `updates` last changed. */
    bool reading;     /* OpenSSL may take bytes from the kernel: between tls_wire_begin and _end. */
    bool drained;     /* A read of this call was short: the kernel has no more now. */
    bool empty;       /* The kernel has said so itself. */
    bool closed;      /* The kernel has reported the end. */
    bool owes;        /* The first byte of the next write is already sealed. */
    int flags;        /* MSG_MORE of the write that is running. */
    struct buf plain; /* Bytes that were peeked. */
    uint8_t *sealed;  /* Bytes from the kernel that OpenSSL has not taken yet; NULL: none. */
    size_t sealed_at;
    size_t sealed_len;
    struct buf rest; /* Sealed bytes that the kernel has not taken yet. */
    char *identity;  /* NULL: none. */
};

/* ---- wire.c: sealed bytes from and to the kernel ---- */

/* The method of the BIO between OpenSSL and the kernel; its data is the socket. */
const BIO_METHOD *tls_wire_method(void);

/* Begins and ends each call that lets OpenSSL read. The end keeps what OpenSSL has not taken of the
 * bytes that were read. OpenSSL also asks for bytes when it writes, in the middle of a message of
 * the handshake: outside of these two calls it gets none, because they would be left over. */
void tls_wire_begin(struct tls_socket *socket);
void tls_wire_end(struct tls_socket *socket);

/* Notes that OpenSSL has delivered `len` bytes of data. */
void tls_wire_delivered(struct tls_socket *socket, size_t len);

/* Sends the kept rest; true: nothing is left of it. False with write_error 0: the kernel is full.
 */
bool tls_wire_flush(struct tls_socket *socket);

/* ---- read.c ---- */

/* Ends a connection whose bytes cannot be trusted any more, or that is gone (TLS_NONE). */
void tls_read_break(struct tls_socket *socket, enum tls_failure failure, const char *detail);

/* The same after OpenSSL has failed: takes its errors. */
void tls_read_fail(struct tls_socket *socket);

#endif
