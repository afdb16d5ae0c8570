/*
 * cost.h - how much memory each part of the state takes, by a rule and not by measurement.
 *
 * All replicas must count alike, and a leader must know the cost of a znode before it exists. So
 * the cost depends on lengths and kinds only, and never on the allocator of one process. It
 * includes the header and the rounding of the allocator, and the share of each index at its
 * emptiest.
 */
#ifndef SERVER_STATE_COST_H
#define SERVER_STATE_COST_H

#include <stddef.h>
#include <stdint.h>

/* A znode without its data: the struct, its name, and what its owner adds (the index of ephemerals
 * by session, or of TTL and container znodes by due time). See txn.h for `owner`. */
uint64_t cost_node(size_t name_len, uint64_t owner);

/* The data of a znode. Null data counts as empty data. */
uint64_t cost_data(uint64_t len);

/* An access control list that at least one znode has; one for all znodes with the same list. */
uint64_t cost_acl(size_t len);

/* An open session, with its entry in the expiry table of the leader. */
uint64_t cost_session(void);

/* A remembered result; `len` is the sum of scope, key and result. */
uint64_t cost_remembered(uint64_t len);

/* A quota on a path of that length. */
uint64_t cost_quota(size_t path_len);

#endif
