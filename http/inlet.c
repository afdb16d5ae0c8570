#include "http/inlet.h"

#include "tls/system.h"

#include "base/check.h"
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SWALLOW_BYTES = 4096,
    SWALLOWS_MAX = 64 /* How many reads of refused bytes are made at a time, at most. */
};

/* The request that replaces refused bytes: the library waits for its body, which never arrives. */
static const char stub[] = "POST / HTTP/1.0\r\nContent-Length: 1\r\n\r\n";

/* The inlets, by descriptor. The kernel gives memory only for the part that is used: 8 bytes a
 * descriptor. */
static _Atomic(struct http_inlet *) inlets[HTTP_INLET_FDS_MAX];

/* Reads from the connection: decrypted bytes, if the descriptor is attached to TLS. */
static ssize_t receive(int fd, void *to, size_t len, int flags)
{
    struct tls_socket *socket = tls_socket_of(fd);

    return socket ? tls_socket_recv(socket, to, len, flags) : tls_system_recv(fd, to, len, flags);
}

/* ---- Attached descriptors ---- */

void http_inlet_init(struct http_inlet *inlet, size_t head_max)
{
    *inlet = (struct http_inlet){.head_max = head_max};
    buf_init(&inlet->held, 2 * head_max + sizeof(stub));
}

void http_inlet_release(struct http_inlet *inlet)
{
    buf_release(&inlet->held);
}

void http_inlet_attach(struct http_inlet *inlet, int fd)
{
    ASSERT(fd >= 0 && fd < HTTP_INLET_FDS_MAX);

    struct http_inlet *old = atomic_exchange(&inlets[fd], inlet);

    ASSERT(!old);
}

void http_inlet_detach(struct http_inlet *inlet, int fd)
{
    struct http_inlet *old = atomic_exchange(&inlets[fd], NULL);

    ASSERT(old == inlet);
}

void http_inlet_begin(struct http_inlet *inlet)
{
    inlet->heads_begun++;
    /* If this fails, the library has bypassed this module. */
    ASSERT(inlet->heads_begun <= inlet->heads_in);
}

bool http_inlet_refuses(const struct http_inlet *inlet)
{
    return inlet->state == HTTP_INLET_REFUSED && inlet->heads_begun == inlet->heads_in;
}

/* ---- Checks ---- */

/* The state of a check. */
struct look {
    uint8_t *bytes;
    size_t len;       /* Length of `bytes`, without trailers that were removed. */
    size_t good;      /* Bytes that the library may read. */
    size_t last_head; /* Start of the last head in `bytes`; SIZE_MAX: there is none. */
};

static void take_head(struct http_inlet *inlet, struct slice rest, struct look *look)
{
    struct http_framing framing;

    inlet->refusal = http_head_check_framing(rest, inlet->head_max, &framing);
    if (inlet->refusal.err != ERR_OK) {
        inlet->state = HTTP_INLET_REFUSED;
        return;
    }
    if (framing.head_len == 0) {
        return;
    }
    http_head_tidy(look->bytes + look->good, framing.head_len);
    look->last_head = look->good;
    look->good += framing.head_len;
    inlet->heads_in++;
    if (framing.chunked) {
        inlet->chunks = (struct http_chunks){.state = 0};
        inlet->state = HTTP_INLET_CHUNKS;
    } else if (framing.body_len > 0) {
        inlet->left = framing.body_len;
        inlet->state = HTTP_INLET_LENGTH;
    }
}

static void take_length(struct http_inlet *inlet, struct slice rest, struct look *look)
{
    size_t len = min_size(inlet->left, rest.len);

    look->good += len;
    inlet->left -= len;
    if (inlet->left == 0) {
        inlet->state = HTTP_INLET_HEAD;
    }
}

/* Takes bytes of a chunked body. A fault refuses the whole request, unless the library already has
 * the head of that request. */
static void take_chunks(struct http_inlet *inlet, struct slice rest, struct look *look)
{
    struct http_chunks *chunks = &inlet->chunks;
    uint8_t *begin = look->bytes + look->good;

    look->good += http_chunks_take(chunks, rest);
    if (chunks->trailers_len > 0) {
        /* The library would keep trailers in the memory for the head, so they are removed. */
        uint8_t *at = begin + chunks->trailers_at;
        uint8_t *behind = at + chunks->trailers_len;

        memmove(at, behind, (size_t)(look->bytes + look->len - behind));
        look->len -= chunks->trailers_len;
        look->good -= chunks->trailers_len;
    }
    if (chunks->fault) {
        inlet->refusal = http_refusal_make(ERR_BAD_ARGUMENTS, chunks->fault);
        inlet->state = HTTP_INLET_REFUSED;
        if (look->last_head != SIZE_MAX) {
            look->good = look->last_head;
            inlet->heads_in--;
        }
    } else if (chunks->over) {
        inlet->state = HTTP_INLET_HEAD;
    }
}

static struct look look_at(struct http_inlet *inlet, uint8_t *bytes, size_t len)
{
    struct look look = {.bytes = bytes, .len = len, .last_head = SIZE_MAX};
    size_t before = SIZE_MAX;

    while (look.good < look.len && look.good != before && inlet->state != HTTP_INLET_REFUSED) {
        struct slice rest = slice_make(bytes + look.good, look.len - look.good);

        before = look.good;
        switch (inlet->state) {
        case HTTP_INLET_HEAD:
            take_head(inlet, rest, &look);
            break;
        case HTTP_INLET_LENGTH:
            take_length(inlet, rest, &look);
            break;
        case HTTP_INLET_CHUNKS:
            take_chunks(inlet, rest, &look);
            break;
        case HTTP_INLET_REFUSED:
            break;
        }
    }
    return look;
}

/* ---- Reads of the library ---- */

/* Reads and discards bytes, because unread bytes would turn the end of the answer into a reset.
 * Returns -1 with EAGAIN, or the end or error of the connection, as recv() does. */
static ssize_t swallow(int fd)
{
    static _Thread_local uint8_t trash[SWALLOW_BYTES];
    ssize_t got = 1;

    for (int i = 0; i < SWALLOWS_MAX && got > 0; i++) {
        got = receive(fd, trash, sizeof(trash), MSG_DONTWAIT);
    }
    if (got > 0) {
        errno = EAGAIN;
        return -1;
    }
    return got;
}

/* Gives the library the bytes that are ready. */
static size_t give(struct http_inlet *inlet, uint8_t *to, size_t len)
{
    size_t given = min_size(inlet->ready, len);

    if (given > 0) {
        memcpy(to, inlet->held.data, given);
        buf_consume(&inlet->held, given);
        inlet->ready -= given;
    }
    if (inlet->held.len == 0 && inlet->held.data) {
        buf_trim(&inlet->held, 0);
    }
    return given;
}

/* Acts on the result of a check. A part of a head: calls on_part. Refused bytes: replaces them by
 * the stub or, in the middle of a request that the library handles, calls on_refused. */
static void refuse_or_wait(struct http_inlet *inlet, int fd, const struct look *look)
{
    if (inlet->state != HTTP_INLET_REFUSED) {
        if (inlet->on_part && inlet->held.len > inlet->ready) {
            inlet->on_part(inlet);
        }
        return;
    }

    bool inside = inlet->chunks.fault && look->last_head == SIZE_MAX;

    inlet->held.len = inlet->ready;
    if (inside) {
        inlet->held.len = 0;
        inlet->ready = 0;
        inlet->on_refused(inlet);
    } else {
        (void)buf_append(&inlet->held, stub, sizeof(stub) - 1);
        ASSERT(!inlet->held.overflow);
        inlet->ready = inlet->held.len;
        inlet->heads_in++;
    }
    (void)swallow(fd);
}

/* Reads more bytes after the part of a head that is held. */
static ssize_t read_more(struct http_inlet *inlet, int fd)
{
    size_t room = inlet->head_max + 1 - inlet->held.len;
    uint8_t *to = buf_reserve(&inlet->held, room);

    ASSERT(to && inlet->ready == 0 && room <= inlet->head_max + 1);

    ssize_t got = receive(fd, to, room, 0);

    if (got > 0) {
        inlet->held.len += (size_t)got;

        struct look look = look_at(inlet, inlet->held.data, inlet->held.len);

        inlet->held.len = look.len;
        inlet->ready = look.good;
        refuse_or_wait(inlet, fd, &look);
    }
    return got;
}

/* Reads through `held`. When the library gets fewer bytes than it asked for, it waits for the next
 * edge-triggered event of the socket. So this function returns fewer bytes only when the socket is
 * empty and no ready bytes are left in `held`. */
static ssize_t read_slowly(struct http_inlet *inlet, int fd, uint8_t *to, size_t len, size_t done)
{
    for (;;) {
        done += give(inlet, to + done, len - done);
        if (done == len) {
            return (ssize_t)done;
        }
        if (inlet->state == HTTP_INLET_REFUSED) {
            return done > 0 ? (ssize_t)done : swallow(fd);
        }

        ssize_t got = read_more(inlet, fd);

        if (got <= 0) {
            return done > 0 ? (ssize_t)done : got;
        }
    }
}

/* A body that ends before its length, without close_notify, may have been cut by anybody on the
 * way: that is no end in order. */
static ssize_t end_of(const struct http_inlet *inlet, int fd, ssize_t got)
{
    bool inside = inlet->state == HTTP_INLET_LENGTH || inlet->state == HTTP_INLET_CHUNKS;

    if (got == 0 && inside && tls_socket_is_truncated(fd)) {
        errno = ECONNRESET;
        return -1;
    }
    return got;
}

static ssize_t read_checked(struct http_inlet *inlet, int fd, uint8_t *to, size_t len)
{
    if (inlet->held.len > 0 || inlet->state == HTTP_INLET_REFUSED) {
        return read_slowly(inlet, fd, to, len, 0);
    }

    ssize_t got = receive(fd, to, len, 0);

    if (got <= 0) {
        return end_of(inlet, fd, got);
    }

    struct look look = look_at(inlet, to, (size_t)got);

    if (look.good == (size_t)got && inlet->state != HTTP_INLET_REFUSED) {
        return got;
    }
    if (inlet->state != HTTP_INLET_REFUSED) {
        (void)buf_append(&inlet->held, to + look.good, look.len - look.good);
        ASSERT(!inlet->held.overflow);
    }
    refuse_or_wait(inlet, fd, &look);
    return read_slowly(inlet, fd, to, len, look.good);
}

/* Alternatives that were considered: a socket pair between the client's socket and the library (two
 * more copies and wake-ups for each request), suspending each connection after each answer (5 us
 * and a walk over all suspended connections), peeking beside the library (which may read bytes that
 * arrived after the peek).
 *
 * The label gives the function the symbol `recv`, because the C library's header may define an
 * inline recv(). */
ssize_t http_inlet_recv(int fd, void *to, size_t len, int flags) __asm__("recv")
    __attribute__((visibility("default"), used));

ssize_t http_inlet_recv(int fd, void *to, size_t len, int flags)
{
    struct http_inlet *inlet = NULL;

    if (flags == 0 && len > 0 && fd >= 0 && fd < HTTP_INLET_FDS_MAX) {
        inlet = atomic_load_explicit(&inlets[fd], memory_order_acquire);
    }
    return inlet ? read_checked(inlet, fd, to, len) : receive(fd, to, len, flags);
}
