/*
 * A connection to the running HTTP front end, over a gate without an ensemble: one good request,
 * then any bytes. Strict rules, written down again here, check the answers: one for each request,
 * in order and whole; the first fault is answered once, and then the connection ends.
 */
#include "http/framing.h"
#include "http/head.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/http_kit.h"

enum {
    REQUESTS_MAX = 256, /* Of one input, which are checked. */
    HEAD_MAX = 8192,
    QUIET_MS = 300, /* Nothing arrives after that time: a stream, or half a body. */
    SHORT_MS = 200,
    STATUS_DIGITS = 3,
    FAILURES_MAX = 1000, /* Of connections, one after another. */
    ADDRESSES = 60000    /* Of 127.0.0.0/8. */
};

static const char greeting[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

static uint16_t port;

static void start(void)
{
    struct gate *gate = kit_gate_new();
    struct http *http = NULL;
    enum err err = ERR_OK;

    gate->limits.head_bytes_max = HEAD_MAX;
    gate->limits.head_timeout_ms = SHORT_MS;
    gate->limits.body_timeout_ms = SHORT_MS;
    gate->limits.idle_timeout_ms = SHORT_MS;
    gate->limits.request_timeout_ms = SHORT_MS;
    gate->limits.wait_max_ms = SHORT_MS;
    err = http_start(gate, NULL, &http);
    ASSERT(err == ERR_OK);
    port = kit_port(http); /* It lives as long as the process. */
}

/* ---- The requests ---- */

struct asked {
    bool no_body[REQUESTS_MAX]; /* HEAD. */
    uint32_t count;             /* Heads, complete and without a fault. */
    bool fault;                 /* An invalid head follows them. */
};

/* Length of the body that begins here, as far as its bytes exist. */
static size_t body_of(const struct http_framing *framing, struct slice rest, bool *ret_fault)
{
    struct http_chunks chunks = {.state = 0};
    size_t len = 0;

    if (!framing->chunked) {
        return framing->body_len < rest.len ? (size_t)framing->body_len : rest.len;
    }
    len = http_chunks_take(&chunks, rest);
    *ret_fault = chunks.fault != NULL;
    return len;
}

static void follow(struct slice bytes, struct asked *asked)
{
    struct http_framing framing = {.head_len = 1};

    while (bytes.len > 0 && asked->count < REQUESTS_MAX && !asked->fault) {
        struct http_line line = {.method = slice_str("")};
        struct http_head head = {.fault = NULL};

        asked->fault = http_head_check_framing(bytes, HEAD_MAX, &framing).err != ERR_OK;
        if (asked->fault || framing.head_len == 0) {
            return;
        }
        (void)http_head_read(slice_make(bytes.data, framing.head_len), &line, &head, NULL);
        asked->no_body[asked->count++] = slice_eq(line.method, slice_str("HEAD"));
        bytes = slice_make(bytes.data + framing.head_len, bytes.len - framing.head_len);

        size_t body = body_of(&framing, bytes, &asked->fault);

        bytes = slice_make(bytes.data + body, bytes.len - body);
    }
}

/* ---- The answers ---- */

struct answer {
    int status;
    bool close; /* Nothing may follow it. */
    bool whole; /* The bytes contain its end. */
    size_t len;
};

static struct slice value_of(struct slice head, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i + len + 3 < head.len; i++) {
        const char *at = (const char *)head.data + i;

        if (at[0] == '\n' && strncasecmp(at + 1, name, len) == 0 && at[1 + len] == ':') {
            const uint8_t *from = head.data + i + len + 3;
            const uint8_t *end = memchr(from, '\r', head.len - (size_t)(from - head.data));

            ASSERT(end);
            return slice_make(from, (size_t)(end - from));
        }
    }
    return slice_make(NULL, 0);
}

static size_t decimal(struct slice text)
{
    size_t value = 0;

    ASSERT(text.len > 0 && text.len < 10);
    for (size_t i = 0; i < text.len; i++) {
        ASSERT(text.data[i] >= '0' && text.data[i] <= '9');
        value = 10 * value + (size_t)(text.data[i] - '0');
    }
    return value;
}

/* The end of the body that follows a head of `answer->len` bytes. */
static void end_body(struct slice bytes, struct slice head, struct answer *answer)
{
    struct slice length = value_of(head, "Content-Length");
    struct slice rest = slice_make(bytes.data + answer->len, bytes.len - answer->len);
    struct http_chunks chunks = {.state = 0};

    if (length.data) {
        size_t len = decimal(length);

        answer->whole = len <= rest.len;
        answer->len += answer->whole ? len : rest.len;
    } else if (value_of(head, "Transfer-Encoding").data) {
        answer->len += http_chunks_take(&chunks, rest);
        ASSERT(!chunks.fault);
        answer->whole = chunks.over;
    } else {
        answer->len = bytes.len; /* It ends with the connection. */
    }
}

static bool read_answer(struct slice bytes, bool no_body, struct answer *ret_answer)
{
    static const char version[] = "HTTP/1.1 ";
    const uint8_t *end = memmem(bytes.data, bytes.len, "\r\n\r\n", 4);
    size_t known = bytes.len < sizeof(version) - 1 ? bytes.len : sizeof(version) - 1;

    ASSERT(memcmp(bytes.data, version, known) == 0);
    if (!end) {
        return false;
    }

    struct slice head = slice_make(bytes.data, (size_t)(end - bytes.data) + 2);

    *ret_answer = (struct answer){.len = head.len + 2};
    ret_answer->status = (int)decimal(slice_make(bytes.data + sizeof(version) - 1, STATUS_DIGITS));
    ASSERT(ret_answer->status >= 100 && ret_answer->status < 600);
    ret_answer->close = http_list_has(value_of(head, "Connection"), "close");
    if (no_body || ret_answer->status / 100 == 1 || ret_answer->status == 204 ||
        ret_answer->status == 304) {
        ret_answer->whole = true;
    } else {
        end_body(bytes, head, ret_answer);
    }
    return true;
}

/* True when each request has its answer. */
static bool check_answers(struct slice bytes, const struct asked *asked)
{
    uint32_t most = asked->count + asked->fault;
    uint32_t count = 0;

    while (bytes.len > 0) {
        struct answer answer;
        bool no_body = count < asked->count && asked->no_body[count];

        if (!read_answer(bytes, no_body, &answer)) {
            return false;
        }
        bytes = slice_make(bytes.data + answer.len, bytes.len - answer.len);
        if (!answer.whole) {
            return false;
        }
        if (answer.status / 100 == 1) {
            continue;
        }
        count++;
        ASSERT(count <= most || asked->count == REQUESTS_MAX);
        ASSERT(count > 1 || answer.status == 200);
        ASSERT(!answer.close || bytes.len == 0);
        ASSERT(count <= asked->count || (answer.status >= 400 && answer.close));
    }
    return count == most;
}

/* ---- The exchange ---- */

/* Connects from many addresses in turn: an end by the server leaves one of our ports unusable for a
 * minute. -1 when the machine briefly has no port or no room; it asserts that this ends. */
static int dial(void)
{
    static uint32_t number;
    static uint32_t failures;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = 0;

    ASSERT(fd >= 0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + number++ % ADDRESSES);
    failed = setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &(int){1}, sizeof(int));
    ASSERT(failed == 0);
    failed = bind(fd, (const struct sockaddr *)&from, sizeof(from));
    ASSERT(failed == 0);
    failed = connect(fd, (const struct sockaddr *)&to, sizeof(to));
    failures = failed == 0 ? 0 : failures + 1;
    ASSERT(failures < FAILURES_MAX); /* The server does not listen any more. */
    if (failed != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool wait_for(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, QUIET_MS) == 1;
}

static bool fuzz_one(struct slice input)
{
    static struct asked asked;
    struct linger reset = {.l_onoff = 1};
    struct buf answers;
    bool done = false;

    if (port == 0) {
        start();
    }
    asked = (struct asked){.count = 1};
    follow(input, &asked);
    buf_init(&answers, KIT_ANSWER_MAX);

    int fd = dial();

    if (fd < 0) {
        buf_release(&answers);
        return false; /* No port is free at the moment. */
    }

    kit_send(fd, greeting);
    kit_send_bytes(fd, input.data, input.len);
    while (!done && wait_for(fd) && kit_recv(fd, &answers)) {
        done = check_answers(buf_slice(&answers), &asked);
    }
    (void)check_answers(buf_slice(&answers), &asked);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)); /* No TIME_WAIT. */
    close(fd);
    buf_release(&answers);
    return done;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    fuzz_seed_text(sink, "get-get",
                   "GET /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\nAccept: "
                   "application/octet-stream\r\n\r\n"
                   "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    fuzz_seed_text(sink, "put-and-delete",
                   "PUT /znodes/v1/a?upsert=true HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                   "3\r\n\r\nabcDELETE /znodes/v1/a HTTP/1.1\r\nHost: localhost\r\n\r\n");
    fuzz_seed_text(
        sink, "chunks",
        "POST /multi/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        "application/json\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\n{\"ops\r\n"
        "5\r\n\":[]}\r\n0\r\nT: v\r\n\r\nGET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    fuzz_seed_text(sink, "bare-feed", "GET /livez HTTP/1.1\nHost: localhost\n\n");
    fuzz_seed_text(sink, "folded", "GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\n c\r\n\r\n");
    fuzz_seed_text(sink, "old-and-close",
                   "GET /limits/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    fuzz_seed_text(sink, "two-lengths",
                   "PUT /znodes/v1/b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
                   "Content-Length: 2\r\n\r\nxy");
}

FUZZ_TARGET(http_conn)
