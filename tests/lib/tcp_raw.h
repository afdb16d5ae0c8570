/*
 * tcp_raw.h - a caller of replica 1 (tests/lib/tcp_kit.h) whose bytes the test writes; if the tests
 * run sealed, within TLS.
 */
#ifndef TESTS_LIB_TCP_RAW_H
#define TESTS_LIB_TCP_RAW_H

#include "tests/lib/tcp_kit.h"
#include "zab/tcp/seal.h"

struct raw {
    int fd;
    struct keys *keys;
    struct seal *seal; /* NULL: plain. */
    struct buf in;     /* Plain bytes that have arrived. */
    bool ended;
};

/* Connects; within TLS if the tests run sealed. */
struct raw raw_dial_1(const struct kit_setup *setup);

/* Connects without TLS; begins TLS, without waiting for it, as replica 2 with this secret. */
struct raw raw_dial_plain(const struct kit_setup *setup);
void raw_begin_tls(struct raw *raw, const char *secret);

/* Continues TLS with what has arrived. ERR_OK: it is done. ERR_BUSY: not yet. */
enum err raw_shake(struct raw *raw);

void raw_write(struct raw *raw, const void *bytes, size_t len);
void raw_read(const struct kit_setup *setup, struct raw *raw, uint8_t *to, size_t len);
bool raw_ended(struct raw *raw); /* Whether replica 1 has ended the connection. */
void raw_end(struct raw *raw);

#endif
