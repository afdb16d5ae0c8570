#include "http/framing.h"

#include "base/check.h"
#include "http/head.h"

#include <string.h>
#include <strings.h>

enum {
    VERSION_LEN = 8, /* "HTTP/1.1" */
    POOL_PARSED_MIN = 4 << 10
};

/* The result of scanning a head. */
struct scan {
    struct http_refusal refusal;
    uint32_t entries; /* Headers and parameters: the library has an entry for each. */
    bool minor_zero;  /* HTTP/1.0 */
    bool has_host;
    bool has_length;
    bool has_coding;
    uint64_t length;
};

static void refuse(struct scan *scan, const char *detail)
{
    if (scan->refusal.err == ERR_OK) {
        scan->refusal = http_refusal_make(ERR_BAD_ARGUMENTS, detail);
    }
}

size_t http_pool_bytes(size_t head_max)
{
    return head_max + max_size(head_max / 2, POOL_PARSED_MIN);
}

size_t http_pool_left(size_t head_max, size_t head_len, size_t entries)
{
    size_t used = head_len + entries * HTTP_ENTRY_BYTES + HTTP_POOL_RESERVE_BYTES;
    size_t pool = http_pool_bytes(head_max);

    return used < pool ? pool - used : 0;
}

/* ---- Bytes ---- */

enum {
    BYTE_TOKEN = 1,
    BYTE_CONTROL = 2 /* A control character, except a tab. */
};

__extension__ static const uint8_t byte_class[256] = {
    [0x00 ... 0x08] = BYTE_CONTROL,
    [0x0a ... 0x1f] = BYTE_CONTROL,
    [0x7f] = BYTE_CONTROL,
    ['0' ... '9'] = BYTE_TOKEN,
    ['A' ... 'Z'] = BYTE_TOKEN,
    ['a' ... 'z'] = BYTE_TOKEN,
    ['!'] = BYTE_TOKEN,
    ['#' ... '\''] = BYTE_TOKEN,
    ['*' ... '+'] = BYTE_TOKEN,
    ['-' ... '.'] = BYTE_TOKEN,
    ['^' ... '`'] = BYTE_TOKEN,
    ['|'] = BYTE_TOKEN,
    ['~'] = BYTE_TOKEN,
};

/* Whether the text is a token: a method or the name of a header. */
static bool is_token(struct slice text)
{
    uint8_t all = BYTE_TOKEN;

    for (size_t i = 0; i < text.len; i++) {
        all &= byte_class[text.data[i]];
    }
    return text.len > 0 && all != 0;
}

#define EACH_BYTE(byte) (UINT64_MAX / 255 * (byte))

/* True when one of eight bytes may be a control character; false when certainly none is. */
static bool may_have_control(const uint8_t *bytes)
{
    uint64_t word = 0;

    memcpy(&word, bytes, sizeof(word));

    uint64_t del = word ^ EACH_BYTE(0x7f);
    uint64_t low = (word - EACH_BYTE(0x20)) & ~word;

    return ((low | ((del - EACH_BYTE(1)) & ~del)) & EACH_BYTE(0x80)) != 0;
}

static bool is_clean(struct slice text)
{
    uint8_t any = 0;
    size_t pos = 0;

    while (pos + sizeof(uint64_t) <= text.len && !may_have_control(text.data + pos)) {
        pos += sizeof(uint64_t);
    }
    for (; pos < text.len; pos++) {
        any |= byte_class[text.data[pos]];
    }
    return (any & BYTE_CONTROL) == 0;
}

/* Looks for control characters in a line that is given without its line end. Returns the error text
 * (a string constant), or NULL if the line has none. */
static const char *lint(struct slice line)
{
    if (is_clean(line)) {
        return NULL;
    }
    return memchr(line.data, '\r', line.len)
               ? "a line of the request head has a carriage return without a line feed"
               : "the request head has a control character";
}

/* ---- The request line ---- */

static void count_params(struct slice target, struct scan *scan)
{
    size_t mark = slice_find(target, '?');
    uint32_t params = 0;

    for (size_t at = mark; at < target.len; at++) {
        params += at == mark || target.data[at] == '&' ? 1 : 0;
    }
    if (params > HTTP_TARGET_PARAMS_MAX) {
        refuse(scan, "the URL has more than 64 query parameters");
    }
    scan->entries += params;
}

static void scan_version(struct slice text, struct scan *scan)
{
    bool shaped = text.len == VERSION_LEN && memcmp(text.data, "HTTP/", 5) == 0 &&
                  text.data[5] >= '0' && text.data[5] <= '9' && text.data[6] == '.' &&
                  text.data[7] >= '0' && text.data[7] <= '9';

    if (!shaped) {
        refuse(scan, "the request line does not end in an HTTP version");
    } else if (text.data[5] != '1' && scan->refusal.err == ERR_OK) {
        scan->refusal = (struct http_refusal){ERR_UNIMPLEMENTED, HTTP_STATUS_VERSION,
                                              "only HTTP/1.0 and HTTP/1.1 are supported"};
    } else {
        scan->minor_zero = text.data[7] == '0';
    }
}

static void scan_request_line(struct slice line, struct scan *scan)
{
    const uint8_t *end = line.data + line.len;
    const uint8_t *first = memchr(line.data, ' ', line.len);
    const uint8_t *last = memrchr(line.data, ' ', line.len);

    if (!first || !is_token(slice_make(line.data, (size_t)(first - line.data)))) {
        refuse(scan, "the request line does not begin with a method");
        return;
    }
    scan_version(slice_make(last + 1, (size_t)(end - last - 1)), scan);
    if (scan->refusal.err != ERR_OK) {
        return;
    }
    if (last <= first + 1) {
        refuse(scan, "the request line has no target");
    } else if (memchr(first + 1, ' ', (size_t)(last - first - 1)) ||
               memchr(line.data, '\t', line.len)) {
        refuse(scan, "the request target has a blank");
    } else {
        count_params(slice_make(first + 1, (size_t)(last - first - 1)), scan);
    }
}

/* ---- Header lines ---- */

static bool is_name(struct slice name, const char *lower)
{
    return strncasecmp((const char *)name.data, lower, name.len) == 0;
}

static void take_once(bool *seen, struct scan *scan)
{
    if (*seen) {
        refuse(scan, "Host, Content-Length or Transfer-Encoding is given twice");
    }
    *seen = true;
}

/* Takes the headers that determine the host and the end of a request. */
static void take_framing(struct slice name, struct slice value, struct scan *scan)
{
    if (name.len == 4 && is_name(name, "host")) {
        take_once(&scan->has_host, scan);
    } else if (name.len == 14 && is_name(name, "content-length")) {
        take_once(&scan->has_length, scan);
        if (!http_number(http_trim(value), &scan->length)) {
            refuse(scan, "Content-Length is not a number");
        }
    } else if (name.len == 17 && is_name(name, "transfer-encoding")) {
        take_once(&scan->has_coding, scan);
        if (!http_equals_nocase(http_trim(value), slice_str("chunked"))) {
            refuse(scan, "Transfer-Encoding must be chunked: zabra supports no other encoding");
        }
    }
}

static void scan_header_line(struct slice line, struct scan *scan)
{
    struct slice name = slice_make(line.data, slice_find(line, ':'));

    scan->entries++;
    if (line.data[0] == ' ' || line.data[0] == '\t') {
        refuse(scan,
               "a header line begins with a blank or a tab: zabra does not support folded headers");
    } else if (name.len == line.len) {
        refuse(scan, "a header line has no colon");
    } else {
        if (!is_token(name)) {
            refuse(scan, "the name of a header has a character that is not allowed");
        }
        take_framing(name, slice_from(line, name.len + 1), scan);
    }
}

/* ---- The whole head ---- */

/* Returns the length of the blank lines before the request line, which are ignored. */
static size_t blank_lines(struct slice bytes)
{
    size_t len = 0;

    while (len + 1 < bytes.len && bytes.data[len] == '\r' && bytes.data[len + 1] == '\n') {
        len += 2;
    }
    return len;
}

static void check_whole(struct scan *scan, size_t head_len, size_t head_max)
{
    size_t room = http_pool_bytes(head_max) - HTTP_POOL_RESERVE_BYTES;

    if (!scan->minor_zero && !scan->has_host) {
        refuse(scan, "HTTP/1.1 needs a Host header");
    }
    if (scan->minor_zero && scan->has_coding) {
        refuse(scan, "an HTTP/1.0 request must not have the header Transfer-Encoding");
    }
    if (scan->has_length && scan->has_coding) {
        refuse(scan, "Content-Length and Transfer-Encoding exclude each other");
    }
    if (scan->refusal.err == ERR_OK && head_len + (size_t)scan->entries * HTTP_ENTRY_BYTES > room) {
        scan->refusal = http_refusal_make(
            ERR_HEADER_TOO_LARGE,
            "the request head has more headers and query parameters than maxHeadBytes allows");
    }
}

/* Scans lines up to the blank line that ends the head. Returns the length including this line; 0:
 * this line has not arrived, or a line has a fault. */
static size_t scan_lines(struct slice bytes, struct scan *scan)
{
    const uint8_t *end = bytes.data + bytes.len;
    const uint8_t *at = bytes.data + blank_lines(bytes);
    bool first = true;

    while (at < end && scan->refusal.err == ERR_OK) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(end - at));
        size_t len = feed ? (size_t)(feed - at) : (size_t)(end - at);
        bool ends = len > 0 && at[len - 1] == '\r';
        struct slice line = slice_make(at, ends ? len - 1 : len);
        const char *fault = feed && !ends
                                ? "a line of the request head ends without a carriage return"
                                : lint(line);

        if (fault) {
            refuse(scan, fault);
        }
        if (fault || !feed) {
            return 0;
        }
        at = feed + 1;
        if (line.len == 0) {
            return (size_t)(at - bytes.data);
        }
        if (first) {
            scan_request_line(line, scan);
        } else {
            scan_header_line(line, scan);
        }
        first = false;
    }
    return 0;
}

struct http_refusal http_head_check_framing(struct slice bytes, size_t head_max,
                                            struct http_framing *ret_framing)
{
    struct scan scan = {.refusal = {.err = ERR_OK}};
    size_t looked = min_size(bytes.len, head_max + 1);
    size_t len = scan_lines(slice_make(bytes.data, looked), &scan);

    *ret_framing = (struct http_framing){.head_len = 0};
    if (scan.refusal.err == ERR_OK && (len > head_max || (len == 0 && looked > head_max))) {
        return http_refusal_make(ERR_HEADER_TOO_LARGE,
                                 "the request head is larger than maxHeadBytes");
    }
    if (len > 0) {
        check_whole(&scan, len, head_max);
        *ret_framing = (struct http_framing){
            .head_len = len, .chunked = scan.has_coding, .body_len = scan.length};
    }
    return scan.refusal;
}

/* ---- The form for the library ---- */

/* Moves blanks after a value to the place before it, because the library ignores blanks only there.
 * Also renames each Cookie header, because the library would copy cookies, which zabra does not
 * read. */
static void tidy_line(uint8_t *line, size_t len)
{
    uint8_t *colon = memchr(line, ':', len);

    if (!colon) {
        return;
    }

    if (colon - line == 6 && is_name(slice_make(line, 6), "cookie")) {
        line[0] = 'x';
    }

    size_t room = len - (size_t)(colon + 1 - line);
    struct slice value = http_trim(slice_make(colon + 1, room));

    if (value.len > 0 && value.data + value.len < line + len) {
        memmove(line + len - value.len, value.data, value.len);
        memset(colon + 1, ' ', room - value.len);
    }
}

void http_head_tidy(uint8_t *head, size_t len)
{
    uint8_t *end = head + len;
    uint8_t *at = head + blank_lines(slice_make(head, len));
    bool first = true; /* The next line is the request line. */

    while (at < end) {
        uint8_t *feed = memchr(at, '\n', (size_t)(end - at));

        ASSERT(feed && feed > at);
        if (!first) {
            tidy_line(at, (size_t)(feed - at) - 1);
        }
        first = false;
        at = feed + 1;
    }
}

/* ---- Chunks ---- */

enum chunk_state {
    CHUNK_SIZE, /* In the digits of a size. */
    CHUNK_EXTENSION,
    CHUNK_SIZE_FEED, /* At the line feed after a size. */
    CHUNK_DATA,
    CHUNK_DATA_RETURN, /* At the carriage return after the data. */
    CHUNK_DATA_FEED,
    CHUNK_TRAILER_BEGIN, /* At the start of a line after the last chunk. */
    CHUNK_TRAILER,       /* In the name of a trailer. */
    CHUNK_TRAILER_VALUE,
    CHUNK_TRAILER_FEED,
    CHUNK_END_FEED
};

static void take_size(struct http_chunks *chunks, uint8_t byte)
{
    int value = hex_digit(byte);

    if (value >= 0 && chunks->digits < HTTP_CHUNK_DIGITS_MAX) {
        chunks->left = chunks->left << 4 | (uint64_t)value;
        chunks->digits++;
    } else if (value >= 0 || chunks->digits == 0) {
        chunks->fault = "the size of a chunk is not a hexadecimal number";
    } else if (byte == ';') {
        chunks->state = CHUNK_EXTENSION;
    } else if (byte == '\r') {
        chunks->state = CHUNK_SIZE_FEED;
    } else {
        chunks->fault = "the size of a chunk must be followed by a line end or a semicolon";
    }
}

/* Takes a byte of an extension or of the value of a trailer, up to the end of the line. */
static void take_rest(struct http_chunks *chunks, uint8_t byte)
{
    bool extension = chunks->state == CHUNK_EXTENSION;

    if (byte == '\r') {
        chunks->state = extension ? CHUNK_SIZE_FEED : CHUNK_TRAILER_FEED;
    } else if (byte_class[byte] & BYTE_CONTROL) {
        chunks->fault =
            extension ? "a chunk extension has a control character" : "a trailer line is malformed";
    } else if (extension && ++chunks->extras > HTTP_CHUNK_EXTRAS_MAX) {
        chunks->fault = "the chunk extensions of the body are longer than 1024 bytes";
    }
}

/* Takes a byte at the start of a trailer line or in the name of a trailer. */
static void take_trailer(struct http_chunks *chunks, uint8_t byte)
{
    bool begin = chunks->state == CHUNK_TRAILER_BEGIN;

    if (byte == '\r' && begin) {
        chunks->state = CHUNK_END_FEED;
    } else if (byte == ':' && !begin) {
        chunks->state = CHUNK_TRAILER_VALUE;
    } else if (!is_token(slice_make(&byte, 1))) {
        chunks->fault = "a trailer line is malformed";
    } else {
        chunks->state = CHUNK_TRAILER;
    }
}

/* Counts the byte at `pos`, which was taken, if it belongs to a trailer. `state` is the state
 * before that byte. */
static void count_trailers(struct http_chunks *chunks, uint32_t state, size_t pos)
{
    bool ended = state == CHUNK_TRAILER_FEED;
    bool within = chunks->state == CHUNK_TRAILER || chunks->state == CHUNK_TRAILER_VALUE ||
                  chunks->state == CHUNK_TRAILER_FEED;

    if (chunks->fault || (!within && !ended)) {
        return;
    }
    if (++chunks->trailers > HTTP_TRAILER_BYTES_MAX) {
        chunks->fault = "the trailers of the body are longer than 1024 bytes";
        return;
    }
    if (chunks->trailers_len == 0) {
        chunks->trailers_at = pos;
    }
    chunks->trailers_len++;
}

/* Takes a byte that must be `expected`, and enters the state `next`. */
static void take_fixed(struct http_chunks *chunks, uint8_t byte, uint8_t expected,
                       enum chunk_state next)
{
    if (byte != expected) {
        chunks->fault = "a chunk does not end where its size says";
    }
    chunks->state = next;
}

static void take_byte(struct http_chunks *chunks, uint8_t byte)
{
    switch ((enum chunk_state)chunks->state) {
    case CHUNK_SIZE:
        take_size(chunks, byte);
        break;
    case CHUNK_EXTENSION:
    case CHUNK_TRAILER_VALUE:
        take_rest(chunks, byte);
        break;
    case CHUNK_SIZE_FEED:
        take_fixed(chunks, byte, '\n', chunks->left > 0 ? CHUNK_DATA : CHUNK_TRAILER_BEGIN);
        break;
    case CHUNK_DATA_RETURN:
        take_fixed(chunks, byte, '\r', CHUNK_DATA_FEED);
        break;
    case CHUNK_DATA_FEED:
        chunks->digits = 0;
        take_fixed(chunks, byte, '\n', CHUNK_SIZE);
        break;
    case CHUNK_TRAILER_BEGIN:
    case CHUNK_TRAILER:
        take_trailer(chunks, byte);
        break;
    case CHUNK_TRAILER_FEED:
        take_fixed(chunks, byte, '\n', CHUNK_TRAILER_BEGIN);
        break;
    case CHUNK_END_FEED:
        take_fixed(chunks, byte, '\n', CHUNK_SIZE);
        chunks->over = chunks->fault == NULL;
        break;
    case CHUNK_DATA:
        break; /* Data is not taken byte by byte. */
    }
}

size_t http_chunks_take(struct http_chunks *chunks, struct slice bytes)
{
    size_t pos = 0;

    chunks->trailers_len = 0;
    while (pos < bytes.len && !chunks->over) {
        if (chunks->state == CHUNK_DATA) {
            size_t rest = bytes.len - pos;
            size_t len = min_size(chunks->left, rest);

            pos += len;
            chunks->left -= len;
            chunks->state = chunks->left > 0 ? CHUNK_DATA : CHUNK_DATA_RETURN;
            continue;
        }

        uint32_t state = chunks->state;

        take_byte(chunks, bytes.data[pos]);
        count_trailers(chunks, state, pos);
        if (chunks->fault) {
            return pos;
        }
        pos++;
    }
    return pos;
}
