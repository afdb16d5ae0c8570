/* Draws the next operation of a client, and writes it as JSON. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/proc/history_run.h"

#include <poll.h>
#include <stdio.h>

enum {
    VALUE_BITS = 20,
    CONNECTION_BITS = 24,
    CLOSE_ONE_IN = 40, /* In so many operations of a client with a session. */
    PERCENT = 100
};

static const char *const names[] = {"get", "children", "create", "set", "delete", "check"};

struct history_client *history_client_add(struct history_run *run, enum history_kind kind,
                                          const char *name)
{
    struct history_client *client = &run->clients[run->count];

    ASSERT(run->count < HISTORY_CLIENTS_MAX);
    *client = (struct history_client){.run = run, .kind = kind, .number = ++run->count};
    history_log_init(&client->log, name);
    rng_init(&client->rng, run->seed * HISTORY_CLIENTS_MAX + client->number);
    client->server = client->number % run->port_count;
    for (uint32_t key = 0; key < HISTORY_KEYS; key++) {
        client->versions[key] = -1;
    }
    return client;
}

static void run_client(void *arg)
{
    struct history_client *client = arg;

    if (client->kind == HISTORY_SOCKET) {
        history_run_socket(client);
    } else if (client->kind == HISTORY_SSE || client->kind == HISTORY_NDJSON) {
        history_run_stream(client);
    } else if (client->kind == HISTORY_NATIVE || client->kind == HISTORY_NATIVE_WATCH) {
        history_run_native(client);
    } else {
        history_run_http(client);
    }
}

void history_client_start(struct history_client *client)
{
    thread_start(&client->thread, client->log.name, run_client, client);
}

void history_run_release(struct history_run *run)
{
    for (uint32_t i = 0; i < run->count; i++) {
        history_log_release(&run->clients[i].log);
    }
}

void history_rest(const struct history_client *client)
{
    if (client->run->rest_ms > 0) {
        (void)poll(NULL, 0, (int)client->run->rest_ms);
    }
}

void history_new_connection(struct history_client *client)
{
    client->connections++;
    client->server =
        (client->server + (uint32_t)rng_range(&client->rng, 1, 2)) % client->run->port_count;
}

uint32_t history_connection(const struct history_client *client)
{
    return client->number << CONNECTION_BITS | client->connections;
}

/* ---- Drawing. ---- */

static uint32_t next_value(struct history_client *client)
{
    ASSERT(client->values + 1 < 1U << VALUE_BITS);
    return client->number << VALUE_BITS | ++client->values;
}

/* A different key for each step. */
static uint32_t pick_key(struct history_client *client, const struct history_op *op)
{
    uint32_t key = (uint32_t)rng_below(&client->rng, HISTORY_KEYS);
    bool taken = true;

    while (taken) {
        taken = false;
        for (uint32_t i = 0; i < op->count; i++) {
            taken = taken || op->steps[i].key == key;
        }
        key = taken ? (key + 1) % HISTORY_KEYS : key;
    }
    return key;
}

static void add_step(struct history_client *client, struct history_op *op, enum history_what what,
                     bool conditional)
{
    struct history_step step = {.what = what, .key = pick_key(client, op)};

    if (what == HISTORY_CREATE || what == HISTORY_SET) {
        step.value = next_value(client);
    }
    if (what == HISTORY_CREATE && client->session != 0) {
        step.ephemeral = rng_below(&client->rng, 2) == 0;
    }
    if (conditional && client->versions[step.key] >= 0) {
        step.has_version = true;
        step.version = client->versions[step.key];
    }
    op->steps[op->count++] = step;
}

static void plan_multi(struct history_client *client, struct history_op *op)
{
    static const enum history_what whats[] = {HISTORY_SET, HISTORY_SET, HISTORY_CREATE,
                                              HISTORY_DELETE, HISTORY_CHECK};

    uint64_t count = rng_range(&client->rng, 2, HISTORY_STEPS_MAX);

    add_step(client, op, HISTORY_SET, rng_below(&client->rng, 4) == 0);
    while (op->count < count) {
        enum history_what what = whats[rng_below(&client->rng, sizeof(whats) / sizeof(whats[0]))];

        add_step(client, op, what, what == HISTORY_CHECK);
    }
}

static void plan_reads(struct history_client *client, struct history_op *op)
{
    uint64_t count = rng_range(&client->rng, 2, HISTORY_STEPS_MAX);

    while (op->count < count) {
        add_step(client, op, HISTORY_GET, false);
    }
}

void history_plan(struct history_client *client, struct history_op *op)
{
    uint64_t dice = rng_below(&client->rng, PERCENT);

    *op = (struct history_op){.session = client->session};
    if (client->session != 0 && rng_below(&client->rng, CLOSE_ONE_IN) == 0) {
        op->steps[op->count++].what = HISTORY_CLOSE;
    } else if (dice < 40) {
        op->linearizable = dice < 12;
        add_step(client, op, HISTORY_GET, false);
    } else if (dice < 45) {
        op->linearizable = dice < 42;
        add_step(client, op, HISTORY_LIST, false);
    } else if (dice < 60) {
        add_step(client, op, HISTORY_SET, false);
    } else if (dice < 70) {
        add_step(client, op, HISTORY_SET, true);
    } else if (dice < 80) {
        add_step(client, op, HISTORY_CREATE, false);
    } else if (dice < 87) {
        add_step(client, op, HISTORY_DELETE, dice < 82);
    } else if (dice < 96) {
        plan_multi(client, op);
    } else {
        plan_reads(client, op);
    }
}

/* ---- Writing. ---- */

void history_put_step(struct buf *out, const struct history_step *step)
{
    if (step->what == HISTORY_LIST) {
        buf_append_str(out, "\"op\":\"children\",\"path\":\"/h\"");
        return;
    }
    buf_printf(out, "\"op\":\"%s\",\"path\":\"/h/k%u\"", names[step->what], step->key);
    if (step->value != 0) {
        buf_printf(out, ",\"dataUtf8\":\"%u\"", step->value);
    }
    if (step->ephemeral) {
        buf_append_str(out, ",\"ephemeral\":true");
    }
    if (step->has_version) {
        buf_printf(out, ",\"version\":%d", step->version);
    }
    if (step->what == HISTORY_GET) {
        buf_append_str(out, ",\"dataformat\":\"utf8\"");
    }
}

void history_put_steps(struct buf *out, const struct history_op *op)
{
    buf_append_str(out, "\"ops\":[");
    for (uint32_t i = 0; i < op->count; i++) {
        buf_append_str(out, i ? ",{" : "{");
        history_put_step(out, &op->steps[i]);
        buf_append_byte(out, '}');
    }
    buf_append_byte(out, ']');
}
