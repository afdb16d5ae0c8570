#include "tests/hostile/attack.h"

#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

void attack_raise_descriptors(uint32_t needed)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(limit.rlim_cur >= needed);
}

static int connect_from(int type, uint16_t port, int receive_bytes, uint8_t from)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in own = {.sin_family = AF_INET};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    int on = 1;

    if (fd < 0) {
        return -1;
    }
    /* connect() chooses the port: bind() would look for one that no connection has, also none in
     * TIME_WAIT, which takes seconds when the run before has used most of them. */
    (void)setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + from);
    if (receive_bytes > 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    if ((from > 0 && bind(fd, (const struct sockaddr *)&own, sizeof(own)) != 0) ||
        (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) != 0 && errno != EINPROGRESS)) {
        close(fd);
        return -1;
    }
    return fd;
}

int attack_connect(uint16_t port, int receive_bytes, uint8_t from)
{
    return connect_from(SOCK_STREAM, port, receive_bytes, from);
}

int attack_connect_begin(uint16_t port, uint8_t from)
{
    return connect_from(SOCK_STREAM | SOCK_NONBLOCK, port, 0, from);
}

bool attack_send(int fd, const void *bytes, size_t len)
{
    const char *at = bytes;

    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

bool attack_exchange(uint16_t port, const void *bytes, size_t len, uint32_t quiet_ms,
                     struct buf *out)
{
    static _Thread_local char piece[65536];
    int fd = attack_connect(port, 0, 0);
    bool closed = false;

    assert_true(fd >= 0);
    (void)attack_send(fd, bytes, len);
    while (!closed && out->len < ATTACK_ANSWER_MAX) {
        struct pollfd look = {.fd = fd, .events = POLLIN};

        if (poll(&look, 1, (int)quiet_ms) == 0) {
            break;
        }
        ssize_t got = recv(fd, piece, sizeof(piece), 0);

        closed = got <= 0;
        if (got > 0) {
            buf_append(out, piece, (size_t)got);
        }
    }
    close(fd);
    return closed;
}

/* A status line; details of problems may name versions, too. */
static const char *next_answer(const char *at)
{
    for (at = strstr(at, "HTTP/1."); at; at = strstr(at + 1, "HTTP/1.")) {
        if (at[7] != '\0' && at[8] == ' ' && at[9] >= '1' && at[9] <= '5') {
            return at;
        }
    }
    return NULL;
}

uint32_t attack_answers(struct buf *bytes)
{
    uint32_t count = 0;

    for (const char *at = next_answer(buf_cstr(bytes)); at; at = next_answer(at + 1)) {
        count++;
    }
    return count;
}

long attack_status(struct buf *bytes)
{
    const char *at = next_answer(buf_cstr(bytes));

    return at ? (long)strtoul(at + strlen("HTTP/1.1"), NULL, 10) : 0;
}

/* ---- The honest client. ---- */

static void call_often(void *arg)
{
    struct attack_client *client = arg;
    struct web *web = web_open();
    struct web_reply reply;
    struct web_call call = {.method = client->method,
                            .port = client->port,
                            .path = client->path,
                            .body = client->body,
                            .fresh = client->fresh};

    web_reply_init(&reply);
    while (!atomic_load(&client->stopping) && client->count < ATTACK_TIMES_MAX) {
        uint64_t start_us = os_now_us();
        long status = web_do(web, &call, &reply);

        client->times_us[client->count++] = (uint32_t)(os_now_us() - start_us);
        if (status == 0 || status >= 400) {
            client->failed++;
            client->last_failure = status;
        }
        atomic_fetch_add(&client->done, 1);
        if (client->pause_ms > 0) {
            (void)poll(NULL, 0, (int)client->pause_ms);
        }
    }
    web_reply_release(&reply);
    web_close(web);
}

void attack_client_start(struct attack_client *client)
{
    client->times_us = mem_zalloc(ATTACK_TIMES_MAX, sizeof(client->times_us[0]));
    client->count = 0;
    client->failed = 0;
    atomic_store(&client->stopping, false);
    atomic_store(&client->done, 0);
    thread_start(&client->thread, "beside", call_often, client);
}

void attack_client_stop(struct attack_client *client)
{
    atomic_store(&client->stopping, true);
    thread_join(&client->thread);
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;

    return left < right ? -1 : left > right;
}

uint32_t attack_client_quantile(struct attack_client *client, uint32_t per_mille)
{
    if (client->count == 0) {
        return 0;
    }
    qsort(client->times_us, client->count, sizeof(client->times_us[0]), compare);
    return client->times_us[(uint64_t)(client->count - 1) * per_mille / 1000];
}

void attack_client_release(struct attack_client *client)
{
    mem_free(client->times_us);
    client->times_us = NULL;
}
