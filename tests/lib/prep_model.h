/*
 * prep_model.h - write requests on a plain list of znodes, checked and done at once.
 *
 * Held against server/prep, which checks against changes in flight. It shares no code with it, and
 * is written to be read against ZooKeeper's rules, not to be fast.
 */
#ifndef TESTS_LIB_PREP_MODEL_H
#define TESTS_LIB_PREP_MODEL_H

#include "server/prep.h"

enum {
    MODEL_NODES_MAX = 600,
    MODEL_PATH_MAX = 64,
    MODEL_DATA_MAX = 16,
    MODEL_REPLIES_MAX = 5
};

struct model_node {
    char path[MODEL_PATH_MAX];
    char data[MODEL_DATA_MAX]; /* Text. */
    bool null;
    struct stat_view stat;
    uint64_t owner;
    uint32_t creates;
};

struct model {
    struct model_node nodes[MODEL_NODES_MAX]; /* In no order. */
    size_t count;
    struct prep_limits limits;
};

struct model_reply {
    char path[MODEL_PATH_MAX];
    struct stat_view stat; /* Zero after a delete. */
};

struct model_verdict {
    enum err err;
    uint32_t failed; /* Element of a multi. */
    bool has_stat;
    struct stat_view stat; /* Of the znode whose version does not fit. */
    struct model_reply replies[MODEL_REPLIES_MAX];
    size_t reply_count;
};

struct model_moment {
    zxid_t zxid;
    int64_t time_ms;
};

/* The built-in znodes. */
void model_init(struct model *model);
struct model_node *model_find(struct model *model, const char *path);

/* Does the request, or nothing at all. */
void model_request(struct model *model, const struct prep_limits *limits,
                   const struct op_args *args, struct model_moment at,
                   struct model_verdict *verdict);

#endif
