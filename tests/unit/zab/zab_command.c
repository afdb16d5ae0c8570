#include "tests/unit/zab/zab_play_int.h"

#include <stdio.h>

enum {
    PIECE_MAX = 64 << 10,
    ALIVE_STEP_MS = 500 /* Less than the timeout of a peer. */
};

/* ---- Before the start. ---- */

static void do_replica(struct play *play, const struct words *words)
{
    close_drive(play);
    drive_init(&play->drive, peer_at(play, words, 1), peer_at(play, words, 3));
    play->is_open = true;
    play->config = play->drive.init.config;
    play->is_hidden[ZAB_PING] = true;
    play->is_hidden[ZAB_VOTE] = true;
    play->is_hidden[ZAB_JOIN] = true;
    play->shows_search = false;
    play->shown = (struct zab_status){0};
}

static void do_config(struct play *play, const struct words *words)
{
    const char *text = word_at(play, words, 1);

    if (strcmp(text, "none") == 0) {
        play->drive.init.config = (struct zab_config){0};
    } else {
        play->drive.init.config = config_of(play, text);
    }
}

/* "pending {version=1.1} proven": a later record of the log says that it is committed. */
static void do_pending(struct play *play, const struct words *words)
{
    play->drive.init.has_pending = true;
    play->drive.init.pending = config_of(play, word_at(play, words, 1));
    play->drive.init.is_pending_proven = line_has(words, "proven");
}

static bool set_number(struct drive *drive, const char *key, uint64_t value)
{
    struct zab_init *init = &drive->init;
    struct zab_limits *limits = &init->limits;

    const struct {
        const char *key;
        uint32_t *number;
    } numbers[] = {
        {"promised", &init->promised_epoch},   {"promised_leader", &init->promised_leader},
        {"tick_ms", &limits->tick_ms},         {"pending_max", &limits->pending_max},
        {"cache_max", &limits->cache_max},     {"window_max", &limits->window_max},
        {"counter_max", &limits->counter_max}, {"admit_again_ms", &limits->admit_again_ms},
        {"stamp_every", &limits->stamp_every}, {"chunk_bytes", &limits->chunk_bytes},
    };

    if (strcmp(key, "level_max") ==
        0) { /* Of this replica and, unless `up` says another, of all. */
        init->level_max = (uint16_t)value;
        drive->peer_level = (uint8_t)value;
        return true;
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(numbers[i].key, key) == 0) {
            *numbers[i].number = (uint32_t)value;
            return true;
        }
    }
    return false;
}

/* "set committed=3.2 quarantined window_max=8" */
static void do_set(struct play *play, const struct words *words)
{
    struct zab_init *init = &play->drive.init;

    init->committed = zxid_or(play, words, "committed", init->committed);
    init->has_snapshot |= line_has(words, "has_snapshot");
    init->quarantined |= line_has(words, "quarantined");
    init->bootstrapping |= line_has(words, "bootstrapping");
    for (size_t i = 1; i < words->count; i++) {
        char key[32];
        const char *value = strchr(words->items[i], '=');

        if (value && strncmp(words->items[i], "committed", 9) != 0 &&
            strncmp(words->items[i], "snap_start", 10) != 0) {
            (void)snprintf(key, sizeof(key), "%.*s", (int)(value - words->items[i]),
                           words->items[i]);
            if (!set_number(&play->drive, key, number_of(play, value + 1))) {
                fail(play, "unknown key %s", key);
            }
        }
    }
}

static void do_age(struct play *play, const struct words *words)
{
    play->drive.age_ms = number_at(play, words, 1);
}

static void do_start(struct play *play, const struct words *words)
{
    (void)words;
    drive_start(&play->drive);
}

/* ---- Time and connections. ---- */

static void do_tick(struct play *play, const struct words *words)
{
    drive_tick(&play->drive, number_at(play, words, 1));
}

static void do_pause(struct play *play, const struct words *words)
{
    drive_pause(&play->drive, number_at(play, words, 1));
}

/* "alive 9000 1 2 acks": that much time passes, and these peers answer PINGs; with "acks" the disk
 * writes, and they acknowledge everything. */
static void do_alive(struct play *play, const struct words *words)
{
    struct drive *drive = &play->drive;
    bool acks = line_has(words, "acks");
    uint64_t end_ms = drive->now_ms + number_at(play, words, 1);

    while (drive->now_ms < end_ms) {
        uint64_t rest_ms = end_ms - drive->now_ms;

        drive_tick(drive, rest_ms < ALIVE_STEP_MS ? rest_ms : ALIVE_STEP_MS);
        if (acks) {
            drive_persist(drive);
        }
        for (size_t i = 2; i < words->count - (acks ? 1 : 0); i++) {
            uint32_t peer = peer_at(play, words, i);

            drive_pong(drive, peer);
            if (acks) {
                drive_learner_says(drive, peer, ZAB_ACK, drive_log_last(&drive->disk));
            }
        }
    }
}

static void do_up(struct play *play, const struct words *words)
{
    uint32_t peer = peer_at(play, words, 1);

    play->drive.peer_level = (uint8_t)value_or(play, words, "level", play->drive.peer_level);
    drive_up_as(&play->drive, peer, value_or(play, words, "disk", DRIVE_INCARNATION + peer),
                line_has(words, "bootstrapping"));
}

static void do_down(struct play *play, const struct words *words)
{
    drive_down(&play->drive, peer_at(play, words, 1));
}

/* ---- The disk and the state. ---- */

static void do_persist(struct play *play, const struct words *words)
{
    if (words->count == 1) {
        drive_persist(&play->drive);
    }
    for (uint64_t i = words->count > 1 ? number_at(play, words, 1) : 0; i > 0; i--) {
        if (!drive_persist_next(&play->drive)) {
            fail(play, "no write is pending");
            return;
        }
    }
}

static void do_fetched(struct play *play, const struct words *words)
{
    (void)words;
    drive_fetched(&play->drive);
}

/* "restored", or "restored err=corrupt", or "restored start=6.6 start_chain=4712 end=6.6" */
static void do_restored(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_RESTORED};

    if (words->count == 1) {
        drive_restored(&play->drive);
        return;
    }
    event.restored.start = zxid_or(play, words, "start", 0);
    event.restored.start_chain = value_or(play, words, "start_chain", 0);
    event.restored.end = zxid_or(play, words, "end", 0);
    event.restored.err = line_has(words, "corrupt")   ? ERR_CORRUPT
                         : line_has(words, "missing") ? ERR_MISSING
                                                      : ERR_OK;
    drive_step(&play->drive, &event);
}

/* "piece 2 start=3.2 end=3.3 offset=0 bytes=65536 last": answers the last read for that peer. */
static void do_piece(struct play *play, const struct words *words)
{
    static const uint8_t bytes[PIECE_MAX];
    const struct zab_snap_fetch *fetch = &play->drive.snap_fetch[peer_at(play, words, 1)];
    struct zab_event event = {.type = ZAB_EV_SNAP_FETCHED};
    uint64_t len = value_or(play, words, "bytes", 0);

    if (len > sizeof(bytes)) {
        fail(play, "a piece has at most %zu bytes", sizeof(bytes));
        return;
    }
    event.snap_fetched.token = fetch->token;
    event.snap_fetched.err = line_has(words, "missing") ? ERR_MISSING : ERR_OK;
    event.snap_fetched.start = zxid_or(play, words, "start", 0);
    event.snap_fetched.start_chain = value_or(play, words, "start_chain", 0);
    event.snap_fetched.end = zxid_or(play, words, "end", event.snap_fetched.start);
    event.snap_fetched.id = value_or(play, words, "id", 0);
    event.snap_fetched.offset = value_or(play, words, "offset", fetch->offset);
    event.snap_fetched.bytes = slice_make(bytes, len);
    event.snap_fetched.is_last = line_has(words, "last");
    drive_step(&play->drive, &event);
}

static void do_stored(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_STORED_SNAP};

    event.stored_snap.start = zxid_or(play, words, "start", 0);
    event.stored_snap.log_base = zxid_or(play, words, "log_base", 0);
    drive_step(&play->drive, &event);
}

static void do_purged(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_PURGED};

    event.purged_base = zxid_of(play, word_at(play, words, 1));
    drive_step(&play->drive, &event);
}

static void do_space(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_SPACE};

    event.is_space_low = line_has(words, "low");
    drive_step(&play->drive, &event);
}

/* "restores by-hand", "install fails" */
static void do_restores(struct play *play, const struct words *words)
{
    (void)words;
    play->drive.restores_by_hand = true;
}

static void do_install(struct play *play, const struct words *words)
{
    (void)words;
    play->drive.install_fails = true;
}

/* ---- Calls of the host. ---- */

static void say_err(struct play *play, enum err err)
{
    if (err != ERR_OK) {
        (void)buf_append_str(&play->said, err == ERR_NOT_READY ? "not ready\n" : "another error\n");
    }
}

static void do_resign(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_RESIGN};

    event.is_to_resign = !line_has(words, "off");
    drive_step(&play->drive, &event);
}

static void do_propose(struct play *play, const struct words *words)
{
    for (uint64_t i = words->count > 1 ? number_at(play, words, 1) : 1; i > 0; i--) {
        (void)drive_propose(&play->drive, "x");
    }
}

enum call {
    CONFIRM,
    FORWARD,
    REFUSE,
    DIGEST,
    BAD_STATE
};

static enum err make_call(struct play *play, const struct words *words, enum call call,
                          struct zab_effects *effects)
{
    struct zab *zab = play->drive.zab;
    const struct zab_forwarded *forwarded = &play->drive.forwarded;
    zxid_t zxid = 0;

    switch (call) {
    case CONFIRM:
        return zab_confirm(zab, number_at(play, words, 1), effects);
    case FORWARD:
        return zab_forward(zab, number_at(play, words, 1), slice_str(word_at(play, words, 2)),
                           effects);
    case REFUSE:
        zab_refuse(zab, forwarded->peer, forwarded->dialogue, forwarded->request,
                   slice_str(word_at(play, words, 1)), effects);
        return ERR_OK;
    case DIGEST:
        zxid = zxid_of(play, word_at(play, words, 1));
        zab_digest(zab, zxid, number_at(play, words, 2));
        return ERR_OK;
    case BAD_STATE:
        zab_bad_state(zab, zxid_of(play, word_at(play, words, 1)), effects);
        return ERR_OK;
    }
    return ERR_OK;
}

static void do_call(struct play *play, const struct words *words)
{
    static const char *const names[] = {"confirm", "forward", "refuse", "digest", "bad-state"};
    struct zab_effects effects;

    zab_effects_init(&effects);
    for (enum call call = CONFIRM; call <= BAD_STATE; call++) {
        if (strcmp(words->items[0], names[call]) == 0) {
            say_err(play, make_call(play, words, call, &effects));
        }
    }
    drive_take(&play->drive, &effects);
    zab_effects_release(&effects);
}

/* ---- Sequences. ---- */

static void do_elect(struct play *play, const struct words *words)
{
    drive_elect(&play->drive, peer_at(play, words, 1), zxid_or(play, words, "last", 0));
}

static void do_establish(struct play *play, const struct words *words)
{
    (void)words;
    drive_establish(&play->drive);
}

static void do_lead(struct play *play, const struct words *words)
{
    (void)words;
    drive_lead(&play->drive);
}

static void do_join(struct play *play, const struct words *words)
{
    drive_join(&play->drive, peer_at(play, words, 1));
}

/* "follow 3 epoch=4 until=sync" */
static void do_follow(struct play *play, const struct words *words)
{
    struct drive *drive = &play->drive;
    const char *until = line_value(words, "until");
    uint32_t leader = peer_at(play, words, 1);
    uint32_t epoch = (uint32_t)value_or(play, words, "epoch", 0);

    if (!until) {
        drive_follow(drive, leader, epoch);
    } else if (strcmp(until, "cepoch") == 0) {
        drive_follow_cepoch(drive, leader);
    } else if (strcmp(until, "ackepoch") == 0) {
        drive_follow_acked(drive, leader, epoch);
    } else if (strcmp(until, "sync") == 0) {
        drive_follow_stream(drive, leader, epoch);
    } else if (strcmp(until, "newleader") == 0) {
        drive_follow_wait(drive, leader, epoch);
    } else {
        fail(play, "unknown until=%s", until);
    }
}

/* "leader 3 epoch=7": from now on the messages of a leader come from this replica. */
static void do_leader(struct play *play, const struct words *words)
{
    play->drive.leader = peer_at(play, words, 1);
    play->drive.epoch = (uint32_t)value_or(play, words, "epoch", play->drive.epoch);
}

const struct command play_commands[] = {
    {"age", do_age},
    {"alive", do_alive},
    {"bad-state", do_call},
    {"config", do_config},
    {"confirm", do_call},
    {"digest", do_call},
    {"down", do_down},
    {"elect", do_elect},
    {"establish", do_establish},
    {"fetched", do_fetched},
    {"follow", do_follow},
    {"forward", do_call},
    {"install", do_install},
    {"join", do_join},
    {"lead", do_lead},
    {"leader", do_leader},
    {"pause", do_pause},
    {"pending", do_pending},
    {"persist", do_persist},
    {"piece", do_piece},
    {"propose", do_propose},
    {"purged", do_purged},
    {"refuse", do_call},
    {"replica", do_replica},
    {"resign", do_resign},
    {"restored", do_restored},
    {"restores", do_restores},
    {"set", do_set},
    {"space", do_space},
    {"start", do_start},
    {"stored", do_stored},
    {"tick", do_tick},
    {"up", do_up},
    {NULL, NULL},
};
