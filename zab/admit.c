/*
 * Who may take part: founding a cluster, admitting the new disk of a known member, and recognising
 * a disk that has forgotten what it acknowledged (decision 7).
 */
#include "base/wire.h"
#include "zab/zab_int.h"

enum {
    STAMP_FORMAT = 1
};

/* ---- Founding. ---- */

static bool all_founders_here(const struct zab *zab)
{
    ASSERT(zab->founding);
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        const struct peer *peer = &zab->peers[i];

        if (peer->seed_voter && (!peer->up || !peer->founding || peer->id < zab->id)) {
            return false;
        }
    }
    return true;
}

static void member_insert(struct zab_config *config, struct zab_member member)
{
    ASSERT(config->count < ZAB_MEMBERS_MAX);

    uint32_t at = config->count++;

    while (at > 0 && config->members[at - 1].id > member.id) {
        config->members[at] = config->members[at - 1];
        at--;
    }
    config->members[at] = member;
    ASSERT(at == 0 || config->members[at - 1].id < member.id);
}

/* Every member of the server list is one of the configuration, with the same right to vote, and
 * none is missing: else this replica would talk to others than it counts. */
bool list_agrees(const struct zab *zab, const struct zab_config *config)
{
    const struct zab_member *self = zab_config_find(config, zab->id);

    ASSERT(zab->peer_count < ZAB_MEMBERS_MAX);
    if (!self || has_seat(self) != zab->seed_voter || config->count != zab->peer_count + 1) {
        return false;
    }
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        const struct zab_member *member = zab_config_find(config, zab->peers[i].id);

        if (!member || has_seat(member) != zab->peers[i].seed_voter) {
            return false;
        }
    }
    return true;
}

static void send_found(struct zab *zab, const struct peer *peer)
{
    ASSERT(zab->config.count > 0 && zab->config_bytes.len > 0);

    struct zab_msg msg = {.type = ZAB_FOUND, .found.config = buf_slice(&zab->config_bytes)};

    ASSERT(peer->up);
    fx_send(zab, peer->id, &msg);
}

static void persist_join(struct zab *zab)
{
    ASSERT(zab->founding && zab->config.count > 0);

    ASSERT(zab->state == ZAB_LOOKING);
    fx_persist(zab, ZAB_PERSIST_JOIN)->join.config = &zab->config;
    zab->settled = false;
    fx_role(zab);
}

/* A peer whose vote names an older configuration learns ours. */
void config_tell(struct zab *zab, const struct peer *peer, zxid_t version)
{
    ASSERT(peer->id != zab->id);
    if (!zab->founding && !peer->founding && version < zab->config.version) {
        PROBE("zab.config_told");
        send_found(zab, peer);
    }
}

/* The founder with the lowest id writes the configuration once all have reported, all of them
 * empty. One that misses the message learns it later from any member. */
static void found(struct zab *zab)
{
    struct zab_config config = {0};

    ASSERT(zab->founding && zab->config.count == 0);
    PROBE("zab.founded");
    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i += 8) {
        uint64_t word = rng_u64(&zab->rng) | 1;

        memcpy(&config.cluster[i], &word, sizeof word);
    }
    config.history = rng_u64(&zab->rng) | 1;
    member_insert(&config, (struct zab_member){
                               .id = zab->id, .voter = true, .incarnation = zab->incarnation});
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        const struct peer *peer = &zab->peers[i];

        member_insert(&config,
                      (struct zab_member){.id = peer->id,
                                          .voter = peer->seed_voter,
                                          .incarnation = peer->seed_voter ? peer->incarnation : 0});
    }
    ASSERT(config.count == zab->peer_count + 1);
    config_set(zab, &config);
    persist_join(zab);
}

/* A founder whose incarnation the configuration names has been away when it was written. */
static void tell_founders(struct zab *zab)
{
    ASSERT(!zab->founding);
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        struct peer *peer = &zab->peers[i];

        if (peer->up && peer->founding &&
            zab_config_is_voter(&zab->config, peer->id, peer->incarnation)) {
            peer->founding = false;
            send_found(zab, peer);
        }
    }
}

void found_check(struct zab *zab)
{
    if (!zab->founding) {
        tell_founders(zab);
    } else if (zab->state == ZAB_LOOKING && zab->config.count == 0 && all_founders_here(zab)) {
        found(zab);
    }
}

void found_on_message(struct zab *zab, struct peer *peer, const struct zab_msg_found *found)
{
    struct zab_config config;

    ASSERT(peer->up);
    if (!zab->founding) {
        /* A committed configuration stays committed: it binds from the moment it is known. Without
         * it, two of three replicas could each wait for the other to know who may vote. */
        if (zab_config_decode(found->config, &config) == ERR_OK &&
            memcmp(config.cluster, zab->config.cluster, ZAB_CLUSTER_LEN) == 0) {
            (void)config_adopt(zab, found->config);
        }
        return;
    }
    if (zab->config.count != 0 || zab->state != ZAB_LOOKING) {
        return;
    }
    if (zab_config_decode(found->config, &config) != ERR_OK ||
        !zab_config_is_voter(&config, zab->id, zab->incarnation)) {
        fx_disconnect(zab, peer->id);
        return;
    }
    if (!list_agrees(zab, &config)) {
        fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_FOUNDER_LIST, .peer = peer->id});
        fx_disconnect(zab, peer->id);
        return;
    }
    PROBE("zab.found_received");
    config_set(zab, &config);
    persist_join(zab);
}

/* ---- Admission. ---- */

static bool is_present(const struct zab *zab, const struct peer *peer)
{
    ASSERT(zab->state == ZAB_LEADING);
    ASSERT(peer->learner.heard_ms <= zab->now_ms);
    return peer->up && peer->learner.stage == LEARNER_SYNCED &&
           zab->now_ms - peer->learner.heard_ms < ticks_ms(zab, zab->limits.sync_limit);
}

/*
 * Disks that are swapped again and again must not wear a majority away. The age of the ensemble at
 * the last admission is part of the configuration, so that a new leader respects it.
 */
static bool admitted_long_ago(const struct zab *zab, const struct zab_member *member)
{
    ASSERT(zab->state == ZAB_LEADING);
    return member->admitted_age_ms == 0 ||
           (zab->age_ms >= member->admitted_age_ms &&
            zab->age_ms - member->admitted_age_ms >= zab->limits.admit_again_ms);
}

/* A stranger's disk under a voter's id, refilled and in step, whose old disk stays away. */
static bool may_admit(const struct zab *zab, const struct peer *peer)
{
    ASSERT(peer->seen_ms <= zab->now_ms);

    const struct zab_member *member = zab_config_find(&zab->config, peer->id);

    ASSERT(zab->state == ZAB_LEADING);
    if (!member || !has_seat(member) || member->incarnation == peer->incarnation ||
        !is_present(zab, peer) || peer->learner.acked < zab->committed) {
        return false;
    }
    if (zab->now_ms - peer->seen_ms < zab->limits.admit_absent_ms) {
        return false;
    }
    return admitted_long_ago(zab, member);
}

static void propose_config(struct zab *zab, struct zab_config *config)
{
    struct buf bytes;

    ASSERT(!zab->has_pending_config);
    config->version = zab->trail.last + 1;
    ASSERT(config->version > zab->config.version);
    buf_init(&bytes, 1 << 16);
    zab_config_encode(config, &bytes);
    broadcast_append(zab, LOGREC_CONFIG, buf_slice(&bytes));
    ASSERT(zab->trail.last == config->version);
    buf_release(&bytes);
}

static void propose_admission(struct zab *zab, const struct peer *peer)
{
    struct zab_config config = zab->config;

    PROBE("zab.admitted");
    for (uint32_t i = 0; i < config.count; i++) {
        if (config.members[i].id == peer->id) {
            config.members[i].voter = true;
            config.members[i].vacant = false;
            config.members[i].incarnation = peer->incarnation;
            config.members[i].admitted_age_ms = zab->age_ms ? zab->age_ms : 1;
        }
    }
    propose_config(zab, &config);
    fx_alarm(zab, (struct zab_notice){.type = ZAB_NOTICE_ADMISSION, .peer = peer->id});
}

/* A configuration that was forced upon a survivor's disk is on no other disk and in no record yet:
 * no record has the zxid that is its version. */
static bool is_unwritten(const struct zab_config *config)
{
    return config->version != 0 && zxid_counter(config->version) == 0;
}

void admit_tick(struct zab *zab)
{
    ASSERT(zab->state == ZAB_LEADING);
    tell_founders(zab);
    if (zab->has_pending_config || zab->now_ms < zab->admit_ms || zab_next_zxid(zab) == 0) {
        return;
    }
    zab->admit_ms = zab->now_ms + zab->limits.tick_ms / 2;
    /* Told of what a later leader has committed: this one can commit nothing any more. */
    if (zab->config.version > zab->trail.last) {
        return;
    }
    /* A quorum of the whole configuration must be here without the disk in question; the stranger
     * itself is not counted, since its incarnation is not in the configuration. */
    if (!quorum_has(zab, true, is_present)) {
        return;
    }
    if (is_unwritten(&zab->config)) {
        struct zab_config config = zab->config;

        PROBE("zab.config_written");
        propose_config(zab, &config);
        return;
    }
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        if (may_admit(zab, &zab->peers[i])) {
            propose_admission(zab, &zab->peers[i]);
            return;
        }
    }
}

/* ---- Rolled-back disks. ---- */

void admit_learn(struct peer *peer, uint32_t promised, zxid_t last)
{
    if (peer->known_incarnation != peer->incarnation) {
        return;
    }
    if (promised > peer->known_promised) {
        peer->known_promised = promised;
        peer->known_last = last;
    } else if (promised == peer->known_promised && last > peer->known_last) {
        peer->known_last = last;
    }
}

/*
 * The same disk admits less than it acknowledged. A larger promise explains a shorter log: a
 * truncation in that epoch may have been under way.
 */
bool admit_is_rolled_back(const struct peer *peer, const struct zab_msg_cepoch *cepoch)
{
    if (peer->known_incarnation != peer->incarnation || peer->known_promised == 0) {
        return false;
    }
    return cepoch->promised < peer->known_promised ||
           (cepoch->promised == peer->known_promised && cepoch->last < peer->known_last);
}

static void put_watermark(struct buf *out, uint32_t id, uint64_t incarnation, uint32_t promised,
                          zxid_t last)
{
    ASSERT(id != 0);

    wire_put_u32(out, id);
    wire_put_u64(out, incarnation);
    wire_put_u32(out, promised);
    wire_put_u64(out, last);
}

/* What each voter is known to have on its disk: format u8, count u32, then the watermarks. */
void admit_stamp_payload(const struct zab *zab, struct buf *out)
{
    uint32_t count = 0;

    ASSERT(zab->state == ZAB_LEADING);
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        count += zab->peers[i].known_promised != 0 ? 1 : 0;
    }
    wire_put_u8(out, STAMP_FORMAT);
    wire_put_u32(out, count + 1);
    put_watermark(out, zab->id, zab->incarnation, zab->lead.epoch, zab->trail.durable);
    for (uint32_t i = 0; i < zab->peer_count; i++) {
        const struct peer *peer = &zab->peers[i];

        if (peer->known_promised != 0) {
            put_watermark(out, peer->id, peer->known_incarnation, peer->known_promised,
                          peer->known_last);
        }
    }
    ASSERT(!out->overflow);
}

static void learn_watermark(struct zab *zab, uint32_t id, uint64_t incarnation, uint32_t promised,
                            zxid_t last)
{
    struct peer *peer = peer_find(zab, id);

    if (!peer) {
        return;
    }
    if (peer->known_incarnation == 0) {
        peer->known_incarnation = incarnation;
    }
    if (peer->known_incarnation != incarnation) {
        return;
    }
    if (promised > peer->known_promised ||
        (promised == peer->known_promised && last > peer->known_last)) {
        peer->known_promised = promised;
        peer->known_last = last;
    }
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
        uint32_t id = wire_get_u32(&reader);
        uint64_t incarnation = wire_get_u64(&reader);
        uint32_t promised = wire_get_u32(&reader);
        zxid_t last = wire_get_u64(&reader);

        if (wire_reader_ok(&reader)) {
            learn_watermark(zab, id, incarnation, promised, last);
        }
    }
}

void admit_on_stranger(struct zab *zab, struct peer *peer, const struct zab_msg *msg)
{
    ASSERT(peer->up);

    if (peer->id != zab->follow.leader || msg->dialogue != zab->follow.dialogue ||
        !is_learner(zab)) {
        return;
    }
    if (msg->stranger.flags & ZAB_FLAG_NO_MAJORITY) {
        PROBE("zab.told_to_stop");
        digest_halt(zab, msg->stranger.zxid);
    } else if (zab->quarantined) {
        return;
    } else if (msg->stranger.flags & ZAB_FLAG_DIVERGED) {
        quarantine_self(zab, "the state's digest differs from the majority's: refilling");
    } else if (msg->stranger.flags & ZAB_FLAG_ROLLED_BACK) {
        quarantine_self(zab, "the disk has forgotten what this replica acknowledged (restored from "
                             "an older copy?): refilling");
    }
}
