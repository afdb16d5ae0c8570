/* Access control lists as JSON: an array of entries, or the name of a standard list. */
#include "server/json/op_json_int.h"
#include "server/op/acl.h"

#include <jansson.h>

static const struct {
    const char *name;
    uint32_t perms;
} perm_words[] = {
    {"read", ACL_READ},     {"write", ACL_WRITE}, {"create", ACL_CREATE},
    {"delete", ACL_DELETE}, {"admin", ACL_ADMIN}, {"all", ACL_ALL}, /* Parsed, but never written. */
};

enum {
    PERM_WORDS = sizeof(perm_words) / sizeof(perm_words[0])
};

static uint32_t perm_of(struct slice name)
{
    for (size_t i = 0; i < PERM_WORDS; i++) {
        if (slice_eq(slice_str(perm_words[i].name), name)) {
            return perm_words[i].perms;
        }
    }
    return 0;
}

static enum err refuse(struct op_json_parse *parse, const char *why)
{
    return op_json_fail(parse, ERR_INVALID_ACL, "acl", why);
}

static enum err take_perms(struct op_json_parse *parse, const json_t *list, uint32_t *ret_perms)
{
    *ret_perms = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        uint32_t perm = perm_of(op_json_string(json_array_get(list, i)));

        if (perm == 0) {
            return refuse(parse, "has an unknown permission; use read, write, create, delete, "
                                 "admin or all");
        }
        *ret_perms |= perm;
    }
    return *ret_perms != 0
               ? ERR_OK
               : refuse(parse, "entries must have perms, a list of permissions that is not empty");
}

static enum err take_entry(struct op_json_parse *parse, const json_t *object, struct buf *out)
{
    const json_t *perms = json_object_get(object, "perms");
    const json_t *scheme = json_object_get(object, "scheme");
    const json_t *id = json_object_get(object, "id");
    size_t known = (perms ? 1U : 0U) + (scheme ? 1U : 0U) + (id ? 1U : 0U);
    struct acl_entry entry = {.scheme = op_json_string(scheme), .id = op_json_string(id)};
    enum err err = ERR_OK;

    /* An unknown member is refused: it may be a misspelled one that would change the rights. */
    if (!json_is_object(object) || !json_is_string(scheme) || (id && !json_is_string(id)) ||
        json_object_size(object) != known) {
        return refuse(parse, "entries must be objects with the members perms, scheme and id");
    }
    err = take_perms(parse, perms, &entry.perms);
    if (err == ERR_OK) {
        acl_put(out, &entry);
    }
    return err;
}

static enum err take_entries(struct op_json_parse *parse, const json_t *list, struct buf *out)
{
    enum err err = ERR_OK;

    if (json_array_size(list) == 0 || json_array_size(list) > ACL_ENTRIES_MAX) {
        return refuse(parse, "must have 1 to 128 entries");
    }
    for (size_t i = 0; i < json_array_size(list) && err == ERR_OK; i++) {
        err = take_entry(parse, json_array_get(list, i), out);
    }
    if (err == ERR_OK && (out->overflow || !acl_is_sound(buf_slice(out)))) {
        err = refuse(parse, "has more than 16384 bytes, or a text of more than 4096 bytes");
    }
    return err;
}

enum err op_json_take_acl(struct op_json_parse *parse, const json_t *value, struct slice *ret_acl)
{
    struct buf encoded;
    enum err err = ERR_OK;

    if (json_is_string(value)) {
        return acl_standard(op_json_string(value), ret_acl)
                   ? ERR_OK
                   : refuse(parse, "must be open, read, creator or a list of entries");
    }
    if (!json_is_array(value)) {
        return refuse(parse, "must be the name of a standard list or a list of entries");
    }
    buf_init(&encoded, ACL_BYTES_MAX);
    err = take_entries(parse, value, &encoded);
    if (err == ERR_OK) {
        /* An encoded entry is shorter than its text, so there is room. */
        *ret_acl = op_json_keep(parse, buf_slice(&encoded));
    }
    buf_release(&encoded);
    return err;
}

void op_json_perms(struct jsonw *json, uint32_t perms)
{
    jsonw_array(json);
    for (size_t i = 0; i < PERM_WORDS; i++) {
        if (perm_words[i].perms != ACL_ALL && (perms & perm_words[i].perms) != 0) {
            jsonw_cstr(json, perm_words[i].name);
        }
    }
    jsonw_array_end(json);
}

static void put_entry(struct jsonw *json, const struct acl_entry *entry)
{
    jsonw_object(json);
    jsonw_key(json, "perms");
    op_json_perms(json, entry->perms);
    jsonw_kv_string(json, "scheme", entry->scheme);
    jsonw_kv_string(json, "id", entry->id);
    jsonw_object_end(json);
}

void op_json_acl(struct jsonw *json, struct slice acl)
{
    struct acl_entry entry;

    if (acl.len == 0) {
        bool known = acl_standard(slice_str("open"), &acl);

        ASSERT(known);
    }
    jsonw_array(json);
    while (acl_next(&acl, &entry)) {
        put_entry(json, &entry);
    }
    jsonw_array_end(json);
}
