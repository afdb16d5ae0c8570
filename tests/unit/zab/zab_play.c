#include "tests/unit/zab/zab_play_int.h"
#include "zab/zab_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void play_init(struct play *play)
{
    *play = (struct play){0};
    buf_init(&play->said, 1 << 16);
}

void close_drive(struct play *play)
{
    if (play->is_open) {
        drive_log_copy(&play->before, &play->drive.disk);
        drive_release(&play->drive);
    }
    play->is_open = false;
}

void play_release(struct play *play)
{
    close_drive(play);
    drive_log_release(&play->before);
    buf_release(&play->said);
}

/* ---- Parts of a line. ---- */

void fail(struct play *play, const char *format, ...)
{
    va_list args;

    if (play->error[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(play->error, sizeof(play->error), format, args);
        va_end(args);
    }
}

const char *word_at(struct play *play, const struct words *words, size_t at)
{
    if (at >= words->count) {
        fail(play, "a word is missing after \"%s\"", words->items[words->count - 1]);
        return "";
    }
    return words->items[at];
}

uint64_t number_of(struct play *play, const char *text)
{
    uint64_t number = 0;

    if (!text_to_number(text, &number)) {
        fail(play, "\"%s\" is not a number", text);
    }
    return number;
}

uint64_t number_at(struct play *play, const struct words *words, size_t at)
{
    return number_of(play, word_at(play, words, at));
}

uint32_t peer_at(struct play *play, const struct words *words, size_t at)
{
    uint64_t peer = number_at(play, words, at);

    if (peer == 0 || peer > DRIVE_SEEDS_MAX) {
        fail(play, "unknown peer %llu", (unsigned long long)peer);
        return 1;
    }
    return (uint32_t)peer;
}

zxid_t zxid_of(struct play *play, const char *text)
{
    zxid_t zxid = 0;

    if (!text_to_zxid(text, &zxid)) {
        fail(play, "\"%s\" is not a zxid", text);
    }
    return zxid;
}

uint64_t value_or(struct play *play, const struct words *words, const char *key, uint64_t otherwise)
{
    const char *text = line_value(words, key);

    return text ? number_of(play, text) : otherwise;
}

zxid_t zxid_or(struct play *play, const struct words *words, const char *key, zxid_t otherwise)
{
    const char *text = line_value(words, key);

    return text ? zxid_of(play, text) : otherwise;
}

struct zab_config config_of(struct play *play, const char *text)
{
    struct zab_config config = play->config;

    if (strcmp(text, "own") == 0) {
        return play->drive.init.config;
    }
    if (!text_to_config(text, &config)) {
        fail(play, "\"%s\" is not a configuration", text);
    }
    return config;
}

/* ---- Reports. ---- */

static void say_zxid(struct play *play, const char *name, zxid_t zxid)
{
    (void)buf_printf(&play->said, "%s ", name);
    text_zxid(&play->said, zxid);
    (void)buf_append_str(&play->said, "\n");
}

static void say_config(struct play *play)
{
    const struct zab_config *config = zab_config(play->drive.zab);

    (void)buf_append_str(&play->said, "config ");
    text_config(&play->said, config);
    (void)buf_append_str(&play->said, "\n");
}

static void say_pending(struct play *play)
{
    const struct zab_config *config = zab_pending(play->drive.zab);

    (void)buf_append_str(&play->said, "pending ");
    if (config) {
        text_config(&play->said, config);
    }
    (void)buf_append_str(&play->said, config ? "\n" : "none\n");
}

static void say_counted(struct play *play)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(play->drive.zab, peers, ZAB_MEMBERS_MAX);

    (void)buf_append_str(&play->said, "counted");
    for (size_t i = 0; i < count; i++) {
        if (peers[i].counted) {
            (void)buf_printf(&play->said, " %u", peers[i].id);
        }
    }
    (void)buf_append_str(&play->said, "\n");
}

/* References to the first and the last record of the leader's log; the script must have one. */
static void say_held(struct play *play)
{
    const struct drive_log *log = &play->drive.theirs;

    if (log->count == 0) {
        fail(play, "the leader has no log");
        return;
    }
    (void)buf_printf(&play->said, "held %u %u\n", log->recs[0]->refs,
                     log->recs[log->count - 1]->refs);
}

static void say_inside(struct play *play)
{
    const struct zab *zab = play->drive.zab;

    (void)buf_printf(&play->said,
                     "inside%s restoring=%u base=", zab->has_snapshot ? " snapshot" : "",
                     zab->restore.under_way);
    text_zxid(&play->said, zab->trail.base);
    (void)buf_append_str(&play->said, "\n");
}

/* "show next reason": what a report does not contain by itself. */
static void do_show(struct play *play, const struct words *words)
{
    struct drive *drive = &play->drive;
    struct zab_status status = drive_status(drive);

    for (size_t i = 1; i < words->count; i++) {
        const char *what = words->items[i];

        if (strcmp(what, "next") == 0) {
            say_zxid(play, "next", zab_next_zxid(drive->zab));
        } else if (strcmp(what, "keep") == 0) {
            zxid_t zxid = zab_keep(drive->zab);

            if (zxid == ZAB_KEEP_NONE) {
                (void)buf_append_str(&play->said, "keep none\n");
            } else {
                say_zxid(play, "keep", zxid);
            }
        } else if (strcmp(what, "reason") == 0) {
            (void)buf_printf(&play->said, "reason %s\n", status.reason);
        } else if (strcmp(what, "heard") == 0) {
            (void)buf_printf(&play->said, "heard %llu ms ago\n",
                             (unsigned long long)(drive->now_ms - status.heard_ms));
        } else if (strcmp(what, "held") == 0) {
            say_held(play);
        } else if (strcmp(what, "inside") == 0) {
            say_inside(play);
        } else if (strcmp(what, "config") == 0) {
            say_config(play);
        } else if (strcmp(what, "pending") == 0) {
            say_pending(play);
        } else if (strcmp(what, "counted") == 0) {
            say_counted(play);
        } else {
            fail(play, "show knows no \"%s\"", what);
        }
    }
}

static void do_hide(struct play *play, const struct words *words)
{
    for (size_t i = 1; i < words->count; i++) {
        enum zab_msg_type type;

        if (!text_to_msg_type(words->items[i], &type)) {
            fail(play, "unknown message %s", words->items[i]);
            return;
        }
        play->is_hidden[type] = strcmp(words->items[0], "hide") == 0;
    }
}

/* ---- Lines. ---- */

static const struct command shown[] = {
    {"hide", do_hide},
    {"show", do_show},
    {"unhide", do_hide},
    {NULL, NULL},
};

static const struct command *find(const struct command *commands, const char *name)
{
    for (; commands->name; commands++) {
        if (strcmp(commands->name, name) == 0) {
            return commands;
        }
    }
    return NULL;
}

bool play_line(struct play *play, struct words *words)
{
    const struct command *const lists[] = {play_commands, play_changes, play_joins, play_messages,
                                           shown};

    play->error[0] = '\0';
    buf_clear(&play->said);
    if (play->is_open) {
        drive_clear(&play->drive);
    } else if (strcmp(words->items[0], "replica") != 0) {
        fail(play, "no replica was started");
        return false;
    }
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const struct command *command = find(lists[i], words->items[0]);

        if (command) {
            command->run(play, words);
            return play->error[0] == '\0';
        }
    }
    fail(play, "unknown command \"%s\"", words->items[0]);
    return false;
}

/* The same message to several peers takes one line. */
struct sends {
    struct buf peers;
    struct buf body;
};

static void flush(struct sends *sends, struct buf *out)
{
    if (sends->peers.len > 0) {
        (void)buf_printf(out, "> %s %s\n", buf_cstr(&sends->peers), buf_cstr(&sends->body));
    }
    buf_clear(&sends->peers);
    buf_clear(&sends->body);
}

static void text_peers(struct play *play, struct buf *out)
{
    struct zab_peer_status peers[ZAB_MEMBERS_MAX];
    size_t count = zab_peers(play->drive.zab, peers, ZAB_MEMBERS_MAX);

    for (size_t i = 0; i < count; i++) {
        (void)buf_printf(out, " %u", peers[i].id);
    }
}

static void report_effect(struct play *play, const struct zab_effect *effect, struct sends *sends,
                          struct buf *out)
{
    struct buf text;

    if (effect->type == ZAB_FX_ROLE || (effect->type == ZAB_FX_SEARCH && !play->shows_search) ||
        (effect->type == ZAB_FX_SEND && play->is_hidden[effect->send.msg.type])) {
        return;
    }
    buf_init(&text, 1 << 16);
    text_effect(&text, effect, zab_config(play->drive.zab));
    if (effect->type == ZAB_FX_MEMBERS) {
        text_peers(play, &text);
    }
    if (effect->type == ZAB_FX_SEND && effect->send.msg.type == ZAB_CEPOCH) {
        (void)buf_append_str(&text, effect->send.msg.dialogue == play->dialogue ? " again" : "");
        play->dialogue = effect->send.msg.dialogue;
    }
    if (effect->type != ZAB_FX_SEND) {
        flush(sends, out);
        (void)buf_printf(out, "%s\n", buf_cstr(&text));
    } else if (sends->peers.len > 0 && slice_eq(buf_slice(&text), buf_slice(&sends->body))) {
        (void)buf_printf(&sends->peers, ",%u", effect->send.peer);
    } else {
        flush(sends, out);
        (void)buf_printf(&sends->peers, "%u", effect->send.peer);
        (void)buf_append_slice(&sends->body, buf_slice(&text));
    }
    buf_release(&text);
}

void play_report(struct play *play, struct buf *out)
{
    struct zab_status status;
    struct sends sends;
    size_t before;

    buf_init(&sends.peers, 1 << 10);
    buf_init(&sends.body, 1 << 16);
    for (size_t i = 0; i < play->drive.seen_count; i++) {
        report_effect(play, &play->drive.seen[i], &sends, out);
    }
    flush(&sends, out);
    buf_release(&sends.peers);
    buf_release(&sends.body);
    (void)buf_append_slice(out, buf_slice(&play->said));
    if (!play->drive.observed) {
        return;
    }
    status = drive_status(&play->drive);
    before = out->len;
    (void)buf_append_str(out, "=");
    text_status(out, &play->shown, &status);
    if (out->len == before + 1) {
        out->len = before;
    } else {
        (void)buf_append_str(out, "\n");
    }
    play->shown = status;
}
