#include "server/process/guard.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/thread.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    NS_PER_MS = 1000000,
    KIND_USER = 1,
    KIND_IDENTITY = 2
};

/* Hashes, never 0: of the address, of address and user's name, and of address and whole identity
 * (name and password hash). */
struct confirmed_name {
    uint64_t address;
    uint64_t user;
    uint64_t identity;
    bool super; /* The identity of superDigest. */
};

struct confirmed_slot {
    _Atomic uint64_t identity; /* 0: free. */
    _Atomic uint64_t used_ns;  /* Time of the last confirmation. */
    _Atomic uint64_t user;
    _Atomic uint64_t address;
    _Atomic bool super;
};

struct confirmed_set {
    struct confirmed_slot ways[CONFIRMED_WAYS];
};

void guard_init(struct guard *guard, const char *super_digest)
{
    mutex_init(&guard->mutex);
    mutex_init(&guard->confirmed_mutex);
    guard->super_digest = super_digest;
    buckets_init(&guard->users, GUARD_FAILURES, (uint64_t)GUARD_AGAIN_MS * NS_PER_MS,
                 (uint64_t)GUARD_DEBT_MAX_MS * NS_PER_MS);
    buckets_init(&guard->by_address, GUARD_ADDRESS_FAILURES,
                 (uint64_t)GUARD_ADDRESS_AGAIN_MS * NS_PER_MS,
                 (uint64_t)GUARD_ADDRESS_DEBT_MAX_MS * NS_PER_MS);
    guard->confirmed = mem_zalloc(CONFIRMED_SETS, sizeof(guard->confirmed[0]));
}

void guard_release(struct guard *guard)
{
    mem_free(guard->confirmed);
    mutex_destroy(&guard->confirmed_mutex);
    buckets_release(&guard->by_address);
    buckets_release(&guard->users);
    mutex_destroy(&guard->mutex);
}

/* ---- The log, by address. ---- */

/* Copies a user's name for the log. A name that a client has sent must not look like a part of the
 * log line. */
static void put_user(char out[GUARD_USER_MAX + 1], struct slice user)
{
    size_t len = min_size(user.len, GUARD_USER_MAX);

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = user.data[i];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9') || byte == '.' || byte == '_' || byte == '-' ||
                     byte == '@';

        out[i] = '?';
        if (plain) {
            out[i] = (char)byte;
        }
    }
    out[len] = '\0';
}

static bool is_quiet(const struct guard_address *address)
{
    uint64_t count = address->slowed;

    for (int kind = 0; kind < GATE_FAILURES; kind++) {
        count += address->failed[kind];
    }
    return count == 0;
}

/* Returns the entry of the network, which is a new one if necessary. When all entries are in use,
 * returns `others`. Called under the mutex. */
static struct guard_address *entry_of(struct guard *guard, struct slice network)
{
    struct guard_address *unused = NULL;

    for (size_t i = 0; i < GUARD_ADDRESSES_MAX; i++) {
        struct guard_address *address = &guard->addresses[i];

        if (!address->used) {
            unused = unused ? unused : address;
        } else if (slice_eq(slice_str(address->network), network)) {
            return address;
        }
    }
    if (!unused) {
        return &guard->others;
    }
    *unused = (struct guard_address){.used = true};
    (void)snprintf(unused->network, sizeof unused->network, "%.*s", (int)network.len,
                   (const char *)network.data);
    return unused;
}

/* Counts a failure for the log. `kind` GATE_FAILURES means a slowed request instead of a failure.
 */
static void note(struct guard *guard, struct slice network, struct slice user,
                 enum gate_failure kind)
{
    MUTEX_HOLD(&guard->mutex);
    struct guard_address *address = entry_of(guard, network);

    if (kind < GATE_FAILURES) {
        address->failed[kind]++;
    } else {
        address->slowed++;
    }
    if (user.len > 0) {
        put_user(address->user, user);
    }
}

static bool is_due(const struct guard_address *address, uint64_t now_ms)
{
    return !address->logged ||
           (now_ms > address->logged_ms && now_ms - address->logged_ms >= GUARD_LOG_EVERY_MS);
}

static void write_line(struct guard_address *address, uint64_t now_ms, struct logfmt *line)
{
    const uint64_t *failed = address->failed;

    logfmt_init(line);
    logfmt_print(line,
                 "failed credentials: address={address}%s user={user}%s "
                 "password={password_failures}%" PRIu64 " super={super_failures}%" PRIu64
                 " malformed={malformed}%" PRIu64 " session={session_failures}%" PRIu64
                 " slowed={slowed}%" PRIu64,
                 address->network, address->user[0] ? address->user : "-",
                 failed[GATE_FAILED_PASSWORD], failed[GATE_FAILED_SUPER],
                 failed[GATE_FAILED_MALFORMED], failed[GATE_FAILED_SESSION], address->slowed);
    memset(address->failed, 0, sizeof address->failed);
    address->slowed = 0;
    address->user[0] = '\0';
    address->logged = true;
    address->logged_ms = now_ms;
}

/* Writes the log line of an address that is due; false: no line was written. An address without
 * failures since its last line gives up its entry. */
static bool look(struct guard_address *address, uint64_t now_ms, struct logfmt *line)
{
    if (!address->used || !is_due(address, now_ms)) {
        return false;
    }
    if (is_quiet(address)) {
        address->used = false;
        return false;
    }
    write_line(address, now_ms, line);
    return true;
}

bool guard_line(struct guard *guard, uint64_t now_ms, struct logfmt *line)
{
    bool found = false;

    MUTEX_HOLD(&guard->mutex);
    for (size_t i = 0; i < GUARD_ADDRESSES_MAX && !found; i++) {
        found = look(&guard->addresses[i], now_ms, line);
    }
    if (!found && !is_quiet(&guard->others)) {
        guard->others.used = true;
        (void)snprintf(guard->others.network, sizeof guard->others.network, "others");
        found = look(&guard->others, now_ms, line);
    }
    return found;
}

/* ---- Names. ---- */

static uint64_t not_zero(uint64_t hash)
{
    return hash != 0 ? hash : 1;
}

static struct confirmed_name names_of(const struct guard *guard, struct slice network,
                                      struct slice id)
{
    uint64_t address = buckets_key(&guard->users, KIND_USER, network);

    return (struct confirmed_name){
        .address = address,
        .user = not_zero(hash64(address, auth_user(id))),
        .identity = not_zero(hash64(hash64_mix(address, KIND_IDENTITY), id)),
    };
}

/* ---- Confirmed identities. ---- */

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static struct confirmed_set *set_of(const struct guard *guard, const struct confirmed_name *name)
{
    return &guard->confirmed[(name->user >> 32) % CONFIRMED_SETS];
}

static struct confirmed_slot *find(struct confirmed_set *set, uint64_t identity)
{
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        if (load(&set->ways[i].identity) == identity) {
            return &set->ways[i];
        }
    }
    return NULL;
}

static bool is_confirmed(const struct guard *guard, const struct confirmed_name *name)
{
    return find(set_of(guard, name), name->identity) != NULL;
}

/* Whether the identity was last confirmed at least `ms` ago; false also when the clock seems to
 * have gone back. */
static bool is_older(const struct confirmed_slot *slot, uint64_t now_ns, uint64_t ms)
{
    uint64_t used_ns = load(&slot->used_ns);

    return now_ns > used_ns && now_ns - used_ns >= ms * NS_PER_MS;
}

static bool is_super(const struct confirmed_slot *slot)
{
    return atomic_load_explicit(&slot->super, memory_order_relaxed);
}

static bool is_free(const struct confirmed_slot *slot)
{
    return load(&slot->identity) == 0;
}

/* Counts the identities of this user, and of this address, that ACLs have confirmed; identities of
 * the super user do not count. */
static void count_own(const struct confirmed_set *set, const struct confirmed_name *name,
                      uint32_t *ret_user, uint32_t *ret_address)
{
    *ret_user = 0;
    *ret_address = 0;
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        const struct confirmed_slot *slot = &set->ways[i];

        if (!is_free(slot) && !is_super(slot) && load(&slot->address) == name->address) {
            (*ret_address)++;
            *ret_user += load(&slot->user) == name->user ? 1 : 0;
        }
    }
}

/* True when the new identity may replace this one. A user or address that already has its maximum
 * of identities may replace only its own. */
static bool may_replace(const struct confirmed_slot *slot, const struct confirmed_name *name,
                        uint32_t of_user, uint32_t of_address, uint64_t now_ns)
{
    if (name->super) {
        return is_free(slot) || !is_super(slot) || is_older(slot, now_ns, CONFIRMED_IDLE_MS);
    }
    if (of_user >= CONFIRMED_OF_USER && load(&slot->user) != name->user) {
        return false;
    }
    if (of_address >= CONFIRMED_OF_ADDRESS && load(&slot->address) != name->address) {
        return false;
    }
    return is_free(slot) || (!is_super(slot) && is_older(slot, now_ns, CONFIRMED_IDLE_MS));
}

/* Returns the least recently used slot that may be replaced; a free slot counts as never used.
 * NULL: no slot may be replaced. */
static struct confirmed_slot *place_for(struct confirmed_set *set,
                                        const struct confirmed_name *name, uint64_t now_ns)
{
    struct confirmed_slot *best = NULL;
    uint32_t of_user = 0;
    uint32_t of_address = 0;

    count_own(set, name, &of_user, &of_address);
    for (size_t i = 0; i < CONFIRMED_WAYS; i++) {
        struct confirmed_slot *slot = &set->ways[i];

        if (may_replace(slot, name, of_user, of_address, now_ns) &&
            (!best || load(&slot->used_ns) < load(&best->used_ns))) {
            best = slot;
        }
    }
    return best;
}

static void take_place(struct guard *guard, const struct confirmed_name *name, uint64_t now_ns)
{
    struct confirmed_set *set = set_of(guard, name);

    MUTEX_HOLD(&guard->confirmed_mutex);
    struct confirmed_slot *slot = find(set, name->identity) ? NULL : place_for(set, name, now_ns);

    if (slot) {
        store(&slot->used_ns, now_ns);
        store(&slot->user, name->user);
        store(&slot->address, name->address);
        atomic_store_explicit(&slot->super, name->super, memory_order_relaxed);
        store(&slot->identity, name->identity);
    }
}

/* ---- Passwords. ---- */

/* Returns the ns until the address has a token for users that have not failed recently. */
static uint64_t address_wait(struct guard *guard, uint64_t address, uint64_t now_ns)
{
    uint64_t wait_ns = 0;

    (void)buckets_own_wait(&guard->by_address, address, 1, now_ns, &wait_ns);
    return wait_ns;
}

/* Charges a failure to its address and user; a new user gets an entry only while the address has a
 * token. */
static void fail_password(struct guard *guard, struct slice network, struct slice id,
                          enum gate_failure kind, uint64_t now_ns)
{
    struct confirmed_name names = names_of(guard, network, id);
    bool can_pay = address_wait(guard, names.address, now_ns) == 0;
    uint64_t address_ns =
        buckets_own_charge(&guard->by_address, names.address, 1, now_ns, BUCKETS_REPLACE);
    uint64_t user_ns = buckets_own_charge(&guard->users, names.user, 1, now_ns,
                                          can_pay ? BUCKETS_IF_FREE : BUCKETS_KEEP_OUT);

    metric_add(&guard->failed[kind], 1);
    uint64_t until_ns = now_ns + max_u64(address_ns, user_ns);
    uint64_t busy_ns = atomic_load(&guard->busy_until_ns);

    while (busy_ns < until_ns &&
           !atomic_compare_exchange_weak(&guard->busy_until_ns, &busy_ns, until_ns)) {
    }
    note(guard, network, auth_user(id), kind);
}

/* True for the super user's name with another password, unless an ACL has confirmed that identity:
 * then it belongs to another user with the same name, and is no guess. */
static bool is_super_guess(struct guard *guard, struct slice network, const struct auth *auth,
                           struct slice id)
{
    struct slice super = slice_str(guard->super_digest);
    struct confirmed_name names;

    if (super.len == 0 || auth->super || !slice_eq(auth_user(super), auth_user(id))) {
        return false;
    }
    names = names_of(guard, network, id);
    return !is_confirmed(guard, &names);
}

/* Returns the ns until the identity may be evaluated. While no password has failed recently, the
 * function only compares two timestamps. For a confirmed identity it takes no lock. */
static uint64_t wait_ns_of(struct guard *guard, struct slice network, struct slice id,
                           uint64_t now_ns)
{
    struct confirmed_name names;
    uint64_t wait_ns = 0;

    if (now_ns >= atomic_load_explicit(&guard->busy_until_ns, memory_order_relaxed)) {
        return 0;
    }
    names = names_of(guard, network, id);
    if (is_confirmed(guard, &names)) {
        return 0;
    }
    if (buckets_own_wait(&guard->users, names.user, 1, now_ns, &wait_ns)) {
        return wait_ns;
    }
    return address_wait(guard, names.address, now_ns);
}

uint32_t guard_wait(struct guard *guard, const struct op_principal *who, uint32_t first,
                    uint64_t now_ns)
{
    const struct auth *auth = who->auth;
    char text[NETWORK_TEXT_MAX];
    struct slice network = network_of(slice_str(who->address), text);

    for (uint32_t i = first; auth && i < auth->count; i++) {
        struct slice id = auth->ids[i].id;

        if (!auth_has_password(&auth->ids[i])) {
            continue; /* Proven by a certificate: no client guesses it. */
        }

        uint64_t wait_ns = wait_ns_of(guard, network, id, now_ns);

        if (wait_ns > 0) {
            metric_add(&guard->slowed, 1);
            note(guard, network, auth_user(id), GATE_FAILURES);
            return (uint32_t)(wait_ns / NS_PER_MS) + 1;
        }
        if (is_super_guess(guard, network, auth, id)) {
            fail_password(guard, network, id, GATE_FAILED_SUPER, now_ns);
        }
    }
    return 0;
}

/* Returns the bits of identities that were refused and are not counted yet, and marks them counted.
 */
static uint32_t take_wrong(struct auth *auth)
{
    uint32_t wrong = atomic_load_explicit(&auth->wrong, memory_order_relaxed);
    uint32_t told = atomic_load_explicit(&auth->told, memory_order_relaxed);

    if ((wrong & ~told) == 0) {
        return 0;
    }
    return wrong & ~atomic_fetch_or(&auth->told, wrong);
}

/* Keeps an identity that was confirmed now, if there is a place. In most calls the identity is kept
 * already, or finds no place; in both cases no lock is taken. */
static void confirm(struct guard *guard, struct slice network, const struct auth *auth,
                    struct slice id, uint64_t now_ns)
{
    struct confirmed_name names = names_of(guard, network, id);
    struct confirmed_set *set = set_of(guard, &names);
    struct confirmed_slot *slot = find(set, names.identity);

    names.super = auth->super && slice_eq(id, slice_str(guard->super_digest));
    if (slot) {
        if (is_older(slot, now_ns, CONFIRMED_REFRESH_MS)) {
            store(&slot->used_ns, now_ns);
        }
    } else if (place_for(set, &names, now_ns)) {
        take_place(guard, &names, now_ns);
    }
}

void guard_seen(struct guard *guard, const struct op_principal *who, uint64_t now_ns)
{
    struct auth *auth = who->auth;
    char text[NETWORK_TEXT_MAX];
    struct slice network;
    uint32_t wrong = 0;
    uint32_t right = 0;

    if (!auth) {
        return;
    }
    wrong = take_wrong(auth);
    right = atomic_load_explicit(&auth->right, memory_order_relaxed);
    if (wrong == 0 && right == 0) {
        return;
    }
    network = network_of(slice_str(who->address), text);
    for (uint32_t i = 0; i < auth->count; i++) {
        struct slice id = auth->ids[i].id;

        if (!auth_has_password(&auth->ids[i])) {
            continue;
        }
        if ((wrong >> i & 1) != 0) {
            fail_password(guard, network, id, GATE_FAILED_PASSWORD, now_ns);
        } else if ((right >> i & 1) != 0) {
            confirm(guard, network, auth, id, now_ns);
        }
    }
}

void guard_failed(struct guard *guard, const struct op_principal *who, enum gate_failure kind)
{
    char text[NETWORK_TEXT_MAX];

    ASSERT(kind == GATE_FAILED_MALFORMED || kind == GATE_FAILED_SESSION);
    metric_add(&guard->failed[kind], 1);
    note(guard, network_of(slice_str(who->address), text), slice_make(NULL, 0), kind);
}
