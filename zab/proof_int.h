/*
 * proof_int.h - a part of zab_int.h: the STAMP and EPOCH records, which say what the disks of the
 * voters have, and which configuration is committed.
 */
#ifndef ZAB_PROOF_INT_H
#define ZAB_PROOF_INT_H

#include "zab/peer_int.h"
#include "zab/zab.h"

/* stamp.c */
bool admit_is_rolled_back(const struct peer *peer, const struct zab_msg_cepoch *cepoch);
bool admit_knows(const struct peer *peer); /* Whether its disk was in step with a leader. */
void admit_learn(struct peer *peer, uint32_t promised, zxid_t last);
void admit_on_stamp(struct zab *zab, const struct logrec *rec);
/* `version`: a committed configuration. */
void admit_stamp_payload(const struct zab *zab, zxid_t version, struct buf *out);

/* proof.c */
/* Appends a STAMP, which names a configuration that is committed. */
void broadcast_stamp(struct zab *zab, zxid_t version);
/* Whether the pending configuration is known to be committed: then it alone decides. */
bool config_is_proven(const struct zab *zab);
const struct zab_config *config_in_force(const struct zab *zab); /* It, else the committed one. */
void config_prove(struct zab *zab, zxid_t version); /* That configuration is committed. */
void proof_established(struct zab *zab); /* The EPOCH record names the configuration in force. */
/* Whether a leader may broadcast: its log proves the configuration in its history. If not, this
 * appends the proof: call it again when a disk has it. */
bool proof_of_history(struct zab *zab);
/* Returns up to where a leader commits if a quorum has all up to `acked`; appends what is missing.
 */
zxid_t proof_limit(struct zab *zab, zxid_t acked);

#endif
