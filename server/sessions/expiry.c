#include "server/sessions/expiry.h"

#include "base/check.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/probe.h"
#include "zab/config.h"

enum {
    SLOTS = 512,        /* Slots of the wheel, one report interval each. */
    VISITS_MAX = 20000, /* Entries that one call visits. */
};

struct entry {
    struct list node; /* In a slot, `swept` or `due`; in no list once the expiry is proposed. */
    uint64_t id;
    uint64_t deadline_ms;
    /* Bit i: since the last touch, the loss of members[i] has extended the deadline (lose). */
    uint64_t losses;
    uint32_t timeout_ms;
    bool proposed;
};

/* A replica that has reported or was connected to this leader since the leader began. */
struct member {
    uint32_t id; /* 0: the place is free. */
    bool lost;
    bool was_in_step;    /* False: its connection broke before it could serve a client. */
    bool silent;         /* Lost because its reports are far behind, although it is connected. */
    uint64_t covered_ms; /* All touches up to this time have been reported. */
};

struct expiry {
    uint32_t report_ms;
    bool on;
    bool paused; /* After a pause, until a quorum round confirms that this replica still leads. */
    uint64_t now_ms;    /* The caller's time at the last turn. */
    uint64_t clock_ms;  /* now_ms without pauses of the process; deadlines are in this time. */
    uint64_t hold_ms;   /* Nothing expires before this time. */
    struct map entries; /* Entries by session id. */

    /* A touch changes only the deadline of an entry, not its slot. So an entry may be in the slot
     * of an earlier deadline. When this slot is swept, the present deadline is compared with the
     * clock. */
    struct list wheel[SLOTS];
    uint64_t slot;     /* Last slot that was swept. */
    struct list swept; /* Entries of that slot whose deadlines are not compared yet. */
    struct list due;   /* Entries whose deadline has passed. */

    struct member members[ZAB_MEMBERS_MAX];
    uint32_t member_count; /* Places in use or free again; the other places were never used. */
};

_Static_assert(ZAB_MEMBERS_MAX <= 64, "entry.losses has a bit for each place");

struct expiry *expiry_new(uint32_t report_ms)
{
    struct expiry *expiry = mem_zalloc(1, sizeof(*expiry));

    ASSERT(report_ms > 0);
    expiry->report_ms = report_ms;
    map_init(&expiry->entries);
    expiry_end(expiry);
    return expiry;
}

void expiry_end(struct expiry *expiry)
{
    map_free_values(&expiry->entries);
    map_init(&expiry->entries);
    list_init(&expiry->swept);
    list_init(&expiry->due);
    for (size_t i = 0; i < SLOTS; i++) {
        list_init(&expiry->wheel[i]);
    }
    expiry->member_count = 0;
    expiry->on = false;
}

void expiry_free(struct expiry *expiry)
{
    if (expiry == NULL) {
        return;
    }
    expiry_end(expiry);
    map_release(&expiry->entries);
    mem_free(expiry);
}

bool expiry_is_on(const struct expiry *expiry)
{
    return expiry->on;
}

size_t expiry_count(const struct expiry *expiry)
{
    return map_count(&expiry->entries);
}

/* ---- Entries. ---- */

static struct entry *find(const struct expiry *expiry, uint64_t session)
{
    return map_get_u64(&expiry->entries, session);
}

/* Sets the deadline one report interval later than the timeout, because activity just after a
 * report waits for the next report. */
static void extend(const struct expiry *expiry, struct entry *entry)
{
    entry->deadline_ms = expiry->clock_ms + entry->timeout_ms + expiry->report_ms;
}

/* Puts the entry into the first slot that is swept after its deadline has passed. If the wheel does
 * not reach so far, puts it into the last slot of the wheel. */
static void put_in_wheel(struct expiry *expiry, struct entry *entry)
{
    uint64_t slot = entry->deadline_ms / expiry->report_ms + 1;

    ASSERT(slot > expiry->slot);
    slot = min_u64(slot, expiry->slot + SLOTS - 1);
    list_push_back(&expiry->wheel[slot % SLOTS], &entry->node);
}

void expiry_opened(struct expiry *expiry, uint64_t session, uint32_t timeout_ms)
{
    if (!expiry->on || find(expiry, session) != NULL) {
        return;
    }
    struct entry *entry = mem_zalloc(1, sizeof(*entry));

    entry->id = session;
    entry->timeout_ms = timeout_ms;
    extend(expiry, entry);
    put_in_wheel(expiry, entry);
    (void)map_put_u64(&expiry->entries, session, entry);
}

void expiry_closed(struct expiry *expiry, uint64_t session)
{
    struct entry *entry = map_remove_u64(&expiry->entries, session);

    if (entry != NULL) {
        list_remove(&entry->node);
        mem_free(entry);
    }
}

void expiry_touch(struct expiry *expiry, uint64_t session)
{
    struct entry *entry = find(expiry, session);

    if (entry != NULL) {
        extend(expiry, entry);
        entry->losses = 0;
    }
}

void expiry_proposed(struct expiry *expiry, uint64_t session)
{
    struct entry *entry = find(expiry, session);

    ASSERT(entry != NULL && !entry->proposed);
    entry->proposed = true;
    list_remove(&entry->node);
    list_init(&entry->node);
}

void expiry_begin(struct expiry *expiry, const struct state *state, uint64_t now_ms)
{
    const struct state_session *session = state_session_after(state, 0);

    expiry_end(expiry);
    expiry->on = true;
    expiry->paused = false;
    expiry->now_ms = now_ms;
    expiry->clock_ms = now_ms;
    expiry->hold_ms = now_ms;
    expiry->slot = now_ms / expiry->report_ms;
    while (session != NULL) {
        expiry_opened(expiry, session->id, session->timeout_ms);
        session = state_session_after(state, session->id);
    }
}

/* ---- Members: replicas that report. ---- */

/* Returns the time up to which all members that are not lost have reported; UINT64_MAX when there
 * is no such member. */
static uint64_t covered_by_all_ms(const struct expiry *expiry)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < expiry->member_count; i++) {
        const struct member *member = &expiry->members[i];

        if (member->id != 0 && !member->lost) {
            least = min_u64(least, member->covered_ms);
        }
    }
    return least;
}

/* Returns the bit of a place in entry.losses. */
static uint64_t bit_of(size_t place)
{
    ASSERT(place < ZAB_MEMBERS_MAX);
    return UINT64_C(1) << place;
}

static struct member *find_member(struct expiry *expiry, uint32_t id)
{
    for (uint32_t i = 0; i < expiry->member_count; i++) {
        if (expiry->members[i].id == id) {
            return &expiry->members[i];
        }
    }
    return NULL;
}

/* Frees the places of `bits`. The loss of the next replica there has extended no deadline yet. */
static void free_places(struct expiry *expiry, uint64_t bits)
{
    size_t cursor = 0;
    struct entry *entry = bits != 0 ? map_each(&expiry->entries, &cursor) : NULL;

    for (uint32_t i = 0; i < expiry->member_count; i++) {
        if ((bits & bit_of(i)) != 0) {
            expiry->members[i] = (struct member){.id = 0};
        }
    }
    while (entry != NULL) {
        entry->losses &= ~bits;
        entry = map_each(&expiry->entries, &cursor);
    }
}

/* Returns a free place. If there is none, frees that of a lost replica, whose loss has extended the
 * deadlines already. A silent replica keeps its place: it is still connected, so it would be added
 * again as a new one. NULL: there is no place. */
static struct member *find_place(struct expiry *expiry)
{
    struct member *place = find_member(expiry, 0);

    if (place == NULL && expiry->member_count < ZAB_MEMBERS_MAX) {
        place = &expiry->members[expiry->member_count++];
    }
    for (uint32_t i = 0; place == NULL && i < ZAB_MEMBERS_MAX; i++) {
        if (expiry->members[i].lost && !expiry->members[i].silent) {
            free_places(expiry, bit_of(i));
            place = &expiry->members[i];
        }
    }
    return place;
}

/* Returns the member `id`, added if it is not known. NULL: there is no place for it. */
static struct member *need_member(struct expiry *expiry, uint32_t id)
{
    struct member *member = find_member(expiry, id);

    ASSERT(id != 0);
    if (member == NULL) {
        member = find_place(expiry);
        if (member != NULL) {
            *member = (struct member){.id = id};
        }
    }
    return member;
}

/* Puts off all expiry, because the reports of a replica that may serve clients cannot be awaited:
 * there is no place for it. */
static void hold(struct expiry *expiry)
{
    expiry->hold_ms = max_u64(expiry->hold_ms, expiry->clock_ms + 2 * (uint64_t)expiry->report_ms);
}

static bool is_far_behind(const struct expiry *expiry, const struct member *member)
{
    ASSERT(member->covered_ms <= expiry->clock_ms || MUTANT(32));
    return expiry->clock_ms - member->covered_ms >
           (uint64_t)EXPIRY_BEHIND_REPORTS * expiry->report_ms;
}

/* Adds a member that is not known or was lost. The member starts with all time up to now covered:
 * a new member has served no client yet, and lose() has accounted for the time before a loss. A
 * member that is lost because its reports are far behind joins again only with a report that is not
 * far behind. A loss before the member was in step for the first time does not take the place of
 * the one that counts. */
void expiry_joined(struct expiry *expiry, uint32_t member_id)
{
    const struct member *known = find_member(expiry, member_id);

    if (expiry->on && (known == NULL || (known->lost && !known->silent))) {
        if (known != NULL && !known->was_in_step) {
            free_places(expiry, bit_of((size_t)(known - expiry->members)));
        }
        struct member *member = need_member(expiry, member_id);

        if (member == NULL) {
            hold(expiry);
            return;
        }
        PROBE("expiry.member_joined");
        *member =
            (struct member){.id = member_id, .was_in_step = true, .covered_ms = expiry->clock_ms};
    }
}

uint64_t expiry_mark(const struct expiry *expiry)
{
    return expiry->clock_ms + 1;
}

/* Takes a report. A replica that reports is in step. The report covers the time up to the mark that
 * it names. */
void expiry_reported(struct expiry *expiry, uint32_t member_id, uint64_t mark)
{
    if (!expiry->on || mark > expiry_mark(expiry)) {
        return;
    }
    expiry_joined(expiry, member_id);
    struct member *member = find_member(expiry, member_id);

    if (member == NULL) {
        return; /* There is no place for it: expiry_joined has put off all expiry. */
    }
    uint64_t covered_ms = mark > 0 ? mark - 1 : 0;

    if (MUTANT(58)) {
        covered_ms = expiry->clock_ms;
    }
    member->covered_ms = max_u64(member->covered_ms, covered_ms);
    if (member->lost && !is_far_behind(expiry, member)) {
        member->lost = false;
        member->silent = false;
    }
}

/* Marks a member as lost and extends the deadline of each session, because the member may have
 * served any session without having reported it. The loss of one member extends a deadline only
 * once until the next touch, so that a member that comes and goes does not keep dead sessions for
 * ever. */
static void lose(struct expiry *expiry, struct member *member)
{
    uint64_t bit = bit_of((size_t)(member - expiry->members));
    size_t cursor = 0;
    struct entry *entry = map_each(&expiry->entries, &cursor);

    PROBE("expiry.member_lost");
    member->lost = true;
    while (entry != NULL) {
        if ((entry->losses & bit) == 0 && !MUTANT(36)) {
            entry->losses |= bit;
            extend(expiry, entry);
        }
        entry = map_each(&expiry->entries, &cursor);
    }
}

/* Extends all deadlines for a lost replica that had no place. */
static void lose_unknown(struct expiry *expiry)
{
    size_t cursor = 0;
    struct entry *entry = map_each(&expiry->entries, &cursor);

    while (entry != NULL) {
        extend(expiry, entry);
        entry = map_each(&expiry->entries, &cursor);
    }
}

void expiry_lost(struct expiry *expiry, uint32_t member_id)
{
    struct member *member = expiry->on ? need_member(expiry, member_id) : NULL;

    if (expiry->on && member == NULL) {
        lose_unknown(expiry);
    }
    if (member != NULL && !member->lost) {
        lose(expiry, member);
    }
    if (member != NULL) {
        member->silent = false;
    }
}

void expiry_keep(struct expiry *expiry, const uint32_t *ids, size_t count)
{
    uint64_t freed = 0;

    for (uint32_t i = 0; i < expiry->member_count; i++) {
        struct member *member = &expiry->members[i];

        if (member->id == 0 || zab_id_is_among(ids, count, member->id)) {
            continue;
        }
        if (!member->lost) {
            lose(expiry, member);
        }
        freed |= bit_of(i);
    }
    free_places(expiry, freed);
}

static void lose_silent_members(struct expiry *expiry)
{
    for (uint32_t i = 0; i < expiry->member_count; i++) {
        struct member *member = &expiry->members[i];

        if (member->id != 0 && !member->lost && is_far_behind(expiry, member)) {
            PROBE("expiry.member_silent");
            lose(expiry, member);
            member->silent = true;
        }
    }
}

/* ---- Time. ---- */

void expiry_turn(struct expiry *expiry, uint64_t now_ms)
{
    uint64_t elapsed_ms = now_ms - expiry->now_ms;
    bool paused = elapsed_ms > 2 * (uint64_t)expiry->report_ms && !MUTANT(25);

    if (!expiry->on) {
        return;
    }
    ASSERT(now_ms >= expiry->now_ms || MUTANT(32));
    expiry->now_ms = now_ms;
    if (paused && !MUTANT(32)) {
        PROBE("expiry.stood_still");
        expiry->paused = true;
        expiry->hold_ms = expiry->clock_ms + expiry->report_ms;
        return;
    }
    expiry->clock_ms += elapsed_ms;
    if (!MUTANT(32)) {
        lose_silent_members(expiry);
    }
}

bool expiry_stands(const struct expiry *expiry)
{
    return expiry->on && expiry->paused;
}

void expiry_renewed(struct expiry *expiry)
{
    expiry->paused = false;
}

/* ---- Expired sessions. ---- */

/* Sweeps the slots up to the present: moves each entry whose deadline has passed to `due`, and puts
 * the others back into the wheel by their present deadlines (put_in_wheel). */
static void sweep(struct expiry *expiry)
{
    uint64_t present = expiry->clock_ms / expiry->report_ms;

    for (size_t visits = 0; visits < VISITS_MAX; visits++) {
        if (list_empty(&expiry->swept)) {
            if (expiry->slot >= present) {
                return;
            }
            expiry->slot++;
            list_move_all(&expiry->swept, &expiry->wheel[expiry->slot % SLOTS]);
            continue;
        }
        struct entry *entry = list_first(&expiry->swept, struct entry, node);

        list_remove(&entry->node);
        if (entry->deadline_ms < expiry->clock_ms) {
            list_push_back(&expiry->due, &entry->node);
        } else {
            put_in_wheel(expiry, entry);
        }
    }
}

size_t expiry_due(struct expiry *expiry, uint64_t *out, size_t max)
{
    uint64_t covered_ms = covered_by_all_ms(expiry);
    struct list later;
    size_t count = 0;

    if (!expiry->on || expiry->paused || expiry->clock_ms < expiry->hold_ms) {
        return 0;
    }
    list_init(&later);
    sweep(expiry);
    for (size_t visits = 0; visits < VISITS_MAX && count < max && !list_empty(&expiry->due);
         visits++) {
        struct entry *entry = list_first(&expiry->due, struct entry, node);

        list_remove(&entry->node);
        if (entry->deadline_ms >= expiry->clock_ms) {
            put_in_wheel(expiry, entry); /* The session was touched meanwhile. */
            continue;
        }
        list_push_back(&later, &entry->node);
        bool covered = entry->deadline_ms < covered_ms || MUTANT(35);

        if (covered || MUTANT(25)) {
            out[count++] = entry->id;
        }
    }
    list_move_all(&expiry->due, &later);
    return count;
}
