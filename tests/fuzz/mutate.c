#include "tests/fuzz/mutate.h"

#include "base/check.h"
#include "base/wire.h"

enum {
    CHANGES_MAX = 4,
    PIECE_MAX = 64
};

static size_t draw(struct rng *rng, size_t bound)
{
    return (size_t)rng_below(rng, bound);
}

/* Makes a gap of `len` bytes at `at`; false when there is no room. */
static bool open_gap(struct buf *bytes, size_t at, size_t len)
{
    if (bytes->len + len > bytes->size_max || !buf_reserve(bytes, len)) {
        return false;
    }
    memmove(bytes->data + at + len, bytes->data + at, bytes->len - at);
    bytes->len += len;
    return true;
}

static void flip(struct buf *bytes, struct rng *rng)
{
    bytes->data[draw(rng, bytes->len)] ^= (uint8_t)(1U << draw(rng, 8));
}

static void set_byte(struct buf *bytes, struct rng *rng)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '"', '/', '%', '\n', '.'};
    bool any = rng_below(rng, 2) == 0;

    bytes->data[draw(rng, bytes->len)] =
        any ? (uint8_t)rng_u64(rng) : telling[draw(rng, sizeof(telling))];
}

/* A number at a boundary, in 2, 4 or 8 bytes. */
static void set_number(struct buf *bytes, struct rng *rng)
{
    static const uint64_t edges[] = {
        0,          1,          255,        4096,       65535,          65536,
        0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 40, INT64_MAX + 0U, UINT64_MAX,
    };
    uint8_t number[8];
    size_t width = (size_t)2 << draw(rng, 3);

    wire_store_u64(number, edges[draw(rng, sizeof(edges) / sizeof(edges[0]))]);
    if (bytes->len >= width) {
        memcpy(bytes->data + draw(rng, bytes->len - width + 1), number, width);
    }
}

static void add_to_byte(struct buf *bytes, struct rng *rng)
{
    uint8_t *byte = &bytes->data[draw(rng, bytes->len)];

    *byte = (uint8_t)(*byte + rng_range(rng, 0, 32) - 16);
}

static void erase(struct buf *bytes, struct rng *rng)
{
    size_t at = draw(rng, bytes->len);
    size_t most = bytes->len - at < PIECE_MAX ? bytes->len - at : PIECE_MAX;
    size_t len = 1 + draw(rng, most);

    memmove(bytes->data + at, bytes->data + at + len, bytes->len - at - len);
    bytes->len -= len;
}

static void insert(struct buf *bytes, struct rng *rng)
{
    size_t at = draw(rng, bytes->len + 1);
    size_t len = 1 + draw(rng, PIECE_MAX);
    uint8_t byte = (uint8_t)rng_u64(rng);

    if (open_gap(bytes, at, len)) {
        for (size_t i = 0; i < len; i++) {
            bytes->data[at + i] = byte;
        }
    }
}

/* Copies a piece of `from` over the bytes or inserts it. */
static void splice(struct buf *bytes, struct slice from, struct rng *rng)
{
    if (from.len == 0) {
        return;
    }

    size_t start = draw(rng, from.len);
    size_t most = from.len - start < PIECE_MAX ? from.len - start : PIECE_MAX;
    size_t len = 1 + draw(rng, most);
    size_t at = draw(rng, bytes->len + 1);
    uint8_t piece[PIECE_MAX];

    memcpy(piece, from.data + start, len);

    bool is_over = rng_below(rng, 2) == 0 && bytes->len - at >= len;

    if (is_over || open_gap(bytes, at, len)) {
        memcpy(bytes->data + at, piece, len);
    }
}

static void change(struct buf *bytes, struct slice other, struct rng *rng)
{
    if (bytes->len == 0) {
        insert(bytes, rng);
        return;
    }
    switch (rng_below(rng, 9)) {
    case 0:
    case 1:
        flip(bytes, rng);
        break;
    case 2:
        set_byte(bytes, rng);
        break;
    case 3:
        set_number(bytes, rng);
        break;
    case 4:
        add_to_byte(bytes, rng);
        break;
    case 5:
        erase(bytes, rng);
        break;
    case 6:
        insert(bytes, rng);
        break;
    case 7:
        splice(bytes, buf_slice(bytes), rng);
        break;
    default:
        splice(bytes, other, rng);
        break;
    }
}

void mutate(struct buf *bytes, struct slice other, struct rng *rng)
{
    size_t changes = 1 + draw(rng, CHANGES_MAX);

    for (size_t i = 0; i < changes; i++) {
        change(bytes, other, rng);
    }
    ASSERT(!bytes->overflow && bytes->len <= bytes->size_max);
}
