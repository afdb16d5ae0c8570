#include "base/address.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <string.h>

enum {
    V4_BITS = 32,
    V6_BITS = 128,
    MAPPED_BYTES = 12, /* What precedes an IPv4 address in its IPv6 form. */
    BITS_DIGITS_MAX = 3
};

static const uint8_t mapped[MAPPED_BYTES] = {[10] = 0xff, [11] = 0xff};

bool address_is_v4(const struct address *address)
{
    return memcmp(address->bytes, mapped, MAPPED_BYTES) == 0;
}

/* `*ret_v4`: the text is an IPv4 address. */
static bool parse(struct slice text, struct address *ret_address, bool *ret_v4)
{
    char copy[ADDRESS_TEXT_MAX];

    *ret_v4 = false;
    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.data, 0, text.len)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    memcpy(ret_address->bytes, mapped, MAPPED_BYTES);
    if (inet_pton(AF_INET, copy, ret_address->bytes + MAPPED_BYTES) == 1) {
        *ret_v4 = true;
        return true;
    }
    return inet_pton(AF_INET6, copy, ret_address->bytes) == 1;
}

bool address_parse(struct slice text, struct address *ret_address)
{
    bool v4 = false;

    return parse(text, ret_address, &v4);
}

void address_text(const struct address *address, char out[ADDRESS_TEXT_MAX])
{
    bool v4 = address_is_v4(address);
    const char *text =
        inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? address->bytes + MAPPED_BYTES : address->bytes, out,
                  ADDRESS_TEXT_MAX);

    ASSERT(text);
}

bool address_block_parse(struct slice text, struct address_block *ret_block)
{
    size_t len = slice_find(text, '/');
    bool v4 = false;
    uint32_t bits = 0;

    if (!parse(slice_make(text.data, len), &ret_block->address, &v4)) {
        return false;
    }
    ret_block->bits = V6_BITS;
    if (len == text.len) {
        return true;
    }
    if (len + 1 == text.len || text.len - len - 1 > BITS_DIGITS_MAX) {
        return false;
    }
    for (size_t i = len + 1; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        bits = bits * 10 + (uint32_t)(text.data[i] - '0');
    }
    ret_block->bits = v4 ? bits + V6_BITS - V4_BITS : bits;
    return bits <= (v4 ? (uint32_t)V4_BITS : (uint32_t)V6_BITS);
}

bool address_block_has(const struct address_block *block, const struct address *address)
{
    const uint8_t *a = block->address.bytes;
    const uint8_t *b = address->bytes;
    uint32_t whole = block->bits / 8;

    ASSERT(block->bits <= V6_BITS);
    if (memcmp(a, b, whole) != 0) {
        return false;
    }
    uint8_t mask = (uint8_t)(0xff00U >> (block->bits % 8));

    return block->bits % 8 == 0 || ((a[whole] ^ b[whole]) & mask) == 0;
}
