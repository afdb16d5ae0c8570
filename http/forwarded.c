#include "http/forwarded.h"

#include "base/check.h"

#include <string.h>
#include <strings.h>

static const char too_many[] =
    "the proxy sends more than 4 lines or 32 elements of Forwarded or X-Forwarded-For";
static const char bad_forwarded[] =
    "the proxy sends a malformed Forwarded: each element must be pairs like for=192.0.2.1 or "
    "for=\"[2001:db8::1]:4711\", with no pair given twice";
static const char bad_for[] =
    "the proxy sends a malformed X-Forwarded-For: each element must be an address, with or without "
    "a port";
static const char bad_proto[] = "the proxy names a scheme that is neither http nor https";
static const char bad_host[] =
    "the proxy sends a malformed host in Forwarded or X-Forwarded-Host: it must be a name or an "
    "address, with or without a port";
static const char contradiction[] =
    "Forwarded and X-Forwarded-For or -Proto contradict each other: let the proxy remove the one "
    "that it does not set itself";

/* One element: a client of a proxy, and what the proxy says about its request. */
struct element {
    struct slice client; /* Without quotes; `data` NULL: not given. */
    struct slice proto;
    struct slice host;
};

struct elements {
    struct element items[HTTP_FORWARDED_ELEMENTS];
    uint32_t count;
};

bool http_proxies_have(const struct http_proxies *proxies, const struct address *address)
{
    for (uint32_t i = 0; i < proxies->count; i++) {
        if (address_block_has(&proxies->blocks[i], address)) {
            return true;
        }
    }
    return false;
}

/* ---- Characters ---- */

static bool is_alnum(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z');
}

/* Whether the byte may be in a token (RFC 9110, 5.6.2). */
static bool is_token_byte(uint8_t byte)
{
    return is_alnum(byte) || (byte != '\0' && strchr("!#$%&'*+-.^_`|~", byte));
}

static void skip_blanks(struct slice *text)
{
    while (text->len > 0 && (text->data[0] == ' ' || text->data[0] == '\t')) {
        *text = slice_from(*text, 1);
    }
}

static bool skip_byte(struct slice *text, char byte)
{
    bool found = text->len > 0 && text->data[0] == (uint8_t)byte;

    *text = slice_from(*text, found ? 1 : 0);
    return found;
}

static bool equals(struct slice text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.data, word, text.len) == 0;
}

static struct slice take_token(struct slice *text)
{
    size_t len = 0;

    while (len < text->len && is_token_byte(text->data[len])) {
        len++;
    }

    struct slice token = slice_make(text->data, len);

    *text = slice_from(*text, len);
    return token;
}

/* Takes a quoted string; false when it does not end, or has an escape: no valid address, scheme or
 * host needs one. */
static bool take_quoted(struct slice *text, struct slice *ret_value)
{
    size_t len = 0;

    *text = slice_from(*text, 1);
    while (len < text->len && text->data[len] != '"' && text->data[len] != '\\') {
        len++;
    }
    *ret_value = slice_make(text->data, len);
    *text = slice_from(*text, len);
    return skip_byte(text, '"');
}

/* ---- Forwarded ---- */

/* Keeps the value of a pair; false when the element has had it. */
static bool keep(struct slice *place, struct slice value)
{
    bool is_new = !place->data;

    *place = value.data ? value : slice_str("");
    return is_new;
}

static bool take_pair(struct slice *text, struct element *element)
{
    struct slice name = take_token(text);
    struct slice value;

    if (name.len == 0 || !skip_byte(text, '=')) {
        return false;
    }
    if (text->len > 0 && text->data[0] == '"') {
        if (!take_quoted(text, &value)) {
            return false;
        }
    } else {
        value = take_token(text);
    }
    if (value.len == 0) {
        return false;
    }
    return equals(name, "for")     ? keep(&element->client, value)
           : equals(name, "proto") ? keep(&element->proto, value)
           : equals(name, "host")  ? keep(&element->host, value)
                                   : true;
}

/* Takes one element up to a comma or the end: pairs with semicolons between them. */
static bool take_element(struct slice *text, struct element *element)
{
    bool more = true;

    while (more) {
        skip_blanks(text);
        if (!take_pair(text, element)) {
            return false;
        }
        skip_blanks(text);
        more = skip_byte(text, ';');
    }
    return text->len == 0 || text->data[0] == ',';
}

/* Adds the elements of one line. An empty element is ignored, as in each list of HTTP. */
static const char *read_line(struct slice line, struct elements *elements)
{
    skip_blanks(&line);
    while (line.len > 0) {
        if (skip_byte(&line, ',')) {
            skip_blanks(&line);
            continue;
        }
        if (elements->count == HTTP_FORWARDED_ELEMENTS) {
            return too_many;
        }
        if (!take_element(&line, &elements->items[elements->count++])) {
            return bad_forwarded;
        }
    }
    return NULL;
}

/* ---- X-Forwarded-For ---- */

static const char *read_for_line(struct slice line, struct elements *elements)
{
    while (line.len > 0) {
        struct slice text = slice_cut(&line, ',');

        skip_blanks(&text);
        while (text.len > 0 &&
               (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) {
            text.len--;
        }
        if (text.len == 0) {
            continue;
        }
        if (elements->count == HTTP_FORWARDED_ELEMENTS) {
            return too_many;
        }
        elements->items[elements->count++].client = text;
    }
    return NULL;
}

static const char *read_lines(const struct http_lines *lines, struct elements *elements,
                              const char *(*read)(struct slice line, struct elements *elements))
{
    const char *fault = lines->count > HTTP_FORWARDED_LINES ? too_many : NULL;

    *elements = (struct elements){.count = 0};
    for (uint32_t i = 0; !fault && i < lines->count; i++) {
        fault = read(lines->lines[i], elements);
    }
    return fault;
}

/* ---- Clients ---- */

static bool is_port(struct slice text)
{
    uint32_t port = 0;

    for (size_t i = 0; i < text.len && i < 6; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    return text.len > 0 && text.len <= 5 && port <= UINT16_MAX;
}

/* Whether the text is an obfuscated identifier: an underscore, then letters, digits and "._-". */
static bool is_hidden(struct slice text)
{
    if (text.len < 2 || text.len >= ADDRESS_TEXT_MAX || text.data[0] != '_') {
        return false;
    }
    for (size_t i = 1; i < text.len; i++) {
        if (!is_alnum(text.data[i]) && !strchr("._-", text.data[i])) {
            return false;
        }
    }
    return !memchr(text.data, 0, text.len);
}

/* Splits "192.0.2.1:80", "[2001:db8::1]:80", "2001:db8::1" into the address and its port, which may
 * be empty; false when the brackets or what follows them are malformed. */
static bool split_port(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
    bool bracket = text.len > 0 && text.data[0] == '[';
    struct slice inner = bracket ? slice_from(text, 1) : text;
    size_t len = slice_find(inner, bracket ? ']' : ':');
    struct slice rest = slice_from(inner, len);

    *ret_port = slice_make(NULL, 0);
    if (bracket && rest.len == 0) {
        return false;
    }
    rest = slice_from(rest, bracket ? 1 : 0);
    if (!bracket && rest.len > 1 && slice_find(slice_from(rest, 1), ':') < rest.len - 1) {
        *ret_host = text; /* More than one colon: an IPv6 address without brackets. */
        return true;
    }
    *ret_host = slice_make(inner.data, len);
    if (rest.len == 0) {
        return true;
    }
    *ret_port = slice_from(rest, 1);
    return rest.data[0] == ':' && ret_port->len > 0;
}

enum node {
    NODE_BAD,
    NODE_PROXY, /* An address of a trusted proxy. */
    NODE_CLIENT
};

/* Reads the name of a client or proxy, and writes it to `out` in canonical form. */
static enum node read_node(struct slice text, bool strict, const struct http_proxies *proxies,
                           char out[ADDRESS_TEXT_MAX])
{
    struct address address;
    struct slice host;
    struct slice port;

    if (!split_port(text, &host, &port) || (port.len > 0 && !is_port(port) && !is_hidden(port))) {
        return NODE_BAD;
    }
    if (equals(host, "unknown") || is_hidden(host)) {
        memcpy(out, host.data, host.len);
        out[host.len] = '\0';
        return NODE_CLIENT;
    }
    /* RFC 7239 demands brackets around IPv6. */
    bool bare_v6 = text.data[0] != '[' && slice_find(host, ':') < host.len;
    bool bracketed_v4 = text.data[0] == '[' && slice_find(host, ':') == host.len;

    if (bracketed_v4 || (strict && bare_v6) || !address_parse(host, &address)) {
        return NODE_BAD;
    }
    address_text(&address, out);
    return http_proxies_have(proxies, &address) ? NODE_PROXY : NODE_CLIENT;
}

/* Walks from the right to the client; returns its element, or NULL with `*ret_fault`. NULL without
 * a fault: no element names a client. If all are trusted proxies, the leftmost one is the client:
 * the request comes from the machine of a proxy. */
static const struct element *find_client(const struct elements *elements, bool strict,
                                         const struct http_proxies *proxies,
                                         char out[ADDRESS_TEXT_MAX], const char **ret_fault)
{
    const struct element *found = NULL;
    enum node node = NODE_PROXY;

    *ret_fault = NULL;
    out[0] = '\0';
    for (uint32_t i = elements->count; i > 0 && node == NODE_PROXY; i--) {
        const struct element *element = &elements->items[i - 1];

        if (!element->client.data) {
            *ret_fault = bad_forwarded;
            return NULL;
        }
        node = read_node(element->client, strict, proxies, out);
        if (node == NODE_BAD) {
            *ret_fault = strict ? bad_forwarded : bad_for;
            out[0] = '\0';
            return NULL;
        }
        found = element;
    }
    return found;
}

/* ---- Scheme and host ---- */

static const char *read_proto(struct slice text, struct http_forwarded *forwarded)
{
    bool https = equals(text, "https") || equals(text, "wss");

    if (!https && !equals(text, "http") && !equals(text, "ws")) {
        return bad_proto;
    }
    if (forwarded->has_scheme && forwarded->is_https != https) {
        return contradiction;
    }
    forwarded->has_scheme = true;
    forwarded->is_https = https;
    return NULL;
}

static bool is_host_byte(uint8_t byte)
{
    return is_alnum(byte) || (byte != '\0' && strchr(".-_:[]", byte));
}

static const char *read_host(struct slice text, struct http_forwarded *forwarded)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!is_host_byte(text.data[i])) {
            return bad_host;
        }
    }
    if (text.len == 0 || text.len > HTTP_FORWARDED_HOST_MAX) {
        return bad_host;
    }
    forwarded->host = text;
    return NULL;
}

/* Returns the last element of the last line: what the proxy next to this replica says. `data` NULL:
 * there is none. */
static struct slice last_of(const struct http_lines *lines)
{
    struct slice text = slice_make(NULL, 0);

    if (lines->count == 0 || lines->count > HTTP_FORWARDED_LINES) {
        return text;
    }
    text = lines->lines[lines->count - 1];

    const uint8_t *comma = text.len > 0 ? memrchr(text.data, ',', text.len) : NULL;

    if (comma) {
        text = slice_from(text, (size_t)(comma - text.data) + 1);
    }
    skip_blanks(&text);
    while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t')) {
        text.len--;
    }
    return text.data ? text : slice_str("");
}

/* ---- All headers ---- */

static const char *read_forwarded(const struct http_forwarded_head *head,
                                  const struct http_proxies *proxies,
                                  struct http_forwarded *forwarded)
{
    struct elements elements;
    const char *fault = read_lines(&head->forwarded, &elements, read_line);
    const struct element *client = NULL;

    if (!fault) {
        client = find_client(&elements, true, proxies, forwarded->client, &fault);
    }
    if (!fault && client && client->proto.data) {
        fault = read_proto(client->proto, forwarded);
    }
    if (!fault && client && client->host.data) {
        fault = read_host(client->host, forwarded);
    }
    return fault;
}

static const char *read_for(const struct http_forwarded_head *head,
                            const struct http_proxies *proxies, struct http_forwarded *forwarded)
{
    struct elements elements;
    char client[ADDRESS_TEXT_MAX];
    const char *fault = read_lines(&head->for_lines, &elements, read_for_line);

    if (!fault) {
        (void)find_client(&elements, false, proxies, client, &fault);
    }
    if (fault || client[0] == '\0') {
        return fault;
    }
    if (forwarded->client[0] != '\0' && strcmp(forwarded->client, client) != 0) {
        return contradiction;
    }
    memcpy(forwarded->client, client, sizeof(client));
    return NULL;
}

const char *http_forwarded_read(const struct http_forwarded_head *head,
                                const struct http_proxies *proxies,
                                struct http_forwarded *ret_forwarded)
{
    const char *fault = NULL;
    struct slice proto = last_of(&head->proto);
    struct slice host = last_of(&head->host);

    *ret_forwarded = (struct http_forwarded){
        .is_present = head->forwarded.count > 0 || head->for_lines.count > 0 ||
                      head->proto.count > 0 || head->host.count > 0};
    fault = read_forwarded(head, proxies, ret_forwarded);
    if (!fault) {
        fault = read_for(head, proxies, ret_forwarded);
    }
    if (!fault && proto.data) {
        fault = read_proto(proto, ret_forwarded);
    }
    if (!fault && host.data && !ret_forwarded->host.data) {
        fault = read_host(host, ret_forwarded);
    }
    return fault;
}
