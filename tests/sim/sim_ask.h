/*
 * sim_ask.h - requests of the super user for another configuration: the same path as in the
 * product, from any replica over the leader to the answer, with If-Match and idempotency keys.
 *
 * A request of unknown outcome is repeated with its key, perhaps at another replica.
 */
#ifndef TESTS_SIM_SIM_ASK_H
#define TESTS_SIM_SIM_ASK_H

#include "tests/sim/sim.h"
#include "tests/sim/sim_model.h"

enum {
    SIM_ITEMS_MAX = 3,
    SIM_PEER_MAX = 16,
};

struct sim_change {
    struct zab_change_item items[SIM_ITEMS_MAX];
    uint32_t count;
    bool sets_hold; /* It sets the hold of the feature level instead. */
    uint16_t hold;
};

/* Makes the change in the configuration. False: no leader can propose this. */
bool sim_change_make(const struct sim *sim, const struct sim_change *change,
                     struct zab_config *inout);

/* Sends the request and returns its number; `version` 0: without If-Match. */
uint32_t sim_ask(struct sim *sim, const struct sim_change *change, zxid_t version);

/* It is done or refused, and no attempt can be in the log later. */
bool sim_ask_is_over(const struct sim *sim, uint32_t number);

/* After the run, for each committed configuration: a client or the leader has asked for it, and it
 * is done once (A6, A19). The model remembers the result. */
void sim_ask_take(struct sim *sim, struct model *model, const struct logrec *rec);

void sim_ask_release(struct sim *sim);

/* The transaction of a record; of a configuration that of its client, empty if it has none. */
struct slice sim_txn_of(const struct logrec *rec);

#endif
