#include "tests/bench/line.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ANSWER_MAX = 64 << 10
};

void line_fail(const char *format, ...)
{
    const char *cause = errno != 0 ? strerrordesc_np(errno) : NULL;
    va_list args;

    (void)fflush(stdout);
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, "%s%s\n", cause ? ": " : "", cause ? cause : "");
    ERR_print_errors_fp(stderr);
    _exit(1);
}

SSL_CTX *line_context(const char *ca_file)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

    if (!ctx || SSL_CTX_load_verify_locations(ctx, ca_file, NULL) != 1) {
        line_fail("the certificates of %s cannot be used", ca_file);
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT);
    SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
    return ctx;
}

struct line line_open(uint16_t port, SSL_CTX *ctx, SSL_SESSION *session)
{
    struct line line = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (line.fd < 0 || connect(line.fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(line.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
        line_fail("no connection to port %u", port);
    }
    if (ctx) {
        line.ssl = SSL_new(ctx);
        if (!line.ssl || SSL_set_fd(line.ssl, line.fd) != 1 ||
            (session && SSL_set_session(line.ssl, session) != 1) || SSL_connect(line.ssl) != 1) {
            line_fail("the handshake with port %u failed", port);
        }
    }
    return line;
}

void line_close(struct line *line)
{
    if (line->ssl) {
        (void)SSL_shutdown(line->ssl);
        SSL_free(line->ssl);
    }
    (void)close(line->fd);
    *line = (struct line){.fd = -1};
}

void line_send(struct line *line, const char *request)
{
    int len = (int)strlen(request);
    ssize_t sent = line->ssl ? SSL_write(line->ssl, request, len)
                             : send(line->fd, request, (size_t)len, MSG_NOSIGNAL);

    if (sent != len) {
        line_fail("the request could not be sent");
    }
}

/* The length of the answer's head and body, 0 while the head is incomplete. */
static size_t whole_len(const char *bytes)
{
    const char *end = strstr(bytes, "\r\n\r\n");
    const char *length = strcasestr(bytes, "\r\nContent-Length:");

    if (!end) {
        return 0;
    }
    return (size_t)(end + 4 - bytes) +
           (length && length < end ? strtoul(length + strlen("\r\nContent-Length:"), NULL, 10) : 0);
}

void line_answer(struct line *line, int status)
{
    static char bytes[ANSWER_MAX + 1];
    char start[32];
    size_t have = 0;

    do {
        ssize_t got = line->ssl ? SSL_read(line->ssl, bytes + have, (int)(ANSWER_MAX - have))
                                : recv(line->fd, bytes + have, ANSWER_MAX - have, 0);

        if (got <= 0) {
            line_fail("the answer ended after %zu bytes", have);
        }
        have += (size_t)got;
        bytes[have] = '\0';
    } while (whole_len(bytes) == 0 || have < whole_len(bytes));
    (void)snprintf(start, sizeof(start), "HTTP/1.1 %d ", status);
    if (strncmp(bytes, start, strlen(start)) != 0) {
        line_fail("expected %d, got: %.300s", status, bytes);
    }
}

/* Waits for the end of a child that runs `zabra cert`. */
static void wait_child(pid_t pid)
{
    int status = 0;

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        line_fail("the certificates could not be made");
    }
}

void line_certificates(const char *zabra, const char *dir, const char *name)
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        (void)execl(zabra, zabra, "cert", "ca", "--dir", dir, NULL);
        _exit(127);
    }
    wait_child(pid);
    pid = fork();
    if (pid == 0) {
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        (void)execl(zabra, zabra, "cert", "server", "--dir", dir, "--name", name, "--san",
                    "127.0.0.1,localhost", NULL);
        _exit(127);
    }
    wait_child(pid);
}

uint64_t line_cpu_ns(pid_t pid)
{
    clockid_t clock = 0;
    struct timespec used = {0};

    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) {
        line_fail("no processor time of process %d", (int)pid);
    }
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

uint64_t line_percentile(uint64_t *values, uint32_t count, double share)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof(values[0]), compare);
    return values[(uint32_t)((count - 1) * share)];
}
