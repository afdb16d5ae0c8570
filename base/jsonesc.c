#include "base/jsonesc.h"

/* Returns the letter behind the backslash; 0: the byte has no short escape. */
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

/* Like jsonesc_may_change, but also false for bytes that are not ASCII. */
static bool may_need_escape(const uint8_t *from)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = ones * 0x80;
    uint64_t word;

    memcpy(&word, from, sizeof(word));

    uint64_t control = word - ones * 0x20;
    uint64_t quote = (word ^ ones * '"') - ones;
    uint64_t backslash = (word ^ ones * '\\') - ones;

    return ((control | quote | backslash) & ~word & highs) != 0;
}

size_t jsonesc_run(struct slice text, size_t pos)
{
    for (;;) {
        while (text.len - pos >= sizeof(uint64_t) && !may_need_escape(text.data + pos)) {
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
