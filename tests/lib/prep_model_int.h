/* prep_model_int.h - internals of the model, shared by its files. */
#ifndef TESTS_LIB_PREP_MODEL_INT_H
#define TESTS_LIB_PREP_MODEL_INT_H

#include "tests/lib/prep_model.h"

/* One operation in progress. */
struct model_step {
    struct model *model;
    const struct model_ask *ask;
    const struct op_args *args;
    enum model_list list;
    uint64_t session; /* Id of the session that the request is in; 0: none. */
    struct model_verdict *verdict;
};

bool model_is_within(const char *path, const char *top);

/* The session that owns the ephemeral, or 0. */
uint64_t model_owner(const struct model_node *node);

/* Removes a znode from the list. */
void model_take_out(struct model *model, const char *path, zxid_t zxid);

/* The next reply of the request. */
void model_answer(const struct model_step *step, const char *path, const struct model_node *node,
                  bool has_stat);

/* ---- prep_model_rights.c ---- */

bool model_may(const struct model_step *step, const struct model_node *node, uint32_t perm);

/* Returns the znode at `path` or, if that does not exist, its deepest ancestor that does. */
const struct model_node *model_deepest(const struct model *model, const char *path);

/* Whether the caller may change the znode at `path`, as far as it limits a subtree. */
bool model_may_limit(const struct model_step *step, const char *path);

/* The list as it is stored. */
enum err model_fix(enum model_caller caller, enum model_list list, enum model_list *ret_list);

/* Checks quotas, and the bounds of a session, for one more znode or a longer value. */
enum err model_quota(struct model *model, const char *path, int64_t count, int64_t bytes);
enum err model_ephemerals(struct model *model, const char *path, uint64_t session);

/* ---- prep_model_session.c ---- */

/* The session that the request belongs to. */
enum err model_in_session(struct model_step *step);
enum err model_session_op(const struct model_step *step);

/* Looks the key up: ERR_MISSING when the request has to be done. */
enum err model_key_known(const struct model_step *step);

/* Remembers the result, if there is room. */
enum err model_remember(const struct model_step *step);

#endif
