#include "tests/unit/zab/zab_text.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const states[] = {
    [ZAB_LOOKING] = "looking",
    [ZAB_FOLLOWING] = "following",
    [ZAB_LEADING] = "leading",
    [ZAB_OBSERVING] = "observing",
};

/* ---- Words. ---- */

bool line_split(struct words *words, char *line)
{
    char *rest = NULL;

    words->count = 0;
    for (char *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (words->count == WORDS_MAX) {
            return false;
        }
        words->items[words->count++] = word;
    }
    return true;
}

const char *line_value(const struct words *words, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < words->count; i++) {
        if (strncmp(words->items[i], key, len) == 0 && words->items[i][len] == '=') {
            return words->items[i] + len + 1;
        }
    }
    return NULL;
}

bool line_has(const struct words *words, const char *word)
{
    for (size_t i = 0; i < words->count; i++) {
        if (strcmp(words->items[i], word) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- Values. ---- */

bool text_to_number(const char *text, uint64_t *ret)
{
    char *end = NULL;

    *ret = strtoull(text, &end, 0);
    return end != text && *end == '\0';
}

bool text_to_zxid(const char *text, zxid_t *ret)
{
    char *end = NULL;
    uint64_t epoch = strtoull(text, &end, 10);
    uint64_t counter = 0;

    if (end == text || (*end != '.' && epoch != 0)) {
        return false;
    }
    if (*end == '.' && !text_to_number(end + 1, &counter)) {
        return false;
    }
    *ret = zxid_make((uint32_t)epoch, (uint32_t)counter);
    return true;
}

bool text_to_state(const char *text, enum zab_state *ret)
{
    for (enum zab_state state = ZAB_LOOKING; state <= ZAB_OBSERVING; state++) {
        if (strcmp(text, states[state]) == 0) {
            *ret = state;
            return true;
        }
    }
    return false;
}

bool text_to_msg_type(const char *text, enum zab_msg_type *ret)
{
    for (enum zab_msg_type type = ZAB_VOTE; type <= ZAB_JOIN; type++) {
        if (strcmp(text, zab_msg_name(type)) == 0) {
            *ret = type;
            return true;
        }
    }
    return false;
}

static void add_removed(struct zab_config *config, uint32_t id, uint64_t incarnation)
{
    if (config->removed_count < ZAB_REMOVED_MAX) {
        config->removed[config->removed_count++] =
            (struct zab_removed){.id = id, .incarnation = incarnation, .zxid = config->version};
    }
}

static bool change_member(const char *key, uint64_t value, struct zab_config *config)
{
    char *name = NULL;
    unsigned long id = strtoul(key, &name, 10);
    struct zab_member *member = id >= 1 && id <= config->count ? &config->members[id - 1] : NULL;

    if (!member) {
        return false;
    }
    if (strcmp(name, ".disk") == 0) {
        member->incarnation = value;
    } else if (strcmp(name, ".voter") == 0) {
        member->voter = value != 0;
    } else if (strcmp(name, ".empty_seat") == 0) {
        member->empty_seat = value != 0;
    } else if (strcmp(name, ".joining") == 0) {
        member->joining = value != 0;
    } else if (strcmp(name, ".removed") == 0) { /* An earlier disk of this id. */
        add_removed(config, (uint32_t)id, value);
    } else if (strcmp(name, ".admitted") == 0) {
        member->admitted_age_ms = value;
    } else {
        return false;
    }
    return true;
}

static void drop_member(struct zab_config *config, uint64_t id)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < config->count; i++) {
        if (config->members[i].id != id) {
            config->members[kept++] = config->members[i];
        }
    }
    config->count = kept;
}

/* "add=4": an observer with the highest id so far; "drop=2"; "removed=2": the disk of replica 2 was
 * removed; "removals=64": so many other disks were. */
static bool change_members(const char *key, uint64_t value, struct zab_config *config)
{
    if (strcmp(key, "add") == 0 && config->count < ZAB_MEMBERS_MAX) {
        config->members[config->count++] = (struct zab_member){.id = (uint32_t)value};
    } else if (strcmp(key, "drop") == 0) {
        drop_member(config, value);
    } else if (strcmp(key, "removed") == 0) {
        add_removed(config, (uint32_t)value, DRIVE_INCARNATION + value);
    } else if (strcmp(key, "removals") == 0) {
        for (uint32_t i = 0; i < value; i++) {
            add_removed(config, 1000 + i, 5000 + i);
        }
    } else {
        return false;
    }
    return true;
}

static bool change_config(const char *key, const char *text, struct zab_config *config)
{
    uint64_t value = 0;

    if (strcmp(key, "version") == 0) {
        return text_to_zxid(text, &config->version);
    }
    if (!text_to_number(text, &value)) {
        return false;
    }
    if (strcmp(key, "history") == 0) {
        config->history = value;
    } else if (strcmp(key, "count") == 0) {
        for (; config->count < value && config->count < ZAB_MEMBERS_MAX; config->count++) {
            config->members[config->count] =
                (struct zab_member){.id = config->count + 1,
                                    .voter = true,
                                    .incarnation = DRIVE_INCARNATION + config->count + 1};
        }
        config->count = (uint32_t)value;
    } else if (strcmp(key, "level") == 0) {
        config->level = (uint16_t)value;
    } else if (strcmp(key, "hold") == 0) {
        config->hold = (uint16_t)value;
    } else if (strcmp(key, "cluster") == 0) {
        config->cluster[0] = (uint8_t)value;
    } else {
        return change_members(key, value, config) || change_member(key, value, config);
    }
    return true;
}

bool text_to_config(const char *text, struct zab_config *inout)
{
    char copy[256];
    char *rest = NULL;

    if (text[0] != '{' || strlen(text) >= sizeof(copy)) {
        return false;
    }
    (void)snprintf(copy, sizeof(copy), "%s", text + 1);
    copy[strcspn(copy, "}")] = '\0';
    for (char *item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
        char *value = strchr(item, '=');

        if (!value) {
            return false;
        }
        *value++ = '\0';
        if (!change_config(item, value, inout)) {
            return false;
        }
    }
    return true;
}

void text_zxid(struct buf *out, zxid_t zxid)
{
    if (zxid == 0) {
        (void)buf_append_str(out, "0");
    } else {
        (void)buf_printf(out, "%u.%u", zxid_epoch(zxid), zxid_counter(zxid));
    }
}

const char *text_state(enum zab_state state)
{
    return state >= ZAB_LOOKING && state <= ZAB_OBSERVING ? states[state] : "unknown";
}
