/*
 * native.h - a client of ZooKeeper's protocol that sends and receives raw frames, for tests that
 * must know each byte and its order.
 *
 * Calls wait at most NATIVE_WAIT_MS; a missing frame is a normal result.
 */
#ifndef TESTS_PROC_NATIVE_H
#define TESTS_PROC_NATIVE_H

#include "zk/decode.h"

#include "base/buf.h"

enum {
    NATIVE_WAIT_MS = 20000,
    NATIVE_FRAME_MAX = 64 << 20
};

struct native {
    int fd;
    struct buf in;  /* Bytes that have arrived. */
    size_t used;    /* Of these, the bytes of frames that were returned. */
    struct buf out; /* The frame being written. */
    int32_t xid;    /* Of the last request. */
    uint64_t session;
    uint8_t passwd[ZK_PASSWD_BYTES];
    int32_t timeout_ms; /* As granted; 0: refused. */
};

/* A reply or an event; `body` points into native.in until the next call. */
struct native_frame {
    int32_t xid;
    zxid_t zxid;
    int32_t err;
    struct wire_reader body;
};

/* Connects to a port of loopback. The test fails when that fails. */
struct native *native_dial(uint16_t port);
void native_close(struct native *native); /* Accepts NULL. */

void native_send_bytes(struct native *native, const void *bytes, size_t len);

/* Sends a ConnectRequest for the session in `native` and takes the answer. False: the server has
 * closed the connection, or refused the session (timeout_ms 0). */
bool native_connect(struct native *native, zxid_t last_zxid, int32_t timeout_ms);

/* The two halves of native_connect, for many clients at the same time. */
void native_hello(struct native *native, zxid_t last_zxid, int32_t timeout_ms);
bool native_welcome(struct native *native);

/* Dials and opens a session. */
struct native *native_open(uint16_t port, int32_t timeout_ms);

/* Dials and takes the session of `other`. NULL: refused. */
struct native *native_take_over(uint16_t port, const struct native *other, zxid_t last_zxid);

/* Begin and send a request: the caller writes its record to native->out in between. Returns the
 * xid. */
int32_t native_begin(struct native *native, int32_t type);
void native_end(struct native *native);

/* Whole requests. */
void native_send_path(struct native *native, int32_t type, const char *path, int flag);
void native_send_create(struct native *native, const char *path, const char *data, int flags);
void native_send_set(struct native *native, const char *path, const char *data, int version);
void native_send_delete(struct native *native, const char *path, int version);
void native_send_plain(struct native *native, int32_t type); /* Without a record. */
void native_send_set_watches(struct native *native, zxid_t since, const char *data,
                             const char *exists, const char *children);

/* Takes the next frame; false: none came in time, or the connection has ended. */
bool native_next(struct native *native, struct native_frame *ret_frame);

/* Takes the next frame, which must be the reply to the last request; returns its code. */
int32_t native_reply(struct native *native, struct native_frame *ret_frame);

/* Takes the next frame, which must be an event; returns its type. `path`: what its path must be. */
int32_t native_event(struct native *native, const char *path);

/* Whether the server ends the connection, without another frame. */
bool native_ends(struct native *native);

#endif
