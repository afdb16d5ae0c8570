#include "base/base64.h"

#include "base/wire.h"

/* The two characters for each value of 12 bits. Base64 is most of the cost of a request that reads
 * a znode's data, so one look-up gives two characters. */
static char pairs[4096][2];

/* The six bits that each character stands for, or INVALID. */
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

/* Writes the two characters for the lowest 12 bits of `bits >> right`. */
static void put_pair(uint8_t *to, uint64_t bits, uint32_t right)
{
    memcpy(to, pairs[bits >> right & 0xfff], 2);
}

static void encode_tail(uint8_t *to, const uint8_t *from, size_t len)
{
    uint32_t bits = (uint32_t)from[0] << 16 | (len > 1 ? (uint32_t)from[1] << 8 : 0);

    put_pair(to, bits, 12);
    put_pair(to + 2, bits, 0);
    to[3] = '=';
    if (len == 1) {
        to[2] = '=';
    }
}

size_t base64_write(uint8_t *to, struct slice bytes)
{
    const uint8_t *from = bytes.data;
    const uint8_t *begin = to;
    size_t len = bytes.len;

    /* Each step loads eight bytes, the first into the highest bits, and encodes six of them. */
    for (; len >= sizeof(uint64_t); from += 6, to += 8, len -= 6) {
        uint64_t bits = __builtin_bswap64(wire_load_u64(from));

        put_pair(to, bits, 52);
        put_pair(to + 2, bits, 40);
        put_pair(to + 4, bits, 28);
        put_pair(to + 6, bits, 16);
    }
    for (; len >= 3; from += 3, to += 4, len -= 3) {
        uint32_t bits = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];

        put_pair(to, bits, 12);
        put_pair(to + 2, bits, 0);
    }
    if (len > 0) {
        encode_tail(to, from, len);
        to += 4;
    }
    return (size_t)(to - begin);
}

void base64_encode(struct buf *out, struct slice bytes)
{
    if (bytes.len > out->size_max) {
        out->overflow = true; /* Without this check the product below could wrap. */
        return;
    }

    uint8_t *to = buf_reserve(out, (bytes.len / 3 + (bytes.len % 3 != 0)) * 4);

    if (to) {
        out->len += base64_write(to, bytes);
    }
}

/* Decodes four characters; false when one of them is not in the alphabet. */
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

/* Decodes the last four characters, of which 1 or 2 are `padding`. Bits that have no place in the
 * result must be 0. */
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
