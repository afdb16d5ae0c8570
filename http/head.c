#include "http/head.h"

#include "base/check.h"

#include <stddef.h>
#include <strings.h>

static const struct known {
    const char *name;
    size_t len;
    size_t offset; /* In struct http_head. */
    bool is_list;
} known_headers[] = {

#define X(member, name, is_list) \
    {name, sizeof(name) - 1, offsetof(struct http_head, member), is_list},
    HTTP_HEADERS(X)
#undef X
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

/* Adds a line of a header that proxies set; false when the name is another one. */
static bool add_forwarded(struct http_forwarded_head *head, struct slice name, struct slice value)
{
    struct http_lines *lines = NULL;

    if (!head || name.len < strlen("forwarded") || !strchr("FfXx", name.data[0])) {
        return false;
    }
    lines = http_equals_nocase(name, slice_str("Forwarded"))           ? &head->forwarded
            : http_equals_nocase(name, slice_str("X-Forwarded-For"))   ? &head->for_lines
            : http_equals_nocase(name, slice_str("X-Forwarded-Proto")) ? &head->proto
            : http_equals_nocase(name, slice_str("X-Forwarded-Host"))  ? &head->host
                                                                       : NULL;
    if (lines && lines->count < HTTP_FORWARDED_LINES) {
        lines->lines[lines->count] = value.data ? value : slice_str("");
    }
    if (lines && lines->count < UINT32_MAX) {
        lines->count++;
    }
    return lines != NULL;
}

void http_head_add(struct http_head *head, struct slice name, struct slice value)
{
    value = http_trim(value);
    if (add_forwarded(head->forwarded, name, value)) {
        return;
    }
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        const struct known *known = &known_headers[i];
        struct slice *place = (struct slice *)(void *)((uint8_t *)head + known->offset);

        if (!http_equals_nocase(name, slice_make(known->name, known->len))) {
            continue;
        }
        if (!place->data) {
            *place = value.data ? value : slice_str(""); /* An empty value still counts as given. */
        } else if (!known->is_list) {
            head->fault = "a header that may appear only once is given twice";
        }
        return;
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

/* Cuts off the first line; returns it without its end. */
static struct slice next_line(struct slice *bytes)
{
    struct slice line = slice_cut(bytes, '\n');

    line.len -= line.len > 0 && line.data[line.len - 1] == '\r' ? 1 : 0;
    return line;
}

const char *http_head_read(struct slice bytes, struct http_line *ret_line,
                           struct http_head *ret_head, struct http_forwarded_head *forwarded)
{
    static const char version[] = " HTTP/1.1";
    struct slice rest = bytes;
    struct slice line = next_line(&rest);

    while (line.len == 0 && rest.len > 0) {
        line = next_line(&rest); /* Blank lines before the request line are ignored. */
    }
    ASSERT(line.len > strlen(version));
    line.len -= strlen(version);
    *ret_head = (struct http_head){.forwarded = forwarded};
    ret_line->method = slice_cut(&line, ' ');
    ret_line->target = line;
    for (line = next_line(&rest); line.len > 0; line = next_line(&rest)) {
        struct slice name = slice_cut(&line, ':');

        http_head_add(ret_head, name, line);
    }
    return ret_head->fault;
}

bool http_head_waits(const struct http_line *line, const struct http_head *head)
{
    return (head->prefer.data && slice_eq(line->method, slice_str("GET"))) ||
           slice_starts_with(line->target, slice_str("/watch/v1")) ||
           slice_starts_with(line->target, slice_str("/export/v1")) ||
           slice_starts_with(line->target, slice_str("/backup/v1")) ||
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

/* Returns how closely a range matches the type. 3: exactly, 2: by the main type, 1: as any type, 0:
 * not at all. */
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

/* Returns a quality such as "0.5" in thousandths; an invalid value counts as 1. */
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

    /* Most clients send one of these values. */
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
