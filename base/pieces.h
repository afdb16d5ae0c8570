/*
 * pieces.h - the queue of bytes to one client: pieces of its own, and parts that it shares with
 * other queues.
 *
 * An event for a thousand clients is encoded once, as a blob; the queue of each client holds a
 * piece with a few own bytes and a reference. All memory counts in one budget: a shared part once,
 * for all queues that hold it, and each piece with its own bytes and its overhead. A piece is never
 * split. Events at the end of a queue can be dropped and sent again later, so each event has a
 * piece of its own with a tag. A piece may end with a text (text.h), whose large values are encoded
 * when they are looked at or taken. The queue has no lock.
 */
#ifndef BASE_PIECES_H
#define BASE_PIECES_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/logrec.h"
#include "base/text.h"

enum {
    PIECES_SHARE_BYTES = 256,     /* Fewer bytes are cheaper to copy than to share. */
    PIECES_MERGE_BYTES = 16 << 10 /* Frames that must arrive share pieces up to this size. */
};

enum piece_kind {
    PIECE_FIXED,  /* Never thrown away: a reply, or an event that cannot be sent again. */
    PIECE_EVENT,  /* An event that may be dropped: resuming after `from` sends it later. */
    PIECE_NOTICE, /* A notice that events will come later. */
    PIECE_BEAT    /* A heartbeat or ping, which is useless after dropped events. */
};

/* What the owner of the queue must know of a piece that is thrown away. */
struct piece_tag {
    enum piece_kind kind;
    bool starts;    /* An event that begins a transaction or stands alone: the queue may be cut in
                       front of it. */
    uint32_t watch; /* The only watch that the piece is for; 0: it is for several. */
    zxid_t from;    /* An event: resuming after this zxid sends the event again. */
};

struct piece;

struct pieces {
    struct piece *first;
    struct piece *last;
    size_t at;    /* Bytes of `first` that were taken. */
    size_t bytes; /* Bytes that are still to be taken. */
    size_t cost;  /* Memory charged to the budget, without the shared parts. */
    struct budget *budget;
};

/* `budget` outlives the queue. */
void pieces_init(struct pieces *pieces, struct budget *budget);

/* Throws everything away. The queue may be used again. */
void pieces_release(struct pieces *pieces);

/* Appends a copy of `parts` as one frame that must arrive. */
void pieces_put(struct pieces *pieces, const struct slice *parts, size_t count);

/* Appends a copy of `parts` with a tag, as a piece of its own. The bytes of `shared` from
 * `shared_at` on follow the parts (NULL: none); the queue takes its own reference. */
void pieces_put_tagged(struct pieces *pieces, const struct piece_tag *tag,
                       const struct slice *parts, size_t count, struct blob *shared,
                       size_t shared_at);

/* Appends `head` and the whole text as one frame that must arrive. The text is moved into the
 * queue. It must be sealed or counted already, and use the budget of the queue. */
void pieces_put_text(struct pieces *pieces, struct slice head, struct text *take_text);

/* Appends all pieces of `from` to `to` and leaves `from` empty. Both have the same budget. */
void pieces_move(struct pieces *to, struct pieces *from);

/* Copies up to `max` bytes out and takes them; returns their number. */
size_t pieces_take(struct pieces *pieces, void *to, size_t max);

/* Shows the next bytes for one write, in up to `parts_max` parts and up to `bytes_max` bytes,
 * without taking them. The bytes of a text are encoded into `block`, as many as fit, and no bytes
 * behind the text are shown. The parts are valid until the queue or the block is changed. Returns
 * the number of parts. */
size_t pieces_look(struct pieces *pieces, struct slice *parts, size_t parts_max, size_t bytes_max,
                   uint8_t *block, size_t block_max);

/* True when the next byte belongs to a text, which each call of pieces_look encodes again. */
bool pieces_at_text(const struct pieces *pieces);

/* Takes the first `bytes` of the bytes that pieces_look has shown. When only a part of the shown
 * bytes of a text is taken, the rest is encoded once more. */
void pieces_pass(struct pieces *pieces, size_t bytes);

/* Throws away everything except the rest of a piece that was begun. */
void pieces_drop(struct pieces *pieces);

/*
 * Throws away the end of the queue. The end begins behind the last fixed piece, with the first
 * event there whose tag has `starts` set. Calls `on_cut` for each piece of the end, in order. A
 * piece of which bytes were taken stays. Returns the bytes of memory that the queue itself gives
 * back; 0: there was no such event.
 */
size_t pieces_cut(struct pieces *pieces, void (*on_cut)(void *ctx, const struct piece_tag *tag),
                  void *ctx);

#endif
