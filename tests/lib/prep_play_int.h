/* prep_play_int.h - internals of prep_play, shared by its files. */
#ifndef TESTS_LIB_PREP_PLAY_INT_H
#define TESTS_LIB_PREP_PLAY_INT_H

#include "tests/lib/prep_model.h"
#include "tests/lib/prep_play.h"

enum {
    PLAY_OPS_MAX = MODEL_REPLIES_MAX,
    PLAY_QUEUE_MAX = 24,
    PLAY_DATA_MAX = 18, /* Bytes of data in a request; the last two are too many. */
    PLAY_KEYS = 4,
    PLAY_SECRETS = 4
};

/* A request that can be repeated: it refers only to itself and to constants. */
struct play_request {
    struct op_args args;
    struct op_args ops[PLAY_OPS_MAX];
    enum model_list lists[PLAY_OPS_MAX];
    char paths[PLAY_OPS_MAX + 1][MODEL_PATH_MAX];
    size_t path_count;
    uint64_t named;   /* Secret of the session that it names. */
    bool by_operator; /* The super user asks. */
    uint8_t hash[TXN_SECRET_HASH_LEN];
};

/* Prepared, and not yet applied. */
struct play_pending {
    zxid_t zxid;
    struct buf txn;
    struct model_verdict verdict;
};

struct prep_play {
    struct state *state;
    struct prep_limits limits;
    struct prep *prep;
    struct model model;
    struct play_pending queue[PLAY_QUEUE_MAX]; /* Oldest first. */
    size_t queue_len;
    struct state_changes changes;
    zxid_t zxid;
    int64_t age_ms;
    size_t prepared;
    size_t full; /* Refused because the tree had no room. */
    struct op_principal principals[MODEL_CALLER_COUNT];
    char identities[MODEL_CALLER_COUNT][MODEL_SCOPE_MAX];
    struct buf lists[MODEL_LIST_COUNT];   /* Encoded. */
    struct play_request request;          /* The current one without a key ... */
    struct play_request keyed[PLAY_KEYS]; /* ... and the last one with each. */
};

/* Draws a new request. */
void play_read_request(struct prep_play *play, struct wire_reader *reader,
                       struct play_request *request);

#endif
