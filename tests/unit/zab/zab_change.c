/* Changes of the configuration that a client asks for. */
#include "tests/unit/zab/zab_play_int.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NAMES_MAX = 64 << 10
};

struct items {
    struct zab_change_item items[ZAB_MEMBERS_MAX + 1];
    uint32_t count;
    char names[NAMES_MAX]; /* Host names that are made up. */
    size_t names_len;
};

/* "zk4:10998": host and port. */
static bool read_address(char *text, struct zab_texts *texts)
{
    char *colon = strrchr(text, ':');
    uint64_t port = 0;

    if (!colon || !text_to_number(colon + 1, &port)) {
        return false;
    }
    texts->host = slice_make(text, (size_t)(colon - text));
    texts->port = (uint16_t)port;
    return true;
}

/* "zk4:10998", "client=zk4:9998", "zone=a", "joining" */
static bool read_part(char *text, struct zab_change_item *item)
{
    if (strcmp(text, "joining") == 0) {
        item->joining = true;
    } else if (strncmp(text, "client=", 7) == 0) {
        item->sets_client = true;
        item->texts.client = slice_str(text + 7);
    } else if (strncmp(text, "zone=", 5) == 0) {
        item->sets_zone = true;
        item->texts.zone = slice_str(text + 5);
    } else {
        item->sets_address = true;
        return read_address(text, &item->texts);
    }
    return true;
}

/* Members first..last, whose hosts have names of `len` bytes. */
static bool read_range(struct items *items, struct zab_change_item item, uint64_t last, size_t len)
{
    for (; item.id <= last; item.id++) {
        char *name = items->names + items->names_len;

        if (items->count > ZAB_MEMBERS_MAX || len < 4 || items->names_len + len >= NAMES_MAX) {
            return false;
        }
        (void)snprintf(name, len + 1, "%0*u", (int)len, item.id);
        items->names_len += len;
        item.texts.host = slice_make(name, len);
        item.texts.port = 1;
        items->items[items->count++] = item;
    }
    return true;
}

static enum zab_change_what what_of(char sign)
{
    switch (sign) {
    case '+':
        return ZAB_CHANGE_ADD;
    case '-':
        return ZAB_CHANGE_REMOVE;
    case '^':
        return ZAB_CHANGE_PROMOTE;
    case '_':
        return ZAB_CHANGE_DEMOTE;
    default:
        return ZAB_CHANGE_EDIT;
    }
}

/* "+4@zk4:10998,zone=a": add; "+4..9@8": add each, with host names of 8 bytes; "-4": remove;
 * "~4@client=zk4:9998": edit; "^4": promote; "_4": demote. */
static bool read_item(char *word, struct items *items)
{
    char *rest = NULL;
    struct zab_change_item item = {.what = what_of(word[0])};

    item.id = (uint32_t)strtoul(word + 1, &rest, 10);
    if (strncmp(rest, "..", 2) == 0) {
        unsigned long last = strtoul(rest + 2, &rest, 10);

        return *rest == '@' && read_range(items, item, last, strtoul(rest + 1, NULL, 10));
    }
    if (*rest != '\0' && *rest++ != '@') {
        return false;
    }
    char *next = NULL;

    for (char *part = strtok_r(rest, ",", &next); part; part = strtok_r(NULL, ",", &next)) {
        if (!read_part(part, &item)) {
            return false;
        }
    }
    if (items->count > ZAB_MEMBERS_MAX) {
        return false;
    }
    items->items[items->count++] = item;
    return true;
}

static bool is_about_voters(const struct play *play, const struct zab_change_report *report)
{
    return report->voters != 0 &&
           (report->voters != zab_config_voters(zab_config(play->drive.zab)) ||
            report->tolerance_before != report->tolerance_after);
}

static void make_change(struct play *play, const struct zab_change *change)
{
    struct zab_change_report report;
    struct zab_effects effects;
    char text[ZAB_TEXT_MAX];

    zab_effects_init(&effects);
    enum zab_fault fault =
        zab_change(play->drive.zab, change, slice_str("a transaction"), &report, &effects);

    zab_fault_text(fault, &report, text);
    (void)buf_append_str(&play->said, fault == ZAB_FAULT_NONE ? "accepted" : "refused: ");
    (void)buf_append_str(&play->said, text);
    text_named_zxid(&play->said, "previous", report.previous);
    text_named_zxid(&play->said, "version", report.version);
    if (is_about_voters(play, &report)) {
        (void)buf_printf(&play->said, " voters=%u in_step=%u tolerance=%d>%d", report.voters,
                         report.in_step, report.tolerance_before, report.tolerance_after);
    }
    (void)buf_append_str(&play->said, report.is_early ? " early" : "");
    (void)buf_append_str(&play->said, report.leader_leaves ? " leader_leaves\n" : "\n");
    drive_take(&play->drive, &effects);
    zab_effects_release(&effects);
}

/* "change level=2 force", "change hold=1 version=1.4 dry-run", "change +4@zk4:10998 -5": says why
 * it is refused, or what would be refused. */
static void do_change(struct play *play, const struct words *words)
{
    static struct items items;
    struct zab_change change = {.level = (uint16_t)value_or(play, words, "level", 0),
                                .hold = (uint16_t)value_or(play, words, "hold", 0),
                                .sets_hold = line_value(words, "hold") != NULL,
                                .version = zxid_or(play, words, "version", 0),
                                .checks_version = line_value(words, "version") != NULL,
                                .force = line_has(words, "force"),
                                .min_tolerance = (int32_t)value_or(play, words, "tolerance", 0),
                                .dry_run = line_has(words, "dry-run")};

    if (!line_value(words, "tolerance")) {
        change.min_tolerance = ZAB_TOLERANCE_DEFAULT;
    }
    items.count = 0;
    items.names_len = 0;
    for (size_t i = 1; i < words->count; i++) {
        if (strchr("+-~^_", words->items[i][0]) && !read_item(words->items[i], &items)) {
            fail(play, "\"%s\" is no change of a member", words->items[i]);
            return;
        }
    }
    change.items = items.items;
    change.item_count = items.count;
    make_change(play, &change);
}

/* "texts 4", "texts 4 pending": of this member, in the configuration that is committed here, or in
 * the pending one. */
static void do_texts(struct play *play, const struct words *words)
{
    struct zab_texts texts;
    uint32_t id = (uint32_t)number_at(play, words, 1);
    struct slice bytes = line_has(words, "pending") ? zab_pending_bytes(play->drive.zab)
                                                    : zab_config_bytes(play->drive.zab);

    if (!zab_config_texts(bytes, id, &texts)) {
        (void)buf_append_str(&play->said, "none\n");
        return;
    }
    (void)buf_append_str(&play->said, "peer=");
    (void)buf_append_slice(&play->said, texts.host);
    (void)buf_printf(&play->said, ":%u client=", texts.port);
    (void)buf_append_slice(&play->said, texts.client);
    (void)buf_append_str(&play->said, " zone=");
    (void)buf_append_slice(&play->said, texts.zone);
    (void)buf_append_str(&play->said, "\n");
}

const struct command play_changes[] = {
    {"change", do_change},
    {"texts", do_texts},
    {NULL, NULL},
};
