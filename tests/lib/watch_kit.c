#include "tests/lib/watch_kit.h"

#include "base/check.h"
#include "server/op/acl.h"
#include "server/state/path.h"
#include "tests/lib/state_kit.h"

#include <stdio.h>

enum {
    OWNER_WATCHES_MAX = 100000,
    OWNER_BYTES_MAX = 1 << 24,
    WINDOW_BYTES_MAX = 1 << 28,
    TXN_BYTES_MAX = 1 << 20
};

/* ---- Owners. ---- */

void kit_owner_init(struct kit_owner *owner, char name)
{
    *owner = (struct kit_owner){.name = name, .who = {.address = "127.0.0.1"}};
    watch_owner_init(&owner->owner, &owner->who, OWNER_WATCHES_MAX, OWNER_BYTES_MAX);
}

static void write_event(struct buf *log, char name, const struct watch *hits,
                        const struct watch_event *event)
{
    buf_printf(log, "%c %s ", name, watch_event_name(event->type));
    buf_append_slice(log, event->path);
    buf_append_str(log, " [");
    for (const struct watch *hit = hits; hit != NULL; hit = hit->hit_next) {
        buf_printf(log, hit == hits ? "%u" : ",%u", hit->id);
    }
    buf_append_byte(log, ']');
    if (event->change != NULL && event->change->data != NULL) {
        buf_append_str(log, " ='");
        buf_append_slice(log, blob_slice(event->change->data));
        buf_append_byte(log, '\'');
    }
    buf_append_str(log, event->diff ? " diff" : "");
    buf_append_str(log, event->last ? " end\n" : "\n");
    ASSERT(!log->overflow);
}

void kit_on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                  const struct watch_event *event)
{
    const struct kit_owner *mine = list_entry(owner, struct kit_owner, owner);

    if (!mine->holds) {
        write_event(ctx, mine->name, hits, event);
        return;
    }
    for (struct watch *hit = hits; hit != NULL; hit = hit->hit_next) {
        watch_hold(hit);
    }
}

const char *kit_take(struct buf *log)
{
    static char text[1 << 16];
    const char *now = buf_cstr(log);

    ASSERT(log->len < sizeof(text));
    memcpy(text, now, log->len + 1);
    buf_clear(log);
    return text;
}

/* ---- Words. ---- */

struct word {
    enum txn_effect_type type;
    struct slice path;
    struct slice data;
    bool has_data;
};

static struct word parse(const char *text)
{
    const char *equals = strchr(text + 1, '=');
    struct word word = {.path = slice_str(text + 1)};

    word.type = text[0] == '+'   ? TXN_CREATE
                : text[0] == '-' ? TXN_DELETE
                : text[0] == '=' ? TXN_SET
                                 : TXN_SET_ACL;
    if (equals != NULL) {
        word.path.len = (size_t)(equals - text) - 1;
        word.data = slice_str(equals + 1);
        word.has_data = true;
    }
    return word;
}

struct change_set *kit_set_of(zxid_t zxid, const char *const *words)
{
    struct state_change items[WATCH_KIT_WORDS_MAX];
    struct state_changes changes = {.items = items};

    for (; words[changes.count] != NULL; changes.count++) {
        struct word word = parse(words[changes.count]);

        ASSERT(changes.count < WATCH_KIT_WORDS_MAX && !word.has_data);
        items[changes.count] = (struct state_change){.type = word.type, .path = word.path};
    }
    return change_set_new(zxid, NULL, &changes);
}

/* ---- A world. ---- */

void kit_world_init(struct kit_world *world, uint32_t sets_max)
{
    *world = (struct kit_world){.view = view_new(), .state = state_new(KIT_HISTORY)};
    view_replace(world->view, world->state);
    world->window = window_new(WINDOW_BYTES_MAX, sets_max, 0);
    buf_init(&world->txn, TXN_BYTES_MAX);
}

void kit_world_release(struct kit_world *world)
{
    view_free(world->view);
    window_free(world->window);
    state_changes_release(&world->changes);
    buf_release(&world->txn);
}

/* How many children the parent has ever had, with those that the words up to this one create. A
 * parent that an earlier word creates begins with none. */
static uint32_t creates_of(const struct kit_world *world, const char *const *words, size_t at)
{
    struct slice parent = path_parent(parse(words[at]).path);
    const struct znode *node = state_find(world->state, parent);
    uint32_t creates = node != NULL ? znode_creates(node) : 0;

    for (size_t i = 0; i < at; i++) {
        struct word word = parse(words[i]);

        if (word.type == TXN_CREATE && slice_eq(word.path, parent)) {
            creates = 0;
        }
        if (word.type == TXN_CREATE && slice_eq(path_parent(word.path), parent)) {
            creates++;
        }
    }
    return creates + 1;
}

/* Only 10.0.0.1 may read a znode with this list. */
static struct slice closed_acl(void)
{
    static struct buf acl;

    if (acl.len == 0) {
        buf_init(&acl, ACL_BYTES_MAX);
        acl_put(&acl, &(struct acl_entry){.perms = ACL_READ,
                                          .scheme = slice_str("ip"),
                                          .id = slice_str("10.0.0.1")});
    }
    return buf_slice(&acl);
}

static bool has_no_data(const struct word *word)
{
    return !word->has_data && (word->type == TXN_CREATE || word->type == TXN_SET);
}

void kit_world_apply(struct kit_world *world, const char *const *words)
{
    kit_begin(&world->txn, KIT_TIME_MS);
    for (size_t i = 0; words[i] != NULL; i++) {
        struct word word = parse(words[i]);
        struct txn_effect effect = {.type = word.type,
                                    .flags = has_no_data(&word) ? TXN_NULL_DATA : 0,
                                    .path = word.path,
                                    .data = word.data,
                                    .version = (int32_t)world->zxid};

        if (word.type == TXN_CREATE) {
            effect.creates = creates_of(world, words, i);
        } else if (word.type == TXN_SET_ACL) {
            effect.data = slice_make(NULL, 0);
            effect.acl = word.has_data ? effect.data : closed_acl();
        }
        txn_put(&world->txn, &effect);
    }
    kit_world_apply_txn(world);
}

void kit_world_apply_txn(struct kit_world *world)
{
    zxid_t zxid = world->zxid + 1;
    struct logrec *rec = logrec_new(LOGREC_TXN, zxid, world->zxid, 0, buf_slice(&world->txn));
    struct state *state = view_write(world->view);

    ASSERT(state == world->state);
    enum err err = state_apply(state, zxid, logrec_payload(rec), false, &world->changes);

    ASSERT(err == ERR_OK);
    struct change_set *set = change_set_new(zxid, rec, &world->changes);

    if (set != NULL) {
        window_append(world->window, set);
    } else {
        window_skip(world->window, zxid);
    }
    view_write_done(world->view);
    window_wake(world->window);
    logrec_unref(rec);
    world->zxid = zxid;
    buf_clear(&world->txn);
}

/* ---- Random draws. ---- */

enum {
    NAMES = 3,
    WORD_LEN_MAX = 16
};

struct random_path {
    char words[3][WORD_LEN_MAX]; /* "+/a", "=/a", "-/a". */
    char acls[2][WORD_LEN_MAX];  /* "!/a", "!/a=open". */
    int parent;                  /* -1: the root. */
};

static const struct random_path *random_paths(void)
{
    static struct random_path paths[WATCH_KIT_PATHS];

    for (int i = 0; paths[WATCH_KIT_PATHS - 1].words[0][0] == '\0' && i < WATCH_KIT_PATHS; i++) {
        int parent = i < NAMES ? -1 : i / NAMES - 1;

        paths[i].parent = parent;
        for (size_t word = 0; word < 3; word++) {
            (void)snprintf(paths[i].words[word], WORD_LEN_MAX, "%c%s/%c", "+=-"[word],
                           parent < 0 ? "" : paths[parent].words[0] + 1, 'a' + i % NAMES);
        }
        for (size_t word = 0; word < 2; word++) {
            (void)snprintf(paths[i].acls[word], WORD_LEN_MAX, "!%s/%c%s",
                           parent < 0 ? "" : paths[parent].words[0] + 1, 'a' + i % NAMES,
                           word == 0 ? "" : "=open");
        }
    }
    return paths;
}

const char *kit_random_path(struct rng *rng)
{
    uint64_t i = rng_below(rng, WATCH_KIT_PATHS + 1);

    return i == WATCH_KIT_PATHS ? "/" : random_paths()[i].words[0] + 1;
}

const char *kit_random_acl(const struct kit_world *world, struct rng *rng)
{
    const struct random_path *path = &random_paths()[rng_below(rng, WATCH_KIT_PATHS)];

    if (state_find(world->state, slice_str(path->words[0] + 1)) == NULL) {
        return NULL;
    }
    return path->acls[rng_below(rng, 2)];
}

static bool has_child(const bool there[WATCH_KIT_PATHS], int parent)
{
    for (int i = 0; i < WATCH_KIT_PATHS; i++) {
        if (there[i] && random_paths()[i].parent == parent) {
            return true;
        }
    }
    return false;
}

/* A possible change of that znode, or NULL; updates `there`. */
static const char *random_word(struct rng *rng, bool there[WATCH_KIT_PATHS], int i)
{
    const struct random_path *path = &random_paths()[i];

    if (!there[i]) {
        if (path->parent >= 0 && !there[path->parent]) {
            return NULL;
        }
        there[i] = true;
        return path->words[0];
    }
    if (rng_below(rng, 2) == 0 || has_child(there, i)) {
        return path->words[1];
    }
    there[i] = false;
    return path->words[2];
}

void kit_random_words(const struct kit_world *world, struct rng *rng,
                      const char *words[WATCH_KIT_RANDOM_MAX + 1])
{
    uint64_t wanted = 1 + rng_below(rng, 3) * rng_below(rng, 2);
    bool there[WATCH_KIT_PATHS];
    size_t count = 0;

    for (size_t i = 0; i < WATCH_KIT_PATHS; i++) {
        there[i] = state_find(world->state, slice_str(random_paths()[i].words[0] + 1)) != NULL;
    }
    while (count < wanted) {
        const char *word = random_word(rng, there, (int)rng_below(rng, WATCH_KIT_PATHS));

        if (word != NULL) {
            words[count++] = word;
        }
    }
    words[count] = NULL;
}

void kit_world_replace(struct kit_world *world, struct state *state, zxid_t start)
{
    if (state == NULL) {
        state = kit_copy(world->state, 1 << 20);
        state_restored(state, start);
    }
    view_replace(world->view, state);
    window_restart(world->window, start);
    world->state = state;
    world->zxid = start;
}
