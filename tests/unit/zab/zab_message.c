#include "base/mem.h"
#include "tests/unit/zab/zab_play_int.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CONFIG_BYTES_MAX = 4096
};

static struct buf encoded(const struct zab_config *config)
{
    struct buf bytes;

    buf_init(&bytes, CONFIG_BYTES_MAX);
    zab_config_encode(config, &bytes);
    return bytes;
}

/* ---- Logs. ---- */

/* Adds the record "1.4", or "1.4{...}": a configuration, or "1.4:txn". */
static struct logrec *add_record(struct play *play, struct drive_log *log, const char *text)
{
    char number[32];
    size_t len = strcspn(text, "{:");

    (void)snprintf(number, sizeof(number), "%.*s", (int)len, text);
    zxid_t zxid = zxid_of(play, number);

    if (strcmp(text + len, ":foreign") == 0) { /* With a chain value of another history. */
        struct logrec *rec = drive_log_add(log, zxid);

        rec->chain++;
        return rec;
    }
    if (text[len] == ':') {
        return drive_log_add_type(log, LOGREC_TXN, zxid, slice_str("x"));
    }
    if (text[len] == '\0') {
        return drive_log_add(log, zxid);
    }
    struct zab_config own = play->config;

    play->config.version = zxid;
    struct zab_config config = config_of(play, text + len);

    play->config = own;
    struct buf bytes = encoded(&config);
    struct logrec *rec = drive_log_add_type(log, LOGREC_CONFIG, zxid, buf_slice(&bytes));

    buf_release(&bytes);
    return rec;
}

/* "3.0-5" are six records. */
static void add_range(struct play *play, struct drive_log *log, const char *text)
{
    const char *dash = strchr(text, '-');
    char number[32];

    if (!dash || strchr(text, '{')) {
        (void)add_record(play, log, text);
        return;
    }
    (void)snprintf(number, sizeof(number), "%.*s", (int)(dash - text), text);
    zxid_t zxid = zxid_of(play, number);
    uint64_t last = number_of(play, dash + 1);

    for (; zxid_counter(zxid) <= last; zxid++) {
        (void)drive_log_add(log, zxid);
    }
}

/* "base=6.5/4711": the log begins after that zxid, with that chain value. */
static void set_base(struct play *play, struct drive_log *log, const char *text)
{
    char number[32];
    size_t len = strcspn(text, "/");

    (void)snprintf(number, sizeof(number), "%.*s", (int)len, text);
    drive_log_reset(log, zxid_of(play, number),
                    text[len] == '/' ? number_of(play, text + len + 1) : 0);
}

static void add_to_log(struct play *play, struct drive_log *log, const char *word)
{
    if (strncmp(word, "base=", 5) == 0) {
        set_base(play, log, word + 5);
    } else if (strncmp(word, "cut=", 4) == 0) {
        drive_log_cut(log, zxid_of(play, word + 4));
    } else {
        add_range(play, log, word);
    }
}

/* "disk" and "theirs": adds the records that follow; "cut=3.2" removes what is after it, "= disk"
 * makes a copy. */
static void do_log(struct play *play, const struct words *words)
{
    struct drive *drive = &play->drive;
    struct drive_log *log = strcmp(words->items[0], "disk") == 0     ? &drive->disk
                            : strcmp(words->items[0], "staged") == 0 ? &drive->staged
                                                                     : &drive->theirs;

    if (strcmp(word_at(play, words, 1), "=") == 0) {
        drive_log_copy(log, strcmp(word_at(play, words, 2), "before") == 0 ? &play->before
                                                                           : &drive->disk);
        return;
    }
    for (size_t i = 1; i < words->count; i++) {
        add_to_log(play, log, words->items[i]);
    }
}

/* ---- Messages. ---- */

static bool is_of_learner(enum zab_msg_type type)
{
    static const enum zab_msg_type types[] = {
        ZAB_CEPOCH, ZAB_ACKEPOCH, ZAB_SNAP_ACK,    ZAB_SYNC_ACK,   ZAB_ACK_NEWLEADER,
        ZAB_ACK,    ZAB_PONG,     ZAB_CONFIRM_ACK, ZAB_READ_INDEX, ZAB_FORWARD};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i] == type) {
            return true;
        }
    }
    return false;
}

/* Those of the dialogue that `peer` is in, unless "dialogue=-1" or "epoch=3" changes them. */
static void address(struct play *play, uint32_t peer, const struct words *words,
                    struct zab_msg *msg)
{
    struct drive *drive = &play->drive;
    bool in_dialogue = msg->type != ZAB_VOTE && msg->type != ZAB_CONFIG && msg->type != ZAB_JOIN;

    if (msg->type == ZAB_CEPOCH) {
        msg->dialogue = ++drive->dialogues[peer];
    } else if (is_of_learner(msg->type)) {
        msg->dialogue = drive->dialogues[peer];
        msg->epoch = drive->promised;
    } else if (in_dialogue) {
        msg->dialogue = drive->dialogue;
        msg->epoch = drive->epoch;
    }
    if (line_has(words, "dialogue=none")) {
        msg->dialogue = 0;
    } else if (line_value(words, "dialogue")) {
        msg->dialogue += (uint32_t)strtoll(line_value(words, "dialogue"), NULL, 10);
    }
    msg->epoch = (uint32_t)value_or(play, words, "epoch", msg->epoch);
}

/* "rec=4.1": that record of the leader's log, which is added if it is missing; "rec=none". */
static struct logrec *record_of(struct play *play, const char *text)
{
    struct drive_log *log = &play->drive.theirs;

    if (!text || strcmp(text, "none") == 0) {
        return NULL;
    }
    for (size_t i = 0; i < log->count && !strpbrk(text, "{:"); i++) {
        if (log->recs[i]->zxid == zxid_of(play, text)) {
            return log->recs[i];
        }
    }
    return add_record(play, log, text);
}

/* "log=disk", "log=empty", "log=3.0-3,4.0", "log=base=3.2/99" */
static void outline(struct play *play, const char *text, struct epoch_range *ranges,
                    struct zab_msg_ackepoch *ack)
{
    struct drive_log log = {0};
    char copy[128];
    char *rest = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", text);
    if (strcmp(text, "disk") == 0) {
        drive_log_copy(&log, &play->drive.disk);
    } else if (strcmp(text, "empty") != 0) {
        for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
            add_to_log(play, &log, item);
        }
    }
    ack->last = drive_log_last(&log);
    ack->base = log.base;
    ack->ranges = ranges;
    ack->range_count = drive_log_ranges(&log, ranges);
    drive_log_release(&log);
}

/* The data that a message points to. */
struct parts {
    struct epoch_range ranges[DRIVE_RANGES_MAX];
    struct buf config;
    uint8_t bytes[1024];
};

static void fill(struct play *play, const struct words *words, struct parts *parts,
                 struct zab_msg *msg)
{
    const char *config = line_value(words, "config");
    const char *bytes = line_value(words, "bytes");
    struct zab_config own = config_of(play, config ? config : "own");

    parts->config = encoded(&own);
    if (msg->type == ZAB_VOTE) {
        if (!line_value(words, "voters")) {
            msg->vote.voters = zab_config_voters(&play->config);
        }
        if (!line_value(words, "candidate_last")) {
            msg->vote.candidate_last = msg->vote.last;
        }
        msg->vote.round = play->drive.round;
        if (line_value(words, "round")) {
            msg->vote.round += (uint64_t)strtoll(line_value(words, "round"), NULL, 10);
        }
    } else if (msg->type == ZAB_ACKEPOCH && line_value(words, "log")) {
        outline(play, line_value(words, "log"), parts->ranges, &msg->ackepoch);
    } else if (msg->type == ZAB_NEWEPOCH && config) {
        msg->newepoch.config = buf_slice(&parts->config);
    } else if (msg->type == ZAB_CONFIG) {
        msg->config.bytes = buf_slice(&parts->config);
    } else if (msg->type == ZAB_NEWLEADER) {
        msg->newleader.rec = record_of(play, line_value(words, "rec"));
        msg->newleader.config = buf_slice(&parts->config);
    } else if (msg->type == ZAB_ENTRY) {
        msg->entry.rec = record_of(play, line_value(words, "rec"));
    } else if (msg->type == ZAB_SNAP_CHUNK) {
        uint64_t len = value_or(play, words, "bytes", 0);

        msg->snap_chunk.bytes =
            slice_make(parts->bytes, len < sizeof(parts->bytes) ? len : sizeof(parts->bytes));
    } else if (bytes) {
        msg->forward.bytes = slice_str(bytes);
    }
}

/* "< 1 VOTE looking candidate=1 last=3.6 eligible" */
static void do_message(struct play *play, const struct words *words)
{
    static const char *const own_keys[] = {
        "dialogue=", "epoch=", "log=", "rec=", "config=", "bytes=", "round=+", "round=-"};
    struct parts *parts = mem_zalloc(1, sizeof(*parts));
    struct zab_msg msg = {0};
    struct words rest = {0};
    const char *wrong = NULL;
    uint32_t peer = peer_at(play, words, 1);

    if (!text_to_msg_type(word_at(play, words, 2), &msg.type)) {
        fail(play, "unknown message %s", word_at(play, words, 2));
        mem_free(parts);
        return;
    }
    for (size_t i = 3; i < words->count; i++) {
        bool is_own = false;

        for (size_t j = 0; j < sizeof(own_keys) / sizeof(own_keys[0]); j++) {
            is_own |= strncmp(words->items[i], own_keys[j], strlen(own_keys[j])) == 0;
        }
        if (!is_own) {
            rest.items[rest.count++] = words->items[i];
        }
    }
    if (!text_to_msg(&rest, 0, &msg, &wrong)) {
        fail(play, "%s has no field \"%s\"", word_at(play, words, 2), wrong);
    }
    address(play, peer, words, &msg);
    fill(play, words, parts, &msg);
    if (play->error[0] == '\0') {
        drive_recv(&play->drive, peer, &msg);
    }
    buf_release(&parts->config);
    mem_free(parts);
}

const struct command play_messages[] = {
    {"<", do_message}, {"disk", do_log}, {"staged", do_log}, {"theirs", do_log}, {NULL, NULL},
};
