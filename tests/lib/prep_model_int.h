/* prep_model_int.h - the inside of the model, shared by its files. */
#ifndef TESTS_LIB_PREP_MODEL_INT_H
#define TESTS_LIB_PREP_MODEL_INT_H

#include "tests/lib/prep_model.h"

/* One operation under way. */
struct model_step {
    struct model *model;
    const struct model_ask *ask;
    const struct op_args *args;
    enum model_list list;
    uint64_t session; /* Id of the session that the request is in; 0: none. */
    struct model_verdict *verdict;
};

bool model_is_within(const char *path, const char *top);

/* A session that has the znode as an ephemeral, or 0. */
uint64_t model_owner(const struct model_node *node);

/* Takes a znode out of the list. */
void model_take_out(struct model *model, const char *path, zxid_t zxid);

/* The next reply of the request. */
void model_answer(const struct model_step *step, const char *path, const struct model_node *node,
                  bool has_stat);

/* ---- prep_model_rights.c ---- */

bool model_may(const struct model_step *step, const struct model_node *node, uint32_t perm);

/* The list as it is stored. */
enum err model_fix(enum model_who who, enum model_list list, enum model_list *ret_list);

/* Quotas, and what a session may own, for one more znode or a longer value. */
enum err model_quota(struct model *model, const char *path, int64_t count, int64_t bytes);
enum err model_ephemerals(struct model *model, const char *path, uint64_t session);

/* ---- prep_model_session.c ---- */

/* Which session the request is in. */
enum err model_in_session(struct model_step *step);
enum err model_session_op(const struct model_step *step);

/* What the key says: ERR_MISSING when the request is to be done. */
enum err model_key_known(const struct model_step *step);

/* Remembers what has been done, if there is room. */
enum err model_remember(const struct model_step *step);

#endif
