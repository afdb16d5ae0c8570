/*
 * state_kit.h - functions for the tests of the state: short ways to write transactions, and a dump
 * that shows every stored field, so that two states with equal dumps are equal.
 */
#ifndef TESTS_LIB_STATE_KIT_H
#define TESTS_LIB_STATE_KIT_H

#include "server/state/state.h"

enum {
    KIT_TIME_MS = 1000 /* Time of transactions begun by kit_begin. */
};

/* Starts a transaction in an empty buf; `time_ms` is its age and its stamp. */
void kit_begin(struct buf *txn, int64_t time_ms);

/* Effects marked as replies; `data` NULL means null data. */
void kit_create(struct buf *txn, const char *path, const char *data, uint64_t owner,
                uint32_t creates);
void kit_set(struct buf *txn, const char *path, const char *data, int32_t version);
void kit_delete(struct buf *txn, const char *path);
void kit_check(struct buf *txn, const char *path);
void kit_create_acl(struct buf *txn, const char *path, const char *acl, uint32_t creates);
void kit_set_acl(struct buf *txn, const char *path, const char *acl, int32_t aversion);

/* Sessions: the hash of the secret is made of `secret`, the address of the client is "kit". */
void kit_hash(uint64_t secret, uint8_t ret_hash[TXN_SECRET_HASH_LEN]);
void kit_open(struct buf *txn, uint64_t session, uint64_t secret);
void kit_open_from(struct buf *txn, uint64_t session, uint64_t secret, const char *from);
void kit_close(struct buf *txn, uint64_t session);
void kit_move(struct buf *txn, uint64_t session, uint64_t attach, uint32_t member);

/* Remembered results: the fingerprint is made of the key. */
void kit_remember(struct buf *txn, const char *scope, const char *key, const char *result);
void kit_forget(struct buf *txn, zxid_t horizon);

/* Applies `txn` at `zxid`, outside recovery, and clears it. */
enum err kit_apply(struct state *state, zxid_t zxid, struct buf *txn);

/* One transaction with one create of a persistent znode; the counter is read from the state. */
enum err kit_make(struct state *state, zxid_t zxid, const char *path, const char *data);

/* One transaction that opens a session; its id is `zxid`, and so is its secret. */
enum err kit_session(struct state *state, zxid_t zxid);

const struct znode *kit_find(const struct state *state, const char *path);

/* One line for each znode, depth first, with all its fields, then sessions, remembered results,
 * quotas, and a last one with the totals. */
void kit_dump(const struct state *state, struct buf *out);

/* "count=N,bytes=N" of its usage, as ZooKeeper writes it. */
void kit_quota_stats(const struct state_quota *quota, struct buf *out);

/* Asserts that everything derived equals the result of a naive look at the whole state: ephemerals
 * by session, shares of sessions, usage of quotas, lookups of sessions and remembered results,
 * bytes of memory, whether anything waits for the age. */
void kit_verify(const struct state *state);

/* Asserts that the counts of open sessions for the client and the network of this opener are right.
 */
void kit_verify_shares(const struct state *state, struct slice from);

/* Scans in blocks of about `bytes_max` and restores them into a new state; asserts that it works.
 */
struct state *kit_copy(const struct state *state, size_t bytes_max);

#endif
