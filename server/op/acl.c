#include "server/op/acl.h"

#include "base/address.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/crypto.h"
#include "base/utf8.h"

enum {
    TEXT_MAX = 4096 /* Bytes of a scheme or an id. */
};

static const char world_scheme[] = "world";
static const char anyone_id[] = "anyone";
static const char digest_scheme[] = "digest";
static const char ip_scheme[] = "ip";
static const char auth_scheme[] = "auth";
static const char x509_scheme[] = "x509";

static bool is_text(struct slice text, const char *word)
{
    return slice_eq(text, slice_str(word));
}

void acl_put(struct buf *out, const struct acl_entry *entry)
{
    ASSERT(entry->perms <= ACL_ALL);

    wire_put_u8(out, (uint8_t)entry->perms);
    wire_put_bytes(out, entry->scheme);
    wire_put_bytes(out, entry->id);
}

bool acl_next(struct slice *rest, struct acl_entry *ret_entry)
{
    struct wire_reader reader;

    if (rest->len == 0) {
        return false;
    }
    wire_reader_init(&reader, *rest);
    ret_entry->perms = wire_get_u8(&reader);
    ret_entry->scheme = wire_get_bytes(&reader, TEXT_MAX);
    ret_entry->id = wire_get_bytes(&reader, TEXT_MAX);
    if (!wire_reader_ok(&reader) || ret_entry->perms > ACL_ALL) {
        return false;
    }
    *rest = slice_make(reader.pos, (size_t)(reader.end - reader.pos));
    return true;
}

bool acl_is_sound(struct slice acl)
{
    struct acl_entry entry;
    uint32_t count = 0;

    if (acl.len > ACL_BYTES_MAX) {
        return false;
    }
    while (acl_next(&acl, &entry)) {
        count++;
    }
    return acl.len == 0 && count <= ACL_ENTRIES_MAX;
}

static bool address_matches(struct slice id, const char *client)
{
    struct address_block block;
    struct address address;

    return address_block_parse(id, &block) && address_parse(slice_str(client), &address) &&
           address_block_has(&block, &address);
}

/* ---- The check. ---- */

static bool is_id(const struct auth_id *id, const struct acl_entry *entry)
{
    return slice_eq(id->scheme, entry->scheme) && slice_eq(id->id, entry->id);
}

static bool has_id(struct auth *auth, const struct acl_entry *entry)
{
    for (uint32_t i = 0; auth && i < auth->count; i++) {
        if (is_id(&auth->ids[i], entry)) {
            auth_note(&auth->right, i);
            return true;
        }
    }
    return false;
}

/* Whether the list names this user, but only with another password. */
static bool is_wrong(struct slice acl, const struct auth_id *id)
{
    struct slice user = auth_user(id->id);
    struct acl_entry entry;
    bool named = false;

    while (acl_next(&acl, &entry)) {
        if (is_id(id, &entry)) {
            return false;
        }
        named =
            named || (slice_eq(entry.scheme, id->scheme) && slice_eq(auth_user(entry.id), user));
    }
    return named;
}

static void note_wrong(struct slice acl, struct auth *auth)
{
    for (uint32_t i = 0; auth && i < auth->count; i++) {
        if (auth_has_password(&auth->ids[i]) && is_wrong(acl, &auth->ids[i])) {
            auth_note(&auth->wrong, i);
        }
    }
}

static bool entry_matches(const struct acl_entry *entry, const struct op_principal *who)
{
    if (is_text(entry->scheme, world_scheme)) {
        return is_text(entry->id, anyone_id);
    }
    if (is_text(entry->scheme, ip_scheme)) {
        return address_matches(entry->id, who->address);
    }
    return has_id(who->auth, entry);
}

bool acl_allows(struct slice acl, const struct op_principal *who, uint32_t perms)
{
    struct slice rest = acl;
    struct acl_entry entry;

    if (acl.len == 0 || (who->auth && who->auth->super)) {
        return true;
    }
    while (acl_next(&rest, &entry)) {
        if ((entry.perms & perms) != 0 && entry_matches(&entry, who)) {
            return true;
        }
    }
    note_wrong(acl, who->auth);
    return false;
}

uint32_t acl_perms(struct slice acl, const struct op_principal *who)
{
    struct slice rest = acl;
    struct acl_entry entry;
    uint32_t perms = 0;

    if (acl.len == 0 || (who->auth && who->auth->super)) {
        return ACL_ALL;
    }
    while (acl_next(&rest, &entry)) {
        perms |= entry_matches(&entry, who) ? entry.perms : 0;
    }
    note_wrong(acl, who->auth);
    return perms;
}

/* Whether `as` means this id: "alice" matches any hash, "alice:<hash>" only this hash. */
static bool digest_is_meant(struct slice id, struct slice as)
{
    ASSERT(as.len > 0);
    return slice_eq(id, as) ||
           (slice_starts_with(id, as) && id.data[as.len] == ':' && slice_find(as, ':') == as.len);
}

static bool entry_is_meant(const struct acl_entry *entry, struct slice scheme, struct slice id)
{
    char address[ADDRESS_TEXT_MAX] = "";

    if (is_text(entry->scheme, world_scheme)) {
        return is_text(entry->id, anyone_id);
    }
    if (!slice_eq(entry->scheme, scheme)) {
        return false;
    }
    if (is_text(scheme, x509_scheme)) {
        return slice_eq(entry->id, id);
    }
    if (!is_text(scheme, ip_scheme)) {
        return digest_is_meant(entry->id, id);
    }
    ASSERT(id.len > 0 && id.len < sizeof(address)); /* is_name has parsed this address. */
    memcpy(address, id.data, id.len);
    return address_matches(entry->id, address);
}

static bool is_name(struct slice scheme, struct slice id)
{
    struct address address;

    if (is_text(scheme, world_scheme)) {
        return is_text(id, anyone_id);
    }
    if (is_text(scheme, ip_scheme)) {
        return address_parse(id, &address);
    }
    return (is_text(scheme, digest_scheme) || is_text(scheme, x509_scheme)) && id.len > 0;
}

uint32_t acl_perms_as(struct slice acl, struct slice as, bool *ret_known)
{
    size_t colon = slice_find(as, ':');
    struct slice scheme = slice_make(as.data, colon);
    struct slice id = colon < as.len ? slice_from(as, colon + 1) : slice_make(NULL, 0);
    struct acl_entry entry;
    uint32_t perms = acl.len == 0 ? ACL_ALL : 0;

    *ret_known = is_name(scheme, id);
    while (*ret_known && acl_next(&acl, &entry)) {
        perms |= entry_is_meant(&entry, scheme, id) ? entry.perms : 0;
    }
    return *ret_known ? perms : 0;
}

/* ---- The fix-up. ---- */

/* Whether the id has the form user:base64(SHA1(user:password)). More cannot be checked, because
 * there is no list of users. */
static bool is_digest_id(struct slice id)
{
    size_t colon = slice_find(id, ':');
    struct buf hash;

    if (colon == 0 || colon == id.len) {
        return false;
    }
    buf_init(&hash, id.len);
    bool sound =
        base64_decode(&hash, slice_from(id, colon + 1)) == ERR_OK && hash.len == CRYPTO_SHA1_LEN;

    buf_release(&hash);
    return sound;
}

static bool is_known(const struct acl_entry *entry)
{
    struct address_block block;

    if (entry->perms == 0 || entry->perms > ACL_ALL || !utf8_valid(entry->id)) {
        return false;
    }
    if (is_text(entry->scheme, world_scheme)) {
        return is_text(entry->id, anyone_id);
    }
    if (is_text(entry->scheme, digest_scheme)) {
        return is_digest_id(entry->id);
    }
    if (is_text(entry->scheme, x509_scheme)) {
        return entry->id.len > 0;
    }
    return is_text(entry->scheme, ip_scheme) && address_block_parse(entry->id, &block);
}

/* Adds the entry unless the list has it. */
static void put_new(struct buf *out, const struct acl_entry *entry)
{
    struct slice rest = buf_slice(out);
    struct acl_entry known;

    while (acl_next(&rest, &known)) {
        if (known.perms == entry->perms && slice_eq(known.scheme, entry->scheme) &&
            slice_eq(known.id, entry->id)) {
            return;
        }
    }
    acl_put(out, entry);
}

/* Adds the entries for which the scheme `auth` stands: one for each identity of the caller. Returns
 * false when the caller has no identity. */
static bool put_caller(struct buf *out, const struct op_principal *who, uint32_t perms)
{
    const struct auth *auth = who->auth;

    if (!auth || auth->count == 0 || perms == 0) {
        return false;
    }
    for (uint32_t i = 0; i < auth->count; i++) {
        put_new(out, &(struct acl_entry){
                         .perms = perms, .scheme = auth->ids[i].scheme, .id = auth->ids[i].id});
    }
    return true;
}

static enum err refuse(struct buf *out, const char **ret_why, const char *why)
{
    buf_clear(out);
    *ret_why = why;
    return ERR_INVALID_ACL;
}

static bool is_open(struct slice acl)
{
    struct acl_entry entry;

    return acl_next(&acl, &entry) && acl.len == 0 && entry.perms == ACL_ALL &&
           is_text(entry.scheme, world_scheme);
}

enum err acl_fix(struct slice acl, const struct op_principal *who, struct buf *out,
                 const char **ret_why)
{
    static const char too_large[] = "the ACL has more than 128 entries, more than 16384 "
                                    "bytes, or a text of more than 4096 bytes";
    struct acl_entry entry;

    buf_clear(out);
    if (acl.len == 0) {
        return refuse(out, ret_why, "the ACL has no entry: give at least one");
    }
    if (!acl_is_sound(acl)) {
        return refuse(out, ret_why, too_large);
    }
    while (acl_next(&acl, &entry)) {
        if (is_text(entry.scheme, auth_scheme)) {
            if (!put_caller(out, who, entry.perms)) {
                return refuse(
                    out, ret_why,
                    "the scheme auth (creator) needs credentials: this request has no identity");
            }
        } else if (is_known(&entry)) {
            put_new(out, &entry);
        } else {
            return refuse(
                out, ret_why,
                "each entry needs perms, a scheme (world, auth, digest, ip, x509) and an id of "
                "that scheme: anyone, user:base64(SHA1(user:password)), address[/bits], "
                "the identity of a certificate");
        }
    }
    if (!acl_is_sound(buf_slice(out)) || out->overflow) {
        return refuse(out, ret_why, too_large);
    }
    if (is_open(buf_slice(out))) {
        buf_clear(out);
    }
    return ERR_OK;
}

/* ---- Standard lists. ---- */

#define ENTRY(perms, scheme_len, scheme, id_len, id) \
    perms "" scheme_len "\0\0\0" scheme id_len "\0\0\0" id

bool acl_standard(struct slice name, struct slice *ret_acl)
{
    static const char open[] = ENTRY("\x1f", "\x05", "world", "\x06", "anyone");
    static const char read[] = ENTRY("\x01", "\x05", "world", "\x06", "anyone");
    static const char creator[] = ENTRY("\x1f", "\x04", "auth", "\0", "");

    if (is_text(name, "open")) {
        *ret_acl = slice_make(open, sizeof(open) - 1);
    } else if (is_text(name, "read")) {
        *ret_acl = slice_make(read, sizeof(read) - 1);
    } else if (is_text(name, "creator")) {
        *ret_acl = slice_make(creator, sizeof(creator) - 1);
    } else {
        return false;
    }
    return true;
}
