/*
 * pieces.h - bytes on their way to one client: pieces of its own, and parts that it shares.
 *
 * An event for a thousand clients is encoded once, as a blob; the queue of each client holds a
 * piece with its own few bytes and a reference. Everything counts in one budget: a shared part
 * once, however many queues hold it, and each piece with its own bytes and its overhead. A piece is
 * never split. An event can be sent later instead, so it has its own piece and a tag, and the end
 * of a queue can be dropped. A piece may end with a text (text.h), whose large values are encoded
 * when they are looked at or taken. Not locked.
 */
#ifndef BASE_PIECES_H
#define BASE_PIECES_H

#include "base/blob.h"
#include "base/buf.h"
#include "base/logrec.h"
#include "base/text.h"

enum {
    PIECES_SHARE_BYTES = 256,     /* Less than that costs less as a copy. */
    PIECES_MERGE_BYTES = 16 << 10 /* Fixed bytes share a piece up to this size. */
};

enum piece_kind {
    PIECE_FIXED,  /* Is never thrown away: a reply, or an event that cannot be sent again. */
    PIECE_EVENT,  /* May be sent later instead, by resuming from `from`. */
    PIECE_NOTICE, /* Says that events will come later. */
    PIECE_BEAT    /* Useless after dropped events. */
};

/* What must be known of a piece when it is thrown away. */
struct piece_tag {
    enum piece_kind kind;
    bool starts;    /* An event: the first one of its group, so that a cut may be made before it. */
    uint32_t watch; /* It is for this watch alone; 0: for more of them. */
    zxid_t from;    /* An event: the events after this zxid, sent later, replace it. */
};

struct piece;

struct pieces {
    struct piece *first;
    struct piece *last;
    size_t at;    /* Bytes of `first` that were taken. */
    size_t bytes; /* That are still to be taken. */
    size_t cost;  /* Memory charged to the budget, without the shared parts. */
    struct budget *budget;
};

/* `budget` outlives the queue. */
void pieces_init(struct pieces *pieces, struct budget *budget);

/* Throws everything away. The queue may be used again. */
void pieces_release(struct pieces *pieces);

/* Copies `parts` behind the rest as one frame that must arrive. */
void pieces_put(struct pieces *pieces, const struct slice *parts, size_t count);

/* The same with a tag, as a piece of its own; behind the parts follow the bytes of `shared` from
 * `shared_at` on (NULL: none), by a reference of the queue's own. */
void pieces_put_tagged(struct pieces *pieces, const struct piece_tag *tag,
                       const struct slice *parts, size_t count, struct blob *shared,
                       size_t shared_at);

/* `head` and, behind it, all of the text as one frame that must arrive. The text is moved into the
 * queue, is sealed or counted already, and has the budget of the queue. */
void pieces_put_text(struct pieces *pieces, struct slice head, struct text *take_text);

/* All pieces of `from` behind those of `to`. Both have the same budget; `from` is empty then. */
void pieces_move(struct pieces *to, struct pieces *from);

/* Copies up to `max` bytes out and takes them; returns how many. */
size_t pieces_take(struct pieces *pieces, void *to, size_t max);

/* What comes next, in up to `parts_max` parts and up to `bytes_max` bytes: for one write. The bytes
 * of a text are encoded into `block`, as many as it has room for, and nothing behind them is shown.
 * Good until the queue or the block is changed. Returns how many parts. */
size_t pieces_look(struct pieces *pieces, struct slice *parts, size_t parts_max, size_t bytes_max,
                   uint8_t *block, size_t block_max);

/* True when the next byte is of a text: each look encodes it again. */
bool pieces_at_text(const struct pieces *pieces);

/* Takes `bytes` bytes of what was shown. When fewer of a text are taken than were shown, the rest
 * is encoded once more. */
void pieces_pass(struct pieces *pieces, size_t bytes);

/* Throws away all but the rest of a piece that was begun. */
void pieces_drop(struct pieces *pieces);

/*
 * Throws away the end of the queue from the first event behind all fixed pieces on, and calls
 * `on_cut` for each piece in order, fixed ones excluded. A piece that was begun stays. Returns the
 * bytes of memory that the queue itself gives back; 0: there was no such event.
 */
size_t pieces_cut(struct pieces *pieces, void (*on_cut)(void *ctx, const struct piece_tag *tag),
                  void *ctx);

#endif
