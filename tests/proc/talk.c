#include "tests/proc/talk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char zxid_text[TALK_FIELD_MAX];
static char field_text[TALK_TEXT_MAX];
static char events_text[TALK_TEXT_MAX];
static char member_text[TALK_FIELD_MAX];

static uint64_t ask(struct socket *socket, const char *members, va_list args)
{
    char text[TALK_TEXT_MAX / 64];
    int len = vsnprintf(text, sizeof(text), members, args);

    assert_true(len >= 0 && (size_t)len < sizeof(text));
    return socket_request(socket, "%s", text);
}

struct socket *talk_open(const struct ensemble *ensemble, uint32_t index,
                         const struct socket_options *options)
{
    struct socket *socket = socket_open(ensemble->replicas[index].client_port, options);
    json_t *hello = NULL;

    assert_int_equal(socket_status(socket), 101);
    hello = socket_event(socket, "hello", SOCKET_TIMEOUT_MS);
    assert_non_null(hello);
    json_decref(hello);
    return socket;
}

const char *talk_text(const json_t *message, const char *name)
{
    const json_t *value = json_object_get(message, name);

    if (json_is_string(value)) {
        return json_string_value(value);
    }
    (void)snprintf(member_text, sizeof(member_text), "%lld", (long long)json_integer_value(value));
    return json_is_integer(value) ? member_text : "";
}

int64_t talk_number(const char *text)
{
    return strtoll(text, NULL, 10);
}

uint64_t talk_hex(const char *text)
{
    return strtoull(text, NULL, 16);
}

const char *talk_ok(struct ensemble *ensemble, struct socket *socket, const char *members, ...)
{
    va_list args;
    json_t *reply = NULL;

    va_start(args, members);
    reply = socket_reply(socket, ask(socket, members, args), SOCKET_TIMEOUT_MS);
    va_end(args);
    if (!reply || !json_is_true(json_object_get(reply, "ok"))) {
        char *dump = reply ? json_dumps(reply, 0) : NULL;

        (void)fprintf(stderr, "%s\nanswered: %s\n", members, dump ? dump : "nothing");
        ensemble_check(ensemble, false, "the reply is ok");
    }
    (void)snprintf(zxid_text, sizeof(zxid_text), "%s", talk_text(reply, "zxid"));
    json_decref(reply);
    return zxid_text;
}

const char *talk_error(struct socket *socket, const char *members, ...)
{
    va_list args;
    json_t *reply = NULL;

    va_start(args, members);
    reply = socket_reply(socket, ask(socket, members, args), SOCKET_TIMEOUT_MS);
    va_end(args);
    assert_non_null(reply);
    (void)snprintf(field_text, sizeof(field_text), "%s",
                   talk_text(json_object_get(reply, "error"), "code"));
    json_decref(reply);
    return field_text;
}

static const char *look_up(const json_t *reply, const char *field)
{
    const char *dot = strchr(field, '.');
    char outer[TALK_FIELD_MAX];

    if (!dot) {
        return talk_text(reply, field);
    }
    (void)snprintf(outer, sizeof(outer), "%.*s", (int)(dot - field), field);
    return talk_text(json_object_get(reply, outer), dot + 1);
}

const char *talk_field(struct socket *socket, const char *field, const char *members, ...)
{
    va_list args;
    json_t *reply = NULL;

    va_start(args, members);
    reply = socket_reply(socket, ask(socket, members, args), SOCKET_TIMEOUT_MS);
    va_end(args);
    assert_non_null(reply);
    (void)snprintf(field_text, sizeof(field_text), "%s", look_up(reply, field));
    json_decref(reply);
    return field_text;
}

void talk_put_event(struct buf *out, const json_t *event)
{
    const char *value = talk_text(event, "dataUtf8");
    bool end = json_is_true(json_object_get(event, "end"));

    buf_printf(out, "%s %s", talk_text(event, "event"), talk_text(event, "path"));
    if (json_object_get(event, "dataUtf8")) {
        buf_printf(out, "='%s'", value);
    }
    buf_append_str(out, json_is_true(json_object_get(event, "diff")) ? " diff" : "");
    buf_append_byte(out, end ? '.' : ';');
}

/* The reply to a read that waits for the zxid follows all events up to it. */
const char *talk_events(struct ensemble *ensemble, struct socket *socket, const char *zxid)
{
    uint64_t id =
        socket_request(socket, "\"op\":\"exists\",\"path\":\"/\",\"min_zxid\":\"%s\"", zxid);
    struct buf out;

    buf_init(&out, TALK_TEXT_MAX - 1);
    for (;;) {
        json_t *message = socket_next(socket, SOCKET_TIMEOUT_MS);

        ensemble_check(ensemble, message != NULL, "a reply arrives in time");
        if (json_object_get(message, "id")) {
            assert_int_equal(json_integer_value(json_object_get(message, "id")), id);
            assert_true(json_is_true(json_object_get(message, "ok")));
            json_decref(message);
            break;
        }
        if (strcmp(talk_text(message, "event"), "heartbeat") != 0) {
            talk_put_event(&out, message);
        }
        json_decref(message);
    }
    (void)snprintf(events_text, sizeof(events_text), "%s", buf_cstr(&out));
    buf_release(&out);
    return events_text;
}
