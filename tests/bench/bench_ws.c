/*
 * WebSockets as a whole, on three replicas of loopback: pipelined and sequential writes, fan-out to
 * many watchers, memory of idle ones and their cost for an active client. After the handshake the
 * client sends and counts raw bytes, so that it uses little time. Arguments select: pipeline,
 * single, watchers, resume, idle.
 */
#include "base/mem.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/socket.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PIPELINED = 5000,
    ROUNDS = 15,
    SINGLE = 4000,
    DATA_LEN = 1024,
    WATCHERS = 1000,
    FAN_OUTS = 60,
    HISTORY = 90000,
    IDLE = 10000,
    ECHOES = 4000,
    BUF_MAX = 64 << 20,
    WAIT_MS = 30000
};

static struct ensemble ensemble;

/* ---- Raw frames ---- */

struct line {
    struct socket *socket;
    int fd;
    struct buf in; /* An incomplete frame. */
};

static void line_open(struct line *line, uint32_t index)
{
    struct socket *socket = socket_open(ensemble.replicas[index].client_port, NULL);

    ENSEMBLE_CHECK(&ensemble, socket_status(socket) == 101);
    json_decref(socket_event(socket, "hello", SOCKET_TIMEOUT_MS));
    *line = (struct line){.socket = socket, .fd = socket_fd(socket)};
    buf_init(&line->in, BUF_MAX);
}

static void line_close(struct line *line)
{
    socket_close(line->socket);
    buf_release(&line->in);
}

/* Masked with zeros, so that the bytes are those of the text. */
static void put_frame(struct buf *out, const char *text)
{
    size_t len = strlen(text);
    uint8_t head[8] = {0x81, (uint8_t)(0x80 | (len < 126 ? len : 126))};
    size_t at = 2;

    if (len >= 126) {
        head[at++] = (uint8_t)(len >> 8);
        head[at++] = (uint8_t)len;
    }
    buf_append(out, head, at + 4 <= sizeof(head) ? at + 4 : sizeof(head));
    buf_append_str(out, text);
}

/* Takes complete text frames, skips others; returns the number of text frames. */
static int take_frames(struct line *line)
{
    int texts = 0;

    for (size_t at = 0;;) {
        const uint8_t *frame = line->in.data + at;
        size_t have = line->in.len - at;
        size_t head = have >= 2 && frame[1] == 126 ? 4 : 2;
        size_t len = have < head ? 0 : head == 4 ? (size_t)frame[2] << 8 | frame[3] : frame[1];

        if (have < head + len || have < 2) {
            buf_consume(&line->in, at);
            return texts;
        }
        texts += frame[0] == 0x81;
        at += head + len;
    }
}

/* Reads available bytes; returns the number of text frames. */
static int line_read(struct line *line)
{
    ssize_t got = recv(line->fd, buf_reserve(&line->in, 256 << 10), 256 << 10, MSG_DONTWAIT);

    if (got <= 0) {
        return 0;
    }
    line->in.len += (size_t)got;
    return take_frames(line);
}

/* Sends all bytes while it reads, until `frames` text frames have arrived. */
static void converse(struct line *line, struct slice bytes, int frames)
{
    size_t sent = 0;

    while (frames > 0) {
        struct pollfd wait = {.fd = line->fd, .events = POLLIN};

        wait.events |= sent < bytes.len ? POLLOUT : 0;
        ENSEMBLE_CHECK(&ensemble, poll(&wait, 1, WAIT_MS) == 1);
        if (wait.revents & POLLOUT) {
            ssize_t now =
                send(line->fd, bytes.data + sent, bytes.len - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

            sent += now > 0 ? (size_t)now : 0;
        }
        if (wait.revents & POLLIN) {
            frames -= line_read(line);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

static void print(const char *what, uint64_t *us, size_t count)
{
    qsort(us, count, sizeof(*us), by_value);
    (void)printf("%-52s %9.3f ms median %9.3f best %9.3f p99\n", what, (double)us[count / 2] / 1000,
                 (double)us[0] / 1000, (double)us[count * 99 / 100] / 1000);
}

static void put_set(struct buf *out, int id)
{
    static char text[2 * DATA_LEN];
    static char data[DATA_LEN + 1];

    memset(data, 'd', DATA_LEN);
    (void)snprintf(text, sizeof(text),
                   "{\"id\":%d,\"op\":\"set\",\"path\":\"/bench\",\"dataUtf8\":\"%s\"}", id, data);
    put_frame(out, text);
}

/* Processor time of the three replicas in sum, so far. */
static uint64_t replicas_cpu_us(void)
{
    uint64_t ticks = 0;

    for (uint32_t i = 0; i < 3; i++) {
        char path[64];
        char text[1024] = "";
        unsigned long user = 0;
        unsigned long kernel = 0;

        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)ensemble.replicas[i].pid);

        FILE *file = fopen(path, "re");

        (void)!fread(text, 1, sizeof(text) - 1, file);
        (void)fclose(file);
        /* The 14th and 15th field; of the earlier ones only the name has a bracket. */
        (void)sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                     &user, &kernel);
        ticks += user + kernel;
    }
    return ticks * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void print_cpu(uint64_t start_us, int sets)
{
    (void)printf("%-52s %9.3f ms per 1,000 sets\n", "   processor time of the three replicas",
                 (double)(replicas_cpu_us() - start_us) / sets);
}

/* ---- Writes ---- */

static void bench_pipeline(const char *what, uint32_t index)
{
    uint64_t us[ROUNDS];
    struct line line;
    struct buf bytes;
    uint64_t cpu_us = replicas_cpu_us();

    line_open(&line, index);
    buf_init(&bytes, BUF_MAX);
    for (int i = 0; i < PIPELINED; i++) {
        put_set(&bytes, i);
    }
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start_us = os_now_us();

        converse(&line, buf_slice(&bytes), PIPELINED);
        us[round] = os_now_us() - start_us;
    }
    print(what, us, ROUNDS);
    print_cpu(cpu_us, ROUNDS * PIPELINED);
    buf_release(&bytes);
    line_close(&line);
}

static void bench_single(const char *what, uint32_t index)
{
    uint64_t *us = mem_zalloc(SINGLE, sizeof(*us));
    struct line line;
    struct buf bytes;
    uint64_t cpu_us = replicas_cpu_us();

    line_open(&line, index);
    buf_init(&bytes, BUF_MAX);
    put_set(&bytes, 1);
    for (int i = 0; i < SINGLE; i++) {
        uint64_t start_us = os_now_us();

        converse(&line, buf_slice(&bytes), 1);
        us[i] = os_now_us() - start_us;
    }
    print(what, us, SINGLE);
    print_cpu(cpu_us, SINGLE);
    mem_free(us);
    buf_release(&bytes);
    line_close(&line);
}

/* ---- Many sockets ---- */

static void open_watchers(struct line *lines, int count, uint32_t index, uint32_t replicas,
                          const char *path)
{
    for (int i = 0; i < count; i++) {
        char text[256];
        struct buf bytes;

        line_open(&lines[i], (index + (uint32_t)i % replicas) % 3);
        buf_init(&bytes, sizeof(text) * 2);
        (void)snprintf(text, sizeof(text),
                       "{\"id\":1,\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"persistent\"}", path);
        put_frame(&bytes, text);
        converse(&lines[i], buf_slice(&bytes), 1);
        buf_release(&bytes);
    }
}

static void close_lines(struct line *lines, int count)
{
    for (int i = 0; i < count; i++) {
        line_close(&lines[i]);
    }
}

static int watch_lines(struct line *lines, int count)
{
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    for (int i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = &lines[i]}};

        ENSEMBLE_CHECK(&ensemble, epoll_ctl(epoll_fd, EPOLL_CTL_ADD, lines[i].fd, &event) == 0);
    }
    return epoll_fd;
}

static void take_events(int epoll_fd, int count)
{
    struct epoll_event events[256];

    while (count > 0) {
        int ready = epoll_wait(epoll_fd, events, 256, WAIT_MS);

        ENSEMBLE_CHECK(&ensemble, ready > 0);
        for (int i = 0; i < ready; i++) {
            count -= line_read(events[i].data.ptr);
        }
    }
}

/* Measures from the set to the last event read. */
static void bench_fan_out(const char *what, uint32_t index, uint32_t replicas)
{
    struct line *lines = mem_zalloc(WATCHERS, sizeof(*lines));
    uint64_t us[FAN_OUTS];
    struct line writer;
    struct buf bytes;

    open_watchers(lines, WATCHERS, index, replicas, "/bench");
    line_open(&writer, (index + 1) % 3);
    buf_init(&bytes, BUF_MAX);
    put_frame(&bytes, "{\"id\":1,\"op\":\"set\",\"path\":\"/bench\",\"dataUtf8\":\"x\"}");

    int epoll_fd = watch_lines(lines, WATCHERS);

    for (int i = 0; i < FAN_OUTS; i++) {
        uint64_t start_us = os_now_us();

        (void)!send(writer.fd, bytes.data, bytes.len, MSG_NOSIGNAL);
        take_events(epoll_fd, WATCHERS);
        us[i] = os_now_us() - start_us;
        converse(&writer, slice_make(NULL, 0), 1);
    }
    print(what, us, FAN_OUTS);
    close(epoll_fd);
    close_lines(lines, WATCHERS);
    line_close(&writer);
    buf_release(&bytes);
    mem_free(lines);
}

/* ---- Resuming from an old zxid ---- */

static void write_small(uint32_t index)
{
    struct line line;
    struct buf bytes;

    line_open(&line, index);
    buf_init(&bytes, BUF_MAX);
    for (int i = 0; i < PIPELINED; i++) {
        put_frame(&bytes, "{\"id\":1,\"op\":\"set\",\"path\":\"/bench\",\"dataUtf8\":\"x\"}");
    }
    for (int sent = 0; sent < HISTORY; sent += PIPELINED) {
        converse(&line, buf_slice(&bytes), PIPELINED);
    }
    buf_release(&bytes);
    line_close(&line);
}

static void put_resume(struct buf *out, int number, const char *since)
{
    char text[256];

    (void)snprintf(text, sizeof(text),
                   "{\"id\":1,\"op\":\"watch\",\"path\":\"/quiet/%d\",\"kind\":\"persistent\","
                   "\"since\":\"%s\"}",
                   number, since);
    put_frame(out, text);
}

/* Watches of unchanged paths resume after changes elsewhere. */
static void bench_resume(uint32_t index)
{
    struct line *lines = mem_zalloc(WATCHERS, sizeof(*lines));
    char since[64];
    struct buf bytes;

    ENSEMBLE_CHECK(&ensemble,
                   ensemble_call(&ensemble, index, "GET", "/znodes/v1/bench", NULL) == 200);
    (void)snprintf(since, sizeof(since), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    write_small(index);
    for (int i = 0; i < WATCHERS; i++) {
        line_open(&lines[i], index);
    }
    buf_init(&bytes, 4096);

    int epoll_fd = watch_lines(lines, WATCHERS);
    uint64_t us = os_now_us();

    for (int i = 0; i < WATCHERS; i++) {
        buf_clear(&bytes);
        put_resume(&bytes, i, since);
        (void)!send(lines[i].fd, bytes.data, bytes.len, MSG_NOSIGNAL);
    }
    take_events(epoll_fd, WATCHERS);
    us = os_now_us() - us;
    print("1,000 watches resume behind 90,000 foreign sets", &us, 1);
    close(epoll_fd);
    close_lines(lines, WATCHERS);
    buf_release(&bytes);
    mem_free(lines);
}

static uint64_t resident_kib(uint32_t index)
{
    char path[64];
    char text[4096] = "";
    const char *at = NULL;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)ensemble.replicas[index].pid);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, sizeof(text) - 1);

    close(fd);
    at = got > 0 ? strstr(text, "VmRSS:") : NULL;
    return at ? strtoull(at + strlen("VmRSS:"), NULL, 10) : 0;
}

static void bench_echo(const char *what, uint32_t index)
{
    uint64_t *us = mem_zalloc(ECHOES, sizeof(*us));
    struct line line;
    struct buf bytes;

    line_open(&line, index);
    buf_init(&bytes, 256);
    put_frame(&bytes, "{\"id\":1,\"op\":\"ping\"}");
    for (int i = 0; i < ECHOES; i++) {
        uint64_t start_us = os_now_us();

        converse(&line, buf_slice(&bytes), 1);
        us[i] = os_now_us() - start_us;
    }
    print(what, us, ECHOES);
    mem_free(us);
    buf_release(&bytes);
    line_close(&line);
}

static void bench_idle(uint32_t index)
{
    struct line *lines = mem_zalloc(IDLE, sizeof(*lines));
    uint64_t before = 0;
    uint64_t after = 0;

    bench_echo("ping, alone", index);
    before = resident_kib(index);
    open_watchers(lines, IDLE, index, 1, "/bench");
    after = resident_kib(index);
    (void)printf("%-52s %9.1f KiB each\n", "10,000 idle watchers",
                 (double)(after - before) / (double)IDLE);
    bench_echo("ping, with 10,000 idle watchers", index);
    close_lines(lines, IDLE);
    mem_free(lines);
}

/* True if the benchmark is named, or no name is given. */
static bool is_asked(int count, char **names, const char *name)
{
    bool asked = count < 2;

    for (int i = 1; i < count; i++) {
        asked = asked || strcmp(names[i], name) == 0;
    }
    return asked;
}

static void run(int count, char **names, uint32_t leader)
{
    uint32_t follower = (leader + 1) % 3;

    if (is_asked(count, names, "pipeline")) {
        bench_pipeline("5,000 sets of 1 KiB pipelined, at the leader", leader);
        bench_pipeline("5,000 sets of 1 KiB pipelined, at a follower", follower);
    }
    if (is_asked(count, names, "single")) {
        bench_single("one set of 1 KiB after another, at the leader", leader);
        bench_single("one set of 1 KiB after another, at a follower", follower);
    }
    if (is_asked(count, names, "watchers")) {
        bench_fan_out("1,000 watchers of one znode, on one replica", follower, 1);
        bench_fan_out("1,000 watchers of one znode, on three replicas", leader, 3);
    }
    if (is_asked(count, names, "resume")) {
        bench_resume(follower);
    }
    if (is_asked(count, names, "idle")) {
        bench_idle(follower);
    }
}

int main(int argc, char **argv)
{
    struct rlimit files;
    uint32_t leader = 0;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    web_setup();
    ensemble_launch(&ensemble, 3,
                    "maxConnections=30000\nmaxConnectionsPerAddress=30000\nmaxWebSockets=20000\n"
                    "heartbeatInterval=60000\n");
    leader = ensemble_wait_leader(&ensemble);
    ensemble_call_until(&ensemble, leader, "POST", "/znodes/v1/?op=create&name=bench", NULL, 201);
    run(argc, argv, leader);
    ensemble_close(&ensemble);
    return 0;
}
