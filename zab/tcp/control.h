/*
 * control.h - the transport's own frames: they keep two processes of one id apart (claim.c,
 * probe.c, rival.c).
 *
 *   SEEN     every process that the sender is connected with, by id and start
 *   PROBE    does the process of that id and start live? `text`: address of the other claimant
 *   ALIVE    the answer; from another replica `text` is the address of the process
 *   REFUSED  the sender hangs up; `text` says why
 */
#ifndef ZAB_TCP_CONTROL_H
#define ZAB_TCP_CONTROL_H

#include "base/buf.h"
#include "base/err.h"
#include "zab/config.h"

/* On the wire, beside enum zab_msg_type: never renumber. */
enum control_type {
    CONTROL_SEEN = 0x8001,
    CONTROL_PROBE = 0x8002,
    CONTROL_ALIVE = 0x8003,
    CONTROL_REFUSED = 0x8004,
};

enum {
    CONTROL_TEXT_MAX = 199,
    CONTROL_BYTES_MAX = 1024, /* Of a payload, with some room for a later version. */
};

struct control_seen {
    uint32_t id;
    uint64_t start;
};

struct control {
    enum control_type type;
    uint32_t id;
    uint64_t start;
    bool yes; /* ALIVE. */
    char text[CONTROL_TEXT_MAX + 1];
    uint32_t seen_count;
    struct control_seen seen[ZAB_MEMBERS_MAX];
};

bool control_is(uint16_t type);

/* Appends the payload. */
void control_encode(const struct control *control, struct buf *out);

/* ERR_FORMAT on anything wrong; members that a later version adds at the end are ignored. */
enum err control_decode(enum control_type type, struct slice payload, struct control *ret_control);

#endif
