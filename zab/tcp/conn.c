#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    CHUNK_BYTES = 64 << 10,       /* A chunk that has grown beyond this takes no more frames. */
    CHUNK_KEEP_BYTES = 256 << 10, /* A larger chunk is not kept for the next frames. */
    GATHER_MAX = 16,              /* Chunks in one system call. */
    READ_BYTES = 64 << 10,
    INPUT_KEEP_BYTES = 1 << 20,
    INPUT_BYTES_MAX = 64 << 20, /* Far above the longest frame; its length is checked first. */
    USER_TIMEOUT_MS = 10000,    /* The peer is gone when sent bytes have no answer for that long. */
    KEEPALIVE_IDLE_S = 5,       /* Two followers may send each other nothing for hours. */
    KEEPALIVE_EVERY_S = 2,
};

/* Whole frames, waiting to be written. */
struct chunk {
    struct list node;
    struct buf bytes;
    size_t sent;
};

static struct chunk *first_chunk(struct conn *conn)
{
    return list_first(&conn->out, struct chunk, node);
}

static void free_chunk(struct chunk *chunk)
{
    list_remove(&chunk->node);
    buf_release(&chunk->bytes);
    mem_free(chunk);
}

static struct chunk *add_chunk(struct conn *conn)
{
    struct chunk *chunk = mem_zalloc(1, sizeof(*chunk));

    buf_init(&chunk->bytes, INPUT_BYTES_MAX);
    list_push_back(&conn->out, &chunk->node);
    return chunk;
}

/* Sets socket options by which both sides notice that the other host has vanished. Without these
 * options only a side that sends notices it. An idle dialer would keep the dead connection, and
 * would not dial the restarted machine. */
static void notice_vanished(int fd)
{
    unsigned timeout_ms = USER_TIMEOUT_MS;
    int on = 1;
    int idle_s = KEEPALIVE_IDLE_S;
    int every_s = KEEPALIVE_EVERY_S;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof(every_s));
}

struct conn *conn_new(struct tcp *tcp, int take_fd, bool dialed)
{
    struct conn *conn = mem_zalloc(1, sizeof(*conn));

    ASSERT(take_fd >= 0);
    conn->tcp = tcp;
    conn->dialed = dialed;
    conn->watch = (struct loop_watch){.fd = take_fd, .ctx = conn};
    conn->keys = keys_share(tcp->options.keys);
    list_init(&conn->node);
    list_init(&conn->out);
    buf_init(&conn->in, INPUT_BYTES_MAX);
    notice_vanished(take_fd);
    return conn;
}

/* Sends the alert that names why TLS has failed, if there is one, so that the peer can report it.
 * The socket need not take it. */
static void send_alert(const struct conn *conn)
{
    struct slice bytes = conn->seal ? seal_pending(conn->seal) : slice_make(NULL, 0);

    if (bytes.len > 0) {
        (void)send(conn->watch.fd, bytes.data, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

void conn_close(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);

    send_alert(conn);
    loop_remove(conn->tcp->loop, &conn->watch);
    close(conn->watch.fd);
    conn->watch.fd = -1;
    conn->state = CONN_CLOSED;
    conn->queued = 0;
}

void conn_free(struct conn *conn)
{
    ASSERT(conn->tcp->depth == 0);
    ASSERT(conn->state == CONN_CLOSED);

    list_remove(&conn->node);
    while (!list_empty(&conn->out)) {
        free_chunk(first_chunk(conn));
    }
    buf_release(&conn->in);
    seal_close(conn->seal);
    keys_release(conn->keys);
    mem_free(conn);
}

struct buf *conn_out(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);

    struct chunk *last =
        list_empty(&conn->out) ? add_chunk(conn) : list_entry(conn->out.prev, struct chunk, node);

    if (last->bytes.len >= CHUNK_BYTES) {
        last = add_chunk(conn);
    }
    return &last->bytes;
}

static int gather(struct conn *conn, struct iovec vectors[GATHER_MAX])
{
    int count = 0;

    list_for_each_entry (struct chunk, chunk, node, &conn->out) {
        if (count == GATHER_MAX) {
            break;
        }
        vectors[count].iov_base = chunk->bytes.data + chunk->sent;
        vectors[count].iov_len = chunk->bytes.len - chunk->sent;
        count++;
    }
    return count;
}

/* Frees the chunks that were written. The last chunk is emptied and kept for the next frame, unless
 * it is larger than usual. */
static void consume(struct conn *conn, size_t len)
{
    ASSERT(len <= conn->queued);

    conn->queued -= len;
    while (!list_empty(&conn->out)) {
        struct chunk *chunk = first_chunk(conn);
        size_t rest = chunk->bytes.len - chunk->sent;

        if (rest > len) {
            chunk->sent += len;
            return;
        }
        len -= rest;
        if (chunk->node.next == &conn->out && chunk->bytes.cap <= CHUNK_KEEP_BYTES) {
            buf_clear(&chunk->bytes);
            chunk->sent = 0;
            return;
        }
        free_chunk(chunk);
    }
}

/* Notes the result of a call that gives bytes to the socket; returns how many it took. */
static enum err note_sent(struct conn *conn, ssize_t sent, size_t *ret_sent)
{
    *ret_sent = sent > 0 ? (size_t)sent : 0;
    conn->tcp->bytes_out += *ret_sent;
    if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        return ERR_IO;
    }
    conn->blocked = sent < 0 && errno == EAGAIN;
    return ERR_OK;
}

static enum err write_plain(struct conn *conn)
{
    enum err err = ERR_OK;

    while (!err && conn->queued > 0 && !conn->blocked) {
        struct iovec vectors[GATHER_MAX];
        struct msghdr message = {.msg_iov = vectors, .msg_iovlen = (size_t)gather(conn, vectors)};
        size_t sent = 0;

        err = note_sent(conn, sendmsg(conn->watch.fd, &message, MSG_NOSIGNAL), &sent);
        consume(conn, sent);
    }
    return err;
}

/* Seals the next queued bytes. */
static enum err seal_next(struct conn *conn)
{
    struct chunk *chunk = first_chunk(conn);
    size_t taken = seal_write(
        conn->seal, slice_make(chunk->bytes.data + chunk->sent, chunk->bytes.len - chunk->sent));

    consume(conn, taken);
    return taken > 0 ? ERR_OK : ERR_FORMAT;
}

/* Bytes are sealed only when the socket has taken those before: so `queued` stays true but for one
 * step of SEAL_AHEAD_MAX. */
static enum err write_sealed(struct conn *conn)
{
    enum err err = ERR_OK;

    while (!err && !conn->blocked) {
        struct slice bytes = seal_pending(conn->seal);
        size_t sent = 0;

        if (bytes.len > 0) {
            err = note_sent(conn, send(conn->watch.fd, bytes.data, bytes.len, MSG_NOSIGNAL), &sent);
            seal_sent(conn->seal, sent);
        } else if (conn->queued > 0) {
            err = seal_next(conn);
        } else {
            break;
        }
    }
    return err;
}

enum err conn_write(struct conn *conn)
{
    ASSERT(conn->state != CONN_CLOSED);

    conn->blocked = false;

    enum err err = conn->seal ? write_sealed(conn) : write_plain(conn);

    if (err == ERR_OK) {
        loop_modify(conn->tcp->loop, &conn->watch, LOOP_READ | (conn->blocked ? LOOP_WRITE : 0U));
    }
    return err;
}

const char *conn_error(const struct conn *conn, enum err err)
{
    const char *text = err == ERR_FORMAT && conn->seal ? seal_why(conn->seal)
                       : err == ERR_CLOSED             ? "the peer closed the connection"
                                                       : strerrordesc_np(errno);

    return text ? text : "unknown error";
}

/* Moves unused bytes to the front, and frees the memory of a long frame. */
static void compact(struct conn *conn)
{
    buf_consume(&conn->in, conn->in_used);
    conn->in_used = 0;
    if (conn->in.len == 0 && conn->in.cap > INPUT_KEEP_BYTES) {
        buf_release(&conn->in);
    }
}

/* Reads once from the socket; returns how many bytes came. */
static enum err receive(struct conn *conn, uint8_t *to, size_t len, size_t *ret_got)
{
    ssize_t got = recv(conn->watch.fd, to, len, 0);

    *ret_got = got > 0 ? (size_t)got : 0;
    if (got > 0) {
        conn->tcp->bytes_in += (uint64_t)got;
        conn->read_ms = os_now_ms();
        return ERR_OK;
    }
    if (got == 0) {
        return ERR_CLOSED;
    }
    return errno == EAGAIN || errno == EINTR ? ERR_BUSY : ERR_IO;
}

/* Reads sealed bytes. Until the handshake of TLS is done, nothing becomes plain. */
static enum err read_sealed(struct conn *conn)
{
    struct tcp *tcp = conn->tcp;
    size_t got = 0;

    if (!tcp->sealed) {
        tcp->sealed = mem_alloc(READ_BYTES);
    }

    enum err err = receive(conn, tcp->sealed, READ_BYTES, &got);

    if (err == ERR_OK) {
        err = seal_put(conn->seal, slice_make(tcp->sealed, got));
    }
    if (err == ERR_OK && conn->state != CONN_SEALING) {
        err = seal_read(conn->seal, &conn->in);
    }
    return err;
}

enum err conn_read(struct conn *conn, size_t want)
{
    ASSERT(conn->state != CONN_CLOSED);
    ASSERT(want <= INPUT_BYTES_MAX / 2);

    size_t len = max_u64(want, READ_BYTES);
    size_t got = 0;

    compact(conn);
    if (conn->seal) {
        return read_sealed(conn);
    }

    uint8_t *to = buf_reserve(&conn->in, len);

    ASSERT(to);

    enum err err = receive(conn, to, len, &got);

    conn->in.len += got;
    return err;
}

/* ---- TLS. ---- */

enum err conn_seal(struct conn *conn)
{
    ASSERT(conn->state == CONN_SEALING && !conn->seal);

    struct seal_options options = {.keys = conn->keys,
                                   .dials = conn->dialed,
                                   .from = conn->tcp->options.id,
                                   .to = conn->dialed ? conn->peer : 0,
                                   .records_per_key = conn->tcp->options.records_per_key};
    struct slice input = conn_input(conn);

    conn->seal = seal_open(&options);
    conn->in_used += input.len;
    return input.len > 0 ? seal_put(conn->seal, input) : ERR_OK;
}

enum err conn_shake(struct conn *conn)
{
    ASSERT(conn->state == CONN_SEALING);

    enum err err = seal_shake(conn->seal);

    if (err == ERR_FORMAT) {
        return err; /* The close sends the alert. */
    }
    if (conn_write(conn)) {
        return ERR_IO;
    }
    if (err == ERR_OK) {
        compact(conn);
        err = seal_read(conn->seal, &conn->in);
    }
    return err;
}

/* ---- Frames out. ---- */

/* Makes room for a header; returns the offset at which the frame starts. */
static size_t begin_frame(struct buf *out)
{
    size_t start = out->len;
    uint8_t *place = buf_reserve(out, FRAME_HEADER_LEN);

    ASSERT(place);
    out->len += FRAME_HEADER_LEN;
    return start;
}

/* Fills in the header after the payload has been appended. */
static void end_frame(struct conn *conn, struct buf *out, size_t start, uint16_t type,
                      uint32_t epoch)
{
    ASSERT(!out->overflow && conn->nonce != 0);

    struct slice payload =
        slice_make(out->data + start + FRAME_HEADER_LEN, out->len - start - FRAME_HEADER_LEN);
    struct frame_header header = {.version = conn->version,
                                  .type = type,
                                  .from = conn->tcp->options.id,
                                  .to = conn->peer,
                                  .epoch = epoch,
                                  .nonce = conn->nonce,
                                  .len = (uint32_t)payload.len};

    memcpy(header.cluster, conn->tcp->options.cluster, ZAB_CLUSTER_LEN);
    header.payload_crc = frame_payload_crc(payload, conn->number_out);
    frame_encode(&header, conn->number_out, out->data + start);
    conn->number_out++;
    conn->queued += out->len - start;
}

void flow_output(struct conn *conn, const struct zab_msg *msg)
{
    ASSERT(conn->state == CONN_UP && !conn->doomed);

    struct buf *out = conn_out(conn);
    size_t start = begin_frame(out);

    zab_msg_encode(msg, out);
    ASSERT(out->len - start - FRAME_HEADER_LEN <= zab_msg_size_max(msg->type));
    end_frame(conn, out, start, (uint16_t)msg->type, msg->epoch);
}

void flow_control(struct conn *conn, const struct control *control)
{
    ASSERT(conn->state == CONN_UP || (conn->state == CONN_CLAIM && conn->dialed));

    struct buf *out = conn_out(conn);
    size_t start = begin_frame(out);

    control_encode(control, out);
    ASSERT(out->len - start - FRAME_HEADER_LEN <= CONTROL_BYTES_MAX);
    end_frame(conn, out, start, (uint16_t)control->type, 0);
}
