/* The replicated configuration as text: the data of /zookeeper/config. Part of the replicated
 * state, so nothing here depends on the machine, its libraries or its settings. */
#include "base/check.h"
#include "server/config/config.h"
#include "zab/level.h"

#include <inttypes.h>

enum {
    PORT_DIGITS = 5,
    PORT_MAX = 65535
};

/* ---- Before level 2, or if an address is not known. ---- */

static const char *role_of(const struct zab_member *member)
{
    if (member->voter) {
        return "participant";
    }
    return member->empty_seat ? "vacant" : "observer";
}

static void append_version(const struct zab_config *config, struct buf *out)
{
    buf_printf(out, "version=%" PRIx64, config->version);
}

static void append_short(const struct zab_config *config, struct buf *out)
{
    for_each_member (member, config) {
        buf_printf(out, "server.%" PRIu32 "=%s:%016" PRIx64 "\n", member->id, role_of(member),
                   member->incarnation);
    }
    append_version(config, out);
}

/* ---- In ZooKeeper's form. ---- */

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_letter(uint8_t byte)
{
    uint8_t low = byte | 0x20;

    return low >= 'a' && low <= 'z';
}

/* Whether it is a name or an IPv4 address. */
static bool is_name(struct slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        uint8_t byte = host.data[i];

        if (!is_digit(byte) && !is_letter(byte) && byte != '-' && byte != '.' && byte != '_') {
            return false;
        }
    }
    return host.len > 0;
}

/* Whether it has the letters of an IPv6 address, without brackets. */
static bool is_ipv6(struct slice host)
{
    size_t colons = 0;

    for (size_t i = 0; i < host.len; i++) {
        uint8_t byte = host.data[i];
        bool is_hex = is_digit(byte) || (is_letter(byte) && (byte | 0x20) <= 'f');

        if (!is_hex && byte != ':' && byte != '.') {
            return false;
        }
        colons += byte == ':' ? 1 : 0;
    }
    return colons >= 2;
}

static bool is_port(struct slice text)
{
    uint32_t port = 0;

    for (size_t i = 0; i < text.len && i < PORT_DIGITS; i++) {
        if (!is_digit(text.data[i])) {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    return text.len > 0 && text.len <= PORT_DIGITS && port > 0 && port <= PORT_MAX;
}

/* Whether it is host:port, an IPv6 address in brackets. */
static bool is_client(struct slice client)
{
    size_t colon = client.len;

    while (colon > 0 && client.data[colon - 1] != ':') {
        colon--;
    }
    if (colon == 0 || !is_port(slice_from(client, colon))) {
        return false;
    }
    struct slice host = slice_make(client.data, colon - 1);
    bool bracketed = host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']';

    return bracketed ? is_ipv6(slice_make(host.data + 1, host.len - 2)) : is_name(host);
}

/* Whether the texts give both addresses, without characters that have a meaning in the line. */
static bool is_complete(const struct zab_texts *texts)
{
    return texts->port != 0 && (is_name(texts->host) || is_ipv6(texts->host)) &&
           is_client(texts->client);
}

/* Whether ZooKeeper's form is to be used for the configuration that is encoded in `bytes`. */
static bool has_addresses(const struct zab_config *config, struct slice bytes)
{
    struct zab_texts texts;

    for_each_member (member, config) {
        if (!zab_config_texts(bytes, member->id, &texts) || !is_complete(&texts)) {
            return false;
        }
    }
    return config->level >= ZAB_LEVEL_TEXTS;
}

/* A replica has one port for the others, which stands for both of ZooKeeper's. */
static void append_member(const struct zab_member *member, struct slice bytes, struct buf *out)
{
    struct zab_texts texts;
    bool found = zab_config_texts(bytes, member->id, &texts);

    ASSERT(found);
    bool in_brackets = is_ipv6(texts.host);

    buf_printf(out, "server.%" PRIu32 "=%s", member->id, in_brackets ? "[" : "");
    buf_append_slice(out, texts.host);
    buf_printf(out, "%s:%u:%u:%s;", in_brackets ? "]" : "", texts.port, texts.port,
               member->voter || member->empty_seat ? "participant" : "observer");
    buf_append_slice(out, texts.client);
    buf_append_byte(out, '\n');
}

void config_text(const struct zab_config *config, struct slice bytes, struct buf *out)
{
    if (!has_addresses(config, bytes)) {
        append_short(config, out);
        return;
    }
    for_each_member (member, config) {
        append_member(member, bytes, out);
    }
    append_version(config, out);
}
