/*
 * text.h - bytes on their way to a client, without a copy of the large values among them.
 *
 * A text is a run of own bytes with references in between. A reference is a blob and its form (raw,
 * base64, or escaped for a JSON string); the blob is encoded while the text is read. So an answer
 * that a client does not read keeps references to the values, which it shares with the tree, and
 * not a longer encoded copy per client. The exact length is known before the first byte is read.
 *
 * The memory of a text counts in a budget: own memory if it exceeds TEXT_FREE_BYTES, references,
 * and blobs while they are pinned (blob_pin). One thread writes a text. When the text is whole, any
 * thread may read it, several threads at once with a place each, and one thread releases it.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/blob.h"
#include "base/budget.h"
#include "base/buf.h"

enum {
    TEXT_REF_MIN = 32 << 10,    /* A blob of at least this many bytes is referred to, not copied. */
    TEXT_FREE_BYTES = 4096,     /* Own memory up to this size does not count in the budget. */
    TEXT_SMALL_BYTES = 64 << 10 /* Up to so many own bytes are never refused. */
};

enum text_form {
    TEXT_RAW,
    TEXT_BASE64,
    TEXT_ESCAPED /* The text between the quotes of a JSON string; the blob is valid UTF-8. */
};

struct text_ref {
    struct blob *blob; /* Pinned. */
    size_t at;         /* Own bytes before the reference. */
    uint64_t len;      /* Bytes of the encoded blob. */
    enum text_form form;
};

struct text {
    struct buf own;        /* The owner appends to it. own.overflow: the whole text is too long. */
    struct text_ref *refs; /* In order. */
    uint32_t ref_count;
    uint32_t ref_cap;
    uint64_t ref_len; /* Bytes of all encoded blobs. */
    uint64_t pinned;  /* Bytes of the blobs; consecutive references to a blob count once. */
    uint64_t counted; /* Bytes taken from the budget, pins not included. */
    bool no_room;     /* The budget had no room; sticky until text_clear. */
    struct budget *budget;
};

/* The place of a reader in a text; all zeros: at the beginning. */
struct text_place {
    size_t own;     /* Own bytes read. */
    uint32_t ref;   /* References read. */
    uint32_t skip;  /* Bytes read of a quad (base64) or escape that is not yet read whole. */
    size_t source;  /* Bytes read of the current blob. */
    uint64_t total; /* Bytes read. */
};

/* `size_max` bounds the whole text. */
void text_init(struct text *text, size_t size_max, struct budget *budget);
void text_release(struct text *text); /* Gives everything back; text_init may follow. */

/* Drops the contents, and frees the own memory if it exceeds `keep_bytes`. */
void text_clear(struct text *text, size_t keep_bytes);

/* Appends the blob in the given form, by reference when it has TEXT_REF_MIN bytes or more. When the
 * budget has no room, nothing is appended and `no_room` is set. */
void text_append_blob(struct text *text, struct blob *blob, enum text_form form);

/* Ends the writing of a text and counts its own bytes. False, with everything dropped, when the
 * text is too long (own.overflow) or the budget has no room (no_room); the caller then sends the
 * client an error. A text without references and of at most TEXT_SMALL_BYTES always has room. */
bool text_seal(struct text *text);

/* Counts the own bytes in the budget and never refuses them: for bytes that exist already or must
 * be sent in any case. */
void text_count(struct text *text);

/* Moves the contents into `to`, which is not initialised, and leaves `from` empty. */
void text_move(struct text *to, struct text *from);

static inline uint64_t text_len(const struct text *text)
{
    return text->own.len + text->ref_len;
}

/* True when the text has only own bytes. */
static inline bool text_is_plain(const struct text *text)
{
    return text->ref_count == 0;
}

/* Copies the next bytes, up to `max`, and moves the place. Returns their number, 0 at the end
 * only. */
size_t text_read(const struct text *text, struct text_place *place, void *to, size_t max);

/* Moves the place over the next `bytes` bytes, which must exist. This costs as much as reading
 * them. Used for the part of an encoded block that a socket took. */
void text_skip(const struct text *text, struct text_place *place, size_t bytes);

#endif
