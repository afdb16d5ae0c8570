#include "server/op/change.h"

#include "base/address.h"
#include "base/check.h"
#include "base/wire.h"
#include "server/op/ops.h"

#include <string.h>

enum {
    CHANGE_VERSION = 1,
    CHANGE_JOINING = 0x80, /* Bit in the byte of a role. */
    PORT_DIGITS = 5,
    PORT_MAX = 65535
};

const char *op_role_name(enum op_role role)
{
    static const char *const names[] = {[OP_ROLE_VOTER] = "voter",
                                        [OP_ROLE_OBSERVER] = "observer",
                                        [OP_ROLE_EMPTY_SEAT] = "empty-seat"};

    ASSERT(role > OP_ROLE_NONE && role < OP_ROLES);
    return names[role];
}

bool op_changes_members(enum op_id op)
{
    return op == OP_MEMBER_ADD || op == OP_MEMBER_SET || op == OP_MEMBER_REMOVE ||
           op == OP_MEMBERS_CHANGE;
}

/* ---- Lists of ids. ---- */

uint32_t op_ids_count(struct slice ids)
{
    return (uint32_t)(ids.len / OP_ID_BYTES);
}

uint32_t op_ids_at(struct slice ids, uint32_t at)
{
    ASSERT(at < op_ids_count(ids));
    const uint8_t *bytes = ids.data + (size_t)at * OP_ID_BYTES;

    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8;
}

void op_ids_put(uint8_t *list, uint32_t at, uint32_t id)
{
    uint8_t *bytes = list + (size_t)at * OP_ID_BYTES;

    ASSERT(id <= OP_MEMBER_ID_MAX);
    bytes[0] = (uint8_t)id;
    bytes[1] = (uint8_t)(id >> 8);
}

/* ---- Addresses. ---- */

static bool is_port(struct slice text, uint16_t *ret_port)
{
    uint32_t port = 0;

    for (size_t i = 0; i < text.len && i <= PORT_DIGITS; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    *ret_port = (uint16_t)port;
    return text.len > 0 && text.len <= PORT_DIGITS && port > 0 && port <= PORT_MAX;
}

/* Whether all bytes are printable ASCII without blanks. */
static bool is_plain(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return true;
}

static bool is_ipv6(struct slice host)
{
    struct address address;

    return address_parse(host, &address) && slice_find(host, ':') < host.len;
}

bool op_address_split(struct slice text, struct slice *ret_host, uint16_t *ret_port)
{
    size_t colon = text.len;

    while (colon > 0 && text.data[colon - 1] != ':') {
        colon--;
    }
    if (colon < 2 || !is_port(slice_from(text, colon), ret_port)) {
        return false;
    }
    struct slice host = slice_make(text.data, colon - 1);

    if (host.data[0] == '[') {
        if (host.len < 3 || host.data[host.len - 1] != ']') {
            return false;
        }
        *ret_host = slice_make(host.data + 1, host.len - 2);
        return is_ipv6(*ret_host);
    }
    *ret_host = host;
    return host.len <= OP_HOST_MAX && is_plain(host) && slice_find(host, ':') == host.len;
}

/* ---- Rules across arguments. ---- */

static bool is_address(struct slice text)
{
    struct slice host;
    uint16_t port;

    return op_address_split(text, &host, &port);
}

/* Whether the address is one to listen at, which no other replica can dial. */
static bool is_any(struct slice text)
{
    struct slice host;
    uint16_t port;
    struct address address;
    char shown[ADDRESS_TEXT_MAX];

    if (!op_address_split(text, &host, &port) || !address_parse(host, &address)) {
        return false;
    }
    address_text(&address, shown);
    return strcmp(shown, "0.0.0.0") == 0 || strcmp(shown, "::") == 0;
}

static bool is_id(uint32_t id)
{
    return id > 0 && id <= OP_MEMBER_ID_MAX;
}

/* Returns why the lists of ids of a change are not sound; NULL: they are. */
static const char *fault_of_lists(const struct op_args *args)
{
    const struct slice lists[] = {args->remove, args->promote, args->demote};
    uint32_t ids[OP_MEMBERS_MAX];
    uint32_t count = 0;

    for (size_t list = 0; list < sizeof(lists) / sizeof(lists[0]); list++) {
        if (lists[list].len % OP_ID_BYTES != 0 ||
            count + op_ids_count(lists[list]) > OP_MEMBERS_MAX) {
            return "remove, promote and demote have at most 64 ids together";
        }
        for (uint32_t i = 0; i < op_ids_count(lists[list]); i++) {
            ids[count++] = op_ids_at(lists[list], i);
        }
    }
    if (count == 0) {
        return "remove, promote or demote must be given: a list of ids that is not empty";
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_id(ids[i])) {
            return "remove, promote and demote are lists of ids, numbers from 1 to 65535";
        }
        for (uint32_t j = 0; j < i; j++) {
            if (ids[i] == ids[j]) {
                return "remove, promote and demote name one id twice: name each id once";
            }
        }
    }
    return NULL;
}

/* Returns why the texts of a member are not sound; NULL: they are. */
static const char *fault_of_texts(const struct op_args *args)
{
    if (args->op == OP_MEMBER_ADD && !args->has_peer) {
        return "peer must be given: host:port, the address of the new member for other replicas";
    }
    if (args->has_peer && !is_address(args->peer)) {
        return "peer must be host:port, the address for other replicas: a port from 1 to 65535, a "
               "host of at most 253 bytes without blanks, an IPv6 address in brackets";
    }
    if (args->has_peer && is_any(args->peer)) {
        return "peer is the address of no machine (0.0.0.0 or ::): give the one at which the "
               "others reach this member";
    }
    if (args->client.len > 0 && (args->client.len > OP_CLIENT_MAX || !is_address(args->client))) {
        return "client must be host:port, the address for clients: a port from 1 to 65535, a host "
               "without blanks, at most 255 bytes, an IPv6 address in brackets";
    }
    if (is_any(args->client)) {
        return "client is the address of no machine (0.0.0.0 or ::): give the one at which clients "
               "reach this member";
    }
    if (args->zone.len > OP_ZONE_MAX || !is_plain(args->zone)) {
        return "zone must be at most 63 bytes of printable ASCII without blanks";
    }
    return NULL;
}

static const char *fault_of(const struct op_args *args)
{
    if (args->op == OP_MEMBERS_CHANGE) {
        return fault_of_lists(args);
    }
    if (!is_id(args->member)) {
        return "id must be given: the id of the member, a number from 1 to 65535";
    }
    bool has_texts = args->has_peer || args->has_client || args->has_zone;

    if (args->op == OP_MEMBER_SET && args->role == OP_ROLE_NONE && !has_texts) {
        return "role, peer, client or zone must be given: there is nothing to change";
    }
    if (args->op == OP_MEMBER_SET && args->role != OP_ROLE_NONE && has_texts) {
        return "role excludes peer, client and zone: change the role in a request of its own";
    }
    return fault_of_texts(args);
}

enum err op_change_check(const struct op_args *args, const char **ret_why)
{
    ASSERT(op_changes_members(args->op));
    *ret_why = fault_of(args);
    return *ret_why ? ERR_BAD_ARGUMENTS : ERR_OK;
}

/* ---- The answer: version u8, then the members of struct op_change; a count is one byte, a member
 * its id as u16 and its role as u8. ---- */

_Static_assert(1 + 2 * 8 + 3 * 4 + 1 + OP_MEMBERS_MAX * 3 <= OP_CHANGE_BYTES_MAX,
               "an answer has room for all members");

void op_change_encode(const struct op_change *change, struct buf *out)
{
    ASSERT(change->count <= OP_MEMBERS_MAX);
    wire_put_u8(out, CHANGE_VERSION);
    wire_put_u64(out, change->version);
    wire_put_u64(out, change->previous);
    wire_put_u32(out, (uint32_t)change->tolerance_before);
    wire_put_u32(out, (uint32_t)change->tolerance_after);
    wire_put_u32(out, change->in_step);
    wire_put_u8(out, (uint8_t)change->count);
    for (uint32_t i = 0; i < change->count; i++) {
        const struct op_change_member *member = &change->members[i];

        wire_put_u16(out, (uint16_t)member->id);
        wire_put_u8(out, (uint8_t)(member->role | (member->joining ? CHANGE_JOINING : 0U)));
    }
}

static void get_member(struct wire_reader *reader, struct op_change_member *ret_member)
{
    ret_member->id = wire_get_u16(reader);
    uint8_t role = wire_get_u8(reader);

    ret_member->joining = (role & CHANGE_JOINING) != 0;
    ret_member->role = (enum op_role)(role & ~(unsigned)CHANGE_JOINING);
    if (ret_member->role <= OP_ROLE_NONE || ret_member->role >= OP_ROLES) {
        wire_reader_fail(reader);
        ret_member->role = OP_ROLE_OBSERVER;
    }
}

bool op_change_decode(struct slice bytes, struct op_change *ret_change)
{
    struct wire_reader reader;

    *ret_change = (struct op_change){0};
    wire_reader_init(&reader, bytes);
    if (wire_get_u8(&reader) != CHANGE_VERSION) {
        return false;
    }
    ret_change->version = wire_get_u64(&reader);
    ret_change->previous = wire_get_u64(&reader);
    ret_change->tolerance_before = (int32_t)wire_get_u32(&reader);
    ret_change->tolerance_after = (int32_t)wire_get_u32(&reader);
    ret_change->in_step = wire_get_u32(&reader);
    ret_change->count = wire_get_u8(&reader);
    if (ret_change->count > OP_MEMBERS_MAX) {
        ret_change->count = 0;
        return false;
    }
    for (uint32_t i = 0; i < ret_change->count; i++) {
        get_member(&reader, &ret_change->members[i]);
    }
    return wire_reader_done(&reader);
}

zxid_t op_change_version(struct slice bytes)
{
    struct op_change change;

    if (!op_change_decode(bytes, &change)) {
        return 0;
    }
    return change.version != 0 ? change.version : change.previous;
}

bool op_change_is_applied(struct slice bytes)
{
    struct op_change change;

    return op_change_decode(bytes, &change) && change.version != 0;
}
