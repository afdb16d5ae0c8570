/* Takes what clients receive: answers, problems, events. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/proc/history_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void history_wrong(struct history_client *client, const char *format, ...)
{
    va_list args;

    if (client->wrong[0] == '\0') {
        va_start(args, format);
        (void)vsnprintf(client->wrong, sizeof(client->wrong), format, args);
        va_end(args);
    }
}

/* ---- Answers. ---- */

zxid_t history_zxid(const json_t *value)
{
    if (json_is_string(value)) {
        return strtoull(json_string_value(value), NULL, 16);
    }
    return (zxid_t)json_integer_value(value);
}

/* Records the stat of an existing key. */
static void take_stat(struct history_seen *seen, const json_t *stat)
{
    seen->present = true;
    seen->czxid = history_zxid(json_object_get(stat, "czxid"));
    seen->mzxid = history_zxid(json_object_get(stat, "mzxid"));
    seen->owner = history_zxid(json_object_get(stat, "ephemeralOwner"));
    seen->version = (int32_t)json_integer_value(json_object_get(stat, "version"));
}

static uint32_t value_of(const json_t *object)
{
    const char *text = json_string_value(json_object_get(object, "dataUtf8"));

    return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static const json_t *stat_of(const json_t *object)
{
    const json_t *stat = json_object_get(object, "stat");

    return stat ? stat : object;
}

void history_take_step(struct history_step *step, const json_t *object)
{
    const json_t *stat = stat_of(object);
    bool shown = json_object_get(stat, "czxid") != NULL;

    if (step->what == HISTORY_GET) {
        step->has_seen = true;
        take_stat(&step->seen, stat);
        step->seen.value = value_of(object);
    } else if ((step->what == HISTORY_SET || step->what == HISTORY_CREATE) && shown) {
        step->has_seen = true;
        take_stat(&step->seen, stat);
        step->seen.value = step->value;
    }
}

static void take_list(struct history_op *op, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "children");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        unsigned key = 0;

        if (name && sscanf(name, "k%u", &key) == 1 && key < HISTORY_KEYS) {
            op->listed |= 1U << key;
        }
    }
}

/* Each element of a consistent read may have its own error: an absent znode is an answer. */
static void take_element(struct history_step *step, const json_t *result)
{
    if (json_is_true(json_object_get(result, "ok"))) {
        history_take_step(step, result);
    } else {
        step->has_seen = step->what == HISTORY_GET;
    }
}

void history_take_answer(struct history_op *op, const json_t *answer)
{
    const json_t *results = json_object_get(answer, "results");

    if (op->count == 1 && op->steps[0].what == HISTORY_LIST) {
        take_list(op, answer);
    } else if (op->count == 1) {
        history_take_step(&op->steps[0], answer);
    }
    for (uint32_t i = 0; op->count > 1 && i < op->count; i++) {
        take_element(&op->steps[i], json_array_get(results, i));
    }
}

static bool is_code(const json_t *problem, const char *name)
{
    const char *code = json_string_value(json_object_get(problem, "code"));

    return code && strcmp(code, name) == 0;
}

/* A read that found no znode has read its absence. */
static enum history_outcome take_absence(struct history_op *op)
{
    if (op->count == 1 && op->steps[0].what == HISTORY_GET) {
        op->steps[0].has_seen = true;
        op->steps[0].seen = (struct history_seen){.present = false};
        return HISTORY_OK;
    }
    return HISTORY_NO_NODE;
}

enum history_outcome history_take_problem(struct history_client *client, struct history_op *op,
                                          const json_t *problem)
{
    const char *outcome = json_string_value(json_object_get(problem, "outcome"));
    json_int_t status = json_integer_value(json_object_get(problem, "status"));
    bool open = outcome && strcmp(outcome, "unknown") == 0;

    op->failed = (uint32_t)json_integer_value(json_object_get(problem, "op_index"));
    if (is_code(problem, "NoNode")) {
        return take_absence(op);
    }
    if (is_code(problem, "NodeExists")) {
        return HISTORY_NODE_EXISTS;
    }
    if (is_code(problem, "BadVersion")) {
        return HISTORY_BAD_VERSION;
    }
    if (is_code(problem, "InFlight")) {
        return HISTORY_UNKNOWN; /* An earlier try is in flight. */
    }
    bool full = client->run->disks_fill && is_code(problem, "DiskFull");

    if (!outcome || (!open && status != 503 && status != 429 && !full) || (open && status != 504)) {
        const char *detail = json_string_value(json_object_get(problem, "detail"));

        history_wrong(client, "a forbidden answer: %d, outcome %s, %.300s", (int)status,
                      outcome ? outcome : "-", detail ? detail : "no JSON");
    }
    return open ? HISTORY_UNKNOWN : HISTORY_NOT_DONE;
}

static void learn(struct history_client *client, const struct history_step *step)
{
    if (step->has_seen) {
        client->versions[step->key] = step->seen.present ? step->seen.version : -1;
    }
}

void history_keep(struct history_client *client, const struct history_op *op)
{
    if (!history_names_state(op) && !history_changes(op) && !history_closes(op)) {
        return; /* A read without an answer shows nothing. */
    }
    history_add_op(&client->log, op);
    if (!history_names_state(op)) {
        return;
    }
    atomic_fetch_add(&client->run->answers, 1);
    client->seen = op->zxid > client->seen ? op->zxid : client->seen;
    for (uint32_t i = 0; i < op->count && op->outcome == HISTORY_OK; i++) {
        learn(client, &op->steps[i]);
    }
}

/* ---- Watches. ---- */

static void note(struct history_client *client, struct history_item item)
{
    item.at_us = os_now_us();
    history_add_item(&client->log, &item);
}

static bool what_of(const char *name, enum history_what *ret_what)
{
    static const struct {
        const char *name;
        enum history_what what;
    } events[] = {{"NodeCreated", HISTORY_CREATE},
                  {"NodeDataChanged", HISTORY_SET},
                  {"NodeDeleted", HISTORY_DELETE},
                  {"NodeChildrenChanged", HISTORY_CHANGED}};

    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        if (strcmp(events[i].name, name) == 0) {
            *ret_what = events[i].what;
            return true;
        }
    }
    return false;
}

static bool key_of(const char *path, uint32_t *ret_key)
{
    unsigned key = 0;

    if (path && strcmp(path, "/h") == 0) {
        *ret_key = HISTORY_ROOT;
        return true;
    }
    if (!path || sscanf(path, "/h/k%u", &key) != 1 || key >= HISTORY_KEYS) {
        return false;
    }
    *ret_key = key;
    return true;
}

static void take_change(struct history_client *client, const json_t *event, enum history_what what)
{
    struct history_item item = {.kind = HISTORY_EVENT, .what = what};
    const json_t *stat = json_object_get(event, "stat");

    item.zxid = history_zxid(json_object_get(event, "zxid"));
    item.end = json_is_true(json_object_get(event, "end"));
    item.diff = json_is_true(json_object_get(event, "diff"));
    if (!key_of(json_string_value(json_object_get(event, "path")), &item.key)) {
        history_wrong(client, "an event of a znode that is not watched");
        return;
    }
    if (stat) {
        item.has_seen = true;
        take_stat(&item.seen, stat);
        item.seen.value = value_of(event);
    }
    note(client, item);
    if (item.end) {
        client->at = item.zxid;
    }
}

void history_take_event(struct history_client *client, const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "event"));
    zxid_t zxid = history_zxid(json_object_get(event, "zxid"));
    enum history_what what;

    if (!name || !client->watching) {
        return;
    }
    if (what_of(name, &what)) {
        take_change(client, event, what);
    } else if (strcmp(name, "heartbeat") == 0) {
        note(client, (struct history_item){.kind = HISTORY_BOOKMARK, .zxid = zxid});
        client->at = zxid;
    } else if (strcmp(name, "gap") == 0) {
        note(client, (struct history_item){.kind = HISTORY_GAP, .zxid = zxid});
        client->at = zxid;
    } else if (strcmp(name, "overrun") == 0) {
        zxid_t from = history_zxid(json_object_get(event, "from"));

        note(client, (struct history_item){.kind = HISTORY_OVERRUN, .since = from});
        client->at = from < client->at ? from : client->at;
    }
}

void history_take_watch(struct history_client *client, const char *resumed, zxid_t since,
                        zxid_t zxid)
{
    struct history_item item = {.kind = HISTORY_STARTED, .zxid = zxid, .since = since};

    if (resumed && strcmp(resumed, "replayed") == 0) {
        item.kind = HISTORY_REPLAYED;
    } else if (resumed && strcmp(resumed, "diffed") == 0) {
        item.kind = HISTORY_DIFFED;
    } else if (resumed && strcmp(resumed, "gap") == 0) {
        item.kind = HISTORY_GAP;
    } else if (client->at != 0) {
        history_wrong(client, "a resumed watch started without its history: %s",
                      resumed ? resumed : "-");
    }
    note(client, item);
    client->watching = true;
    if (item.kind == HISTORY_STARTED || item.kind == HISTORY_GAP) {
        client->at = zxid;
    }
}

void history_take_loss(struct history_client *client)
{
    if (client->watching) {
        note(client, (struct history_item){.kind = HISTORY_LOST});
        client->watching = false;
    }
}

bool history_watcher_done(struct history_client *client)
{
    zxid_t end = atomic_load(&client->run->end_zxid);

    if (end == 0) {
        return false;
    }
    if (client->watching && client->at >= end) {
        return true;
    }
    if (os_now_ms() > atomic_load(&client->run->end_ms)) {
        history_wrong(client, "told of everything up to %" PRIx64 " only, not of %" PRIx64,
                      client->at, end);
        return true;
    }
    return false;
}
