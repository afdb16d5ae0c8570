#include "cli/top_report.h"

#include "base/mem.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_MAX = 512,
    COVERS_PERCENT = 80,  /* A prefix is left out if one below it has this share of its requests. */
    UNREACHABLE = 1 << 30 /* Slower than any replica that answers. */
};

/* ---- Rows by key, with rates that add up ---- */

static double rate_of(const json_t *row)
{
    return json_number_value(jsonr_at(row, "reads_per_s")) +
           json_number_value(jsonr_at(row, "writes_per_s"));
}

static void add_rate(json_t *to, const char *name, int64_t count, int64_t window_ms)
{
    double rate = json_number_value(jsonr_at(to, name));

    (void)json_object_set_new(to, name, json_real(rate + (double)count * 1000 / (double)window_ms));
}

/* Adds a row of a replica to the row of the same key. */
static void add_row(json_t *sums, const char *key, const json_t *row, int64_t window_ms)
{
    json_t *sum = json_object_get(sums, key);

    if (!sum) {
        sum = json_object();
        jsonr_copy(sum, row, "path, address, identity");
        (void)json_object_set_new(sums, key, sum);
    }
    add_rate(sum, "reads_per_s", jsonr_number(row, "reads"), window_ms);
    add_rate(sum, "writes_per_s", jsonr_number(row, "writes"), window_ms);
    add_rate(sum, "missed_per_s", jsonr_number(row, "error"), window_ms);
}

static json_t *sum_of(const json_t *replicas, const char *list)
{
    json_t *sums = json_object();

    JSONR_EACH (replica, replicas) {
        int64_t window_ms = jsonr_number(replica, "top.window_ms");
        char key[KEY_MAX];

        JSONR_EACH (row, jsonr_at(jsonr_at(replica, "top"), list)) {
            (void)snprintf(key, sizeof(key), "%s%s %s", jsonr_text(row, "path"),
                           jsonr_text(row, "address"), jsonr_text(row, "identity"));
            if (window_ms > 0) {
                add_row(sums, key, row, window_ms);
            }
        }
    }
    return sums;
}

/* ---- Order ---- */

typedef double (*weigh_fn)(const json_t *row);

struct weighed {
    double weight;
    size_t place; /* Equal rows keep their order. */
    json_t *row;
};

static int compare(const void *left, const void *right)
{
    const struct weighed *a = left;
    const struct weighed *b = right;

    if (a->weight > b->weight || a->weight < b->weight) {
        return a->weight > b->weight ? -1 : 1;
    }
    return a->place < b->place ? -1 : 1;
}

/* Returns the rows, the heaviest first. Drops `rows`, a list or an object. */
static json_t *sort(json_t *rows, weigh_fn weigh)
{
    size_t size = json_is_object(rows) ? json_object_size(rows) : json_array_size(rows);
    struct weighed *all = mem_zalloc(size + 1, sizeof(*all));
    json_t *sorted = json_array();
    size_t count = 0;
    const char *key = NULL;
    json_t *row = NULL;

    if (json_is_object(rows)) {
        json_object_foreach(rows, key, row)
        {
            all[count] = (struct weighed){weigh(row), count, row};
            count++;
        }
    }
    JSONR_EACH (item, rows) {
        all[count] = (struct weighed){weigh(item), count, item};
        count++;
    }
    qsort(all, count, sizeof(*all), compare);
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append(sorted, all[i].row);
    }
    mem_free(all);
    json_decref(rows);
    return sorted;
}

/* ---- Prefixes ---- */

static bool is_below(const char *path, const char *top)
{
    size_t len = strcmp(top, "/") == 0 ? 0 : strlen(top);

    return strncmp(path, top, len) == 0 && path[len] == '/' && path[len + 1] != '\0';
}

/* Whether one of the prefixes below causes nearly all of its requests, and so says more. */
static bool is_covered(const json_t *sorted, const json_t *row)
{
    JSONR_EACH (other, sorted) {
        if (rate_of(other) * 100 < rate_of(row) * COVERS_PERCENT) {
            return false; /* Those that follow cause less. */
        }
        if (is_below(jsonr_text(other, "path"), jsonr_text(row, "path"))) {
            return true;
        }
    }
    return false;
}

/* In eighths, which JSON and doubles can both hold. */
static double rounded(double rate)
{
    return round(rate * 8) / 8;
}

static void round_rate(json_t *row, const char *name)
{
    (void)json_object_set_new(row, name,
                              json_real(rounded(json_number_value(jsonr_at(row, name)))));
}

static void round_rates(json_t *rows)
{
    JSONR_EACH (row, rows) {
        round_rate(row, "reads_per_s");
        round_rate(row, "writes_per_s");
        round_rate(row, "missed_per_s");
    }
}

static json_t *prefixes_of(const json_t *replicas, size_t rows)
{
    json_auto_t *sorted = sort(sum_of(replicas, "prefixes"), rate_of);
    json_t *shown = json_array();

    JSONR_EACH (row, sorted) {
        if (json_array_size(shown) < rows && !is_covered(sorted, row)) {
            (void)json_array_append(shown, row);
        }
    }
    round_rates(shown);
    return shown;
}

/* ---- Clients and watchers ---- */

static void cut(json_t *list, size_t rows)
{
    while (json_array_size(list) > rows) {
        (void)json_array_remove(list, json_array_size(list) - 1);
    }
}

static json_t *clients_of(const json_t *replicas, size_t rows)
{
    json_t *sorted = sort(sum_of(replicas, "clients"), rate_of);

    cut(sorted, rows);
    round_rates(sorted);
    return sorted;
}

static double watches_of(const json_t *row)
{
    return (double)jsonr_number(row, "watches");
}

static json_t *watchers_of(const json_t *replicas, size_t rows)
{
    json_t *all = json_array();

    JSONR_EACH (replica, replicas) {
        JSONR_EACH (client, jsonr_at(replica, "watches.clients")) {
            json_t *row = json_copy(client);

            (void)json_object_set(row, "endpoint", jsonr_at(replica, "endpoint"));
            (void)json_array_append_new(all, row);
        }
    }
    json_t *sorted = sort(all, watches_of);

    cut(sorted, rows);
    return sorted;
}

/* ---- Replicas ---- */

static uint64_t zxid_of(const json_t *member)
{
    return strtoull(jsonr_text(member, "zxid"), NULL, 16);
}

/* Puts how many transactions the member is behind the leader, if both are known in one epoch. */
static void put_behind(json_t *row, const json_t *member, uint64_t leader_zxid)
{
    uint64_t zxid = zxid_of(member);
    bool same_epoch = zxid != 0 && zxid >> 32 == leader_zxid >> 32;

    (void)json_object_set_new(
        row, "behind",
        same_epoch ? json_integer(zxid < leader_zxid ? (json_int_t)(leader_zxid - zxid) : 0)
                   : json_null());
}

/* Puts what the replica itself has said, if it is the one with this id. */
static void put_load(json_t *row, const json_t *replicas)
{
    JSONR_EACH (replica, replicas) {
        int64_t window_ms = jsonr_number(replica, "top.window_ms");

        if (window_ms > 0 && jsonr_number(replica, "top.id") == jsonr_number(row, "id")) {
            (void)json_object_set(row, "endpoint", jsonr_at(replica, "endpoint"));
            (void)json_object_set_new(
                row, "requests_per_s",
                json_real(rounded((double)jsonr_number(replica, "top.requests") * 1000 /
                                  (double)window_ms)));
        }
    }
}

/* How slow a replica is: those that do not answer, then those that are behind, then slow disks. */
static double slowness(const json_t *row)
{
    const char *state = jsonr_text(row, "state");
    bool away = strcmp(state, "unreachable") == 0 || strcmp(state, "silent") == 0;
    double behind = (double)jsonr_number(row, "behind");

    return (away ? UNREACHABLE : 0) + (behind > 1000 ? behind : 0) +
           json_number_value(jsonr_at(row, "log_sync_p99_ms"));
}

static json_t *replicas_of(const json_t *ensemble, const json_t *replicas)
{
    json_t *rows = json_array();
    int64_t leader = jsonr_number(ensemble, "leader");
    uint64_t leader_zxid = 0;

    JSONR_EACH (member, jsonr_at(ensemble, "members")) {
        leader_zxid = jsonr_number(member, "id") == leader ? zxid_of(member) : leader_zxid;
    }
    JSONR_EACH (member, jsonr_at(ensemble, "members")) {
        json_t *row = json_object();

        jsonr_copy(row, member, "id, state, lag_ms, heard_ms, log_sync_p50_ms, log_sync_p99_ms");
        put_behind(row, member, leader_zxid);
        put_load(row, replicas);
        (void)json_array_append_new(rows, row);
    }
    return sort(rows, slowness);
}

static bool is_complete(const json_t *replicas)
{
    JSONR_EACH (replica, replicas) {
        if (json_is_false(jsonr_at(replica, "top.complete"))) {
            return false;
        }
    }
    return true;
}

json_t *top_report_of(const json_t *facts, size_t rows)
{
    const json_t *replicas = jsonr_at(facts, "replicas");
    json_t *report = json_pack(
        "{s:o,s:o,s:o,s:o,s:b}", "prefixes", prefixes_of(replicas, rows), "clients",
        clients_of(replicas, rows), "watchers", watchers_of(replicas, rows), "replicas",
        replicas_of(jsonr_at(facts, "ensemble"), replicas), "complete", is_complete(replicas));

    JSONR_EACH (replica, replicas) {
        if (jsonr_at(replica, "error")) {
            json_t *errors = jsonr_at(report, "errors");

            if (!errors) {
                errors = json_array();
                (void)json_object_set_new(report, "errors", errors);
            }
            json_t *row = json_object();

            jsonr_copy(row, replica, "endpoint, error");
            (void)json_array_append_new(errors, row);
        }
    }
    return report;
}
