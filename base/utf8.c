#include "base/utf8.h"

/* What a first byte announces: the number of bytes that follow, the smallest code point of that
 * length, and the code point's highest bits. */
struct form {
    unsigned more;
    uint32_t code_min;
    uint32_t bits;
};

static bool form_of(uint8_t first, struct form *ret_form)
{
    if (first >= 0xc2 && first < 0xe0) {
        *ret_form = (struct form){.more = 1, .code_min = 0x80, .bits = first & 0x1fU};
    } else if (first >= 0xe0 && first < 0xf0) {
        *ret_form = (struct form){.more = 2, .code_min = 0x800, .bits = first & 0x0fU};
    } else if (first >= 0xf0 && first < 0xf5) {
        *ret_form = (struct form){.more = 3, .code_min = 0x10000, .bits = first & 0x07U};
    } else {
        return false;
    }
    return true;
}

int32_t utf8_next(struct slice text, size_t *pos)
{
    struct form form;
    size_t at = *pos;

    if (at >= text.len) {
        return -1;
    }
    if (text.data[at] < 0x80) {
        *pos = at + 1;
        return text.data[at];
    }
    if (!form_of(text.data[at], &form) || text.len - at <= form.more) {
        return -1;
    }

    uint32_t code = form.bits;

    for (unsigned i = 1; i <= form.more; i++) {
        uint8_t byte = text.data[at + i];

        if ((byte & 0xc0) != 0x80) {
            return -1;
        }
        code = code << 6 | (byte & 0x3fU);
    }
    if (code < form.code_min || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
        return -1;
    }
    *pos = at + 1 + form.more;
    return (int32_t)code;
}

static bool is_ascii_word(const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof(word));
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

bool utf8_valid(struct slice text)
{
    size_t pos = 0;

    while (pos < text.len) {
        if (text.len - pos >= sizeof(uint64_t) && is_ascii_word(text.data + pos)) {
            pos += sizeof(uint64_t);
        } else if (utf8_next(text, &pos) < 0) {
            return false;
        }
    }
    return true;
}
