#include "tests/fuzz/zk_caller.h"

#include "zk/encode.h"

#include "base/check.h"
#include "tests/lib/zk_reply.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HELLO_MIN = 28,
    HELLO_MAX = 1024,
    REQUEST_MIN = 8,
    REQUEST_MAX = 4 << 20,
    HEADER_BYTES = 16,
    EVENT_BYTES = HEADER_BYTES + 12,
    CONNECTED = 3,
    PENDING_MAX = 2 << 20,
    GOT_MAX = 16 << 20
};

static const struct zk_limits limits = {
    .data_bytes_max = 4096, .multi_bytes_max = 64 << 10, .multi_ops_max = 100};

/* ---- What a client has sent ---- */

static void follow_hello(struct zk_caller *caller, struct slice body)
{
    struct zk_connect hello;

    caller->began = true;
    caller->broken = !zk_decode_connect(body, &hello);
    caller->last_zxid = caller->broken ? 0 : hello.last_zxid;
}

static void follow_request(struct zk_caller *caller, struct slice body)
{
    struct zk_asked *asked = &caller->asked[caller->asked_count++];

    ASSERT(caller->asked_count < ZK_CALLER_ASKED_MAX);
    *asked = (struct zk_asked){.xid = zk_load_int(body.data),
                               .type = zk_load_int(body.data + ZK_INT_BYTES),
                               .at = (size_t)(body.data - caller->sent.data),
                               .len = body.len};
    caller->broken = asked->type == ZK_CLOSE_SESSION;
}

/* Finds whole frames, as far as the front end may read them. */
static void follow(struct zk_caller *caller)
{
    while (!caller->word && !caller->broken &&
           caller->sent.len - caller->followed >= ZK_INT_BYTES) {
        struct slice rest = slice_from(buf_slice(&caller->sent), caller->followed);
        int32_t len = zk_load_int(rest.data);
        bool hello = !caller->began;

        caller->word = hello && rest.data[0] != 0;
        caller->broken = !caller->word && (len < (hello ? HELLO_MIN : REQUEST_MIN) ||
                                           len > (hello ? HELLO_MAX : REQUEST_MAX));
        if (caller->word || caller->broken || rest.len < ZK_INT_BYTES + (size_t)len) {
            return;
        }
        caller->followed += ZK_INT_BYTES + (size_t)len;

        struct slice body = slice_make(rest.data + ZK_INT_BYTES, (size_t)len);

        if (hello) {
            follow_hello(caller, body);
        } else {
            follow_request(caller, body);
        }
    }
}

/* Sends up to `most` bytes of what is pending, as many as the kernel takes. */
bool zk_caller_deliver(struct zk_caller *caller, size_t most)
{
    size_t room = (ZK_CALLER_ASKED_MAX - 1 - caller->asked_count) * REQUEST_MIN;
    size_t len = min_size(min_size(caller->pending.len, most), room);
    ssize_t put = 0;

    if (caller->fd < 0 || len == 0) {
        return false;
    }
    put = send(caller->fd, caller->pending.data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put <= 0) {
        if (errno != EAGAIN) {
            buf_clear(&caller->pending); /* The server has closed the connection. */
        }
        return false;
    }
    buf_append_slice(&caller->sent, slice_make(caller->pending.data, (size_t)put));
    buf_consume(&caller->pending, (size_t)put);
    follow(caller);
    return true;
}

/* ---- What it receives ---- */

static void pass_done(struct zk_caller *caller)
{
    while (caller->first < caller->asked_count &&
           (caller->asked[caller->first].done || caller->asked[caller->first].type == ZK_PING)) {
        caller->first++;
    }
    while (caller->ping < caller->asked_count &&
           (caller->asked[caller->ping].done || caller->asked[caller->ping].type != ZK_PING)) {
        caller->ping++;
    }
}

/* Returns the request that this is the reply to. */
static struct zk_asked *match(struct zk_caller *caller, int32_t xid, size_t len)
{
    pass_done(caller);

    struct zk_asked *request = &caller->asked[caller->first];
    struct zk_asked *ping = &caller->asked[caller->ping];
    bool is_request = caller->first < caller->asked_count && request->xid == xid;
    bool is_ping = caller->ping < caller->asked_count && ping->xid == xid && len == HEADER_BYTES;

    caller->vague = caller->vague || (is_request && is_ping);
    ASSERT(is_request || is_ping || caller->vague);
    if (caller->vague) {
        return NULL;
    }
    return is_request ? request : ping;
}

static void check_reply(const struct zk_caller *caller, const struct zk_asked *asked,
                        struct slice frame)
{
    struct zk_request request;
    struct zk_reply reply;
    struct buf memory;

    buf_init(&memory, REQUEST_MAX);

    bool known = zk_decode(&limits, slice_make(caller->sent.data + asked->at, asked->len), &memory,
                           &request);
    bool sound = known && zk_reply_read(&request, frame, &reply);

    ASSERT(known && (sound || asked->type == ZK_CLOSE_SESSION || reply.code != 0));
    zk_reply_release(&reply);
    zk_request_release(&request);
    buf_release(&memory);
}

static bool is_event(struct slice body)
{
    return body.len >= EVENT_BYTES && zk_load_int(body.data) == ZK_XID_EVENT &&
           zk_load_int(body.data + HEADER_BYTES + ZK_INT_BYTES) == CONNECTED &&
           (size_t)zk_load_int(body.data + EVENT_BYTES - ZK_INT_BYTES) == body.len - EVENT_BYTES;
}

static void take_event(struct zk_caller *caller, zxid_t applied, zxid_t zxid, struct slice body)
{
    int32_t type = zk_load_int(body.data + HEADER_BYTES);

    ASSERT(type >= WATCH_CREATED && type <= WATCH_CHILDREN_CHANGED);
    if (zxid != (zxid_t)-1) {
        ASSERT(zxid >= caller->told && zxid <= applied);
        ASSERT(zxid > caller->replied); /* A reply has shown its change before. */
        caller->told = zxid;
    }
    caller->untold = caller->untold || zxid == (zxid_t)-1;
}

static bool is_set_watches(int32_t type)
{
    return type == ZK_SET_WATCHES || type == ZK_SET_WATCHES2;
}

/* Whether another setWatches has no reply, or a part of one is sent. */
static bool sets_watches(const struct zk_caller *caller, const struct zk_asked *but)
{
    struct slice rest = slice_from(buf_slice(&caller->sent), caller->followed);

    if (rest.len >= ZK_HEAD_BYTES &&
        is_set_watches(zk_load_int(rest.data + ZK_HEAD_BYTES - ZK_INT_BYTES))) {
        return true;
    }
    for (size_t i = caller->first; i < caller->asked_count; i++) {
        const struct zk_asked *asked = &caller->asked[i];

        if (asked != but && !asked->done && is_set_watches(asked->type)) {
            return true;
        }
    }
    return false;
}

static bool may_lack_zxid(const struct zk_caller *caller, const struct zk_asked *asked)
{
    return (asked->type == ZK_PING || is_set_watches(asked->type)) && sets_watches(caller, asked);
}

static bool is_write(int32_t type)
{
    return type == ZK_CREATE || type == ZK_CREATE2 || type == ZK_CREATE_TTL ||
           type == ZK_CREATE_CONTAINER || type == ZK_SET_DATA || type == ZK_SET_ACL ||
           type == ZK_DELETE;
}

static void take_reply(struct zk_caller *caller, zxid_t applied, zxid_t zxid, struct slice frame)
{
    int32_t xid = zk_load_int(frame.data + ZK_INT_BYTES);
    int32_t code = zk_load_int(frame.data + HEADER_BYTES);
    struct zk_asked *asked = match(caller, xid, frame.len - ZK_INT_BYTES);

    if (asked && code == ZK_OK && is_write(asked->type)) {
        /* No read before it has shown it. */
        ASSERT(zxid > caller->replied || zxid == caller->told || caller->untold);
    }
    if (asked && (asked->type == ZK_AUTH || asked->type == ZK_SASL)) {
        ASSERT(zxid == 0);
    } else if (asked && zxid == (zxid_t)-1) {
        /* As ZooKeeper; the connection ends. */
        ASSERT(code == ZK_UNIMPLEMENTED || may_lack_zxid(caller, asked));
    } else if (asked) {
        ASSERT(zxid >= caller->replied && zxid >= caller->told && zxid <= applied);
        caller->replied = zxid;
    }
    if (asked) {
        asked->done = true;
        check_reply(caller, asked, frame);
    }
    caller->answered++;
}

static void take_welcome(struct zk_caller *caller, struct slice body)
{
    struct wire_reader reader;

    wire_reader_init(&reader, body);
    (void)zk_get_int(&reader);

    int32_t timeout_ms = zk_get_int(&reader);

    caller->session = (uint64_t)zk_get_long(&reader);

    struct slice passwd = zk_get_bytes(&reader);

    ASSERT(wire_reader_ok(&reader) && passwd.len == ZK_PASSWD_BYTES);
    memcpy(caller->passwd, passwd.data, passwd.len);
    ASSERT((timeout_ms == 0) == (caller->session == 0));
    caller->welcome = timeout_ms != 0;
}

static void take_frames(struct zk_caller *caller, zxid_t applied)
{
    size_t used = 0;

    while (!caller->word && caller->got.len - used >= ZK_INT_BYTES) {
        struct slice rest = slice_from(buf_slice(&caller->got), used);
        size_t len = (size_t)zk_load_int(rest.data);

        ASSERT(len >= HEADER_BYTES && len < GOT_MAX);
        if (rest.len - ZK_INT_BYTES < len) {
            break;
        }
        struct slice frame = slice_make(rest.data, ZK_INT_BYTES + len);
        struct slice body = slice_from(frame, ZK_INT_BYTES);
        struct wire_reader reader;

        wire_reader_init(&reader, slice_from(body, ZK_INT_BYTES));

        zxid_t zxid = (zxid_t)zk_get_long(&reader);

        if (!caller->welcome) {
            take_welcome(caller, body);
        } else if (is_event(body)) {
            take_event(caller, applied, zxid, body);
        } else {
            take_reply(caller, applied, zxid, frame);
        }
        used += frame.len;
    }
    buf_consume(&caller->got, used);
}

bool zk_caller_receive(struct zk_caller *caller, zxid_t applied, size_t most)
{
    uint8_t *room = NULL;
    ssize_t got = 0;

    if (caller->fd < 0 || caller->ended) {
        return false;
    }
    room = buf_reserve(&caller->got, most);
    got = recv(caller->fd, room, most, MSG_DONTWAIT);
    if (got > 0) {
        caller->got.len += (size_t)got;
        take_frames(caller, applied);
        return true;
    }
    caller->ended = got == 0 || (errno != EAGAIN && errno != EINTR);
    return caller->ended;
}

/* ---- The life of a client ---- */

void zk_caller_init(struct zk_caller *caller)
{
    *caller = (struct zk_caller){.fd = -1};
    buf_init(&caller->pending, PENDING_MAX);
    buf_init(&caller->sent, SIZE_MAX / 2); /* Bounded by the number of requests. */
    buf_init(&caller->got, GOT_MAX);
}

void zk_caller_hang_up(struct zk_caller *caller)
{
    if (caller->fd >= 0) {
        close(caller->fd);
    }
    buf_release(&caller->pending);
    buf_release(&caller->sent);
    buf_release(&caller->got);
    zk_caller_init(caller);
}

void zk_caller_check_end(struct zk_caller *caller, zxid_t applied)
{
    bool ahead = !caller->welcome && caller->last_zxid > applied;

    pass_done(caller);
    if (caller->fd < 0 || caller->ended || ahead) {
        return; /* A client that is ahead waits for this replica, for a while. */
    }
    ASSERT(!caller->broken && !caller->word && (caller->welcome || !caller->began));
    ASSERT(!caller->welcome || caller->vague ||
           (caller->first == caller->asked_count && caller->ping == caller->asked_count));
    ASSERT(caller->got.len == 0);
}
