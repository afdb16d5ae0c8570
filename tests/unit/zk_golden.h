/* zk_golden.h - the frames of zk_golden.inc, by name. Written down in bytes for the tests of zk/.
 */
#ifndef TESTS_UNIT_ZK_GOLDEN_H
#define TESTS_UNIT_ZK_GOLDEN_H

#include "base/buf.h"

struct golden {
    const char *name;
    const char *request; /* Hexadecimal, as the next. "": the frame comes by itself. */
    const char *reply;   /* "": the server closes the connection. */
};

#define GOLDEN(name, request, reply) {#name, request, reply},
static const struct golden goldens[] = {
#include "tests/unit/zk_golden.inc"
};
#undef GOLDEN

enum {
    GOLDENS = sizeof(goldens) / sizeof(goldens[0]),
    GOLDEN_BYTES_MAX = 1 << 20
};

/* The caller releases the buf. */
static inline void golden_bytes(const char *hex, struct buf *ret_bytes)
{
    size_t len = strlen(hex);

    buf_init(ret_bytes, GOLDEN_BYTES_MAX);
    for (size_t i = 0; i + 1 < len; i += 2) {
        unsigned high = (unsigned)hex_digit((uint8_t)hex[i]);
        unsigned low = (unsigned)hex_digit((uint8_t)hex[i + 1]);

        buf_append_byte(ret_bytes, (uint8_t)(high << 4 | low));
    }
}

static inline const struct golden *golden_find(const char *name)
{
    for (size_t i = 0; i < GOLDENS; i++) {
        if (strcmp(goldens[i].name, name) == 0) {
            return &goldens[i];
        }
    }
    return NULL;
}

#endif
