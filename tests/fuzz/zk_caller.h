/*
 * zk_caller.h - a native client whose requests may be any bytes: it knows which whole requests it
 * has sent, and judges what it receives.
 */
#ifndef TESTS_FUZZ_ZK_CALLER_H
#define TESTS_FUZZ_ZK_CALLER_H

#include "zk/decode.h"

enum {
    ZK_CALLER_ASKED_MAX = 2048,
    ZK_CALLER_READ_MAX = 256 << 10 /* Bytes of one read. */
};

/* A request that the front end may have read. */
struct zk_asked {
    int32_t xid;
    int32_t type;
    size_t at; /* Of its body in `sent`. */
    size_t len;
    bool done;
};

/* One client. */
struct zk_caller {
    int fd; /* -1: none. */
    struct buf pending;
    struct buf sent;
    size_t followed; /* Bytes of `sent` that are whole frames. */
    bool began;      /* The first frame was sent. */
    bool word;       /* It is a command word. */
    bool broken;     /* What was sent after `followed` ends the connection. */
    bool vague;      /* Two requests have the same xid, so a reply may be to either. */
    bool welcome;
    bool ended;
    zxid_t last_zxid; /* Named by the client. */
    struct zk_asked asked[ZK_CALLER_ASKED_MAX];
    size_t asked_count;
    size_t first; /* Requests before it are answered; pings aside. */
    size_t ping;  /* The same for pings. */
    struct buf got;
    size_t answered; /* Replies. */
    zxid_t replied;  /* The highest zxid of a header. */
    zxid_t told;     /* The highest zxid of an event. */
    bool untold;     /* An event had no zxid. */
    int32_t xid;
    uint64_t session;
    uint8_t passwd[ZK_PASSWD_BYTES];
};

void zk_caller_init(struct zk_caller *caller);
void zk_caller_hang_up(struct zk_caller *caller); /* And as after zk_caller_init. */

/* Sends up to `most` bytes of what is pending, as many as the kernel takes. False: none. */
bool zk_caller_deliver(struct zk_caller *caller, size_t most);

/* Reads up to `most` bytes, and judges the frames. `applied`: the newest state of the server.
 * False: nothing has come. */
bool zk_caller_receive(struct zk_caller *caller, zxid_t applied, size_t most);

/* Judges what is missing when nothing moves any more. */
void zk_caller_check_end(struct zk_caller *caller, zxid_t applied);

#endif
