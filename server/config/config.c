#include "server/config/config.h"

#include "base/check.h"
#include "server/config/config_int.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>

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
    const struct config_server *self = config_find_server(config, config->id);

    ASSERT(self);
    return self;
}

static const char *role_of(const struct zab_member *member)
{
    if (member->voter) {
        return "participant";
    }
    return member->empty_seat ? "vacant" : "observer";
}

void config_text(const struct zab_config *config, struct buf *out)
{
    for (uint32_t i = 0; i < config->count; i++) {
        const struct zab_member *member = &config->members[i];

        buf_printf(out, "server.%" PRIu32 "=%s:%016" PRIx64 "\n", member->id, role_of(member),
                   member->incarnation);
    }
    buf_printf(out, "version=%" PRIx64, config->version);
}
