#include "cli/acl_text.h"

#include "cli/jsonr.h"

#include <string.h>

static const struct {
    char letter;
    const char *word;
} perms[] = {{'c', "create"}, {'d', "delete"}, {'r', "read"}, {'w', "write"}, {'a', "admin"}};

enum {
    PERMS = sizeof(perms) / sizeof(perms[0])
};

static const char *word_of(uint8_t letter)
{
    for (size_t i = 0; i < PERMS; i++) {
        if ((uint8_t)perms[i].letter == letter) {
            return perms[i].word;
        }
    }
    return NULL;
}

static json_t *words_of(struct slice letters)
{
    json_t *words = json_array();

    for (size_t i = 0; i < letters.len; i++) {
        const char *word = word_of(letters.data[i]);

        if (!word) {
            json_decref(words);
            return NULL;
        }
        (void)json_array_append_new(words, json_string(word));
    }
    if (letters.len == 0) {
        json_decref(words);
        return NULL;
    }
    return words;
}

json_t *acl_text_entry(struct slice text)
{
    const uint8_t *first = text.len > 0 ? memchr(text.data, ':', text.len) : NULL;
    const uint8_t *last = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
    json_t *words = NULL;

    if (!first || first == last || first == text.data) {
        return NULL;
    }
    words = words_of(slice_make(last + 1, (size_t)(text.data + text.len - last - 1)));
    if (!words) {
        return NULL;
    }
    return json_pack("{s:o,s:s%,s:s%}", "perms", words, "scheme", (const char *)text.data,
                     (size_t)(first - text.data), "id", (const char *)first + 1,
                     (size_t)(last - first - 1));
}

static struct slice trim(const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return slice_make(text, len);
}

json_t *acl_text_parse(const char *text)
{
    json_t *list = NULL;

    if (strcmp(text, "open") == 0 || strcmp(text, "read") == 0 || strcmp(text, "creator") == 0) {
        return json_string(text);
    }
    list = json_array();
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        json_t *entry = acl_text_entry(trim(at, len));

        if (!entry) {
            json_decref(list);
            return NULL;
        }
        (void)json_array_append_new(list, entry);
        if (at[len] == '\0') {
            return list;
        }
        at += len + 1;
    }
}

void acl_text_put(const json_t *entry, struct buf *out)
{
    const json_t *list = jsonr_at(entry, "perms");

    buf_printf(out, "%s:%s:", jsonr_text(entry, "scheme"), jsonr_text(entry, "id"));
    for (size_t i = 0; i < PERMS; i++) {
        const json_t *word = NULL;
        size_t at = 0;

        json_array_foreach(list, at, word)
        {
            if (strcmp(json_string_value(word), perms[i].word) == 0) {
                buf_append_byte(out, (uint8_t)perms[i].letter);
            }
        }
    }
}

static bool is_of(const json_t *entry, const char *scheme, const char *id)
{
    return strcmp(jsonr_text(entry, "scheme"), scheme) == 0 &&
           strcmp(jsonr_text(entry, "id"), id) == 0;
}

void acl_text_add(json_t *list, json_t *entry)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (is_of(json_array_get(list, i), jsonr_text(entry, "scheme"), jsonr_text(entry, "id"))) {
            (void)json_array_set_new(list, i, entry);
            return;
        }
    }
    (void)json_array_append_new(list, entry);
}

/* "scheme:id" of an entry. */
static bool is_who(const json_t *entry, const char *who)
{
    const char *scheme = jsonr_text(entry, "scheme");
    size_t len = strlen(scheme);

    return strncmp(who, scheme, len) == 0 && who[len] == ':' &&
           strcmp(who + len + 1, jsonr_text(entry, "id")) == 0;
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
