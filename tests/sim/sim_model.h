/*
 * sim_model.h - a naive tree: one sorted array of whole paths, and the rules of the operations
 * written down a second time. Slow, obvious, and of no common code with server/.
 */
#ifndef TESTS_SIM_SIM_MODEL_H
#define TESTS_SIM_SIM_MODEL_H

#include "tests/sim/sim.h"

struct model_node {
    char path[64];
    char data[24];
    zxid_t czxid;
    zxid_t mzxid;
    zxid_t pzxid;
    int64_t ctime;
    int64_t mtime;
    int32_t version;
    uint32_t creates; /* Of children, ever. */
    uint32_t deletes;
    uint32_t children;
};

struct model {
    struct model_node *nodes; /* Ascending by path. */
    size_t count;
    size_t cap;
};

/* What an operation would answer. */
struct model_answer {
    enum err err;
    uint32_t failed_index;
    char path[64];
    struct model_node node; /* After it; with BAD_VERSION the current one. */
    bool has_node;
};

void model_init(struct model *model);
void model_release(struct model *model);
void model_copy(struct model *to, const struct model *from);

/* Performs the operation as if it were transaction `zxid` at `time_ms`; on an error nothing is
 * changed. */
void model_run(struct model *model, const struct sim_op *op, zxid_t zxid, int64_t time_ms,
               struct model_answer *ret_answer);

const struct model_node *model_find(const struct model *model, const char *path);
struct stat_view model_stat(const struct model_node *node, uint32_t pad_bytes);

/* Names of the children, in order, as one number. */
uint64_t model_names_hash(const struct model *model, const char *path);

#endif
