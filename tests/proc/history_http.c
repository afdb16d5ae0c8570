/* Clients by HTTP send one request after the other, as JSON or as bytes. Some writes have a key,
 * and are retried at another replica until their outcome is known. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/proc/history_run.h"
#include "tests/proc/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADERS_MAX = 512,
    BODY_MAX = 4096,
    WANDER_ONE_IN = 8, /* In so many operations of a wandering client. */
    KEYED_ONE_IN = 3,  /* In so many writes. */
    LOST_ONE_IN = 4,   /* In so many of their first answers, which the client discards. */
    TRIES_MAX = 50     /* Of a write with a key. */
};

/* A request as text. */
struct text {
    const char *method;
    char target[HISTORY_PATH_MAX];
    char headers[HEADERS_MAX];
    struct buf body;
    bool has_body;
    bool raw;
    bool keyed; /* With an Idempotency-Key. */
};

static void put_multi(struct text *text, const struct history_op *op)
{
    text->method = "POST";
    text->raw = false;
    (void)snprintf(text->target, sizeof(text->target), "/multi/v1%s",
                   op->linearizable ? "?consistency=linearizable" : "");
    buf_append_byte(&text->body, '{');
    history_put_steps(&text->body, op);
    buf_append_byte(&text->body, '}');
    text->has_body = true;
}

static void put_read(struct text *text, const struct history_op *op)
{
    const struct history_step *step = &op->steps[0];
    const char *consistency = op->linearizable ? "&consistency=linearizable" : "";

    text->method = "GET";
    if (step->what == HISTORY_LIST) {
        text->raw = false;
        (void)snprintf(text->target, sizeof(text->target), "/znodes/v1/h?view=children%s",
                       consistency);
    } else {
        (void)snprintf(text->target, sizeof(text->target), "/znodes/v1/h/k%u?dataformat=utf8%s",
                       step->key, consistency);
    }
}

static void put_write(struct text *text, const struct history_op *op)
{
    const struct history_step *step = &op->steps[0];
    char version[HISTORY_PATH_MAX / 4] = "";

    if (step->has_version) {
        (void)snprintf(version, sizeof(version), "?version=%d", step->version);
    }
    if (step->what == HISTORY_CREATE) {
        text->method = "POST";
        (void)snprintf(text->target, sizeof(text->target), "/znodes/v1/h?op=create&name=k%u%s",
                       step->key, step->ephemeral ? "&ephemeral=true" : "");
    } else {
        text->method = step->what == HISTORY_SET ? "PUT" : "DELETE";
        (void)snprintf(text->target, sizeof(text->target), "/znodes/v1/h/k%u%s", step->key,
                       version);
    }
    if (step->value != 0) {
        buf_printf(&text->body, "%u", step->value);
        text->has_body = true;
    }
}

static void put_op(struct text *text, const struct history_client *client,
                   const struct history_op *op)
{
    buf_clear(&text->body);
    text->has_body = false;
    if (op->count > 1) {
        put_multi(text, op);
    } else if (history_closes(op)) {
        text->method = "DELETE";
        (void)snprintf(text->target, sizeof(text->target), "/sessions/v1/");
    } else if (history_is_write(&op->steps[0])) {
        put_write(text, op);
    } else {
        put_read(text, op);
    }

    int len = snprintf(text->headers, sizeof(text->headers), "Accept: %s\r\n",
                       text->raw ? "application/octet-stream" : "application/json");

    if (op->count > 1) {
        len += snprintf(text->headers + len, sizeof(text->headers) - (size_t)len,
                        "Content-Type: application/json\r\n");
    }
    if (op->min_zxid != 0) {
        len += snprintf(text->headers + len, sizeof(text->headers) - (size_t)len,
                        "Zk-Min-Zxid: 0x%" PRIx64 "\r\n", op->min_zxid);
    }
    if (op->session != 0) {
        len += snprintf(text->headers + len, sizeof(text->headers) - (size_t)len,
                        "Zk-Session: %s\r\n", client->secret);
    }
    if (text->keyed) {
        char key[WEB_KEY_LEN + 1];

        web_make_key(key);
        (void)snprintf(text->headers + len, sizeof(text->headers) - (size_t)len,
                       "Idempotency-Key: %s\r\n", key);
    }
}

/* ---- Answers. ---- */

static zxid_t hex_after(const char *text, const char *name)
{
    const char *at = text ? strstr(text, name) : NULL;

    return at ? strtoull(at + strlen(name), NULL, 16) : 0;
}

/* The stat in a header, the data as the body. */
static void take_raw(struct history_step *step, struct plain_answer *answer)
{
    const char *stat = plain_header(answer, "Zk-Stat");
    const char *from = stat ? strstr(stat, ", version=") : NULL;
    int version = 0;

    if (!from || sscanf(from, ", version=%d", &version) != 1 || step->what == HISTORY_DELETE) {
        return;
    }
    step->has_seen = true;
    step->seen = (struct history_seen){
        .present = true,
        .czxid = hex_after(stat, "czxid="),
        .mzxid = hex_after(stat, "mzxid="),
        .owner = hex_after(stat, "ephemeralOwner="),
        .version = version,
        .value = step->value,
    };
    if (step->what == HISTORY_GET) {
        step->seen.value = (uint32_t)strtoul(buf_cstr(&answer->body), NULL, 10);
    }
}

static enum history_outcome take_answer(struct history_client *client, struct history_op *op,
                                        const struct text *text, struct plain_answer *answer)
{
    const char *zxid = plain_header(answer, "Zk-Zxid");
    enum history_outcome outcome = HISTORY_OK;

    op->zxid = zxid ? strtoull(zxid, NULL, 16) : 0;
    if (text->raw && answer->status < 300) {
        take_raw(&op->steps[0], answer);
        return HISTORY_OK;
    }

    json_t *json = plain_json(answer);

    if (answer->status >= 300) {
        outcome = history_take_problem(client, op, json);
    } else {
        history_take_answer(op, json);
    }
    json_decref(json);
    return outcome;
}

/* Sends the request once. */
static void ask(struct history_client *client, struct plain *plain, struct text *text,
                struct history_op *op)
{
    struct plain_call call = {.method = text->method,
                              .target = text->target,
                              .headers = text->headers,
                              .body = text->has_body ? buf_cstr(&text->body) : NULL};
    struct plain_answer answer;

    plain_answer_init(&answer);
    op->connection = history_connection(client);
    plain_do(plain, &call, HISTORY_CALL_MS, &answer);
    op->end_us = os_now_us();
    if (answer.status == 0) {
        op->outcome = answer.sent ? HISTORY_UNKNOWN : HISTORY_NOT_DONE;
    } else {
        op->outcome = take_answer(client, op, text, &answer);
    }
    plain_answer_release(&answer);
}

static void do_op(struct history_client *client, struct plain *plain, struct text *text,
                  struct history_op *op)
{
    op->start_us = os_now_us();
    ask(client, plain, text, op);
    history_keep(client, op);
}

/* ---- The client. ---- */

static struct plain *reconnect(struct history_client *client, struct plain *old)
{
    plain_close(old);
    history_new_connection(client);

    struct plain *plain = plain_open(client->run->ports[client->server], HISTORY_CALL_MS);

    if (!plain) {
        ensemble_breathe();
    }
    return plain;
}

/* Repeats the same write with the same key, or the same close, until its outcome is known. Success
 * is final, whichever try it was. A refusal only shows that no try was executed by then: a try that
 * was lost on its way may still arrive and be executed. Some first answers are discarded, so that
 * retries occur at all. Returns the connection, or NULL. */
static struct plain *do_until_known(struct history_client *client, struct plain *plain,
                                    struct text *text, struct history_op *op)
{
    const struct history_op asked = *op;
    bool open = false;
    uint32_t tries = 0;

    op->start_us = os_now_us();
    ask(client, plain, text, op);
    if (rng_below(&client->rng, LOST_ONE_IN) == 0) {
        op->outcome = HISTORY_UNKNOWN;
    }
    while (!history_names_state(op) && tries < TRIES_MAX && !atomic_load(&client->run->stopping)) {
        uint64_t start_us = op->start_us;

        open = open || op->outcome == HISTORY_UNKNOWN;
        plain = reconnect(client, plain);
        tries++;
        if (plain) {
            *op = asked;
            op->start_us = start_us;
            ask(client, plain, text, op);
        }
    }
    if (open && op->outcome != HISTORY_OK) {
        op->not_before = history_names_state(op) ? op->zxid : 0;
        op->outcome = HISTORY_UNKNOWN;
    }
    client->retried += open && op->outcome == HISTORY_OK;
    history_keep(client, op);
    return plain;
}

/* The session never expires here, so an ephemeral that ends without a request is a fault. */
static void open_session(struct history_client *client, struct plain *plain)
{
    const struct plain_call call = {.method = "POST",
                                    .target = "/sessions/v1/?op=create&expire=3600"};
    struct plain_answer answer;

    plain_answer_init(&answer);
    plain_do(plain, &call, HISTORY_CALL_MS, &answer);
    if (answer.status == 201) {
        json_t *json = plain_json(&answer);
        const char *secret = json_string_value(json_object_get(json, "id"));

        (void)snprintf(client->secret, sizeof(client->secret), "%s", secret ? secret : "");
        client->session = history_zxid(json_object_get(json, "session"));
        json_decref(json);
    }
    plain_answer_release(&answer);
}

void history_run_http(struct history_client *client)
{
    bool wanders = client->kind == HISTORY_HTTP;
    struct plain *plain = NULL;
    struct history_op op;
    struct text text;

    buf_init(&text.body, BODY_MAX);
    while (!atomic_load(&client->run->stopping)) {
        bool leave = wanders && rng_below(&client->rng, WANDER_ONE_IN) == 0;

        if (!plain || !plain_is_open(plain) || leave) {
            plain = reconnect(client, plain);
        }
        if (!plain) {
            continue;
        }
        if (wanders && client->session == 0) {
            open_session(client, plain);
            continue;
        }
        history_plan(client, &op);
        op.min_zxid = wanders && !history_changes(&op) ? client->seen : 0;
        text.raw = client->kind == HISTORY_RAW;
        text.keyed = history_changes(&op) && rng_below(&client->rng, KEYED_ONE_IN) == 0;
        put_op(&text, client, &op);
        if (text.keyed || history_closes(&op)) {
            plain = do_until_known(client, plain, &text, &op);
        } else {
            do_op(client, plain, &text, &op);
        }
        if (history_closes(&op)) {
            client->session = 0;
        }
        history_rest(client);
    }
    plain_close(plain);
    buf_release(&text.body);
}

enum history_outcome history_http_one(struct history_client *client, uint32_t server,
                                      struct history_op *op)
{
    struct plain *plain = plain_open(client->run->ports[server], HISTORY_CALL_MS);
    struct text text = {.raw = false, .keyed = false};

    if (!plain) {
        return HISTORY_NOT_DONE;
    }
    client->connections++;
    buf_init(&text.body, BODY_MAX);
    put_op(&text, client, op);
    do_op(client, plain, &text, op);
    buf_release(&text.body);
    plain_close(plain);
    return op->outcome;
}
