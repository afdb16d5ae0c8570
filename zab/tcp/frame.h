/*
 * frame.h - the header before each message on a connection, and its checks; the transport's own
 * messages.
 *
 * Both checksums are seeded with the frame's number on this connection, which is not sent: a frame
 * that is lost, repeated or moved is detected like a flipped bit.
 */
#ifndef ZAB_TCP_FRAME_H
#define ZAB_TCP_FRAME_H

#include "base/buf.h"
#include "base/err.h"
#include "zab/config.h"

enum {
    FRAME_HEADER_LEN = 56,
};

/*
 * The protocol's version: layouts of frames and messages. Each release speaks its own version and
 * the version before it, so that replicas one version apart work together; the earlier release
 * skips what is new in the later version. Versions 1 to 5 were never released.
 */
enum {
    PROTOCOL_VERSION = 8,
    PROTOCOL_VERSION_OLDEST = 7,
    PROTOCOL_VERSION_OUTSIDERS = 8, /* Replicas that are in no list are spoken with. */
};

struct frame_header {
    uint16_t version; /* Protocol version of the connection. */
    uint16_t type;    /* enum zab_msg_type or control_type. */
    uint32_t len;     /* Payload bytes. */
    uint32_t from;
    uint32_t to;
    uint32_t epoch; /* The sender's epoch, 0 when the message has none; for packet traces. */
    uint64_t nonce; /* Nonce of the connection. */
    uint8_t cluster[ZAB_CLUSTER_LEN];
    uint32_t payload_crc;
};

/* Fills `out`. The caller has set `payload_crc` of the header with frame_payload_crc. */
void frame_encode(const struct frame_header *header, uint32_t number,
                  uint8_t out[FRAME_HEADER_LEN]);

/* Decodes a header. ERR_FORMAT unless magic and checksum hold. The caller checks version, type and
 * length. */
enum err frame_decode(const uint8_t in[FRAME_HEADER_LEN], uint32_t number,
                      struct frame_header *ret_header);

uint32_t frame_payload_crc(struct slice payload, uint32_t number);

/*
 * The transport's own frames: they keep two processes of one id apart (claim.c,
 * probe.c, rival.c).
 *
 *   SEEN     every process that the sender is connected with, by id and start
 *   PROBE    does the process of that id and start live? `text`: address of another process with
 *            that id
 *   ALIVE    the answer; from another replica `text` is the address of the process
 *   REFUSED  the sender hangs up; `text` says why
 */
/* On the wire, beside enum zab_msg_type: never renumber. */
enum control_type {
    CONTROL_SEEN = 0x8001,
    CONTROL_PROBE = 0x8002,
    CONTROL_ALIVE = 0x8003,
    CONTROL_REFUSED = 0x8004,
};

enum {
    CONTROL_TEXT_MAX = 199,
    CONTROL_BYTES_MAX = 1024, /* Maximum of a payload, with some room for a later version. */
};

struct control_seen {
    uint32_t id;
    uint64_t start;
};

struct control {
    enum control_type type;
    uint32_t id;
    uint64_t start;
    bool yes; /* ALIVE: the process lives. */
    char text[CONTROL_TEXT_MAX + 1];
    uint32_t seen_count;
    struct control_seen seen[ZAB_MEMBERS_MAX];
};

bool control_is(uint16_t type);

/* Appends the payload. */
void control_encode(const struct control *control, struct buf *out);

/* Decodes a payload. ERR_FORMAT on anything wrong; members that a later version adds at the end are
 * ignored. */
enum err control_decode(enum control_type type, struct slice payload, struct control *ret_control);

#endif
