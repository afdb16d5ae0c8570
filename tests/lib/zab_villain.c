#include "tests/lib/zab_villain.h"

#include "base/check.h"
#include "zab/level.h"

enum {
    MEMBERS = 5, /* Ids that a configuration may have: 4 and 5 are no members at first. */
    OTHER_DISK = 999
};

static uint64_t pick(struct villain *villain, uint64_t bound)
{
    return villain->draw(villain->ctx, bound);
}

static bool likely(struct villain *villain)
{
    return pick(villain, 100) < 85;
}

/* Returns a zxid, most often one near the end of the log. */
static zxid_t some_zxid(struct villain *villain)
{
    zxid_t last = drive_status(&villain->drive).last;

    switch (pick(villain, 6)) {
    case 0:
        return 0;
    case 1:
        return last;
    case 2:
        return last + 1;
    case 3:
        return last > 0 ? last - 1 : 0;
    case 4:
        return zxid_make((uint32_t)pick(villain, 6), (uint32_t)pick(villain, 4));
    default:
        return zxid_make(villain->drive.promised, (uint32_t)pick(villain, 3));
    }
}

static uint32_t some_peer(struct villain *villain)
{
    return 2 + (uint32_t)pick(villain, likely(villain) ? 2 : MEMBERS - 1);
}

/* Draws another configuration of the cluster: sound, and most often new. */
static void draw_config(struct villain *villain)
{
    struct zab_config config = villain->known;

    config.count = 0;
    config.version = some_zxid(villain);
    config.level = (uint16_t)pick(villain, ZAB_LEVEL_TEXTS + 1);
    config.history += pick(villain, 20) == 0 ? 1 : 0;
    for (uint32_t id = 1; id <= MEMBERS; id++) {
        uint64_t disk = likely(villain) ? DRIVE_INCARNATION + id : OTHER_DISK;
        uint64_t kind = pick(villain, 8);

        if (kind > 0 || config.count == 0) {
            bool votes = kind > 2 || config.count == 0;

            config.members[config.count++] =
                (struct zab_member){.id = id,
                                    .voter = votes,
                                    .empty_seat = kind == 1 && !votes,
                                    .joining = kind == 2 && !votes && config.level > 0,
                                    .incarnation = votes ? disk : 0};
        }
    }
    config.removed_count = config.level > 0 ? (uint32_t)pick(villain, 2) : 0;
    uint32_t removed = 1 + (uint32_t)pick(villain, MEMBERS);

    config.removed[0] = (struct zab_removed){
        .id = removed, .incarnation = DRIVE_INCARNATION + removed, .zxid = config.version};
    buf_clear(&villain->config);
    zab_config_encode(&config, &villain->config);
}

static struct slice some_config(struct villain *villain)
{
    if (pick(villain, 3) > 0) {
        buf_clear(&villain->config);
        zab_config_encode(&villain->known, &villain->config);
    } else {
        draw_config(villain);
    }
    return buf_slice(&villain->config);
}

/* A record that follows the log, or almost; the caller unrefs it. */
static struct logrec *some_record(struct villain *villain)
{
    static const enum logrec_type types[] = {LOGREC_TXN, LOGREC_EPOCH, LOGREC_CONFIG, LOGREC_STAMP};
    const struct drive_log *disk = &villain->drive.disk;
    zxid_t prev = likely(villain) ? drive_status(&villain->drive).last : some_zxid(villain);
    zxid_t zxid = likely(villain) ? prev + 1 : some_zxid(villain);
    enum logrec_type type = types[pick(villain, 4)];

    if (pick(villain, 3) == 0) {
        zxid = zxid_make(villain->drive.promised, 0);
        type = LOGREC_EPOCH;
    }
    struct slice payload =
        type == LOGREC_CONFIG && likely(villain) ? some_config(villain) : slice_str("?");
    uint64_t chain = drive_log_chain(disk, prev);

    if (villain->drive.zab && prev == drive_status(&villain->drive).delivered) {
        chain = drive_status(&villain->drive).delivered_chain;
    }
    zxid = zxid ? zxid : 1;
    return logrec_new(type, zxid, prev < zxid ? prev : 0, chain, payload);
}

static uint32_t dialogue_with(struct villain *villain, uint32_t peer)
{
    enum zab_state state = drive_status(&villain->drive).state;

    if (!likely(villain)) {
        return (uint32_t)pick(villain, UINT64_C(1) << 32);
    }
    return state == ZAB_LEADING ? villain->drive.dialogues[peer] : villain->drive.dialogue;
}

static struct slice some_bytes(struct villain *villain)
{
    return likely(villain) ? some_config(villain) : slice_str("garbage");
}

static uint32_t some_flags(struct villain *villain)
{
    uint64_t flags = pick(villain, UINT64_C(2) * ZAB_FLAG_AHEAD) & ~(uint64_t)ZAB_FLAG_NO_MAJORITY;

    return (uint32_t)flags | (likely(villain) ? ZAB_FLAG_ELIGIBLE : 0);
}

static uint64_t some_offset(struct villain *villain)
{
    return pick(villain, 3) * 100;
}

static uint32_t some_epoch(struct villain *villain)
{
    return likely(villain) ? villain->drive.promised : (uint32_t)pick(villain, 12);
}

/* `ranges` has room for three. */
static void outline_something(struct villain *villain, struct zab_msg_ackepoch *ackepoch,
                              struct epoch_range *ranges)
{
    ackepoch->last = some_zxid(villain);
    ackepoch->base = pick(villain, 2) ? 0 : some_zxid(villain);
    ackepoch->ranges = ranges;
    ackepoch->flags = some_flags(villain);
    for (uint32_t i = 0; i < pick(villain, 4) && i < 3; i++) {
        ranges[i] = (struct epoch_range){.epoch = i + 1, .last = (uint32_t)pick(villain, 4)};
        ackepoch->range_count = i + 1;
    }
}

static void fill_of_leader(struct villain *villain, struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_NEWEPOCH:
        msg->newepoch.config = some_bytes(villain);
        break;
    case ZAB_SYNC:
        msg->sync = (struct zab_msg_sync){.common = some_zxid(villain),
                                          .target = some_zxid(villain),
                                          .flags = some_flags(villain)};
        break;
    case ZAB_SNAP_CHUNK:
        msg->snap_chunk = (struct zab_msg_snap_chunk){.offset = some_offset(villain),
                                                      .bytes = some_bytes(villain),
                                                      .start = some_zxid(villain),
                                                      .end = some_zxid(villain),
                                                      .flags = some_flags(villain)};
        break;
    case ZAB_ENTRY:
        msg->entry =
            (struct zab_msg_entry){.rec = some_record(villain), .commit = some_zxid(villain)};
        break;
    case ZAB_NEWLEADER:
        msg->newleader =
            (struct zab_msg_newleader){.rec = likely(villain) ? some_record(villain) : NULL,
                                       .sent = some_zxid(villain),
                                       .config = some_bytes(villain)};
        break;
    case ZAB_UPTODATE:
    case ZAB_COMMIT:
        msg->commit.zxid = some_zxid(villain);
        break;
    case ZAB_PING:
        msg->ping = (struct zab_msg_ping){.round = pick(villain, 4),
                                          .commit = some_zxid(villain),
                                          .payload = some_bytes(villain)};
        break;
    case ZAB_READ_REPLY:
        msg->read_reply =
            (struct zab_msg_read_reply){.request = pick(villain, 4), .zxid = some_zxid(villain)};
        break;
    case ZAB_EXCLUDE:
        msg->exclude =
            (struct zab_msg_exclude){.zxid = some_zxid(villain), .flags = some_flags(villain)};
        break;
    default:
        break;
    }
}

static void fill_of_learner(struct villain *villain, struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_CEPOCH:
        msg->cepoch = (struct zab_msg_cepoch){.promised = some_epoch(villain),
                                              .last = some_zxid(villain),
                                              .flags = some_flags(villain)};
        break;
    case ZAB_SNAP_ACK:
        msg->snap_ack.offset = some_offset(villain);
        break;
    case ZAB_SYNC_ACK:
    case ZAB_ACK_NEWLEADER:
    case ZAB_ACK:
        msg->ack = (struct zab_msg_ack){.zxid = some_zxid(villain), .payload = some_bytes(villain)};
        break;
    case ZAB_PONG:
        msg->pong = (struct zab_msg_pong){
            .round = pick(villain, 4),
            .last = some_zxid(villain),
            .digest_zxid = zxid_make(1, 64 * (uint32_t)pick(villain, 2)),
            .digest = pick(villain, 2),
            .flags = some_flags(villain),
            .payload = some_bytes(villain),
        };
        break;
    case ZAB_READ_INDEX:
        msg->read_index.request = pick(villain, 4);
        break;
    default:
        break;
    }
}

static struct slice some_text(struct villain *villain)
{
    static const char *const texts[] = {"", "zk4", "zk4:10998", "zk 4", "zk4\n"};

    return slice_str(texts[pick(villain, 5)]);
}

static void fill_of_both(struct villain *villain, struct zab_msg *msg)
{
    switch ((int)msg->type) {
    case ZAB_VOTE:
        msg->vote = (struct zab_msg_vote){.round = pick(villain, 4),
                                          .state = (uint8_t)pick(villain, 6),
                                          .candidate = (uint32_t)pick(villain, 5),
                                          .candidate_last = some_zxid(villain),
                                          .last = some_zxid(villain),
                                          .promised = some_epoch(villain),
                                          .config_version = some_zxid(villain),
                                          .flags = some_flags(villain)};
        break;
    case ZAB_CONFIRM:
    case ZAB_CONFIRM_ACK:
        msg->confirm.round = pick(villain, 4);
        break;
    case ZAB_FORWARD:
    case ZAB_FORWARD_REPLY:
        msg->forward =
            (struct zab_msg_forward){.request = pick(villain, 4), .bytes = some_bytes(villain)};
        break;
    case ZAB_CONFIG:
        msg->config.bytes = some_bytes(villain);
        break;
    case ZAB_JOIN:
        msg->join = (struct zab_msg_join){.port = (uint16_t)pick(villain, 3),
                                          .host = some_text(villain),
                                          .client = some_text(villain),
                                          .flags = some_flags(villain)};
        break;
    default:
        break;
    }
}

static void say_something(struct villain *villain)
{
    uint32_t peer = some_peer(villain);
    struct epoch_range ranges[3];
    struct zab_msg msg = {
        .type = (enum zab_msg_type)(1 + pick(villain, ZAB_JOIN)),
        .dialogue = dialogue_with(villain, peer),
        .epoch = some_epoch(villain),
    };

    if (msg.type == ZAB_ACKEPOCH) {
        outline_something(villain, &msg.ackepoch, ranges);
    }
    fill_of_both(villain, &msg);
    fill_of_leader(villain, &msg);
    fill_of_learner(villain, &msg);
    if (msg.type == ZAB_CEPOCH) {
        villain->drive.dialogues[peer] = msg.dialogue;
    }
    drive_recv(&villain->drive, peer, &msg);
    logrec_unref(zab_msg_rec(&msg));
}

void villain_say(struct villain *villain, uint32_t peer, const struct zab_msg *msg)
{
    struct zab_msg said = *msg;

    ASSERT(peer >= 2 && peer <= MEMBERS);
    said.dialogue = dialogue_with(villain, peer);
    if (said.type == ZAB_CEPOCH) {
        villain->drive.dialogues[peer] = said.dialogue;
    }
    drive_recv(&villain->drive, peer, &said);
}

/* A new role, so that there is something to break. */
static void elect_any(struct villain *villain)
{
    struct drive *drive = &villain->drive;
    uint32_t leader = 1 + (uint32_t)pick(villain, 3);
    zxid_t last = drive_log_last(&drive->disk);

    drive_persist(drive);
    drive_elect(drive, leader, leader == 1 ? last : last + 1);
    if (drive_status(drive).state == ZAB_LEADING) {
        drive_cepoch(drive, 2, drive->promised, last);
    } else if (leader != 1 && drive->dialogue != 0) {
        drive->leader = leader;
        drive->epoch = drive->promised + 1;
        drive_leader_says(drive, (struct zab_msg){.type = ZAB_NEWEPOCH});
        drive_persist(drive);
        drive_leader_says(
            drive, (struct zab_msg){.type = ZAB_SYNC, .sync.common = drive_log_last(&drive->disk)});
    }
}

static void come_up(struct villain *villain, uint32_t peer)
{
    uint64_t disk = likely(villain) ? DRIVE_INCARNATION + peer : OTHER_DISK;

    drive_up_as(&villain->drive, peer, disk, !likely(villain));
}

/* A client asks for another configuration. */
static void change_something(struct villain *villain)
{
    struct drive *drive = &villain->drive;
    struct zab_change_item items[2];
    struct zab_change change = {.items = items,
                                .item_count = 1 + (uint32_t)pick(villain, 2),
                                .force = pick(villain, 2) == 0,
                                .dry_run = pick(villain, 4) == 0,
                                .min_tolerance = (int32_t)pick(villain, 3) - 1};
    struct zab_change_report report;
    struct zab_effects effects;
    char text[ZAB_TEXT_MAX];

    for (uint32_t i = 0; i < change.item_count; i++) {
        items[i] = (struct zab_change_item){
            .what = (enum zab_change_what)pick(villain, ZAB_CHANGE_DEMOTE + 1),
            .id = (uint32_t)pick(villain, MEMBERS + 2),
            .joining = pick(villain, 2) == 0,
            .sets_address = true,
            .texts = {.port = (uint16_t)pick(villain, 3), .host = slice_str("zk")}};
    }
    zab_effects_init(&effects);
    enum zab_fault fault = zab_change(drive->zab, &change, slice_make(NULL, 0), &report, &effects);

    drive_take(drive, &effects);
    zab_effects_release(&effects);
    if (fault != ZAB_FAULT_NONE) {
        zab_fault_text(fault, &report, text);
    }
    if (fault == ZAB_FAULT_LEADER_LEAVES) {
        (void)zab_hand_over(drive->zab);
    }
}

static void answer_something(struct villain *villain)
{
    struct drive *drive = &villain->drive;

    if (drive_status(drive).state == ZAB_LOOKING && likely(villain)) {
        elect_any(villain);
        return;
    }
    switch (pick(villain, 10)) {
    case 0:
        drive_tick(drive, pick(villain, 800));
        break;
    case 1:
        come_up(villain, some_peer(villain));
        break;
    case 2:
        drive_down(drive, some_peer(villain));
        break;
    case 3:
        if (drive->fetch.fetch.token != 0) {
            drive_fetched(drive);
        }
        break;
    case 4:
        if (zab_next_zxid(drive->zab) != 0) {
            (void)drive_propose(drive, "x");
        }
        break;
    case 5:
        if (zab_next_zxid(drive->zab) != 0 || !likely(villain)) {
            change_something(villain);
        }
        break;
    case 6:
        drive_step(drive, &(struct zab_event){.type = ZAB_EV_REACHED,
                                              .is_all_reached = pick(villain, 2) == 0});
        break;
    default:
        (void)drive_persist_next(drive);
        break;
    }
}

/* A role of a member. */
static void begin_member(struct villain *villain)
{
    struct drive *drive = &villain->drive;

    switch (pick(villain, 7)) {
    case 0:
        break;
    case 1:
        drive_elect(drive, 1, zxid_make(1, 1));
        break;
    case 2:
        drive_lead(drive);
        break;
    case 3:
        drive_follow_cepoch(drive, 2);
        break;
    case 4:
        drive_follow_acked(drive, 2, 2);
        break;
    case 5:
        drive_follow_wait(drive, 3, 2);
        break;
    default:
        drive_follow(drive, 3, 2);
        break;
    }
}

/* A replica without a configuration: it joins, or founds with others, with a server list or by
 * number. */
static void make_new(struct villain *villain)
{
    struct zab_init *init = &villain->drive.init;

    init->config = (struct zab_config){.count = 0};
    init->bootstrapping = pick(villain, 2) == 0;
    if (pick(villain, 2) == 0) {
        init->seed_count = 0;
        init->bootstrap = init->bootstrapping ? 3 : 0;
        init->texts = (struct zab_texts){.port = 1, .host = slice_str("zk1")};
    }
}

void villain_begin(struct villain *villain, uint64_t (*draw)(void *ctx, uint64_t bound), void *ctx)
{
    struct drive *drive = &villain->drive;

    villain->draw = draw;
    villain->ctx = ctx;
    drive_init(drive, 1, 3);
    drive->init.level_max = ZAB_LEVEL_TEXTS;
    drive->peer_level = ZAB_LEVEL_TEXTS;
    drive->init.config.level = (uint16_t)pick(villain, ZAB_LEVEL_TEXTS + 1);
    drive->init.auto_join = pick(villain, 2) == 0;
    drive->init.max_observers = 2;
    villain->known = drive->init.config;
    buf_init(&villain->config, 4096);
    if (pick(villain, 6) == 0) {
        make_new(villain);
        drive_start(drive);
        return;
    }
    drive_log_add(&drive->disk, zxid_make(1, 0));
    drive_log_add(&drive->disk, zxid_make(1, 1));
    drive->init.committed = pick(villain, 2) ? zxid_make(1, 1) : 0;
    drive_start(drive);
    begin_member(villain);
}

bool villain_is_halted(const struct villain *villain)
{
    return drive_effect(&villain->drive, ZAB_FX_HALT) != NULL;
}

void villain_step(struct villain *villain)
{
    if (pick(villain, 3) == 0) {
        answer_something(villain);
    } else {
        say_something(villain);
    }
}

void villain_end(struct villain *villain)
{
    drive_release(&villain->drive);
    buf_release(&villain->config);
}
