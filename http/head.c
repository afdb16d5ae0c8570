#include "http/head.h"

#include <stddef.h>
#include <strings.h>

struct known {
    const char *name;
    size_t len;
    size_t offset;   /* In struct http_head. */
    bool is_list;    /* Repeated lines are legal; the first one counts. */
    bool is_framing; /* Repeated lines make the message ambiguous. */
};

#define KNOWN(text, member, list, framing)                                        \
    {                                                                             \
        text, sizeof(text) - 1, offsetof(struct http_head, member), list, framing \
    }

static const struct known known_headers[] = {
    KNOWN("Host", host, false, true),
    KNOWN("Accept", accept, true, false),
    KNOWN("Prefer", prefer, true, false),
    KNOWN("Zk-Acl", acl, false, false),
    KNOWN("Origin", origin, false, false),
    KNOWN("Expect", expect, false, false),
    KNOWN("Upgrade", upgrade, true, false),
    KNOWN("If-Match", if_match, false, false),
    KNOWN("Connection", connection, true, false),
    KNOWN("Zk-History", history, false, false),
    KNOWN("Zk-Session", session, false, false),
    KNOWN("Zk-Min-Zxid", min_zxid, false, false),
    KNOWN("Content-Type", content_type, false, false),
    KNOWN("Authorization", authorization, false, false),
    KNOWN("Last-Event-ID", last_event_id, false, false),
    KNOWN("If-None-Match", if_none_match, false, false),
    KNOWN("Content-Length", content_length, false, true),
    KNOWN("Accept-Encoding", accept_encoding, true, false),
    KNOWN("Sec-Fetch-Site", fetch_site, false, false),
    KNOWN("Content-Encoding", content_encoding, true, false),
    KNOWN("Idempotency-Key", idempotency_key, false, false),
    KNOWN("Sec-WebSocket-Key", socket_key, false, false),
    KNOWN("Transfer-Encoding", transfer_encoding, false, true),
    KNOWN("Sec-WebSocket-Version", socket_version, false, false),
    KNOWN("Sec-WebSocket-Protocol", socket_protocol, true, false),
    KNOWN("Access-Control-Request-Method", access_method, false, false),
};

enum {
    KNOWN_COUNT = sizeof(known_headers) / sizeof(known_headers[0]),
    NUMBER_DIGITS_MAX = 18,
    QUALITY_MAX = 1000
};

bool http_equals_nocase(struct slice a, struct slice b)
{
    return a.len == b.len && strncasecmp((const char *)a.data, (const char *)b.data, a.len) == 0;
}

/* Classes of bytes. */
enum {
    BYTE_TOKEN = 1,
    BYTE_CONTROL = 2 /* Except a tab. */
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
    ['*'] = BYTE_TOKEN,
    ['+'] = BYTE_TOKEN,
    ['-'] = BYTE_TOKEN,
    ['.'] = BYTE_TOKEN,
    ['^' ... '`'] = BYTE_TOKEN,
    ['|'] = BYTE_TOKEN,
    ['~'] = BYTE_TOKEN,
};

bool http_is_token(struct slice text)
{
    uint8_t all = BYTE_TOKEN;

    for (size_t i = 0; i < text.len; i++) {
        all &= byte_class[text.data[i]];
    }
    return text.len > 0 && all != 0;
}

#define EACH_BYTE(byte) (UINT64_MAX / 255 * (byte))

/* False when none of eight bytes is a control character; true when one may be. */
static bool may_have_control(const uint8_t *bytes)
{
    uint64_t word = 0;

    memcpy(&word, bytes, sizeof(word));

    uint64_t del = word ^ EACH_BYTE(0x7f);
    uint64_t low = (word - EACH_BYTE(0x20)) & ~word;

    return ((low | ((del - EACH_BYTE(1)) & ~del)) & EACH_BYTE(0x80)) != 0;
}

static bool is_clean_value(struct slice text)
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

const char *http_line_lint(struct slice line)
{
    if (is_clean_value(line)) {
        return NULL;
    }
    return memchr(line.data, '\r', line.len) ? "a carriage return stands alone"
                                             : "the request head has a control character";
}

static void set_fault(struct http_head *head, const char *fault)
{
    if (!head->fault) {
        head->fault = fault;
    }
}

static void take(struct http_head *head, const struct known *known, struct slice value)
{
    struct slice *place = (struct slice *)(void *)((uint8_t *)head + known->offset);

    if (!place->data) {
        *place = value;
    } else if (known->is_framing) {
        set_fault(head, "Host, Content-Length or Transfer-Encoding is given twice");
    } else if (!known->is_list) {
        set_fault(head, "a header that may appear only once is given twice");
    }
}

void http_head_add(struct http_head *head, struct slice name, struct slice value)
{
    if (!http_is_token(name)) {
        set_fault(head, "a header's name is not a token");
        return;
    }
    if (!is_clean_value(value)) {
        set_fault(head, "a header's value has a control character");
        return;
    }
    http_head_add_checked(head, name, value);
}

void http_head_add_checked(struct http_head *head, struct slice name, struct slice value)
{
    value = http_trim(value);
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (http_equals_nocase(name, slice_make(known_headers[i].name, known_headers[i].len))) {
            /* An empty value still counts as given. */
            take(head, &known_headers[i], value.data ? value : slice_str(""));
            return;
        }
    }
}

struct slice http_head_get(const struct http_head *head, const char *name)
{
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        if (strcmp(known_headers[i].name, name) == 0) {
            return *(const struct slice *)(const void *)((const uint8_t *)head +
                                                         known_headers[i].offset);
        }
    }
    return slice_make(NULL, 0);
}

bool http_number(struct slice text, uint64_t *ret_number)
{
    *ret_number = 0;
    for (size_t i = 0; i < text.len && i < NUMBER_DIGITS_MAX; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        *ret_number = *ret_number * 10 + (uint64_t)(text.data[i] - '0');
    }
    return text.len > 0 && text.len <= NUMBER_DIGITS_MAX;
}

void http_head_finish(struct http_head *head)
{
    uint64_t len = 0;

    if (head->content_length.data && head->transfer_encoding.data) {
        set_fault(head, "Content-Length and Transfer-Encoding exclude each other");
    }
    if (head->content_length.data && !http_number(head->content_length, &len)) {
        set_fault(head, "Content-Length is not a number");
    }
    if (head->transfer_encoding.data &&
        !http_equals_nocase(head->transfer_encoding, slice_str("chunked"))) {
        set_fault(head, "the only Transfer-Encoding is chunked");
    }
}

bool http_head_is_cross_origin(const struct http_head *head)
{
    return !head->origin.data && (http_equals_nocase(head->fetch_site, slice_str("cross-site")) ||
                                  http_equals_nocase(head->fetch_site, slice_str("same-site")));
}

bool http_head_body(const struct http_head *head, uint64_t *ret_len)
{
    if (head->transfer_encoding.data) {
        *ret_len = UINT64_MAX;
    } else {
        (void)http_number(head->content_length, ret_len);
    }
    return *ret_len > 0;
}

/* Empty lines before the request line, which the library ignores: they are not the end of the head.
 */
static size_t leading_blank(struct slice bytes)
{
    size_t len = 0;

    while (len < bytes.len && (bytes.data[len] == '\r' || bytes.data[len] == '\n')) {
        len++;
    }
    return len;
}

static const char *lint_byte(struct slice bytes, size_t i)
{
    uint8_t byte = bytes.data[i];
    uint8_t next = i + 1 < bytes.len ? bytes.data[i + 1] : '\0';
    bool last = i + 1 == bytes.len; /* The next byte has not arrived. */

    if (byte == '\n' && (i == 0 || bytes.data[i - 1] != '\r')) {
        return "a line ends without a carriage return";
    }
    if (byte == '\r' && next != '\n' && !last) {
        return "a carriage return stands alone";
    }
    if ((byte < 0x20 && byte != '\r' && byte != '\n' && byte != '\t') || byte == 0x7f) {
        return "the request head has a control character";
    }
    if (byte == '\n' && (next == ' ' || next == '\t')) {
        return "a header line is folded";
    }
    return NULL;
}

const char *http_head_lint(struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        const char *fault = lint_byte(bytes, i);

        if (fault) {
            return fault;
        }
    }
    return NULL;
}

/* Cuts off the first line; returns it without its end. */
static struct slice next_line(struct slice *bytes)
{
    struct slice line = slice_cut(bytes, '\n');

    line.len -= line.len > 0 && line.data[line.len - 1] == '\r' ? 1 : 0;
    return line;
}

/* The version at the end of the request line, for example "HTTP/1.1"; empty when there is none. */
static struct slice version_of(struct slice line)
{
    static const char shape[] = " HTTP/1.1";
    size_t len = sizeof(shape) - 1;

    if (line.len <= len || memcmp(line.data + line.len - len, shape, strlen(" HTTP/")) != 0) {
        return slice_make(NULL, 0);
    }
    return slice_make(line.data + line.len - len + 1, len - 1);
}

static const char *read_headers(struct slice bytes, struct http_head *head)
{
    for (struct slice line = next_line(&bytes); line.len > 0; line = next_line(&bytes)) {
        size_t name_len = slice_find(line, ':');

        if (name_len == line.len) {
            return "a header line has no colon";
        }
        http_head_add(head, slice_make(line.data, name_len), slice_from(line, name_len + 1));
    }
    http_head_finish(head);
    return head->fault;
}

const char *http_head_read(struct slice bytes, struct http_line *ret_line,
                           struct http_head *ret_head)
{
    struct slice rest = slice_from(bytes, leading_blank(bytes));
    struct slice line = next_line(&rest);
    struct slice version = version_of(line);

    *ret_head = (struct http_head){.fault = NULL};
    if (version.len == 0) {
        return "the request line does not end in an HTTP version";
    }
    line.len -= version.len + 1;
    ret_line->method = slice_cut(&line, ' ');
    ret_line->target = line;

    const char *fault = read_headers(rest, ret_head);

    if (!fault && slice_eq(version, slice_str("HTTP/1.1")) && !ret_head->host.data) {
        return "HTTP/1.1 needs a Host header";
    }
    return fault;
}

bool http_head_waits(const struct http_line *line, const struct http_head *head)
{
    return (head->prefer.data && slice_eq(line->method, slice_str("GET"))) ||
           slice_starts_with(line->target, slice_str("/watch/v1")) ||
           slice_starts_with(line->target, slice_str("/export/v1")) ||
           slice_starts_with(line->target, slice_str("/import/v1"));
}

bool http_list_next(struct slice *list, struct slice *ret_element)
{
    bool quoted = false;
    size_t end = 0;

    if (list->len == 0) {
        return false;
    }
    while (end < list->len && (quoted || list->data[end] != ',')) {
        quoted = list->data[end] == '"' ? !quoted : quoted;
        end++;
    }
    *ret_element = http_trim(slice_make(list->data, end));
    end = end < list->len ? end + 1 : end;
    *list = slice_make(list->data + end, list->len - end);
    return true;
}

bool http_list_has(struct slice list, const char *token)
{
    struct slice element;

    while (http_list_next(&list, &element)) {
        if (http_equals_nocase(element, slice_str(token))) {
            return true;
        }
    }
    return false;
}

static struct slice before(struct slice text, uint8_t byte)
{
    return http_trim(slice_cut(&text, byte));
}

bool http_media_is(struct slice content_type, const char *type)
{
    return http_equals_nocase(before(content_type, ';'), slice_str(type));
}

static const char *const media_names[] = {
    [HTTP_MEDIA_JSON] = "application/json", [HTTP_MEDIA_RAW] = "application/octet-stream",
    [HTTP_MEDIA_TEXT] = "text/plain",       [HTTP_MEDIA_HTML] = "text/html",
    [HTTP_MEDIA_SSE] = "text/event-stream", [HTTP_MEDIA_NDJSON] = "application/x-ndjson",
};

/* How closely a range matches the type: 3 exactly, 2 by the main type, 1 as any type, 0 not at all.
 */
static int range_fit(struct slice range, enum http_media media)
{
    const char *name = media_names[media];
    size_t slash = (size_t)(strchr(name, '/') - name);

    if (http_equals_nocase(range, slice_str(name))) {
        return 3;
    }
    if (range.len == slash + 2 && strncasecmp((const char *)range.data, name, slash + 1) == 0 &&
        range.data[slash + 1] == '*') {
        return 2;
    }
    return slice_eq(range, slice_str("*/*")) ? 1 : 0;
}

/* "0.5" in thousandths; an invalid value counts as 1. */
static int quality_of(struct slice digits)
{
    int quality = 0;
    int unit = QUALITY_MAX / 10;

    if (digits.len == 0 || digits.data[0] != '0') {
        return QUALITY_MAX;
    }
    for (size_t i = 2; i < digits.len && i < 5; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9') {
            return QUALITY_MAX;
        }
        quality += (digits.data[i] - '0') * unit;
        unit /= 10;
    }
    return quality;
}

static int element_quality(struct slice element)
{
    while (element.len > 0) {
        struct slice part = http_trim(slice_cut(&element, ';'));

        if (part.len >= 2 && (part.data[0] == 'q' || part.data[0] == 'Q') && part.data[1] == '=') {
            return quality_of(slice_from(part, 2));
        }
    }
    return QUALITY_MAX;
}

static int accept_quality(struct slice accept, enum http_media media)
{
    struct slice element;
    int fit_best = 0;
    int quality = 0;

    while (http_list_next(&accept, &element)) {
        int fit = range_fit(before(element, ';'), media);

        if (fit > fit_best) {
            fit_best = fit;
            quality = element_quality(element);
        }
    }
    return quality;
}

enum http_media http_head_media(struct slice accept, const enum http_media *offered)
{
    enum http_media best = HTTP_MEDIA_NONE;
    int quality_best = 0;

    /* What most clients send. */
    if (accept.len == 0 || slice_eq(accept, slice_str("*/*")) ||
        slice_eq(accept, slice_str(media_names[offered[0]]))) {
        return offered[0];
    }
    for (const enum http_media *media = offered; *media != HTTP_MEDIA_NONE; media++) {
        int quality = accept_quality(accept, *media);

        if (quality > quality_best) {
            quality_best = quality;
            best = *media;
        }
    }
    return best;
}

bool http_head_takes_gzip(struct slice accept_encoding)
{
    struct slice element;
    int anything = 0;

    while (http_list_next(&accept_encoding, &element)) {
        struct slice name = before(element, ';');

        if (http_equals_nocase(name, slice_str("gzip"))) {
            return element_quality(element) > 0;
        }
        if (slice_eq(name, slice_str("*"))) {
            anything = element_quality(element);
        }
    }
    return anything > 0;
}
