#include "base/wire.h"
#include "storage/store_int.h"

#include <stdio.h>

#define IDENTITY(form, member) WIRE_FIELD(WIRE_##form, struct store_identity, member)

/* All fields except `genesis`, which is written after them with its length. */
static const struct wire_field identity_fields[] = {
    IDENTITY(RAW, cluster),        IDENTITY(INT, member_id), IDENTITY(INT, incarnation),
    IDENTITY(BOOL, bootstrapping), {.form = WIRE_END},
};

void identity_encode(const struct store_identity *identity, struct buf *out)
{
    ASSERT(identity->incarnation != 0 && identity->genesis_len <= STORE_GENESIS_MAX);

    wire_put_fields(out, identity_fields, identity);
    wire_put_bytes(out, slice_make(identity->genesis, identity->genesis_len));
    ASSERT(!out->overflow);
}

/* ---- Reading. ---- */

static enum err identity_decode(struct store *store, struct slice payload)
{
    struct store_identity *identity = &store->identity;
    struct wire_reader reader;

    wire_reader_init(&reader, payload);
    *identity = (struct store_identity){0};
    wire_get_fields(&reader, identity_fields, identity);
    struct slice genesis = wire_get_bytes(&reader, STORE_GENESIS_MAX);

    if (!wire_reader_done(&reader) || identity->incarnation == 0) {
        return ERR_CORRUPT;
    }
    if (genesis.len > 0) {
        memcpy(identity->genesis, genesis.data, genesis.len);
    }
    identity->genesis_len = (uint32_t)genesis.len;
    store->has_identity = true;
    return ERR_OK;
}

static enum err promise_decode(struct store *store, struct slice payload)
{
    struct wire_reader reader;

    wire_reader_init(&reader, payload);
    store->promised_epoch = wire_get_u32(&reader);
    store->promised_leader = wire_get_u32(&reader);
    return wire_reader_done(&reader) ? ERR_OK : ERR_CORRUPT;
}

static enum err quarantine_decode(struct store *store, struct slice payload)
{
    struct wire_reader reader;

    wire_reader_init(&reader, payload);
    store->is_quarantined = wire_get_u8(&reader) != 0;

    struct slice reason = wire_get_bytes(&reader, STORE_REASON_MAX - 1);

    if (wire_reader_done(&reader) && reason.len > 0) {
        memcpy(store->quarantine_reason, reason.data, reason.len);
    }
    return wire_reader_done(&reader) ? ERR_OK : ERR_CORRUPT;
}

static enum err manifest_take(struct store *store, struct slice payload)
{
    enum err err = manifest_decode(payload, &store->wal.manifest);

    if (err != ERR_OK) {
        store->wal.manifest = (struct manifest){0};
    }
    return err;
}

/* The small records by kind, in the order in which they are opened. `slots`: offset in the store.
 * `decode` returns ERR_CORRUPT when the payload is malformed. */
static const struct record {
    const char *name;
    size_t slots;
    enum err (*decode)(struct store *store, struct slice payload);
} records[] = {
    [SLOTS_IDENTITY] = {NAME_IDENTITY, offsetof(struct store, identity_slots), identity_decode},
    [SLOTS_PROMISE] = {NAME_PROMISE, offsetof(struct store, promise_slots), promise_decode},
    [SLOTS_QUARANTINE] = {NAME_QUARANTINE, offsetof(struct store, quarantine_slots),
                          quarantine_decode},
    [SLOTS_MANIFEST] = {NAME_MANIFEST, offsetof(struct store, wal.slots), manifest_take},
};

static struct slots *slots_of(struct store *store, unsigned kind)
{
    return (struct slots *)(void *)((uint8_t *)store + records[kind].slots);
}

/* Opens and decodes one record. Damage goes into the report. ERR_MISSING: there is no identity. */
static enum err record_open(struct store *store, unsigned kind, struct store_report *report)
{
    const struct record *record = &records[kind];
    struct slots *slots = slots_of(store, kind);
    enum err err = slots_open(slots, &store->options.vfs, record->name, (enum slots_kind)kind);
    const char *damage = err == ERR_MISSING ? "missing" : "damaged in both of its slots";

    if (err == ERR_OK) {
        if (slots->has_bad_slot) {
            PROBE("storage.one_slot_bad");
            report->one_slot_bad = true;
        }
        err = record->decode(store, slice_make(slots->payload, slots->len));
        damage = "malformed";
    }
    if (err != ERR_CORRUPT && (err != ERR_MISSING || kind == SLOTS_IDENTITY)) {
        return err;
    }
    report_damage(report, "the file %s is %s", record->name, damage);
    /* A replica that has lost its promise must not make a new one: the two might conflict. */
    store->is_lost = store->is_lost || kind == SLOTS_IDENTITY || kind == SLOTS_PROMISE;
    return ERR_OK;
}

static enum err open_from(struct store *store, unsigned first, struct store_report *report)
{
    enum err err = ERR_OK;

    for (unsigned kind = first; err == ERR_OK && kind <= SLOTS_MANIFEST; kind++) {
        err = record_open(store, kind, report);
    }
    return err;
}

enum err records_open(struct store *store, struct store_report *report)
{
    return open_from(store, SLOTS_IDENTITY, report);
}

enum err records_heal(struct store *store)
{
    ASSERT(!store->is_read_only && !store->is_damaged);

    enum err err = ERR_OK;

    for (unsigned kind = SLOTS_IDENTITY; kind <= SLOTS_MANIFEST; kind++) {
        THEN(err, slots_heal(slots_of(store, kind), &store->options.vfs));
    }
    return err;
}

enum err records_sync(struct store *store)
{
    enum err err = ERR_OK;

    for (unsigned kind = SLOTS_IDENTITY; kind <= SLOTS_MANIFEST; kind++) {
        struct vfs_file *file = slots_of(store, kind)->file;

        if (file) {
            THEN(err, store->options.vfs.ops->sync(file));
        }
    }
    return err;
}

void records_close(struct store *store)
{
    for (unsigned kind = SLOTS_IDENTITY; kind <= SLOTS_MANIFEST; kind++) {
        slots_close(slots_of(store, kind), &store->options.vfs);
    }
}

/* ---- Writing. ---- */

static enum err record_put(struct store *store, enum slots_kind kind, struct buf *take_payload)
{
    return slots_put(slots_of(store, kind), &store->options.vfs, records[kind].name, kind,
                     take_payload);
}

static struct buf promise_bytes(uint32_t epoch, uint32_t leader)
{
    struct buf out;

    buf_init(&out, SLOTS_PAYLOAD_MAX);
    wire_put_u32(&out, epoch);
    wire_put_u32(&out, leader);
    ASSERT(!out.overflow);
    return out;
}

static struct buf quarantine_bytes(const char *reason)
{
    struct slice text = slice_str(reason ? reason : "");
    struct buf out;

    text.len = min_size(text.len, STORE_REASON_MAX - 1);
    buf_init(&out, SLOTS_PAYLOAD_MAX);
    wire_put_u8(&out, reason != NULL);
    wire_put_bytes(&out, text);
    ASSERT(!out.overflow);
    return out;
}

enum err record_promise(struct store *store, uint32_t epoch, uint32_t leader)
{
    struct buf bytes = promise_bytes(epoch, leader);

    ASSERT(epoch >= store->promised_epoch);
    enum err err = record_put(store, SLOTS_PROMISE, &bytes);

    if (err == ERR_OK) {
        store->promised_epoch = epoch;
        store->promised_leader = leader;
    }
    return err;
}

/* Sets the mark (`reason`) or clears it (NULL). If the file of the mark is
 * missing, it is made: a missing file counts as damage, and a damaged replica must get the mark. */
enum err record_quarantine(struct store *store, const char *reason)
{
    ASSERT(!store->is_lost);
    struct buf bytes = quarantine_bytes(reason);
    enum err err = record_put(store, SLOTS_QUARANTINE, &bytes);

    if (err == ERR_OK) {
        mutex_lock(&store->wal.files_mutex);
        store->is_quarantined = reason != NULL;
        mutex_unlock(&store->wal.files_mutex);
        (void)snprintf(store->quarantine_reason, sizeof(store->quarantine_reason), "%s",
                       reason ? reason : "");
    }
    return err;
}

enum err record_identity(struct store *store, const struct store_identity *identity)
{
    struct buf bytes;

    /* Incarnation and member never change. The first identity is written after the log is made. */
    ASSERT(store->has_identity ? store->identity.incarnation == identity->incarnation &&
                                     store->identity.member_id == identity->member_id
                               : store->wal.is_open);
    buf_init(&bytes, SLOTS_PAYLOAD_MAX);
    identity_encode(identity, &bytes);
    enum err err = record_put(store, SLOTS_IDENTITY, &bytes);

    if (err == ERR_OK) {
        store->identity = *identity;
        store->has_identity = true;
    }
    return err;
}

/* Makes one record file; the directory is synced later, before the identity is made. */
static enum err create_one(struct store *store, enum slots_kind kind, struct buf take_payload)
{
    enum err err =
        slots_create(&store->options.vfs, records[kind].name, kind, buf_slice(&take_payload));

    buf_release(&take_payload);
    return err;
}

enum err records_create(struct store *store)
{
    const struct manifest manifest = {.history = 1, .first = 1, .top = 1};
    struct store_report report = {0};
    struct buf bytes;

    ASSERT(!store->has_identity);

    /* The records are open if an earlier attempt ran out of space. */
    records_close(store);
    store->wal.manifest = (struct manifest){0};
    enum err err = create_one(store, SLOTS_PROMISE, promise_bytes(0, 0));

    THEN(err, create_one(store, SLOTS_QUARANTINE, quarantine_bytes(NULL)));
    if (err == ERR_OK) {
        buf_init(&bytes, SLOTS_PAYLOAD_MAX);
        manifest_encode(&manifest, &bytes);
        err = create_one(store, SLOTS_MANIFEST, bytes);
    }
    THEN(err, open_from(store, SLOTS_PROMISE, &report));
    return err == ERR_OK && report.verdict == STORE_DAMAGED ? ERR_IO : err;
}
