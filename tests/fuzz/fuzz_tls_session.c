/*
 * A client that completes its handshake and then sends genuine records of any type and content, in
 * any pieces: parts of messages of the handshake, key updates, alerts, records without data, bytes
 * that are no record. Between them the server reads, peeks, writes and shuts down, and serves
 * another connection on the same thread.
 *
 * What must hold: the server gets the client's data in order, and nothing else; a broken connection
 * stays broken; a short read has emptied the socket; the other connection loses no byte and gets
 * none that is not its own.
 *
 * An input is a list of steps: one byte chooses the kind (enum kind), the next bytes its arguments.
 */
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tls_bench.h"
#include "tests/lib/tls_forge.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    PUT_DATA,   /* u8: bytes. */
    PUT_LARGE,  /* A record of the largest size. */
    PUT_EMPTY,  /* u8: records without data. */
    PUT_ALERT,  /* u8 level, u8 alert. */
    PUT_UPDATE, /* u8: whether the server must answer. */
    PUT_SPLIT,  /* The same in two records; u8: where it is split. */
    PUT_PART,   /* Its first record only. */
    PUT_SHAKE,  /* Bytes of a message of the handshake (u16 length). */
    PUT_ANY,    /* u8 type, then bytes (u16 length). */
    PUT_JUNK,   /* Bytes that are no record (u16 length). */
    PUSH,       /* u8: bytes that the kernel gets. */
    PUSH_ALL,
    HEAR,  /* The client reads. */
    READ,  /* u8: bytes. */
    DRAIN, /* A read of all. */
    PEEK,  /* u8: bytes. */
    WRITE, /* u8: bytes. */
    WRITE_LARGE,
    WRITE_PARTS, /* u8: bytes of the first of two parts. */
    END_WRITES,
    OTHER_SENDS, /* u8: bytes that the client of the other connection sends. */
    OTHER_READS, /* u8: bytes. */
    OTHER_WRITES,
    KINDS
};

enum {
    STEPS_MAX = 400,
    LARGE = 16384,
    ROOM = 20000,
    PART = 300,
    AHEAD_MAX = 32 << 10, /* Unread bytes of the other connection. */
    HEARD_MAX = 1 << 20
};

/* One direction of a connection: each byte is a function of its place and `salt`. */
struct stream {
    uint64_t sent;
    uint64_t got;
    uint8_t salt;
    uint8_t owed; /* Bytes that may arrive before send() has reported them. */
};

struct end {
    struct tls_socket *socket;
    struct tls_peer peer;
    struct stream in; /* From the client to the server. */
    struct stream out;
    int fd;
    int far;
};

struct play {
    struct end bad;
    struct end good;
    struct tls_forge forge;
    bool is_read_broken;
    bool is_write_broken;
    struct buf heard;
    uint8_t room[ROOM];
};

/* ---- Streams ---- */

static uint8_t byte_at(const struct stream *stream, uint64_t at)
{
    return (uint8_t)(at * 31 + (at >> 8) + stream->salt);
}

/* Writes the next bytes of a stream into `to`. */
static void draw(const struct stream *stream, uint8_t *to, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        to[i] = byte_at(stream, stream->sent + i);
    }
}

/* Checks bytes that have arrived next. */
static void check(const struct stream *stream, const uint8_t *bytes, size_t len)
{
    ASSERT(stream->got + len <= stream->sent + stream->owed);
    for (size_t i = 0; i < len; i++) {
        ASSERT(bytes[i] == byte_at(stream, stream->got + i));
    }
}

/* What the client has decrypted by now. */
static void hear(struct play *play, struct end *end)
{
    buf_clear(&play->heard);
    (void)tls_peer_receive(&end->peer, &play->heard);
    check(&end->out, play->heard.data, play->heard.len);
    end->out.got += play->heard.len;
}

/* ---- The client that breaks the rules ---- */

static void put_stream(struct play *play, size_t len)
{
    draw(&play->bad.in, play->room, len);
    tls_forge_put(&play->forge, TLS_FORGE_DATA, play->room, len);
    play->bad.in.sent += len;
}

static void put_data(struct play *play, struct wire_reader *reader)
{
    put_stream(play, wire_get_u8(reader));
}

static void put_large(struct play *play, struct wire_reader *reader UNUSED)
{
    put_stream(play, LARGE);
}

static void put_empty(struct play *play, struct wire_reader *reader)
{
    for (int i = wire_get_u8(reader); i > 0; i--) {
        tls_forge_put(&play->forge, TLS_FORGE_DATA, "", 0);
    }
}

static void put_alert(struct play *play, struct wire_reader *reader)
{
    const uint8_t level = wire_get_u8(reader);
    const uint8_t alert[] = {level, wire_get_u8(reader)};

    tls_forge_put(&play->forge, TLS_FORGE_ALERT, alert, sizeof(alert));
}

static void put_update(struct play *play, struct wire_reader *reader)
{
    tls_forge_update(&play->forge, wire_get_u8(reader) % 2 == 1);
}

static size_t put_begin(struct play *play, struct wire_reader *reader, const uint8_t *update)
{
    size_t split = 1 + wire_get_u8(reader) % (TLS_FORGE_UPDATE_LEN - 1U);

    tls_forge_put(&play->forge, TLS_FORGE_HANDSHAKE, update, split);
    return split;
}

static const uint8_t update[TLS_FORGE_UPDATE_LEN] = {SSL3_MT_KEY_UPDATE, 0, 0, 1, 0};

static void put_split(struct play *play, struct wire_reader *reader)
{
    size_t split = put_begin(play, reader, update);

    tls_forge_put(&play->forge, TLS_FORGE_HANDSHAKE, update + split, sizeof(update) - split);
    tls_forge_renew(&play->forge);
}

static void put_part(struct play *play, struct wire_reader *reader)
{
    (void)put_begin(play, reader, update);
}

static void put_shake(struct play *play, struct wire_reader *reader)
{
    struct slice bytes = fuzz_take(reader, LARGE);

    tls_forge_put(&play->forge, TLS_FORGE_HANDSHAKE, bytes.data, bytes.len);
}

static void put_any(struct play *play, struct wire_reader *reader)
{
    uint8_t type = wire_get_u8(reader);
    struct slice bytes = fuzz_take(reader, LARGE);

    if (type != TLS_FORGE_DATA) {
        tls_forge_put(&play->forge, type, bytes.data, bytes.len);
    }
}

static void put_junk(struct play *play, struct wire_reader *reader)
{
    ASSERT(buf_append_slice(&play->forge.out, fuzz_take(reader, LARGE)));
}

static void push_bytes(struct play *play, size_t len)
{
    struct buf *out = &play->forge.out;
    ssize_t sent = send(play->bad.far, out->data, min_size(len, out->len), MSG_NOSIGNAL);

    buf_consume(out, sent > 0 ? (size_t)sent : 0);
}

static void push(struct play *play, struct wire_reader *reader)
{
    push_bytes(play, wire_get_u8(reader));
}

static void push_all(struct play *play, struct wire_reader *reader UNUSED)
{
    push_bytes(play, play->forge.out.len);
}

static void hear_bad(struct play *play, struct wire_reader *reader UNUSED)
{
    hear(play, &play->bad);
}

/* ---- The server, on the connection of that client ---- */

/* What a read has returned: bytes in order, the end, nothing now, or a break that lasts. */
static void judge_read(struct play *play, ssize_t got, size_t len)
{
    struct end *bad = &play->bad;
    bool is_short = got < (ssize_t)len;

    ASSERT(got >= 0 || errno == EAGAIN || errno == ECONNRESET);
    ASSERT(!play->is_read_broken || (got < 0 && errno == ECONNRESET));
    play->is_read_broken = got < 0 && errno == ECONNRESET;
    play->is_write_broken = play->is_write_broken || play->is_read_broken;
    if (is_short && !tls_socket_is_ended(bad->fd)) {
        ASSERT(got != 0 && !tls_socket_is_unread(bad->fd));
    }
}

static void read_bytes(struct play *play, size_t len)
{
    struct end *bad = &play->bad;
    ssize_t got = len > 0 ? tls_socket_recv(bad->socket, play->room, len, 0) : 0;

    if (len > 0) {
        check(&bad->in, play->room, got > 0 ? (size_t)got : 0);
        bad->in.got += got > 0 ? (size_t)got : 0;
        judge_read(play, got, len);
    }
}

static void read_some(struct play *play, struct wire_reader *reader)
{
    read_bytes(play, wire_get_u8(reader));
}

static void drain(struct play *play, struct wire_reader *reader UNUSED)
{
    read_bytes(play, ROOM);
}

static void peek(struct play *play, struct wire_reader *reader)
{
    size_t len = 1 + (size_t)wire_get_u8(reader) * 64;
    ssize_t got = tls_socket_recv(play->bad.socket, play->room, len, MSG_PEEK);

    check(&play->bad.in, play->room, got > 0 ? (size_t)got : 0);
    ASSERT(got > 0 || !tls_socket_waits(play->bad.fd) || tls_socket_is_ended(play->bad.fd));
}

static void write_parts_of(struct play *play, size_t first, size_t second)
{
    struct end *bad = &play->bad;
    const struct iovec parts[] = {{.iov_base = play->room, .iov_len = first},
                                  {.iov_base = play->room + first, .iov_len = second}};
    ssize_t sent = 0;

    draw(&bad->out, play->room, first + second);
    sent = tls_socket_send(bad->socket, parts, 2, 0);
    ASSERT(sent <= (ssize_t)(first + second));
    ASSERT(sent >= 0 || errno == EAGAIN || errno == ECONNRESET || errno == EPIPE);
    ASSERT(!play->is_write_broken || (sent < 0 && errno != EAGAIN));
    play->is_write_broken = play->is_write_broken || (sent < 0 && errno == ECONNRESET);
    bad->out.sent += sent > 0 ? (size_t)sent : 0;
}

static void write_some(struct play *play, struct wire_reader *reader)
{
    write_parts_of(play, wire_get_u8(reader), 0);
}

static void write_large(struct play *play, struct wire_reader *reader UNUSED)
{
    write_parts_of(play, ROOM, 0);
}

static void write_parts(struct play *play, struct wire_reader *reader)
{
    write_parts_of(play, wire_get_u8(reader), PART);
}

static void end_writes(struct play *play, struct wire_reader *reader UNUSED)
{
    (void)tls_socket_shutdown(play->bad.socket, SHUT_WR);
}

/* ---- The other connection, of a client that follows the rules ---- */

static void other_sends(struct play *play, struct wire_reader *reader)
{
    struct end *good = &play->good;
    size_t len = wire_get_u8(reader);

    if (len > 0 && good->in.sent - good->in.got < AHEAD_MAX) {
        draw(&good->in, play->room, len);
        tls_peer_send(&good->peer, play->room, len);
        good->in.sent += len;
    }
}

static void read_other(struct play *play, size_t len)
{
    struct end *good = &play->good;
    ssize_t got = tls_socket_recv(good->socket, play->room, len, 0);

    ASSERT(got > 0 || (got < 0 && errno == EAGAIN));
    check(&good->in, play->room, got > 0 ? (size_t)got : 0);
    good->in.got += got > 0 ? (size_t)got : 0;
    ASSERT(got == (ssize_t)len || good->in.got == good->in.sent);
}

static void other_reads(struct play *play, struct wire_reader *reader)
{
    read_other(play, 1 + (size_t)wire_get_u8(reader));
}

static void other_writes(struct play *play, struct wire_reader *reader UNUSED)
{
    struct end *good = &play->good;
    const struct iovec part = {.iov_base = play->room, .iov_len = PART};

    draw(&good->out, play->room, PART);
    ASSERT(tls_socket_send(good->socket, &part, 1, 0) == PART);
    good->out.sent += PART;
    hear(play, good);
    ASSERT(good->out.got == good->out.sent);
}

/* ---- The whole ---- */

static void (*const steps[KINDS])(struct play *play,
                                  struct wire_reader *reader) = {[PUT_DATA] = put_data,
                                                                 [PUT_LARGE] = put_large,
                                                                 [PUT_EMPTY] = put_empty,
                                                                 [PUT_ALERT] = put_alert,
                                                                 [PUT_UPDATE] = put_update,
                                                                 [PUT_SPLIT] = put_split,
                                                                 [PUT_PART] = put_part,
                                                                 [PUT_SHAKE] = put_shake,
                                                                 [PUT_ANY] = put_any,
                                                                 [PUT_JUNK] = put_junk,
                                                                 [PUSH] = push,
                                                                 [PUSH_ALL] = push_all,
                                                                 [HEAR] = hear_bad,
                                                                 [READ] = read_some,
                                                                 [DRAIN] = drain,
                                                                 [PEEK] = peek,
                                                                 [WRITE] = write_some,
                                                                 [WRITE_LARGE] = write_large,
                                                                 [WRITE_PARTS] = write_parts,
                                                                 [END_WRITES] = end_writes,
                                                                 [OTHER_SENDS] = other_sends,
                                                                 [OTHER_READS] = other_reads,
                                                                 [OTHER_WRITES] = other_writes};

static void open_end(struct end *end, uint8_t salt)
{
    int ends[2];

    ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    *end = (struct end){.fd = ends[0],
                        .far = ends[1],
                        .in.salt = salt,
                        .out.salt = (uint8_t)(salt + 1),
                        .out.owed = 1};
    end->socket = tls_socket_new(tls_bench_context(), end->fd);
    tls_bench_dial(&end->peer, end->far);
    tls_bench_shake(end->socket, &end->peer);
    tls_socket_attach(end->socket);
}

static void close_end(struct end *end)
{
    tls_socket_detach(end->socket);
    tls_peer_close(&end->peer);
    close(end->fd);
    close(end->far);
}

static bool fuzz_one(struct slice input)
{
    struct play *play = mem_zalloc(1, sizeof(*play));
    struct wire_reader reader;
    bool has_moved = false;

    wire_reader_init(&reader, input);
    open_end(&play->bad, 0);
    open_end(&play->good, 100);
    tls_forge_open(&play->forge, &play->bad.peer);
    buf_init(&play->heard, HEARD_MAX);
    for (int i = 0; i < STEPS_MAX && fuzz_more(&reader); i++) {
        steps[wire_get_u8(&reader) % KINDS](play, &reader);
    }
    hear(play, &play->bad);
    while (play->good.in.got < play->good.in.sent) {
        read_other(play, ROOM);
    }
    other_writes(play, &reader);
    has_moved = play->bad.in.got + play->bad.out.got > 0;
    tls_forge_close(&play->forge);
    buf_release(&play->heard);
    close_end(&play->bad);
    close_end(&play->good);
    mem_free(play);
    return has_moved;
}

/* ---- Seeds ---- */

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const uint8_t talk[] = {PUT_DATA,    100,  PUSH_ALL,    PEEK,  2,           READ,
                                   60,          READ, 100,         WRITE, 50,          HEAR,
                                   OTHER_SENDS, 9,    OTHER_READS, 8,     OTHER_WRITES};
    static const uint8_t pieces[] = {PUT_LARGE, PUSH,        200,  DRAIN, PUSH,  5,
                                     DRAIN,     PUSH_ALL,    READ, 10,    DRAIN, WRITE_LARGE,
                                     HEAR,      WRITE_PARTS, 1,    HEAR,  DRAIN};
    static const uint8_t updates[] = {PUT_UPDATE, 1, PUT_DATA, 5,     PUT_UPDATE, 0, PUT_SPLIT, 2,
                                      PUT_DATA,   7, PUSH_ALL, DRAIN, WRITE,      9, HEAR};
    /* A part of a key update behind peeked bytes; the server writes when the rest and a record have
     * arrived. Both connections hold bytes. 148 are the first two records. */
    static const uint8_t part[] = {OTHER_SENDS, 50,          OTHER_SENDS, 50,        OTHER_READS,
                                   4,           PUT_DATA,    100,         PUT_SPLIT, 3,
                                   PUT_DATA,    90,          PUSH,        148,       PEEK,
                                   9,           READ,        100,         PUSH_ALL,  WRITE,
                                   6,           OTHER_READS, 200,         HEAR,      DRAIN};
    static const uint8_t empty[] = {PUT_EMPTY, 20,    PUT_DATA, 1, PUT_EMPTY,  20,
                                    PUSH_ALL,  DRAIN, WRITE,    3, END_WRITES, HEAR};
    static const uint8_t notify[] = {PUT_DATA, 4, PUT_ALERT, 1,     0, PUSH_ALL,
                                     READ,     2, DRAIN,     WRITE, 6, HEAR};

    fuzz_seed(sink, "talk", slice_make(talk, sizeof(talk)));
    fuzz_seed(sink, "pieces", slice_make(pieces, sizeof(pieces)));
    fuzz_seed(sink, "updates", slice_make(updates, sizeof(updates)));
    fuzz_seed(sink, "part-of-an-update", slice_make(part, sizeof(part)));
    fuzz_seed(sink, "records-without-data", slice_make(empty, sizeof(empty)));
    fuzz_seed(sink, "close-notify", slice_make(notify, sizeof(notify)));
}

FUZZ_TARGET(tls_session)
