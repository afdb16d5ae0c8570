/*
 * What each voter's disk is known to have promised and made durable. A leader learns this from
 * acknowledgements, all replicas learn it from STAMP and EPOCH records in the log. A disk that
 * comes back with less has been rolled back.
 */
#include "base/wire.h"
#include "zab/zab_int.h"

enum {
    STAMP_FORMAT = 1,
    WATERMARK_LEN = 4 + 8 + 4 + 8 /* See put_watermark. */
};

/* Notes what the disk `incarnation` has promised and made durable, if this disk is the peer's known
 * disk and the values are newer than the known ones. */
static void learn(struct peer *peer, uint64_t incarnation, uint32_t promised, zxid_t last)
{
    if (peer->known_incarnation == incarnation &&
        (promised > peer->known_promised ||
         (promised == peer->known_promised && last > peer->known_last))) {
        peer->known_promised = promised;
        peer->known_last = last;
    }
}

void admit_learn(struct peer *peer, uint32_t promised, zxid_t last)
{
    learn(peer, peer->incarnation, promised, last);
}

/* As far as this replica knows. A leader tells the next one in the EPOCH record. */
bool admit_knows(const struct peer *peer)
{
    return peer->known_incarnation == peer->incarnation && peer->known_promised != 0;
}

/*
 * Whether the disk was rolled back: the same disk reports less than it has acknowledged. With a
 * higher promise a shorter log is allowed: a truncation in the promised epoch may have been under
 * way.
 */
bool admit_is_rolled_back(const struct peer *peer, const struct zab_msg_cepoch *cepoch)
{
    if (!admit_knows(peer)) {
        return false;
    }
    return cepoch->promised < peer->known_promised ||
           (cepoch->promised == peer->known_promised && cepoch->last < peer->known_last);
}

static void put_watermark(struct buf *out, uint32_t id, uint64_t incarnation, uint32_t promised,
                          zxid_t last)
{
    wire_put_u32(out, id);
    wire_put_u64(out, incarnation);
    wire_put_u32(out, promised);
    wire_put_u64(out, last);
}

/* Writes what each voter is known to have on its disk: format u8, count u32, the watermarks; then
 * the version of a committed configuration, which release 0.9.0 neither writes nor reads. */
void admit_stamp_payload(const struct zab *zab, zxid_t version, struct buf *out)
{
    uint32_t count = 0;

    ASSERT(zab->state == ZAB_LEADING);
    for_each_peer (peer, zab) {
        count += peer->known_promised != 0 ? 1 : 0;
    }
    wire_put_u8(out, STAMP_FORMAT);
    wire_put_u32(out, count + 1);
    put_watermark(out, zab->id, zab->incarnation, zab->lead.epoch, zab->trail.durable);
    for_each_peer (peer, zab) {
        if (peer->known_promised != 0) {
            put_watermark(out, peer->id, peer->known_incarnation, peer->known_promised,
                          peer->known_last);
        }
    }
    wire_put_u64(out, version);
    ASSERT(!out->overflow);
}

zxid_t zab_proven_config(const struct logrec *rec)
{
    struct wire_reader reader;

    if (rec->type != LOGREC_STAMP && rec->type != LOGREC_EPOCH) {
        return 0;
    }
    wire_reader_init(&reader, logrec_payload(rec));
    if (wire_get_u8(&reader) != STAMP_FORMAT) {
        return 0;
    }
    uint32_t count = wire_get_u32(&reader);

    for (uint32_t i = 0; i < count && wire_reader_ok(&reader); i++) {
        (void)wire_get_raw(&reader, WATERMARK_LEN);
    }
    zxid_t version = wire_get_u64(&reader);

    return wire_reader_ok(&reader) ? version : 0;
}

void admit_on_stamp(struct zab *zab, const struct logrec *rec)
{
    struct wire_reader reader;

    ASSERT(rec->type == LOGREC_STAMP || rec->type == LOGREC_EPOCH);
    wire_reader_init(&reader, logrec_payload(rec));
    if (wire_get_u8(&reader) != STAMP_FORMAT) {
        return;
    }
    uint32_t count = wire_get_u32(&reader);

    for (uint32_t i = 0; i < count && wire_reader_ok(&reader); i++) {
        struct peer *peer = peer_find(zab, wire_get_u32(&reader));
        uint64_t incarnation = wire_get_u64(&reader);
        uint32_t promised = wire_get_u32(&reader);
        zxid_t last = wire_get_u64(&reader);

        if (wire_reader_ok(&reader) && peer) {
            peer->known_incarnation =
                peer->known_incarnation != 0 ? peer->known_incarnation : incarnation;
            learn(peer, incarnation, promised, last);
        }
    }
}
