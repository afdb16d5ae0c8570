#include "cli/zk_client.h"

#include "tls/dial.h"
#include "zk/wire.h"

#include "base/check.h"
#include "base/minmax.h"
#include "base/os_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SESSION_MS = 30000, /* Asked for. */
    PASSWORD_LEN = 16,
    XID_EVENT = -1,
    XID_PING = -2,
    XID_AUTH = -4,
    OP_CODE_PING = 11,
    OP_CODE_AUTH = 100,
    OP_CODE_CLOSE = -11,
    MODE_RECURSIVE = 1,
    READ_BYTES = 64 << 10,
    PINGS = 3 /* In a session timeout. */
};

/* ---- The socket ---- */

static void hang_up(struct zk_client *client)
{
    if (client->fd >= 0) {
        close(client->fd);
    }
    client->fd = -1;
    client->due_count = 0;
    client->asked_ms = 0;
    client->taken = 0;
    buf_clear(&client->in);
    buf_clear(&client->out);
}

void zk_client_lose(struct zk_client *client)
{
    hang_up(client);
    client->host = (client->host + 1) % client->host_count;
}

void zk_client_close(struct zk_client *client)
{
    if (client->fd >= 0) {
        /* The session ends at once. If the server does not take the bytes, it expires. */
        size_t at = zk_frame_begin(&client->out);

        zk_put_int(&client->out, ++client->xid);
        zk_put_int(&client->out, OP_CODE_CLOSE);
        zk_frame_end(&client->out, at);
        (void)send(client->fd, client->out.data, client->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    hang_up(client);
    buf_release(&client->in);
    buf_release(&client->out);
    tls_dial_free(client->tls);
    client->tls = NULL;
    for (int i = 0; i < client->auth_count; i++) {
        memset(client->auths[i].data, 0, client->auths[i].len);
        buf_release(&client->auths[i]);
    }
    client->auth_count = 0;
}

/* Sends what the socket takes. Returns false when the connection is lost. */
static bool flush(struct zk_client *client)
{
    while (client->out.len > 0) {
        ssize_t sent = send(client->fd, client->out.data, client->out.len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return errno == EAGAIN ||
                   zk_client_fail(client, "%s:%s: the connection broke: %s",
                                  client->hosts[client->host].name,
                                  client->hosts[client->host].port, strerrordesc_np(errno));
        }
        client->sent_ms = os_now_ms();
        client->asked_ms = client->asked_ms > 0 ? client->asked_ms : client->sent_ms;
        buf_consume(&client->out, (size_t)sent);
    }
    return true;
}

/* Reads what is there. Returns false when the connection is lost. */
static bool fill(struct zk_client *client)
{
    uint8_t *to = buf_reserve(&client->in, READ_BYTES);
    ssize_t got = to ? recv(client->fd, to, READ_BYTES, 0) : -1;

    if (got > 0) {
        client->in.len += (size_t)got;
        client->heard_ms = os_now_ms();
        client->asked_ms = 0;
        return true;
    }
    if (got < 0 && to && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    return zk_client_fail(
        client, "%s:%s %s%s", client->hosts[client->host].name, client->hosts[client->host].port,
        got == 0 ? "has closed the connection" : "does not answer as ZooKeeper does",
        got == 0 && client->session_ms == 0 && client->zxid > 0
            ? "; its state may be older than what was read before"
            : zk_client_hint(client));
}

enum wait {
    WAIT_READY,
    WAIT_OVER,
    WAIT_STOP
};

/* Waits until the socket can be read, or takes more bytes. */
static enum wait wait_socket(const struct zk_client *client, int64_t wait_ms)
{
    struct pollfd polls[2] = {
        {.fd = client->fd, .events = (short)(POLLIN | (client->out.len > 0 ? POLLOUT : 0))},
        {.fd = client->stop_fd, .events = POLLIN}};
    if (tls_socket_waits(client->fd)) {
        return WAIT_READY; /* The kernel does not know of these bytes. */
    }
    int ready = poll(polls, client->stop_fd >= 0 ? 2 : 1, (int)min_i64(wait_ms, INT32_MAX));

    if (ready > 0 && client->stop_fd >= 0 && polls[1].revents != 0) {
        return WAIT_STOP;
    }
    return ready > 0 || (ready < 0 && errno == EINTR) ? WAIT_READY : WAIT_OVER;
}

/* Returns the frame at the start of `in`: -1 it is malformed, 0 it is not complete, 1 complete. */
static int next_frame(struct zk_client *client, struct slice *ret_frame)
{
    buf_consume(&client->in, client->taken);
    client->taken = 0;
    if (client->in.len < ZK_INT_BYTES) {
        return 0;
    }
    int32_t len = zk_load_int(client->in.data);

    if (len < 0 || len > ZK_CLIENT_FRAME_MAX) {
        (void)zk_client_fail(client,
                             "%s:%s: a reply of %" PRId32
                             " bytes: it is no ZooKeeper, or the reply is "
                             "larger than %d bytes",
                             client->hosts[client->host].name, client->hosts[client->host].port,
                             len, (int)ZK_CLIENT_FRAME_MAX);
        return -1;
    }
    if (client->in.len - ZK_INT_BYTES < (size_t)len) {
        return 0;
    }
    *ret_frame = slice_make(client->in.data + ZK_INT_BYTES, (size_t)len);
    client->taken = ZK_INT_BYTES + (size_t)len;
    return 1;
}

/* ---- Connecting ---- */

/* Connects to the address within the timeout. Returns a descriptor, or -1 with errno set. */
static int dial(const struct addrinfo *at, int64_t timeout_ms)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    int on = 1;
    int fault = 0;
    socklen_t len = sizeof(fault);

    if (fd < 0) {
        return -1;
    }
    if (connect(fd, at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) {
        fault = errno;
    } else if (poll(&polled, 1, (int)min_i64(timeout_ms, INT32_MAX)) <= 0) {
        fault = ETIMEDOUT;
    } else {
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &fault, &len);
    }
    if (fault != 0) {
        close(fd);
        errno = fault;
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static bool reach(struct zk_client *client, const struct zk_client_host *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    int fault = getaddrinfo(host->name, host->port, &hints, &list);

    if (fault != 0) {
        return zk_client_fail(client, "%s: %s", host->name, gai_strerror(fault));
    }
    for (const struct addrinfo *at = list; at && client->fd < 0; at = at->ai_next) {
        client->fd = dial(at, client->timeout_ms);
    }
    if (client->fd < 0) {
        (void)zk_client_fail(client, "%s:%s: %s", host->name, host->port, strerrordesc_np(errno));
    }
    freeaddrinfo(list);
    return client->fd >= 0 &&
           (!client->tls || zk_client_secure(client, os_now_ms() + (uint64_t)client->timeout_ms));
}

static void put_hello(struct zk_client *client)
{
    static const uint8_t no_password[PASSWORD_LEN];
    struct buf *out = &client->out;
    size_t at = zk_frame_begin(out);

    zk_put_int(out, 0); /* Version of the protocol. */
    zk_put_long(out, client->zxid);
    zk_put_int(out, SESSION_MS);
    zk_put_long(out, 0); /* A new session. */
    zk_put_bytes(out, slice_make(no_password, PASSWORD_LEN));
    zk_put_bool(out, false); /* Not read-only. */
    zk_frame_end(out, at);
    for (int i = 0; i < client->auth_count; i++) {
        struct slice credential = buf_slice(&client->auths[i]);
        struct slice scheme = slice_cut(&credential, ':');

        at = zk_frame_begin(out);
        zk_put_int(out, XID_AUTH);
        zk_put_int(out, OP_CODE_AUTH);
        zk_put_int(out, 0);
        zk_put_bytes(out, scheme);
        zk_put_bytes(out, credential);
        zk_frame_end(out, at);
    }
}

/* Waits for a frame until the deadline. */
static bool await_frame(struct zk_client *client, uint64_t end_ms, struct slice *ret_frame)
{
    const struct zk_client_host *host = &client->hosts[client->host];

    for (;;) {
        uint64_t now_ms = os_now_ms();

        if (!flush(client)) {
            return false;
        }
        int got = next_frame(client, ret_frame);

        if (got != 0) {
            return got > 0;
        }
        if (now_ms >= end_ms) {
            return zk_client_fail(client, "%s:%s accepts connections but does not answer",
                                  host->name, host->port);
        }
        switch (wait_socket(client, (int64_t)(end_ms - now_ms))) {
        case WAIT_READY:
            if (!fill(client)) {
                return false;
            }
            break;
        case WAIT_STOP:
            return zk_client_fail(client, "interrupted");
        case WAIT_OVER:
            break;
        }
    }
}

static bool open_session(struct zk_client *client)
{
    const struct zk_client_host *host = &client->hosts[client->host];
    uint64_t end_ms = os_now_ms() + (uint64_t)client->timeout_ms;
    struct wire_reader reader;
    struct slice frame = slice_make(NULL, 0);

    client->session_ms = 0;
    put_hello(client);
    if (!await_frame(client, end_ms, &frame)) {
        return false;
    }
    wire_reader_init(&reader, frame);
    (void)zk_get_int(&reader);
    int32_t timeout_ms = zk_get_int(&reader);
    int64_t session = zk_get_long(&reader);

    (void)zk_get_bytes(&reader);
    if (!wire_reader_ok(&reader) || timeout_ms <= 0 || session == 0) {
        return zk_client_fail(client, "%s:%s does not answer as ZooKeeper does", host->name,
                              host->port);
    }
    client->session_ms = timeout_ms;
    for (int i = 0; i < client->auth_count; i++) {
        if (!await_frame(client, end_ms, &frame)) {
            return false;
        }
        wire_reader_init(&reader, frame);
        int32_t xid = zk_get_int(&reader);

        (void)zk_get_long(&reader);
        if (xid != XID_AUTH || zk_get_int(&reader) != 0 || !wire_reader_ok(&reader)) {
            return zk_client_fail(client, "%s:%s has refused identity %d of --auth", host->name,
                                  host->port, i + 1);
        }
    }
    return true;
}

bool zk_client_connect(struct zk_client *client)
{
    hang_up(client);
    for (int tries = client->host_count; tries > 0; tries--) {
        if (reach(client, &client->hosts[client->host]) && open_session(client)) {
            client->heard_ms = os_now_ms();
            return true;
        }
        zk_client_lose(client);
    }
    return false;
}

/* ---- Requests ---- */

void zk_client_send(struct zk_client *client, enum zk_client_op op, struct slice path, bool watch)
{
    struct buf *out = &client->out;
    uint32_t at = (client->due_first + client->due_count) % ZK_CLIENT_DUE_MAX;

    ASSERT(client->due_count < ZK_CLIENT_DUE_MAX);
    if (client->due_count == 0) {
        client->heard_ms = os_now_ms(); /* The silence until now was no fault. */
    }
    client->xid = client->xid == INT32_MAX ? 1 : client->xid + 1;
    client->due[at].xid = client->xid;
    client->due[at].op = op;
    client->due_count++;

    size_t frame = zk_frame_begin(out);

    zk_put_int(out, client->xid);
    zk_put_int(out, (int32_t)op);
    zk_put_bytes(out, path);
    if (op == ZK_CLIENT_ADD_WATCH) {
        zk_put_int(out, MODE_RECURSIVE);
    } else if (op != ZK_CLIENT_GET_ACL && op != ZK_CLIENT_SYNC) {
        zk_put_bool(out, watch);
    }
    zk_frame_end(out, frame);
}

static void put_ping(struct zk_client *client)
{
    size_t at = zk_frame_begin(&client->out);

    zk_put_int(&client->out, XID_PING);
    zk_put_int(&client->out, OP_CODE_PING);
    zk_frame_end(&client->out, at);
}

/* ---- Replies ---- */

static void get_stat(struct wire_reader *reader, struct zk_client_stat *stat)
{
    (void)zk_get_long(reader); /* czxid. */
    stat->mzxid = zk_get_long(reader);
    (void)zk_get_long(reader); /* ctime. */
    (void)zk_get_long(reader); /* mtime. */
    (void)zk_get_int(reader);  /* version. */
    stat->cversion = zk_get_int(reader);
    (void)zk_get_int(reader); /* aversion. */
    stat->ephemeral_owner = zk_get_long(reader);
    (void)zk_get_int(reader); /* dataLength. */
    stat->num_children = zk_get_int(reader);
    (void)zk_get_long(reader); /* pzxid. */
}

struct zk_client_acl zk_client_acl_next(struct slice *list)
{
    struct wire_reader reader;
    struct zk_client_acl acl;

    wire_reader_init(&reader, *list);
    acl.perms = (uint32_t)zk_get_int(&reader);
    acl.scheme = zk_get_bytes(&reader);
    acl.id = zk_get_bytes(&reader);
    *list = slice_make(reader.pos, (size_t)(reader.end - reader.pos));
    return acl;
}

struct slice zk_client_name_next(struct slice *list)
{
    struct wire_reader reader;

    wire_reader_init(&reader, *list);
    struct slice name = zk_get_bytes(&reader);

    *list = slice_make(reader.pos, (size_t)(reader.end - reader.pos));
    return name;
}

/* Checks a list and puts its bytes into the news. */
static void get_list(struct wire_reader *reader, struct zk_client_news *news, bool is_acl)
{
    news->count = zk_get_count(reader, is_acl ? 3 * ZK_INT_BYTES : ZK_INT_BYTES);
    const uint8_t *start = reader->pos;

    for (uint32_t i = 0; i < news->count && wire_reader_ok(reader); i++) {
        if (is_acl) {
            (void)zk_get_int(reader);
            (void)zk_get_bytes(reader);
        }
        (void)zk_get_bytes(reader);
    }
    news->list = slice_make(start, (size_t)(reader->pos - start));
}

static void get_body(struct wire_reader *reader, struct zk_client_news *news)
{
    switch (news->op) {
    case ZK_CLIENT_GET_DATA:
        news->data = zk_get_bytes(reader);
        break;
    case ZK_CLIENT_GET_ACL:
        get_list(reader, news, true);
        break;
    case ZK_CLIENT_GET_CHILDREN:
        get_list(reader, news, false);
        break;
    case ZK_CLIENT_SYNC:
    case ZK_CLIENT_ADD_WATCH:
        return;
    case ZK_CLIENT_EXISTS:
        break;
    }
    get_stat(reader, &news->stat);
}

/* Takes a frame. Returns false when it is not what the protocol allows. */
static bool take_frame(struct zk_client *client, struct slice frame, struct zk_client_news *news)
{
    struct wire_reader reader;

    wire_reader_init(&reader, frame);
    int32_t xid = zk_get_int(&reader);
    int64_t zxid = zk_get_long(&reader); /* -1 of an event. */

    news->err = zk_get_int(&reader);
    client->zxid = max_i64(client->zxid, zxid);
    if (xid == XID_PING) {
        return wire_reader_ok(&reader);
    }
    if (xid == XID_EVENT) {
        news->kind = ZK_CLIENT_EVENT;
        news->event = (enum zk_client_event)zk_get_int(&reader);
        (void)zk_get_int(&reader); /* The state of the connection. */
        news->path = zk_get_bytes(&reader);
        return wire_reader_ok(&reader);
    }
    if (client->due_count == 0 || client->due[client->due_first].xid != xid) {
        return false;
    }
    news->kind = ZK_CLIENT_REPLY;
    news->op = client->due[client->due_first].op;
    client->due_first = (client->due_first + 1) % ZK_CLIENT_DUE_MAX;
    client->due_count--;
    if (news->err == 0) {
        get_body(&reader, news);
    }
    return wire_reader_ok(&reader);
}

static void lose(struct zk_client *client, struct zk_client_news *news)
{
    *news = (struct zk_client_news){.kind = ZK_CLIENT_LOST};
    zk_client_lose(client);
}

/* Returns false when the server has been silent for too long. The silence begins with the first
 * bytes that it has not answered; pings do not extend it. */
static bool is_heard(struct zk_client *client)
{
    uint64_t since_ms = client->asked_ms > 0 ? client->asked_ms : client->heard_ms;
    bool waits = client->due_count > 0 || client->asked_ms > 0;

    return !waits || os_now_ms() <= since_ms + (uint64_t)client->timeout_ms ||
           zk_client_fail(client, "%s:%s: no answer for %" PRId64 " ms",
                          client->hosts[client->host].name, client->hosts[client->host].port,
                          client->timeout_ms);
}

/* Sends what waits, and a ping when one is due. Returns false when the connection is lost. */
static bool send_due(struct zk_client *client, uint64_t now_ms)
{
    if (now_ms >= client->sent_ms + (uint64_t)(client->session_ms / PINGS)) {
        put_ping(client);
    }
    return flush(client);
}

void zk_client_keep(struct zk_client *client)
{
    if (client->fd >= 0) {
        (void)send_due(client, os_now_ms()); /* zk_client_next() finds the failure again. */
    }
}

void zk_client_next(struct zk_client *client, int64_t wait_ms, struct zk_client_news *ret_news)
{
    uint64_t end_ms = wait_ms < 0 ? UINT64_MAX : os_now_ms() + (uint64_t)wait_ms;

    *ret_news = (struct zk_client_news){.kind = ZK_CLIENT_NOTHING};
    if (client->fd < 0) {
        ret_news->kind = ZK_CLIENT_LOST;
        return;
    }
    for (;;) {
        struct slice frame = slice_make(NULL, 0);
        int got = next_frame(client, &frame);

        if (got < 0) {
            lose(client, ret_news);
            return;
        }
        if (got > 0) {
            if (!take_frame(client, frame, ret_news)) {
                (void)zk_client_fail(
                    client, "%s:%s sends replies that do not belong to the requests",
                    client->hosts[client->host].name, client->hosts[client->host].port);
                lose(client, ret_news);
                return;
            }
            if (ret_news->kind != ZK_CLIENT_NOTHING) {
                return;
            }
            continue;
        }
        uint64_t now_ms = os_now_ms();

        if (!send_due(client, now_ms)) {
            lose(client, ret_news);
            return;
        }
        if (now_ms >= end_ms) {
            return;
        }
        int64_t most_ms = min_i64(client->session_ms / PINGS, client->timeout_ms);
        enum wait wait = wait_socket(
            client, min_i64(end_ms == UINT64_MAX ? INT64_MAX : (int64_t)(end_ms - now_ms),
                            min_i64(most_ms, 1000)));

        if (wait == WAIT_STOP) {
            ret_news->kind = ZK_CLIENT_STOP;
            return;
        }
        /* Only if nothing has come: the client may have been busy. */
        if (wait == WAIT_READY ? !fill(client) : !is_heard(client)) {
            lose(client, ret_news);
            return;
        }
    }
}

const char *zk_client_err_text(int32_t err)
{
    switch (err) {
    case ZK_CLIENT_NO_NODE:
        return "the znode does not exist";
    case ZK_CLIENT_NO_AUTH:
        return "no permission";
    case ZK_CLIENT_AUTH_FAILED:
        return "the identity was refused";
    case ZK_CLIENT_UNIMPLEMENTED:
        return "the server does not know the operation";
    default:
        return "an error of ZooKeeper";
    }
}
