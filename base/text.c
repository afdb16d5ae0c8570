#include "base/text.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/jsonesc.h"
#include "base/mem.h"
#include "base/minmax.h"

enum {
    SKIP_BYTES = 4096 /* Bytes that are encoded at a time and thrown away. */
};

void text_init(struct text *text, size_t size_max, struct budget *budget)
{
    ASSERT(budget);
    *text = (struct text){.budget = budget};
    buf_init(&text->own, size_max);
}

/* Gives back what was taken from the budget; the text keeps its bytes. */
static void uncount(struct text *text)
{
    if (text->counted > 0) {
        budget_give(text->budget, text->counted);
        text->counted = 0;
    }
}

static void drop_refs(struct text *text)
{
    for (uint32_t i = 0; i < text->ref_count; i++) {
        blob_unpin(text->refs[i].blob, text->budget);
    }
    mem_free(text->refs);
    text->refs = NULL;
    text->ref_count = 0;
    text->ref_cap = 0;
    text->ref_len = 0;
    text->pinned = 0;
}

void text_release(struct text *text)
{
    text_clear(text, 0);
}

void text_clear(struct text *text, size_t keep_bytes)
{
    uncount(text);
    if (text->refs) {
        drop_refs(text);
    }
    text->no_room = false;
    buf_trim(&text->own, keep_bytes);
}

/* ---- Writing ---- */

static uint64_t base64_len(uint64_t len)
{
    return (len / 3 + (len % 3 != 0)) * 4;
}

static uint64_t encoded_len(struct slice bytes, enum text_form form)
{
    if (form == TEXT_BASE64) {
        return base64_len(bytes.len);
    }
    return form == TEXT_ESCAPED ? jsonesc_len(bytes) : bytes.len;
}

static void append_escaped(struct buf *out, struct slice bytes)
{
    size_t pos = 0;

    while (pos < bytes.len) {
        size_t end = jsonesc_run(bytes, pos);
        uint8_t unit[JSONESC_MAX];

        (void)buf_append(out, bytes.data + pos, end - pos);
        if (end < bytes.len) {
            (void)buf_append(out, unit, jsonesc_put(unit, bytes.data[end]));
            end++;
        }
        pos = end;
    }
}

static void append_copy(struct text *text, struct slice bytes, enum text_form form)
{
    if (form == TEXT_BASE64) {
        base64_encode(&text->own, bytes);
    } else if (form == TEXT_ESCAPED) {
        append_escaped(&text->own, bytes);
    } else {
        (void)buf_append_slice(&text->own, bytes);
    }
}

static struct text_ref *add_ref(struct text *text)
{
    MEM_GROW(text->refs, text->ref_count, text->ref_cap, UINT32_MAX);
    return &text->refs[text->ref_count++];
}

void text_append_blob(struct text *text, struct blob *blob, enum text_form form)
{
    struct slice bytes = blob_slice(blob);

    if (bytes.len < TEXT_REF_MIN) {
        append_copy(text, bytes, form);
        return;
    }
    if (text->no_room || text->own.overflow) {
        return; /* An earlier append has failed, so the text cannot be sent. */
    }

    uint64_t len = encoded_len(bytes, form);

    if (len > text->own.size_max || text_len(text) > text->own.size_max - len) {
        text->own.overflow = true;
        return;
    }
    if (!blob_try_pin(blob, text->budget)) {
        text->no_room = true;
        return;
    }
    if (text->ref_count == 0 || text->refs[text->ref_count - 1].blob != blob) {
        text->pinned += blob->len;
    }
    *add_ref(text) = (struct text_ref){.blob = blob, .at = text->own.len, .len = len, .form = form};
    text->ref_len += len;
}

/* Returns the bytes of the text that count in the budget, its blobs not included. */
static uint64_t kept_bytes(const struct text *text)
{
    uint64_t own = text->own.cap > TEXT_FREE_BYTES ? text->own.cap : 0;

    return own + text->ref_cap * sizeof(*text->refs);
}

void text_count(struct text *text)
{
    uncount(text);
    text->counted = kept_bytes(text);
    if (text->counted > 0) {
        budget_take(text->budget, text->counted);
    }
}

bool text_seal(struct text *text)
{
    bool small = text_is_plain(text) && text->own.len <= TEXT_SMALL_BYTES;

    if (text_len(text) > text->own.size_max) {
        text->own.overflow = true;
    }
    if (text->no_room || text->own.overflow) {
        bool no_room = text->no_room;

        text_clear(text, TEXT_FREE_BYTES);
        text->no_room = no_room;
        text->own.overflow = !no_room;
        return false;
    }
    if (small) {
        text_count(text);
        return true;
    }
    uncount(text);
    if (!budget_try_take(text->budget, kept_bytes(text))) {
        text_clear(text, TEXT_FREE_BYTES);
        text->no_room = true;
        return false;
    }
    text->counted = kept_bytes(text);
    return true;
}

void text_move(struct text *to, struct text *from)
{
    *to = *from;
    text_init(from, to->own.size_max, to->budget);
}

/* ---- Reading ---- */

/* Reads the rest of a unit (a quad or an escape), as much as fits. The unit encodes the next
 * `source` bytes of the blob. */
static size_t read_unit(const uint8_t *unit, size_t size, size_t source, struct text_place *place,
                        uint8_t *to, size_t max)
{
    size_t left = size - place->skip;
    size_t len = min_size(left, max);

    memcpy(to, unit + place->skip, len);
    place->skip += (uint32_t)len;
    if (place->skip == size) {
        place->skip = 0;
        place->source += source;
    }
    return len;
}

/* Reads whole quads (four characters) as far as they fit, or a part of one quad. */
static size_t read_base64(struct slice bytes, struct text_place *place, uint8_t *to, size_t max)
{
    struct slice rest = slice_make(bytes.data + place->source, bytes.len - place->source);
    size_t whole = max / 4 * 3;

    if (place->skip == 0 && whole > 0) {
        rest.len = min_size(rest.len, whole);
        place->source += rest.len;
        return base64_write(to, rest);
    }

    uint8_t quad[4];

    rest.len = min_size(rest.len, 3);
    (void)base64_write(quad, rest);
    return read_unit(quad, sizeof(quad), rest.len, place, to, max);
}

/* Reads a run without escapes, or one escape, or a part of one escape. */
static size_t read_escaped(struct slice bytes, struct text_place *place, uint8_t *to, size_t max)
{
    size_t left = bytes.len - place->source;
    size_t most = min_size(left, max);
    struct slice near = slice_make(bytes.data, place->source + most);
    size_t run = jsonesc_run(near, place->source) - place->source;

    if (run > 0) {
        memcpy(to, bytes.data + place->source, run);
        place->source += run;
        return run;
    }

    uint8_t unit[JSONESC_MAX];
    size_t size = jsonesc_put(unit, bytes.data[place->source]);

    return read_unit(unit, size, 1, place, to, max);
}

static size_t read_raw(struct slice bytes, struct text_place *place, uint8_t *to, size_t max)
{
    size_t left = bytes.len - place->source;
    size_t len = min_size(left, max);

    memcpy(to, bytes.data + place->source, len);
    place->source += len;
    return len;
}

static size_t read_ref(const struct text_ref *ref, struct text_place *place, uint8_t *to,
                       size_t max)
{
    struct slice bytes = slice_make(ref->blob->data, ref->blob->len);
    size_t len = 0;

    if (ref->form == TEXT_BASE64) {
        len = read_base64(bytes, place, to, max);
    } else if (ref->form == TEXT_ESCAPED) {
        len = read_escaped(bytes, place, to, max);
    } else {
        len = read_raw(bytes, place, to, max);
    }
    if (place->source == bytes.len) {
        ASSERT(place->skip == 0);
        place->source = 0;
        place->ref++;
    }
    return len;
}

size_t text_read(const struct text *text, struct text_place *place, void *to, size_t max)
{
    uint8_t *out = to;
    size_t done = 0;

    while (done < max) {
        const struct text_ref *ref = place->ref < text->ref_count ? &text->refs[place->ref] : NULL;
        size_t own_end = ref ? ref->at : text->own.len;

        if (place->own < own_end) {
            size_t left = own_end - place->own;
            size_t len = min_size(left, max - done);

            memcpy(out + done, text->own.data + place->own, len);
            place->own += len;
            done += len;
        } else if (ref) {
            done += read_ref(ref, place, out + done, max - done);
        } else {
            break;
        }
    }
    place->total += done;
    ASSERT(place->total <= text_len(text));
    return done;
}

void text_skip(const struct text *text, struct text_place *place, size_t bytes)
{
    uint8_t scratch[SKIP_BYTES];

    while (bytes > 0) {
        size_t len = text_read(text, place, scratch, min_size(bytes, SKIP_BYTES));

        ASSERT(len > 0);
        bytes -= len;
    }
}
