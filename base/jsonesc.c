#include "base/jsonesc.h"

/* Returns the letter of the byte's short escape, such as 'n' of \n; 0: the byte has none. */
static uint8_t short_letter(uint8_t byte)
{
    static const char letters[] = {['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r',
                                   ['\t'] = 't', ['"'] = '"',  ['\\'] = '\\'};

    return byte < sizeof(letters) ? (uint8_t)letters[byte] : 0;
}

size_t jsonesc_put(uint8_t to[JSONESC_MAX], uint8_t byte)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t letter = short_letter(byte);

    if (letter) {
        to[0] = '\\';
        to[1] = letter;
        return 2;
    }
    if (byte >= 0x20) {
        to[0] = byte;
        return 1;
    }

    const uint8_t text[JSONESC_MAX] = {
        '\\', 'u', '0', '0', (uint8_t)hex[byte >> 4], (uint8_t)hex[byte & 15]};

    memcpy(to, text, sizeof(text));
    return sizeof(text);
}

static bool needs_escape(uint8_t byte)
{
    return byte < 0x20 || byte == '"' || byte == '\\';
}

size_t jsonesc_run(struct slice text, size_t pos)
{
    for (;;) {
        while (text.len - pos >= sizeof(uint64_t) && !jsonesc_may_change(text.data + pos, false)) {
            pos += sizeof(uint64_t);
        }

        size_t end = text.len - pos > sizeof(uint64_t) ? pos + sizeof(uint64_t) : text.len;

        while (pos < end && !needs_escape(text.data[pos])) {
            pos++;
        }
        if (pos < end || pos == text.len) {
            return pos;
        }
    }
}

uint64_t jsonesc_len(struct slice text)
{
    uint64_t len = text.len;

    for (size_t pos = jsonesc_run(text, 0); pos < text.len; pos = jsonesc_run(text, pos + 1)) {
        len += short_letter(text.data[pos]) ? 1 : JSONESC_MAX - 1;
    }
    return len;
}
