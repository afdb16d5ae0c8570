#include "base/wire.h"
#include "storage/store_int.h"

#include <stdarg.h>
#include <stdio.h>

#define IDENTITY(form, member) WIRE_FIELD(WIRE_##form, struct store_identity, member)

/* The fields before the founding configuration. */
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

enum err identity_decode(struct slice bytes, struct store_identity *ret_identity)
{
    struct wire_reader reader;

    wire_reader_init(&reader, bytes);
    *ret_identity = (struct store_identity){0};
    wire_get_fields(&reader, identity_fields, ret_identity);
    struct slice genesis = wire_get_bytes(&reader, STORE_GENESIS_MAX);

    if (!wire_reader_done(&reader) || ret_identity->incarnation == 0) {
        return ERR_CORRUPT;
    }
    if (genesis.len > 0) {
        memcpy(ret_identity->genesis, genesis.data, genesis.len);
    }
    ret_identity->genesis_len = (uint32_t)genesis.len;
    return ERR_OK;
}

void report_damage(struct store_report *report, const char *format, ...)
{
    va_list args;

    if (report->verdict == STORE_DAMAGED) {
        return;
    }
    report->verdict = STORE_DAMAGED;
    va_start(args, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): `args` was just started. */
    (void)vsnprintf(report->reason, sizeof(report->reason), format, args);
    va_end(args);
    ASSERT(report->reason[0] != '\0');
}

static struct slice slots_payload(const struct slots *slots)
{
    return slice_make(slots->payload, slots->len);
}

/* Opens one record. ERR_CORRUPT is also returned for a missing file. */
static enum err record_open(struct store *store, struct slots *slots, const char *name,
                            enum slots_kind kind, struct store_report *report)
{
    enum err err = slots_open(slots, &store->options.vfs, name, kind);

    if (err == ERR_OK && slots->has_bad_slot) {
        PROBE("storage.one_slot_bad");
        report->one_slot_bad = true;
    }
    if (err == ERR_MISSING || err == ERR_CORRUPT) {
        report_damage(report, "the file %s is %s", name,
                      err == ERR_MISSING ? "missing" : "damaged in both of its slots");
        return ERR_CORRUPT;
    }
    return err;
}

static enum err identity_open(struct store *store, struct store_report *report)
{
    struct slots *slots = &store->identity_slots;
    enum err err = slots_open(slots, &store->options.vfs, NAME_IDENTITY, SLOTS_IDENTITY);

    if (err == ERR_OK) {
        err = identity_decode(slots_payload(slots), &store->identity);
        report->one_slot_bad = report->one_slot_bad || slots->has_bad_slot;
    }
    if (err == ERR_CORRUPT) {
        report_damage(report, "the file %s is damaged in both of its slots", NAME_IDENTITY);
        store->is_lost = true;
        return ERR_OK;
    }
    store->has_identity = err == ERR_OK;
    return err;
}

static enum err promise_open(struct store *store, struct store_report *report)
{
    struct slots *slots = &store->promise_slots;
    struct wire_reader reader;
    enum err err = record_open(store, slots, NAME_PROMISE, SLOTS_PROMISE, report);

    if (err == ERR_OK) {
        wire_reader_init(&reader, slots_payload(slots));
        store->promised_epoch = wire_get_u32(&reader);
        store->promised_leader = wire_get_u32(&reader);
        err = wire_reader_done(&reader) ? ERR_OK : ERR_CORRUPT;
    }
    if (err == ERR_CORRUPT) {
        /* A replica that has lost its promise must not make another. */
        report_damage(report, "the file %s is malformed", NAME_PROMISE);
        store->is_lost = true;
        return ERR_OK;
    }
    return err;
}

static enum err quarantine_open(struct store *store, struct store_report *report)
{
    struct slots *slots = &store->quarantine_slots;
    struct wire_reader reader;
    enum err err = record_open(store, slots, NAME_QUARANTINE, SLOTS_QUARANTINE, report);

    if (err == ERR_OK) {
        wire_reader_init(&reader, slots_payload(slots));
        store->is_quarantined = wire_get_u8(&reader) != 0;

        struct slice reason = wire_get_bytes(&reader, STORE_REASON_MAX - 1);

        err = wire_reader_done(&reader) ? ERR_OK : ERR_CORRUPT;
        if (err == ERR_OK && reason.len > 0) {
            memcpy(store->quarantine_reason, reason.data, reason.len);
        }
    }
    if (err == ERR_CORRUPT) {
        report_damage(report, "the file %s is malformed", NAME_QUARANTINE);
        return ERR_OK;
    }
    return err;
}

static enum err manifest_open(struct store *store, struct store_report *report)
{
    struct slots *slots = &store->wal.slots;
    enum err err = record_open(store, slots, NAME_MANIFEST, SLOTS_MANIFEST, report);

    if (err == ERR_OK) {
        err = manifest_decode(slots_payload(slots), &store->wal.manifest);
    }
    if (err == ERR_CORRUPT) {
        report_damage(report, "the file %s is malformed", NAME_MANIFEST);
        store->wal.manifest = (struct manifest){0};
        return ERR_OK;
    }
    return err;
}

/* Opens all records except the identity. */
static enum err others_open(struct store *store, struct store_report *report)
{
    enum err err = promise_open(store, report);

    if (err == ERR_OK) {
        err = quarantine_open(store, report);
    }
    return err == ERR_OK ? manifest_open(store, report) : err;
}

enum err records_open(struct store *store, struct store_report *report)
{
    enum err err = identity_open(store, report);

    if (err == ERR_OK) {
        err = others_open(store, report);
    }
    ASSERT(err != ERR_CORRUPT);
    return err;
}

enum err records_heal(struct store *store)
{
    ASSERT(!store->is_read_only && !store->is_damaged);

    struct slots *all[] = {&store->identity_slots, &store->promise_slots, &store->quarantine_slots,
                           &store->wal.slots};
    enum err err = ERR_OK;

    for (size_t i = 0; err == ERR_OK && i < sizeof(all) / sizeof(all[0]); i++) {
        err = slots_heal(all[i], &store->options.vfs);
    }
    return err;
}

void records_close(struct store *store)
{
    slots_close(&store->identity_slots, &store->options.vfs);
    slots_close(&store->promise_slots, &store->options.vfs);
    slots_close(&store->quarantine_slots, &store->options.vfs);
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
    enum err err =
        slots_put(&store->promise_slots, &store->options.vfs, NAME_PROMISE, SLOTS_PROMISE, &bytes);

    if (err == ERR_OK) {
        store->promised_epoch = epoch;
        store->promised_leader = leader;
    }
    return err;
}

/* Sets the mark (`reason`) or clears it (NULL). The mark is needed most when its file is missing,
 * so the file is made then. */
enum err record_quarantine(struct store *store, const char *reason)
{
    ASSERT(!store->is_lost);
    struct buf bytes = quarantine_bytes(reason);
    enum err err = slots_put(&store->quarantine_slots, &store->options.vfs, NAME_QUARANTINE,
                             SLOTS_QUARANTINE, &bytes);

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

    /* A new incarnation is a new disk: it begins with an empty directory. */
    ASSERT(store->has_identity ? store->identity.incarnation == identity->incarnation &&
                                     store->identity.member_id == identity->member_id
                               : store->wal.is_open);
    buf_init(&bytes, SLOTS_PAYLOAD_MAX);
    identity_encode(identity, &bytes);
    enum err err = slots_put(&store->identity_slots, &store->options.vfs, NAME_IDENTITY,
                             SLOTS_IDENTITY, &bytes);

    if (err == ERR_OK) {
        store->identity = *identity;
        store->has_identity = true;
    }
    return err;
}

/* Makes one record file; the directory is synced later, before the identity is made. */
static enum err create_one(struct store *store, const char *name, enum slots_kind kind,
                           struct buf take_payload)
{
    enum err err = slots_create(&store->options.vfs, name, kind, buf_slice(&take_payload));

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
    slots_close(&store->wal.slots, &store->options.vfs);
    store->wal.manifest = (struct manifest){0};
    enum err err = create_one(store, NAME_PROMISE, SLOTS_PROMISE, promise_bytes(0, 0));

    if (err == ERR_OK) {
        err = create_one(store, NAME_QUARANTINE, SLOTS_QUARANTINE, quarantine_bytes(NULL));
    }
    if (err == ERR_OK) {
        buf_init(&bytes, SLOTS_PAYLOAD_MAX);
        manifest_encode(&manifest, &bytes);
        err = create_one(store, NAME_MANIFEST, SLOTS_MANIFEST, bytes);
    }
    if (err == ERR_OK) {
        err = others_open(store, &report);
    }
    return err == ERR_OK && report.verdict == STORE_DAMAGED ? ERR_IO : err;
}
