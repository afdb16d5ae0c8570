#include "tests/proc/native.h"

#include "zk/wire.h"

#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/lib/unit.h"
#include "tests/lib/zk_ask.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_BYTES = 65536
};

struct native *native_dial(uint16_t port)
{
    struct native *native = mem_zalloc(1, sizeof(*native));
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    native->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(native->fd >= 0);
    assert_int_equal(connect(native->fd, (struct sockaddr *)&to, sizeof(to)), 0);
    buf_init(&native->in, 2 * (size_t)NATIVE_FRAME_MAX);
    buf_init(&native->out, NATIVE_FRAME_MAX);
    return native;
}

void native_close(struct native *native)
{
    if (native) {
        close(native->fd);
        buf_release(&native->in);
        buf_release(&native->out);
        mem_free(native);
    }
}

void native_send_bytes(struct native *native, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        ssize_t sent = send(native->fd, at, len, MSG_NOSIGNAL);

        if (sent <= 0) {
            return; /* The server has closed; the reader finds that out. */
        }
        at += sent;
        len -= (size_t)sent;
    }
}

/* Reads more bytes; false at the end, or when none come in time. */
static bool read_more(struct native *native, uint64_t end_ms)
{
    struct pollfd come = {.fd = native->fd, .events = POLLIN};
    uint64_t now_ms = os_now_ms();
    uint8_t *room = NULL;
    ssize_t got = 0;

    if (now_ms >= end_ms || poll(&come, 1, (int)(end_ms - now_ms)) != 1) {
        return false;
    }
    buf_consume(&native->in, native->used);
    native->used = 0;
    room = buf_reserve(&native->in, READ_BYTES);
    got = recv(native->fd, room, READ_BYTES, 0);
    if (got > 0) {
        native->in.len += (size_t)got;
    }
    return got > 0;
}

/* Takes the body of the next frame. */
static bool take(struct native *native, struct slice *ret_body)
{
    uint64_t end_ms = os_now_ms() + NATIVE_WAIT_MS;

    for (;;) {
        const uint8_t *at = native->in.data ? native->in.data + native->used : NULL;
        size_t have = at ? native->in.len - native->used : 0;
        size_t len = have >= ZK_INT_BYTES ? (size_t)zk_load_int(at) : 0;

        if (have >= ZK_INT_BYTES && have - ZK_INT_BYTES >= len) {
            *ret_body = slice_make(at + ZK_INT_BYTES, len);
            native->used += ZK_INT_BYTES + len;
            return true;
        }
        if (!read_more(native, end_ms)) {
            return false;
        }
    }
}

void native_hello(struct native *native, zxid_t last_zxid, int32_t timeout_ms)
{
    buf_clear(&native->out);
    zk_ask_hello(&native->out, last_zxid, timeout_ms, native->session, native->passwd);
    native_send_bytes(native, native->out.data, native->out.len);
}

bool native_welcome(struct native *native)
{
    struct slice body;
    struct wire_reader reader;

    if (!take(native, &body)) {
        return false;
    }
    wire_reader_init(&reader, body);
    assert_int_equal(zk_get_int(&reader), 0);
    native->timeout_ms = zk_get_int(&reader);
    native->session = (uint64_t)zk_get_long(&reader);
    struct slice passwd = zk_get_bytes(&reader);

    assert_int_equal(passwd.len, ZK_PASSWD_BYTES);
    memcpy(native->passwd, passwd.data, passwd.len);
    assert_false(zk_get_bool(&reader));
    assert_true(wire_reader_ok(&reader) && reader.pos == reader.end);
    return native->timeout_ms != 0;
}

bool native_connect(struct native *native, zxid_t last_zxid, int32_t timeout_ms)
{
    native_hello(native, last_zxid, timeout_ms);
    return native_welcome(native);
}

struct native *native_open(uint16_t port, int32_t timeout_ms)
{
    struct native *native = native_dial(port);

    assert_true(native_connect(native, 0, timeout_ms));
    return native;
}

struct native *native_take_over(uint16_t port, const struct native *other, zxid_t last_zxid)
{
    struct native *native = native_dial(port);

    native->session = other->session;
    memcpy(native->passwd, other->passwd, ZK_PASSWD_BYTES);
    if (!native_connect(native, last_zxid, other->timeout_ms)) {
        native_close(native);
        return NULL;
    }
    return native;
}

/* ---- Requests ---- */

static int32_t xid_of(const struct native *native, int32_t type)
{
    if (type == ZK_PING) {
        return ZK_XID_PING;
    }
    return type == ZK_AUTH ? ZK_XID_AUTH : native->xid + 1;
}

/* Numbers the next request, which is written to native->out. */
static int32_t number(struct native *native, int32_t type)
{
    int32_t xid = xid_of(native, type);

    native->xid = xid > 0 ? xid : native->xid;
    buf_clear(&native->out);
    return xid;
}

static void send_out(struct native *native)
{
    native_send_bytes(native, native->out.data, native->out.len);
}

int32_t native_begin(struct native *native, int32_t type)
{
    int32_t xid = number(native, type);

    (void)zk_ask_begin(&native->out, xid, type);
    return xid;
}

void native_end(struct native *native)
{
    zk_frame_end(&native->out, 0);
    send_out(native);
}

void native_send_plain(struct native *native, int32_t type)
{
    zk_ask_plain(&native->out, number(native, type), type);
    send_out(native);
}

void native_send_path(struct native *native, int32_t type, const char *path, int flag)
{
    zk_ask_path(&native->out, number(native, type), type, path, flag);
    send_out(native);
}

void native_send_create(struct native *native, const char *path, const char *data, int flags)
{
    zk_ask_create(&native->out, number(native, ZK_CREATE), ZK_CREATE, path, slice_str(data), flags);
    send_out(native);
}

void native_send_set(struct native *native, const char *path, const char *data, int version)
{
    zk_ask_set(&native->out, number(native, ZK_SET_DATA), path, slice_str(data), version);
    send_out(native);
}

void native_send_delete(struct native *native, const char *path, int version)
{
    zk_ask_delete(&native->out, number(native, ZK_DELETE), path, version);
    send_out(native);
}

void native_send_set_watches(struct native *native, zxid_t since, const char *data,
                             const char *exists, const char *children)
{
    const struct zk_ask_list lists[ZK_LISTS] = {[ZK_LIST_DATA] = {&data, data ? 1 : 0},
                                                [ZK_LIST_EXISTS] = {&exists, exists ? 1 : 0},
                                                [ZK_LIST_CHILDREN] = {&children, children ? 1 : 0}};

    zk_ask_watches(&native->out, number(native, ZK_SET_WATCHES), since, lists);
    send_out(native);
}

/* ---- Replies ---- */

bool native_next(struct native *native, struct native_frame *ret_frame)
{
    struct slice body;

    if (!take(native, &body)) {
        return false;
    }
    wire_reader_init(&ret_frame->body, body);
    ret_frame->xid = zk_get_int(&ret_frame->body);
    ret_frame->zxid = (zxid_t)zk_get_long(&ret_frame->body);
    ret_frame->err = zk_get_int(&ret_frame->body);
    assert_true(wire_reader_ok(&ret_frame->body));
    return true;
}

int32_t native_reply(struct native *native, struct native_frame *ret_frame)
{
    struct native_frame frame = {.xid = 0};

    assert_true(native_next(native, &frame));
    assert_int_equal(frame.xid, native->xid);
    if (ret_frame) {
        *ret_frame = frame;
    }
    return frame.err;
}

int32_t native_event(struct native *native, const char *path)
{
    struct native_frame frame = {.xid = 0};

    assert_true(native_next(native, &frame));
    assert_int_equal(frame.xid, ZK_XID_EVENT);
    int32_t type = zk_get_int(&frame.body);

    assert_int_equal(zk_get_int(&frame.body), 3);
    assert_true(slice_eq(zk_get_bytes(&frame.body), slice_str(path)));
    return type;
}

bool native_ends(struct native *native)
{
    uint64_t end_ms = os_now_ms() + NATIVE_WAIT_MS;
    bool more = true;

    while (more) {
        more = read_more(native, end_ms);
    }
    return os_now_ms() < end_ms && native->in.len == native->used;
}
