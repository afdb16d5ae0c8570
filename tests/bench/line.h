/*
 * line.h - connections of a load client, plain or TLS, and the cost of their server.
 *
 * A line is one keep-alive connection to 127.0.0.1 with blocking calls. A failure ends the program
 * with a message: these programs measure, and a measurement with failures is worth nothing.
 */
#ifndef TESTS_BENCH_LINE_H
#define TESTS_BENCH_LINE_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct line {
    int fd;
    SSL *ssl; /* NULL: plain. */
};

/* A context of a client that trusts the CA in the file. Ends the program if it cannot be made. */
SSL_CTX *line_context(const char *ca_file);

/* Connects, and shakes hands unless `ctx` is NULL. `session` to resume, or NULL. */
struct line line_open(uint16_t port, SSL_CTX *ctx, SSL_SESSION *session);

/* Closes; with TLS sends close_notify first. */
void line_close(struct line *line);

/* Sends a whole request. */
void line_send(struct line *line, const char *request);

/* Reads one whole answer, which needs a Content-Length, and checks its status. */
void line_answer(struct line *line, int status);

/* Makes `DIR/ca.pem`, `DIR/NAME.pem` and `DIR/NAME.key` for 127.0.0.1 and localhost with the
 * product's own command. */
void line_certificates(const char *zabra, const char *dir, const char *name);

/* Nanoseconds of processor time that the process has used. */
uint64_t line_cpu_ns(pid_t pid);

/* Sorts, and returns the value below which this share (0 to 1) lies. */
uint64_t line_percentile(uint64_t *values, uint32_t count, double share);

/* Prints a message as printf, and ends the program with 1. */
void line_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif
