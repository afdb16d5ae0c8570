/*
 * A replica is lost, and all its watchers resume at the two others at once, each from its last
 * zxid: 15,000 watches, on WebSockets and streams, tens of thousands of transactions behind, none
 * of which concerns them. All must resume within seconds, and watchers of other znodes on these
 * replicas must not be delayed.
 */
#include "base/mem.h"
#include "tests/hostile/attack.h"
#include "tests/lib/unit.h"
#include "tests/proc/sealed.h"
#include "tests/proc/talk.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    SOCKETS = 3000,
    WATCHES = 4, /* Watches of each socket. */
    STREAMS = 3000,
    WATCHERS = SOCKETS * WATCHES + STREAMS,
    LINKS = SOCKETS + STREAMS,
    FOREIGN = 60000,
    PIPELINE = 2000,
    BURST = 400, /* Connections with an unfinished handshake. */
    MOVED_MS = 5000,
    BESIDE_US = 100000, /* p99 of the other watchers. */
    BEAT_MS = 5,
    LATENCIES_MAX = 100000,
    WAIT_MS = 60000
};

#define RESUMED "\"resumed\":\"replayed\""

static struct ensemble ensemble;
static uint32_t left[2]; /* The surviving replicas. */

static void open_three(void)
{
    attack_raise_descriptors(2 * LINKS);
    ensemble_launch(&ensemble, 3, "maxConnectionsPerAddress=10000\n");
}

/* ---- Transactions that concern no watcher. ---- */

static void write_foreign(void)
{
    struct socket *writer = talk_open(&ensemble, left[0], NULL);
    uint64_t id = 0;

    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/foreign\"");
    for (int i = 0; i < FOREIGN; i++) {
        if (i < 100) {
            socket_request(writer, "\"op\":\"create\",\"path\":\"/foreign/%d\"", i);
        }
        id = socket_request(writer, "\"op\":\"set\",\"path\":\"/foreign/%d\",\"dataUtf8\":\"%d\"",
                            i % 100, i);
        if (i % PIPELINE == PIPELINE - 1) {
            json_t *reply = socket_reply(writer, id, WAIT_MS);

            assert_true(json_is_true(json_object_get(reply, "ok")));
            json_decref(reply);
        }
    }
    socket_close(writer);
}

/* ---- Watchers of another znode. ---- */

struct beside {
    struct thread thread;
    int fd;
    uint32_t *us;      /* From the write to its event. */
    uint32_t *late_us; /* From the write's answer to it. */
    size_t count;
};

static _Atomic bool over;
static uint64_t sent_us[LATENCIES_MAX];             /* Time of each write, from 1 on. */
static _Atomic uint64_t answered_us[LATENCIES_MAX]; /* 0: not yet. */

static void put_frame(struct buf *out, const char *text)
{
    size_t len = strlen(text);
    const uint8_t small[6] = {0x81, (uint8_t)(0x80 | len)}; /* Masked with zeros. */
    const uint8_t large[8] = {0x81, 0x80 | 126, (uint8_t)(len >> 8), (uint8_t)len};

    (void)buf_append(out, len < 126 ? small : large, len < 126 ? sizeof(small) : sizeof(large));
    buf_append_str(out, text);
}

static void put_handshake(struct buf *out)
{
    buf_append_str(out, "GET /ws/v1 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                        "Sec-WebSocket-Protocol: zabra.v1.json\r\n\r\n");
}

static void put_stream(struct buf *out, const char *path, const char *query)
{
    buf_printf(out,
               "GET /watch/v1%s?%s HTTP/1.1\r\nHost: localhost\r\n"
               "Accept: application/x-ndjson\r\n\r\n",
               path, query);
}

/* Each event of either transport carries the time of its write. */
static void note_events(struct beside *beside, struct buf *in)
{
    static const char mark[] = "\"dataUtf8\":\"";
    uint64_t now_us = os_now_us();
    const char *text = buf_cstr(in);
    const char *at = text;
    const char *found = NULL;

    while ((found = memmem(at, in->len - (size_t)(at - text), mark, strlen(mark))) != NULL) {
        const char *end =
            memchr(found + strlen(mark), '"', in->len - (size_t)(found - text) - strlen(mark));

        if (!end) {
            break;
        }
        uint64_t number = strtoull(found + strlen(mark), NULL, 10);

        if (number > 0 && beside->count < LATENCIES_MAX) {
            uint64_t answer_us = atomic_load(&answered_us[number]);

            beside->us[beside->count] = (uint32_t)(now_us - sent_us[number]);
            beside->late_us[beside->count++] =
                answer_us > 0 && answer_us < now_us ? (uint32_t)(now_us - answer_us) : 0;
        }
        at = end;
    }
    buf_consume(in, (size_t)(at - text));
}

static void watch_beside(void *arg)
{
    struct beside *beside = arg;
    struct buf in;
    ssize_t got = 1;

    buf_init(&in, 1 << 20);
    while (got > 0) {
        got = recv(beside->fd, buf_reserve(&in, 65536), 65536, 0);
        in.len += got > 0 ? (size_t)got : 0;
        note_events(beside, &in);
    }
    buf_release(&in);
}

static void beside_start(struct beside *beside, uint32_t replica, bool socket)
{
    struct buf out;
    char answer[4096];

    *beside = (struct beside){.us = mem_zalloc(LATENCIES_MAX, sizeof(uint32_t)),
                              .late_us = mem_zalloc(LATENCIES_MAX, sizeof(uint32_t))};
    beside->fd = attack_connect(ensemble.replicas[replica].client_port, 0, 0);
    assert_true(beside->fd >= 0);
    buf_init(&out, 4096);
    if (socket) {
        put_handshake(&out);
        assert_true(attack_send(beside->fd, out.data, out.len));
        assert_true(recv(beside->fd, answer, sizeof(answer), 0) > 0);
        buf_clear(&out);
        put_frame(&out, "{\"id\":1,\"op\":\"watch\",\"path\":\"/beat\",\"kind\":\"persistent\","
                        "\"values\":true}");
    } else {
        put_stream(&out, "/beat", "values=true");
    }
    assert_true(attack_send(beside->fd, out.data, out.len));
    buf_release(&out);
    thread_start(&beside->thread, "beside", watch_beside, beside);
}

static void beside_stop(struct beside *beside)
{
    (void)shutdown(beside->fd, SHUT_RDWR);
    thread_join(&beside->thread);
    close(beside->fd);
}

static int by_value(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a;
    uint32_t other = *(const uint32_t *)b;

    return one < other ? -1 : one > other;
}

static uint32_t p99(uint32_t *us, size_t count)
{
    assert_true(count > 0);
    qsort(us, count, sizeof(us[0]), by_value);
    return us[(count - 1) * 99 / 100];
}

static void write_beats(void *arg)
{
    struct web *web = web_open();
    struct web_reply reply;
    struct web_call call = {
        .method = "PUT", .port = ensemble.replicas[left[0]].client_port, .path = "/znodes/v1/beat"};
    char text[32];

    (void)arg;
    web_reply_init(&reply);
    for (uint32_t number = 1; number < LATENCIES_MAX && !atomic_load(&over); number++) {
        (void)snprintf(text, sizeof(text), "%u", number);
        call.body = text;
        sent_us[number] = os_now_us();
        (void)web_do(web, &call, &reply);
        atomic_store(&answered_us[number], os_now_us());
        (void)poll(NULL, 0, BEAT_MS);
    }
    web_reply_release(&reply);
    web_close(web);
}

/* ---- Watchers that resume. ---- */

struct link {
    int fd; /* -1: finished, or not yet opened. */
    bool socket;
    bool greeted; /* The server has answered its handshake. */
    uint32_t number;
    struct buf in;
};

struct storm {
    struct link links[LINKS];
    uint32_t begun;
    uint32_t greeted;
    uint32_t resumed; /* Number of watches. */
    int epoll_fd;
    uint64_t shaking_us; /* Time in handshakes of TLS. */
    char since[64];
};

/* Sends all watches of a socket at once, as clients do. */
static void send_watches(const struct storm *storm, const struct link *link)
{
    struct buf out;
    char text[256];

    buf_init(&out, 1 << 16);
    for (uint32_t i = 0; i < WATCHES; i++) {
        (void)snprintf(text, sizeof(text),
                       "{\"id\":%u,\"op\":\"watch\",\"path\":\"/mine/%u/%u\",\"kind\":\"%s\","
                       "\"values\":true,\"since\":\"%s\"}",
                       i + 1, link->number, i, i % 2 ? "recursive" : "persistent", storm->since);
        put_frame(&out, text);
    }
    assert_true(attack_send(link->fd, out.data, out.len));
    buf_release(&out);
}

static void open_next_link(struct storm *storm)
{
    struct link *link = &storm->links[storm->begun];
    uint64_t start_us = os_now_us();
    struct buf out;
    char path[64];
    char query[128];

    link->number = storm->begun++;
    link->socket = link->number % 2 == 0;
    link->fd = attack_connect(ensemble.replicas[left[link->number / 2 % 2]].client_port, 0, 0);
    assert_true(link->fd >= 0);
    storm->shaking_us += sealed_on() ? os_now_us() - start_us : 0;
    buf_init(&link->in, 1 << 16);
    buf_init(&out, 4096);
    if (link->socket) {
        put_handshake(&out);
    } else {
        (void)snprintf(path, sizeof(path), "/mine/%u", link->number);
        (void)snprintf(query, sizeof(query), "mode=recursive&since=%s", storm->since);
        put_stream(&out, path, query);
    }
    assert_true(attack_send(link->fd, out.data, out.len));
    buf_release(&out);

    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};

    assert_int_equal(epoll_ctl(storm->epoll_fd, EPOLL_CTL_ADD, link->fd, &event), 0);
}

static uint32_t take_resumed(struct buf *in)
{
    uint32_t count = 0;
    const char *text = buf_cstr(in);
    const char *at = text;
    const char *found = NULL;

    while ((found = memmem(at, in->len - (size_t)(at - text), RESUMED, strlen(RESUMED)))) {
        count++;
        at = found + strlen(RESUMED);
    }
    buf_consume(in, (size_t)(at - text));
    return count;
}

static void read_link(struct storm *storm, struct link *link)
{
    ssize_t got = recv(link->fd, buf_reserve(&link->in, 16384), 16384, MSG_DONTWAIT);

    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (got <= 0) {
        fail_msg("watcher %u was closed: %.300s", link->number, buf_cstr(&link->in));
    }
    link->in.len += (size_t)got;
    if (!link->greeted && memmem(link->in.data, link->in.len, "\r\n\r\n", 4)) {
        link->greeted = true;
        storm->greeted++;
        if (link->socket) {
            send_watches(storm, link);
        }
    }
    storm->resumed += take_resumed(&link->in);
}

/* Returns the duration in ms. Over TLS without the handshakes, which this client makes one after
 * the other: BURST clients would make them at the same time. */
static uint64_t resume_all(struct storm *storm)
{
    uint64_t start_ms = os_now_ms();
    struct epoll_event events[256];

    while (storm->resumed < WATCHERS) {
        while (storm->begun < LINKS && storm->begun - storm->greeted < BURST) {
            open_next_link(storm);
        }
        int count = epoll_wait(storm->epoll_fd, events, 256, WAIT_MS);

        assert_true(count > 0);
        for (int i = 0; i < count; i++) {
            read_link(storm, events[i].data.ptr);
        }
    }
    return os_now_ms() - start_ms - storm->shaking_us / 1000;
}

static void storm_release(struct storm *storm)
{
    for (uint32_t i = 0; i < storm->begun; i++) {
        close(storm->links[i].fd);
        buf_release(&storm->links[i].in);
    }
    close(storm->epoll_fd);
    mem_free(storm);
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

TEST_GROUP(open_three, close_all)

TEST(watchers_of_a_lost_replica_move_in_seconds)
{
    struct storm *storm = mem_zalloc(1, sizeof(*storm));
    struct thread writer;
    struct beside beside[2];
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t lost = (leader + 1) % 3;

    left[0] = leader;
    left[1] = (leader + 2) % 3;
    storm->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ensemble_call_until(&ensemble, leader, "POST", "/znodes/v1/?op=create&name=beat", "0", 201);
    (void)snprintf(storm->since, sizeof(storm->since), "%s",
                   web_header(&ensemble.reply, "Zk-Zxid"));
    write_foreign();
    beside_start(&beside[0], left[1], true);
    beside_start(&beside[1], left[1], false);
    ensemble_kill(&ensemble, lost);
    thread_start(&writer, "writer", write_beats, NULL);

    uint64_t took_ms = resume_all(storm);

    atomic_store(&over, true);
    thread_join(&writer);
    beside_stop(&beside[0]);
    beside_stop(&beside[1]);
    (void)printf("%d watches on %d connections behind %d transactions: %llu ms, and %llu ms in "
                 "handshakes of TLS\n",
                 WATCHERS, LINKS, FOREIGN, (unsigned long long)took_ms,
                 (unsigned long long)(storm->shaking_us / 1000));
    for (int i = 0; i < 2; i++) {
        uint32_t late_us = p99(beside[i].late_us, beside[i].count);

        (void)printf("beside them, %s, %zu events: p99 %u us behind the write, %u us behind its "
                     "answer\n",
                     i == 0 ? "socket" : "stream", beside[i].count,
                     p99(beside[i].us, beside[i].count), late_us);
        assert_true(late_us < BESIDE_US);
        mem_free(beside[i].us);
        mem_free(beside[i].late_us);
    }
    assert_true(took_ms < MOVED_MS);
    storm_release(storm);
}
