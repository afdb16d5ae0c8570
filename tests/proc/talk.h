/*
 * talk.h - shared by tests over WebSockets: calls that must succeed, and the received events as one
 * line of text, so that a test reads like a table.
 */
#ifndef TESTS_PROC_TALK_H
#define TESTS_PROC_TALK_H

#include "tests/proc/ensemble.h"
#include "tests/proc/socket.h"

enum {
    TALK_TEXT_MAX = 1 << 20,
    TALK_FIELD_MAX = 64
};

/* Opens a socket and takes the hello. */
struct socket *talk_open(const struct ensemble *ensemble, uint32_t index,
                         const struct socket_options *options);

/* Sends `members` and waits for the reply, which must be ok. Returns its zxid as text, valid until
 * the next call of any of these. */
const char *talk_ok(struct ensemble *ensemble, struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a reply that must be an error; returns its code, "" if it is ok. */
const char *talk_error(struct socket *socket, const char *members, ...)
    __attribute__((format(printf, 2, 3)));

/* A string of the reply to `members`, or of an object in it: "path", "session.id"; "" if absent. */
const char *talk_field(struct socket *socket, const char *field, const char *members, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * All events before the socket has seen `zxid` (text, from any client's reply), without heartbeats:
 * "NodeCreated /a;NodeDataChanged /b." where the full stop marks the last of its zxid. Values are
 * shown as "='x'", ids of watches are not. Valid until the next call.
 */
const char *talk_events(struct ensemble *ensemble, struct socket *socket, const char *zxid);

/* Appends one event in that form. */
void talk_put_event(struct buf *out, const json_t *event);

/* A member of a message as text: a string unchanged, a number in decimal; "" if absent. */
const char *talk_text(const json_t *message, const char *name);

/* The number at the start of a text, in decimal; and in hex, as for a zxid. */
int64_t talk_number(const char *text);
uint64_t talk_hex(const char *text);

#endif
