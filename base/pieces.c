#include "base/pieces.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/minmax.h"

enum {
    HEAP_BYTES = 16 /* Bytes that the heap adds to each allocation. */
};

/* The text behind the own bytes of a piece. */
struct piece_text {
    struct text text;
    struct text_place place; /* The place behind the bytes that were taken. */
    struct text_place ahead; /* The place behind the bytes that were shown last. */
};

struct piece {
    struct piece *next;
    struct blob *shared;     /* Follows the own bytes; NULL: none. */
    struct piece_text *text; /* Follows the own bytes; NULL: none. Not together with `shared`. */
    struct piece_tag tag;
    uint32_t shared_at;
    uint32_t len;  /* Own bytes. */
    uint32_t room; /* Own bytes for which there is memory. */
    uint8_t own[];
};

void pieces_init(struct pieces *pieces, struct budget *budget)
{
    *pieces = (struct pieces){.budget = budget};
}

static size_t cost_of(const struct piece *piece)
{
    size_t text = piece->text ? sizeof(*piece->text) + HEAP_BYTES : 0;

    return sizeof(*piece) + piece->room + HEAP_BYTES + text;
}

static struct slice shared_of(const struct piece *piece)
{
    return piece->shared ? slice_make(piece->shared->data + piece->shared_at,
                                      piece->shared->len - piece->shared_at)
                         : slice_make(NULL, 0);
}

static size_t bytes_of(const struct piece *piece)
{
    return piece->len + shared_of(piece).len + (piece->text ? text_len(&piece->text->text) : 0);
}

static void charge(struct pieces *pieces, size_t bytes)
{
    pieces->cost += bytes;
    budget_take(pieces->budget, bytes);
}

/* Frees a piece that is no longer in the queue. */
static void free_piece(struct pieces *pieces, struct piece *piece)
{
    pieces->cost -= cost_of(piece);
    budget_give(pieces->budget, cost_of(piece));
    blob_unpin(piece->shared, pieces->budget);
    if (piece->text) {
        text_release(&piece->text->text);
        mem_free(piece->text);
    }
    mem_free(piece);
}

static void free_first(struct pieces *pieces)
{
    struct piece *piece = pieces->first;

    pieces->first = piece->next;
    if (!pieces->first) {
        pieces->last = NULL;
    }
    pieces->at = 0;
    free_piece(pieces, piece);
}

void pieces_release(struct pieces *pieces)
{
    while (pieces->first) {
        free_first(pieces);
    }
    pieces->bytes = 0;
    ASSERT(pieces->cost == 0);
}

static size_t sum(const struct slice *parts, size_t count)
{
    size_t len = 0;

    for (size_t i = 0; i < count; i++) {
        len += parts[i].len;
    }
    return len;
}

static struct piece *add(struct pieces *pieces, const struct piece_tag *tag, size_t room)
{
    struct piece *piece = mem_alloc(sizeof(*piece) + room);

    ASSERT(room <= UINT32_MAX);
    *piece = (struct piece){.tag = *tag, .room = (uint32_t)room};
    if (pieces->last) {
        pieces->last->next = piece;
    } else {
        pieces->first = piece;
    }
    pieces->last = piece;
    charge(pieces, cost_of(piece));
    return piece;
}

static void fill(struct pieces *pieces, struct piece *piece, const struct slice *parts,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ASSERT(parts[i].len <= piece->room - piece->len);
        if (parts[i].len > 0) {
            memcpy(piece->own + piece->len, parts[i].data, parts[i].len);
        }
        piece->len += (uint32_t)parts[i].len;
        pieces->bytes += parts[i].len;
    }
}

/* True for a piece that must arrive and has only own bytes. */
static bool is_plain(const struct piece *piece)
{
    return piece && piece->tag.kind == PIECE_FIXED && !piece->shared && !piece->text;
}

/* Returns the room of a new piece for `len` bytes. After a plain piece the room is twice the room
 * of that piece, up to PIECES_MERGE_BYTES, so that many small frames share a piece. */
static size_t room_for(const struct pieces *pieces, size_t len)
{
    size_t room = 0;

    if (is_plain(pieces->last)) {
        room = 2 * (size_t)pieces->last->room;
        room = min_size(room, PIECES_MERGE_BYTES);
    }
    return max_size(len, room);
}

void pieces_put(struct pieces *pieces, const struct slice *parts, size_t count)
{
    static const struct piece_tag fixed = {.kind = PIECE_FIXED};
    size_t len = sum(parts, count);
    struct piece *piece = pieces->last;

    if (!is_plain(piece) || len > piece->room - piece->len) {
        piece = add(pieces, &fixed, room_for(pieces, len));
    }
    fill(pieces, piece, parts, count);
}

void pieces_put_tagged(struct pieces *pieces, const struct piece_tag *tag,
                       const struct slice *parts, size_t count, struct blob *shared,
                       size_t shared_at)
{
    struct piece *piece = add(pieces, tag, sum(parts, count));

    ASSERT(!shared || shared_at <= shared->len);
    fill(pieces, piece, parts, count);
    piece->shared = blob_pin(shared, pieces->budget);
    piece->shared_at = (uint32_t)shared_at;
    pieces->bytes += shared_of(piece).len;
}

void pieces_put_text(struct pieces *pieces, struct slice head, struct text *take_text)
{
    static const struct piece_tag fixed = {.kind = PIECE_FIXED};
    struct piece *piece = add(pieces, &fixed, head.len);

    ASSERT(take_text->budget == pieces->budget && !take_text->no_room);
    fill(pieces, piece, &head, 1);
    piece->text = mem_zalloc(1, sizeof(*piece->text));
    charge(pieces, sizeof(*piece->text) + HEAP_BYTES);
    text_move(&piece->text->text, take_text);
    pieces->bytes += text_len(&piece->text->text);
}

void pieces_move(struct pieces *to, struct pieces *from)
{
    ASSERT(to->budget == from->budget && from->at == 0);
    if (!from->first) {
        return;
    }
    if (to->last) {
        to->last->next = from->first;
    } else {
        to->first = from->first;
    }
    to->last = from->last;
    to->bytes += from->bytes;
    to->cost += from->cost;
    pieces_init(from, from->budget);
}

/* Returns the rest of the first piece's own bytes, or of its shared bytes once the own bytes are
 * taken. */
static struct slice front(const struct pieces *pieces)
{
    const struct piece *piece = pieces->first;
    struct slice shared = shared_of(piece);
    size_t skip = 0;

    if (pieces->at < piece->len) {
        return slice_make(piece->own + pieces->at, piece->len - pieces->at);
    }
    skip = pieces->at - piece->len;
    return slice_make(shared.data + skip, shared.len - skip);
}

/* Copies up to `max` bytes of the first piece. */
static size_t copy_front(struct pieces *pieces, uint8_t *to, size_t max)
{
    struct piece *piece = pieces->first;

    if (piece->text && pieces->at >= piece->len) {
        return text_read(&piece->text->text, &piece->text->place, to, max);
    }

    struct slice bytes = front(pieces);
    size_t len = min_size(bytes.len, max);

    if (len > 0) {
        ASSERT(bytes.data);
        memcpy(to, bytes.data, len);
    }
    return len;
}

static void advance(struct pieces *pieces, size_t len)
{
    pieces->at += len;
    pieces->bytes -= len;
    if (pieces->at == bytes_of(pieces->first)) {
        free_first(pieces);
    }
}

size_t pieces_take(struct pieces *pieces, void *to, size_t max)
{
    uint8_t *out = to;
    size_t taken = 0;

    while (pieces->first && taken < max) {
        size_t len = copy_front(pieces, out + taken, max - taken);

        taken += len;
        advance(pieces, len);
    }
    return taken;
}

/* Adds at most `left` bytes of `part`, if there are any; returns the new count. `parts` must have
 * room. */
static size_t add_part(struct slice *parts, size_t count, struct slice part, size_t left)
{
    part.len = min_size(part.len, left);
    parts[count] = part;
    return part.len > 0 ? count + 1 : count;
}

/* Encodes the next bytes of a text into `block` without taking them. */
static struct slice encode(struct piece_text *text, uint8_t *block, size_t max)
{
    text->ahead = text->place;
    return slice_make(block, text_read(&text->text, &text->ahead, block, max));
}

size_t pieces_look(struct pieces *pieces, struct slice *parts, size_t parts_max, size_t bytes_max,
                   uint8_t *block, size_t block_max)
{
    size_t at = pieces->at;
    size_t count = 0;
    size_t left = bytes_max;

    for (struct piece *piece = pieces->first; piece && left > 0 && count + 2 <= parts_max;
         piece = piece->next) {
        struct slice shared = shared_of(piece);
        size_t own = at < piece->len ? piece->len - at : 0;
        size_t skip = at > piece->len ? at - piece->len : 0;

        count = add_part(parts, count, slice_make(piece->own + piece->len - own, own), left);
        left -= min_size(own, left);
        if (piece->text) {
            return add_part(parts, count, encode(piece->text, block, min_size(left, block_max)),
                            left);
        }
        shared = slice_from(shared, skip);
        count = add_part(parts, count, shared, left);
        left -= min_size(shared.len, left);
        at = 0;
    }
    return count;
}

bool pieces_at_text(const struct pieces *pieces)
{
    const struct piece *piece = pieces->first;

    return piece && piece->text && pieces->at >= piece->len;
}

/* Called when `len` bytes of the first piece are taken. The last of these bytes may belong to the
 * piece's text: moves the place in the text behind them. */
static void pass_text(const struct pieces *pieces, size_t len)
{
    struct piece_text *text = pieces->first->text;
    size_t own = pieces->at < pieces->first->len ? pieces->first->len - pieces->at : 0;

    if (!text || len <= own) {
        return;
    }
    if (text->place.total + len - own == text->ahead.total) {
        text->place = text->ahead;
    } else {
        text_skip(&text->text, &text->place, len - own);
    }
}

void pieces_pass(struct pieces *pieces, size_t bytes)
{
    while (bytes > 0) {
        size_t left = bytes_of(pieces->first) - pieces->at;
        size_t len = min_size(bytes, left);

        bytes -= len;
        pass_text(pieces, len);
        advance(pieces, len);
    }
}

/* Throws away all pieces behind `keep` (NULL: all pieces), and calls `on_cut`, if any, for each of
 * them. Returns the bytes of memory that the queue gives back. */
static size_t cut_behind(struct pieces *pieces, struct piece *keep,
                         void (*on_cut)(void *ctx, const struct piece_tag *tag), void *ctx)
{
    struct piece **behind = keep ? &keep->next : &pieces->first;
    struct piece *piece = *behind;
    size_t before = pieces->cost;

    *behind = NULL;
    pieces->last = keep;
    while (piece) {
        struct piece *next = piece->next;

        if (on_cut) {
            on_cut(ctx, &piece->tag);
        }
        pieces->bytes -= bytes_of(piece);
        free_piece(pieces, piece);
        piece = next;
    }
    return before - pieces->cost;
}

void pieces_drop(struct pieces *pieces)
{
    (void)cut_behind(pieces, pieces->at > 0 ? pieces->first : NULL, NULL, NULL);
}

/* Returns the last piece that stays when the end is cut off. NULL when there is nothing to cut, or
 * when no piece stays; `*ret_all` is true in the second case. */
static struct piece *find_cut(const struct pieces *pieces, bool *ret_all)
{
    struct piece *prev = NULL;
    struct piece *keep = NULL;
    bool found = false;

    for (struct piece *piece = pieces->first; piece; piece = piece->next) {
        bool begun = piece == pieces->first && pieces->at > 0;

        if (piece->tag.kind == PIECE_FIXED || begun) {
            found = false;
        } else if (!found && piece->tag.kind == PIECE_EVENT && piece->tag.starts) {
            found = true;
            keep = prev;
        }
        prev = piece;
    }
    *ret_all = found && !keep;
    return found ? keep : NULL;
}

size_t pieces_cut(struct pieces *pieces, void (*on_cut)(void *ctx, const struct piece_tag *tag),
                  void *ctx)
{
    bool all = false;
    struct piece *keep = find_cut(pieces, &all);

    return keep || all ? cut_behind(pieces, keep, on_cut, ctx) : 0;
}
