/*
 * jsonw.h - a streaming JSON writer into a buf. The writer adds the commas; the caller opens, names
 * and closes objects and arrays. Nesting is bounded by JSONW_DEPTH_MAX (asserted).
 *
 * Answers are written with this writer and not built as a tree of objects, because a tree would
 * cost more than all other work of a small request.
 */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include "base/buf.h"
#include "base/text.h"

enum {
    JSONW_DEPTH_MAX = 32
};

struct jsonw {
    struct buf *out;   /* Not owned. */
    struct text *text; /* Not owned. Set: large blobs become references in `text`, and `out` is
                          text->own, for all other bytes. NULL: blobs are copied into `out`. */
    uint32_t depth;
    uint32_t has_items; /* One bit per depth: a comma is due before the next item. */
    bool after_key;
};

void jsonw_init(struct jsonw *json, struct buf *out);

/* Prepares to write into a text, which refers to large blobs and does not copy them (text.h). */
void jsonw_init_text(struct jsonw *json, struct text *text);
void jsonw_object(struct jsonw *json);
void jsonw_object_end(struct jsonw *json);
void jsonw_array(struct jsonw *json);
void jsonw_array_end(struct jsonw *json);

/* Writes a member's name: plain ASCII that needs no escapes. */
void jsonw_key(struct jsonw *json, const char *key);

/* Writes a string with escapes; invalid UTF-8 is replaced by U+FFFD. */
void jsonw_string(struct jsonw *json, struct slice text);
void jsonw_cstr(struct jsonw *json, const char *text);
void jsonw_base64(struct jsonw *json, struct slice bytes);
void jsonw_u64(struct jsonw *json, uint64_t value);
void jsonw_i64(struct jsonw *json, int64_t value);
void jsonw_bool(struct jsonw *json, bool value);
void jsonw_null(struct jsonw *json);
void jsonw_hex(struct jsonw *json, uint64_t value); /* "0x12ab", a string. */

/* Writes bytes that are already valid JSON. */
void jsonw_raw(struct jsonw *json, struct slice json_text);

/* Write the bytes of a blob like jsonw_string, jsonw_base64 and jsonw_raw. The bytes for
 * jsonw_blob_string must be valid UTF-8. */
void jsonw_blob_string(struct jsonw *json, struct blob *blob);
void jsonw_blob_base64(struct jsonw *json, struct blob *blob);
void jsonw_blob_raw(struct jsonw *json, struct blob *blob);

/* Members in one call: jsonw_kv_u64 and so on write key and value; jsonw_kv_object and
 * jsonw_kv_array write the key and the beginning of the value. */
#define JSONW_KV(form, type)                                                            \
    static inline void jsonw_kv_##form(struct jsonw *json, const char *key, type value) \
    {                                                                                   \
        jsonw_key(json, key);                                                           \
        jsonw_##form(json, value);                                                      \
    }

JSONW_KV(cstr, const char *)
JSONW_KV(string, struct slice)
JSONW_KV(u64, uint64_t)
JSONW_KV(i64, int64_t)
JSONW_KV(bool, bool)
JSONW_KV(hex, uint64_t)

static inline void jsonw_kv_object(struct jsonw *json, const char *key)
{
    jsonw_key(json, key);
    jsonw_object(json);
}

static inline void jsonw_kv_array(struct jsonw *json, const char *key)
{
    jsonw_key(json, key);
    jsonw_array(json);
}

#endif
