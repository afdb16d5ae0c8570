#include "tests/proc/socket.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/os_rng.h"
#include "tests/proc/socket_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    HEAD_MAX = 16 << 10,
    KEY_BYTES = 16
};

long socket_status(const struct socket *socket)
{
    return socket->status;
}

bool socket_is_open(const struct socket *socket)
{
    return socket->fd >= 0 && socket->status == 101;
}

uint32_t socket_close_code(const struct socket *socket)
{
    return socket->code;
}

const char *socket_close_reason(const struct socket *socket)
{
    return socket->reason;
}

int socket_fd(const struct socket *socket)
{
    return socket->fd;
}

size_t socket_waiting(const struct socket *socket)
{
    return socket->waiting;
}

uint64_t socket_received(const struct socket *socket)
{
    return socket->received;
}

bool socket_all_sent(const struct socket *socket)
{
    return socket->out.len == 0;
}

/* True when there may be more. */
static bool read_piece(struct socket *socket)
{
    uint8_t *to = buf_reserve(&socket->in, SOCKET_PIECE);

    ASSERT(to);

    bool slow = socket->piece_bytes > 0;
    ssize_t got = read(socket->fd, to, slow ? socket->piece_bytes : SOCKET_PIECE);

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (got <= 0) {
        socket_end(socket, SOCKET_LOST);
        return false;
    }
    socket->in.len += (size_t)got;
    return !slow;
}

bool socket_pump(struct socket *socket)
{
    bool more = socket->fd >= 0;

    socket_flush(socket);
    while (more && socket->fd >= 0) {
        more = read_piece(socket);
        if (socket->status == 101) {
            socket_take_frames(socket);
        }
    }
    return socket->fd >= 0;
}

bool socket_wait(struct socket *socket, uint32_t timeout_ms)
{
    struct pollfd ready = {.fd = socket->fd,
                           .events = (short)(POLLIN | (socket->out.len > 0 ? POLLOUT : 0))};

    if (socket->fd < 0) {
        return false;
    }
    (void)poll(&ready, 1, (int)timeout_ms);
    return socket_pump(socket);
}

/* ---- The handshake. ---- */

static void make_key(struct socket *socket)
{
    uint8_t bytes[KEY_BYTES];
    struct buf text;

    os_random(bytes, sizeof(bytes));
    buf_init(&text, SOCKET_KEY_MAX);
    base64_encode(&text, slice_make(bytes, sizeof(bytes)));
    (void)snprintf(socket->key, sizeof(socket->key), "%s", buf_cstr(&text));
    buf_release(&text);
}

static void put_head(struct socket *socket, uint16_t port, const struct socket_options *options)
{
    const char *protocol = options->protocol ? options->protocol : "zabra.v1.json";

    buf_printf(&socket->out,
               "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
               "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
               options->path ? options->path : "/ws/v1", port, socket->key);
    if (protocol[0]) {
        buf_printf(&socket->out, "Sec-WebSocket-Protocol: %s\r\n", protocol);
    }
    buf_append_str(&socket->out, options->headers ? options->headers : "");
    buf_append_str(&socket->out, "\r\n");
}

/* The value of Sec-WebSocket-Accept, which proves that the server speaks WebSocket. */
static void accept_text(const struct socket *socket, struct buf *out)
{
    uint8_t hash[CRYPTO_SHA1_LEN];
    char text[SOCKET_KEY_MAX * 2];

    (void)snprintf(text, sizeof(text), "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", socket->key);
    crypto_sha1(slice_str(text), hash);
    base64_encode(out, slice_make(hash, sizeof(hash)));
}

static bool head_is_sound(const struct socket *socket, const char *head)
{
    static const char name[] = "\r\nSec-WebSocket-Accept:";
    const char *line = strcasestr(head, name);
    struct buf want;

    if (!line) {
        return false;
    }
    line += sizeof(name) - 1;
    line += strspn(line, " ");
    buf_init(&want, SOCKET_KEY_MAX);
    accept_text(socket, &want);

    bool sound = strncmp(line, buf_cstr(&want), want.len) == 0 && line[want.len] == '\r';

    buf_release(&want);
    return sound;
}

static void note(const struct socket_options *options, struct slice head)
{
    exchange_http(&(struct exchange){.method = "GET",
                                     .target = options->path ? options->path : "/ws/v1",
                                     .headers = options->headers,
                                     .head = head,
                                     .stream = true}); /* A refusal may still be incomplete. */
}

/* True when the answer's head has arrived and is parsed. */
static bool take_head(struct socket *socket, const struct socket_options *options)
{
    char head[HEAD_MAX];
    int status = 0;
    const char *blank = NULL;

    (void)snprintf(head, sizeof(head), "%.*s", (int)socket->in.len,
                   socket->in.data ? (const char *)socket->in.data : "");
    blank = strstr(head, "\r\n\r\n");
    if (!blank || sscanf(head, "HTTP/1.1 %d", &status) != 1) {
        return false;
    }
    socket->status = status == 101 && !head_is_sound(socket, head) ? 0 : status;
    socket->in_pos = (size_t)(blank - head) + 4;
    note(options, slice_make(head, socket->in_pos));
    return true;
}

static bool connected(struct socket *socket, uint64_t end_ms)
{
    int result = -EINPROGRESS;

    while (socket->fd >= 0 && result == -EINPROGRESS && os_now_ms() < end_ms) {
        struct pollfd ready = {.fd = socket->fd, .events = POLLOUT};

        (void)poll(&ready, 1, (int)(end_ms - os_now_ms()));
        result = loop_connect_result(socket->fd);
    }
    return result == 0;
}

static void shake_hands(struct socket *socket, uint16_t port, const struct socket_options *options)
{
    uint64_t end_ms =
        os_now_ms() + (options->timeout_ms ? options->timeout_ms : (uint32_t)SOCKET_TIMEOUT_MS);
    bool done = false;

    if (connected(socket, end_ms)) {
        put_head(socket, port, options);
        while (!done && os_now_ms() < end_ms && socket->fd >= 0) {
            (void)socket_wait(socket, (uint32_t)(end_ms - os_now_ms()));
            done = take_head(socket, options);
        }
    }
    if (socket->status != 101) {
        socket_end(socket, SOCKET_LOST);
        return;
    }
    socket_take_frames(socket); /* Frames that arrived together with the head. */
}

struct socket *socket_open(uint16_t port, const struct socket_options *options)
{
    static const struct socket_options usual = {.path = NULL};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct socket *socket = mem_zalloc(1, sizeof(*socket));

    options = options ? options : &usual;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    list_init(&socket->messages);
    buf_init(&socket->in, SOCKET_BYTES_MAX + SOCKET_PIECE);
    buf_init(&socket->out, SOCKET_BYTES_MAX);
    buf_init(&socket->text, SOCKET_BYTES_MAX);
    rng_init(&socket->rng, os_random_u64());
    make_key(socket);
    ASSERT(options->piece_bytes <= SOCKET_PIECE);
    socket->piece_bytes = options->piece_bytes;
    socket->fd = loop_connect((const struct sockaddr *)&address, sizeof(address));
    socket->fd = socket->fd < 0 ? -1 : socket->fd;
    if (socket->fd >= 0 && options->receive_bytes > 0) {
        (void)setsockopt(socket->fd, SOL_SOCKET, SO_RCVBUF, &options->receive_bytes,
                         sizeof(options->receive_bytes));
    }
    shake_hands(socket, port, options);
    return socket;
}

void socket_close(struct socket *socket)
{
    if (!socket) {
        return;
    }
    list_for_each_safe (node, tmp, &socket->messages) {
        struct message *message = list_entry(node, struct message, node);

        json_decref(message->json);
        mem_free(message);
    }
    socket_end(socket, SOCKET_LOST);
    buf_release(&socket->in);
    buf_release(&socket->out);
    buf_release(&socket->text);
    mem_free(socket);
}

/* ---- Messages. ---- */

static uint64_t request(struct socket *socket, const char *members, va_list args)
{
    uint64_t id = ++socket->next_id;
    struct buf text;
    va_list again;

    va_copy(again, args);

    int len = vsnprintf(NULL, 0, members, again);

    va_end(again);
    ASSERT(len >= 0);
    buf_init(&text, SOCKET_BYTES_MAX);
    buf_printf(&text, "{\"id\":%llu,", (unsigned long long)id);

    uint8_t *to = buf_reserve(&text, (size_t)len + 2);

    ASSERT(to);
    (void)vsnprintf((char *)to, (size_t)len + 1, members, args);
    text.len += (size_t)len;
    buf_append_byte(&text, '}');
    socket_send_text(socket, (const char *)text.data, text.len);
    buf_release(&text);
    return id;
}

uint64_t socket_request(struct socket *socket, const char *members, ...)
{
    va_list args;

    va_start(args, members);

    uint64_t id = request(socket, members, args);

    va_end(args);
    return id;
}

struct wanted {
    bool any;
    bool reply;
    uint64_t id;
    const char *event; /* NULL: any. */
};

static bool fits(const struct wanted *wanted, const json_t *json)
{
    const char *event = json_string_value(json_object_get(json, "event"));

    if (wanted->any) {
        return true;
    }
    if (!wanted->reply) {
        return event && (!wanted->event || strcmp(event, wanted->event) == 0);
    }
    return !event && json_integer_value(json_object_get(json, "id")) == (json_int_t)wanted->id;
}

static json_t *take_message(struct socket *socket, const struct wanted *wanted)
{
    list_for_each (node, &socket->messages) {
        struct message *message = list_entry(node, struct message, node);
        json_t *json = message->json;

        if (fits(wanted, json)) {
            list_remove(&message->node);
            mem_free(message);
            socket->waiting--;
            return json;
        }
    }
    return NULL;
}

static json_t *await(struct socket *socket, const struct wanted *wanted, uint32_t timeout_ms)
{
    uint64_t end_ms = os_now_ms() + timeout_ms;
    json_t *json = socket->piece_bytes > 0 ? take_message(socket, wanted) : NULL;
    bool open = json || socket_pump(socket);

    json = json ? json : take_message(socket, wanted);
    while (!json && open && os_now_ms() < end_ms) {
        open = socket_wait(socket, (uint32_t)(end_ms - os_now_ms()));
        json = take_message(socket, wanted);
    }
    return json;
}

json_t *socket_next(struct socket *socket, uint32_t timeout_ms)
{
    return await(socket, &(struct wanted){.any = true}, timeout_ms);
}

json_t *socket_reply(struct socket *socket, uint64_t id, uint32_t timeout_ms)
{
    return await(socket, &(struct wanted){.reply = true, .id = id}, timeout_ms);
}

json_t *socket_event(struct socket *socket, const char *name, uint32_t timeout_ms)
{
    return await(socket, &(struct wanted){.event = name}, timeout_ms);
}

json_t *socket_call(struct socket *socket, const char *members, ...)
{
    va_list args;

    va_start(args, members);

    uint64_t id = request(socket, members, args);

    va_end(args);
    return socket_reply(socket, id, SOCKET_TIMEOUT_MS);
}

bool socket_wait_end(struct socket *socket, uint32_t timeout_ms)
{
    uint64_t end_ms = os_now_ms() + timeout_ms;
    bool open = socket_pump(socket);

    while (open && os_now_ms() < end_ms) {
        open = socket_wait(socket, (uint32_t)(end_ms - os_now_ms()));
    }
    return !open;
}
