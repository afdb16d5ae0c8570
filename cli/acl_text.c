#include "cli/acl_text.h"

#include "cli/jsonr.h"
#include "cli/words.h"
#include "server/op/acl_list.h"

#include <string.h>

enum {
    BODY_MAX = 1 << 20
};

static const char letters[] = "cdrwa";
static const char *const words[] = {"create", "delete", "read", "write", "admin"};

static json_t *words_of(struct slice text)
{
    json_t *list = json_array();
    bool known = text.len > 0;

    for (size_t i = 0; known && i < text.len; i++) {
        const char *letter = text.data[i] ? strchr(letters, text.data[i]) : NULL;

        known = letter && json_array_append_new(list, json_string(words[letter - letters])) == 0;
    }
    if (!known) {
        json_decref(list);
    }
    return known ? list : NULL;
}

/* Returns the permissions at the end of an entry: what follows the last colon. */
static json_t *perms_of(struct slice text)
{
    const uint8_t *last = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;

    return last ? words_of(slice_from(text, (size_t)(last - text.data) + 1)) : NULL;
}

json_t *acl_text_entry(struct slice text)
{
    struct acl_entry entry;
    json_t *list = NULL;
    BUF_AUTO(memory, BODY_MAX);

    if (!acl_list_parse(text, &memory, &entry) || entry.scheme.len == 0) {
        return NULL;
    }
    list = perms_of(text);
    return list ? json_pack("{s:o,s:s%,s:s%}", "perms", list, "scheme", entry.scheme.data,
                            entry.scheme.len, "id",
                            entry.id.len > 0 ? (const char *)entry.id.data : "", entry.id.len)
                : NULL;
}

json_t *acl_text_parse(const char *text)
{
    struct slice rest = slice_str(text);
    struct slice part;
    json_t *list = NULL;

    if (words_find("open, read, creator", text) >= 0) {
        return json_string(text);
    }
    list = json_array();
    while (list && acl_list_cut(&rest, &part)) {
        json_t *entry = acl_text_entry(part);

        if (entry) {
            (void)json_array_append_new(list, entry);
        } else {
            json_decref(list);
            list = NULL;
        }
    }
    /* A comma at the end has no entry behind it. */
    if (list && (json_array_size(list) == 0 || text[strlen(text) - 1] == ',')) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

void acl_text_put(const json_t *entry, struct buf *out)
{
    buf_printf(out, "%s:", jsonr_text(entry, "scheme"));
    acl_list_put_id(out, slice_str(jsonr_text(entry, "id")));
    buf_append_byte(out, ':');
    for (size_t i = 0; i < strlen(letters); i++) {
        JSONR_EACH (word, jsonr_at(entry, "perms")) {
            if (strcmp(json_string_value(word), words[i]) == 0) {
                buf_append_byte(out, (uint8_t)letters[i]);
                break; /* A list may name a permission twice. */
            }
        }
    }
}

/* Whether the entry has this scheme and id ("scheme:id"). */
static bool is_who(const json_t *entry, const char *who)
{
    const char *scheme = jsonr_text(entry, "scheme");
    size_t len = strlen(scheme);

    return strncmp(who, scheme, len) == 0 && who[len] == ':' &&
           strcmp(who + len + 1, jsonr_text(entry, "id")) == 0;
}

void acl_text_add(json_t *list, json_t *entry)
{
    BUF_AUTO(who, BODY_MAX);

    buf_printf(&who, "%s:%s", jsonr_text(entry, "scheme"), jsonr_text(entry, "id"));
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (is_who(json_array_get(list, i), buf_cstr(&who))) {
            (void)json_array_set_new(list, i, entry);
            return;
        }
    }
    (void)json_array_append_new(list, entry);
}

bool acl_text_remove(json_t *list, const char *who)
{
    bool found = false;

    for (size_t i = json_array_size(list); i > 0; i--) {
        if (is_who(json_array_get(list, i - 1), who)) {
            (void)json_array_remove(list, i - 1);
            found = true;
        }
    }
    return found;
}
