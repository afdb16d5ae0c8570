#include "server/config/config_int.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    RADIX = 10,
    PORT_MAX = 65535
};

static void put_line(char *to, const char *format, va_list args)
{
    (void)vsnprintf(to, CONFIG_ERROR_MAX, format, args);
    for (char *pos = to; *pos; pos++) {
        if ((unsigned char)*pos < ' ') {
            *pos = ' ';
        }
    }
}

enum err config_fail(struct config_loader *loader, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    put_line(loader->report->error, format, args);
    va_end(args);
    return ERR_CONFIG;
}

void config_warn(struct config_loader *loader, const char *format, ...)
{
    struct config_report *report = loader->report;
    va_list args;

    if (report->warning_count < CONFIG_WARNINGS_MAX) {
        va_start(args, format);
        put_line(report->warnings[report->warning_count++], format, args);
        va_end(args);
    }
}

const struct config_row *config_find(const char *key, size_t *ret_index)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        if (!strcmp(rows[i].key, key)) {
            *ret_index = i;
            return &rows[i];
        }
    }
    return NULL;
}

bool config_is_given(const struct config_loader *loader, const char *key)
{
    size_t index = 0;
    const struct config_row *row = config_find(key, &index);

    ASSERT(row);
    return loader->set_by[index] != CONFIG_FROM_DEFAULT;
}

bool config_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return !strcmp(host, "localhost");
}

const struct config_server *config_find_server(const struct config *config, uint32_t id)
{
    const struct config_peers *peers = &config->peers;

    for (uint32_t i = 0; i < peers->server_count; i++) {
        if (peers->servers[i].id == id) {
            return &peers->servers[i];
        }
    }
    return NULL;
}

const struct config_server *config_self(const struct config *config)
{
    return config_find_server(config, config->id);
}

/* ---- Text to values. ---- */

bool config_parse_number(const char *text, uint64_t *ret_number)
{
    uint64_t number = 0;

    if (!*text) {
        return false;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }

        uint64_t digit = (uint64_t)(*text - '0');

        if (number > (UINT64_MAX - digit) / RADIX) {
            return false;
        }
        number = number * RADIX + digit;
    }
    *ret_number = number;
    return true;
}

struct slice config_trim(struct slice text)
{
    while (text.len > 0 && text.data[0] == ' ') {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && text.data[text.len - 1] == ' ') {
        text.len--;
    }
    return text;
}

static enum err set_number(struct config_loader *loader, const struct config_row *row, void *to,
                           const char *text)
{
    uint64_t number = 0;

    if (!config_parse_number(text, &number) || number < row->min || number > row->max) {
        return config_fail(
            loader, "%s: \"%.64s\" is not allowed (%s); give a number from %" PRIu64 " to %" PRIu64,
            row->key, text, loader->where, row->min, row->max);
    }
    if (row->type == CONFIG_U16) {
        *(uint16_t *)to = (uint16_t)number;
    } else if (row->type == CONFIG_U32) {
        *(uint32_t *)to = (uint32_t)number;
    } else {
        *(uint64_t *)to = number;
    }
    return ERR_OK;
}

/* Takes the number at the end of the machine's name, as in the pods of a StatefulSet: zabra-0 is
 * replica 1. There must be a '-' before the number: the names that a container gets when none is
 * given end with digits by chance. */
static enum err set_id_by_name(struct config_loader *loader, const struct config_row *row,
                               uint32_t *to)
{
    const char *name = loader->host_name ? loader->host_name : "";
    char label[CONFIG_HOST_MAX];
    uint64_t ordinal = 0;

    (void)snprintf(label, sizeof label, "%.*s", (int)min_size(strcspn(name, "."), sizeof label - 1),
                   name);
    const char *dash = strrchr(label, '-');
    bool is_plain = dash && (dash[1] != '0' || dash[2] == '\0');

    if (!is_plain || !config_parse_number(dash + 1, &ordinal)) {
        return config_fail(
            loader,
            "%s: auto:hostname, but the name of this machine, \"%.64s\", does not "
            "end with '-' and a number (%s); give the id as a number, or a name such "
            "as zabra-0, which is replica 1",
            row->key, label, loader->where);
    }
    if (ordinal >= row->max) {
        return config_fail(loader,
                           "%s: auto:hostname, and the name of this machine, \"%.64s\", ends with "
                           "a number above %" PRIu64 " (%s); give the id as a number, or another "
                           "name",
                           row->key, label, row->max - 1, loader->where);
    }
    *to = (uint32_t)ordinal + 1;
    return ERR_OK;
}

static enum err set_id(struct config_loader *loader, const struct config_row *row, uint32_t *to,
                       const char *text)
{
    uint64_t number = 0;

    if (strcmp(text, "auto:hostname") == 0) {
        return set_id_by_name(loader, row, to);
    }
    if (!config_parse_number(text, &number) || number < row->min || number > row->max) {
        return config_fail(loader,
                           "%s: \"%.64s\" is not allowed (%s); give a number from %" PRIu64
                           " to %" PRIu64 ", or auto:hostname",
                           row->key, text, loader->where, row->min, row->max);
    }
    *to = (uint32_t)number;
    return ERR_OK;
}

static enum err set_bool(struct config_loader *loader, const struct config_row *row, bool *to,
                         const char *text)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return config_fail(loader, "%s: \"%.64s\" is not allowed (%s); give true or false",
                           row->key, text, loader->where);
    }
    *to = text[0] == 't';
    return ERR_OK;
}

static enum err set_choice(struct config_loader *loader, const struct config_row *row, uint32_t *to,
                           const char *text)
{
    char names[128] = "";
    size_t used = 0;

    for (uint32_t i = 0; row->choices[i]; i++) {
        if (!strcmp(text, row->choices[i])) {
            *to = i;
            return ERR_OK;
        }

        int len =
            snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", row->choices[i]);

        ASSERT(len > 0 && used + (size_t)len < sizeof(names));
        used += (size_t)len;
    }
    return config_fail(loader, "%s: \"%.64s\" is not allowed (%s); give one of %s", row->key, text,
                       loader->where, names);
}

static enum err set_text(struct config_loader *loader, const struct config_row *row, char *to,
                         const char *text)
{
    size_t len = strlen(text);

    if (len < row->min) {
        return config_fail(loader, "%s: the value is empty (%s); give %s", row->key, loader->where,
                           row->help);
    }
    if (len > row->max) {
        return config_fail(loader, "%s: the value has %zu bytes (%s); at most %" PRIu64 " fit",
                           row->key, len, loader->where, row->max);
    }
    memcpy(to, text, len + 1);
    return ERR_OK;
}

enum err config_set_value(struct config_loader *loader, const struct config_row *row,
                          const char *text)
{
    void *to = (uint8_t *)loader->config + row->offset;

    switch (row->type) {
    case CONFIG_BOOL:
        return set_bool(loader, row, to, text);
    case CONFIG_TEXT:
        return set_text(loader, row, to, text);
    case CONFIG_CHOICE:
        return set_choice(loader, row, to, text);
    case CONFIG_ID:
        return set_id(loader, row, to, text);
    case CONFIG_U16:
    case CONFIG_U32:
    case CONFIG_U64:
        return set_number(loader, row, to, text);
    }
    UNREACHABLE();
}

static enum err bad_server(struct config_loader *loader, const char *suffix, const char *why)
{
    return config_fail(loader, "server.%.16s: %s (%s); write server.N=host:peerPort[:observer]",
                       suffix, why, loader->where);
}

const char *config_split_host(const char *text, char ret_host[CONFIG_HOST_MAX])
{
    bool bracket = text[0] == '[';
    const char *from = bracket ? text + 1 : text;
    size_t len = strcspn(from, bracket ? "]" : ":");
    const char *after = from + len + (bracket && from[len] ? 1 : 0);

    if (len == 0 || len >= CONFIG_HOST_MAX || *after != ':') {
        return NULL;
    }
    memcpy(ret_host, from, len);
    ret_host[len] = '\0';
    return after + 1;
}

static enum err parse_server(struct config_loader *loader, const char *suffix, const char *text,
                             struct config_server *server)
{
    const char *rest = config_split_host(text, server->host);
    char port[8] = "";
    uint64_t number = 0;

    if (!rest) {
        return bad_server(loader, suffix, "no host or no port");
    }

    size_t len = strcspn(rest, ":");

    if (len < sizeof(port)) {
        memcpy(port, rest, len);
    }
    if (!config_parse_number(port, &number) || number == 0 || number > PORT_MAX) {
        return bad_server(loader, suffix, "the port is not a number from 1 to 65535");
    }
    server->port = (uint16_t)number;
    server->voter = true;
    if (!strcmp(rest + len, ":observer")) {
        server->voter = false;
    } else if (rest[len] && strcmp(rest + len, ":participant") != 0) {
        return bad_server(loader, suffix,
                          "only :observer may follow the port (there is one peer port)");
    }
    return ERR_OK;
}

/* Inserts the server by id; a later source replaces the line of an earlier one. */
static enum err insert_server(struct config_loader *loader, const struct config_server *server)
{
    struct config_peers *peers = &loader->config->peers;
    uint32_t at = 0;

    while (at < peers->server_count && peers->servers[at].id < server->id) {
        at++;
    }
    if (at < peers->server_count && peers->servers[at].id == server->id) {
        if (peers->servers[at].source == server->source) {
            return config_fail(loader, "server.%u: given twice (%s); each id may appear once",
                               server->id, loader->where);
        }
        peers->servers[at] = *server;
        return ERR_OK;
    }
    if (peers->server_count == ZAB_MEMBERS_MAX) {
        return config_fail(loader, "server.%u: more than %d servers (%s); remove some", server->id,
                           ZAB_MEMBERS_MAX, loader->where);
    }
    memmove(&peers->servers[at + 1], &peers->servers[at],
            (peers->server_count - at) * sizeof(*server));
    peers->servers[at] = *server;
    peers->server_count++;
    return ERR_OK;
}

enum err config_set_server(struct config_loader *loader, const char *suffix, const char *text)
{
    struct config_server server = {.source = (uint8_t)loader->source};
    uint64_t id = 0;

    if (!config_parse_number(suffix, &id) || id == 0 || id > ZAB_ID_MAX) {
        return bad_server(loader, suffix, "N is not a number from 1 to 65535");
    }
    server.id = (uint32_t)id;

    enum err err = parse_server(loader, suffix, text, &server);

    return err == ERR_OK ? insert_server(loader, &server) : err;
}
