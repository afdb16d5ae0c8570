#include "base/base64.h"

/* Reading a value is dominated by its encoding: two characters per look-up, 12 bits at a time. */
static char pairs[4096][2];

/* The six bits of a character, or INVALID. */
static uint8_t values[256];

enum {
    INVALID = 0xff
};

__attribute__((constructor)) static void fill_tables(void)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (unsigned i = 0; i < 4096; i++) {
        pairs[i][0] = alphabet[i >> 6];
        pairs[i][1] = alphabet[i & 63];
    }
    memset(values, INVALID, sizeof(values));
    for (unsigned i = 0; i < 64; i++) {
        values[(uint8_t)alphabet[i]] = (uint8_t)i;
    }
}

static void encode_tail(uint8_t *to, const uint8_t *from, size_t len)
{
    uint32_t bits = (uint32_t)from[0] << 16 | (len > 1 ? (uint32_t)from[1] << 8 : 0);

    memcpy(to, pairs[bits >> 12], 2);
    memcpy(to + 2, pairs[bits & 0xfff], 2);
    to[3] = '=';
    if (len == 1) {
        to[2] = '=';
    }
}

void base64_encode(struct buf *out, struct slice bytes)
{
    const uint8_t *from = bytes.data;
    size_t len = bytes.len;

    if (len > out->size_max) {
        out->overflow = true; /* Also keeps the product below from wrapping. */
        return;
    }

    size_t size = (len / 3 + (len % 3 != 0)) * 4;
    uint8_t *to = buf_reserve(out, size);

    if (!to) {
        return;
    }
    for (; len >= 3; from += 3, to += 4, len -= 3) {
        uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];

        memcpy(to, pairs[bits >> 12], 2);
        memcpy(to + 2, pairs[bits & 0xfff], 2);
    }
    if (len > 0) {
        encode_tail(to, from, len);
    }
    out->len += size;
}

/* Four characters that must all be of the alphabet; false otherwise. */
static bool decode_quad(const uint8_t *from, uint8_t *to)
{
    uint32_t a = values[from[0]];
    uint32_t b = values[from[1]];
    uint32_t c = values[from[2]];
    uint32_t d = values[from[3]];
    uint32_t bits = a << 18 | b << 12 | c << 6 | d;

    if ((a | b | c | d) > 63) {
        return false;
    }
    to[0] = (uint8_t)(bits >> 16);
    to[1] = (uint8_t)(bits >> 8);
    to[2] = (uint8_t)bits;
    return true;
}

/* The last four, with `padding` 1 or 2; bits that have no place in the result must be 0. */
static bool decode_padded(const uint8_t *from, size_t padding, uint8_t *to)
{
    uint8_t quad[4] = {from[0], from[1], padding == 2 ? 'A' : from[2], 'A'};
    uint8_t bytes[3];

    if (!decode_quad(quad, bytes) || bytes[2] != 0 || (padding == 2 && bytes[1] != 0)) {
        return false;
    }
    memcpy(to, bytes, 3 - padding);
    return true;
}

enum err base64_decode(struct buf *out, struct slice text)
{
    if (text.len % 4 != 0) {
        return ERR_FORMAT;
    }
    if (text.len == 0) {
        return ERR_OK;
    }

    const uint8_t *from = text.data;
    const uint8_t *end = text.data + text.len;
    size_t padding = end[-1] != '=' ? 0 : end[-2] != '=' ? 1 : 2;
    size_t size = text.len / 4 * 3 - padding;
    uint8_t *to = buf_reserve(out, size);
    const uint8_t *last = padding ? end - 4 : end;

    if (!to) {
        return ERR_TOO_LARGE;
    }
    for (; from < last; from += 4, to += 3) {
        if (!decode_quad(from, to)) {
            return ERR_FORMAT;
        }
    }
    if (padding && !decode_padded(from, padding, to)) {
        return ERR_FORMAT;
    }
    out->len += size;
    return ERR_OK;
}
