/*
 * sim_model.h - a naive tree: one sorted array of whole paths, and a second implementation of the
 * operations' rules. It is slow and obvious, and shares no code with server/.
 */
#ifndef TESTS_SIM_SIM_MODEL_H
#define TESTS_SIM_SIM_MODEL_H

#include "tests/sim/sim_session.h"
#include "tests/sim/sim_watch.h"

struct model_node {
    char path[64];
    char data[48];
    bool plain; /* The data are not padded. */
    zxid_t czxid;
    zxid_t mzxid;
    zxid_t pzxid;
    int64_t ctime;
    int64_t mtime;
    int64_t age_ms; /* Age of the ensemble at the last write of the data. */
    int64_t ttl_ms; /* 0: none. */
    int32_t version;
    uint32_t creates; /* Number of children ever created. */
    uint32_t deletes;
    uint32_t children;
    uint64_t owner; /* Session of an ephemeral; 0: none. */
    uint32_t perms; /* Permissions of every client. */
    int32_t aversion;
};

/* Shared by the tree and its copies: open sessions, remembered results, and fired triggers. */
struct model_book;

struct model {
    struct model_node *nodes; /* Ascending by path. */
    size_t count;
    size_t cap;
    zxid_t root_pzxid;
    struct model_book *book;
    bool scratch; /* A copy: its changes do not enter the book. */
};

/* What an operation would answer. */
struct model_answer {
    enum err err;
    uint32_t failed_index;
    char path[64];
    struct model_node node; /* Stat after the operation; with BAD_VERSION the current one. */
    bool has_node;
    bool hidden;              /* The client has no permission to see that stat. */
    uint64_t session;         /* Session that the operation opened. */
    const struct sim_op *was; /* The earlier operation with that key; or NULL. */
};

void model_init(struct model *model);
void model_release(struct model *model);
void model_copy(struct model *to, const struct model *from);

/* Executes the operation as transaction `zxid` with those times; on an error nothing changes. */
void model_run(struct model *model, const struct sim_op *op, zxid_t zxid,
               const struct txn_header *header, struct model_answer *ret_answer);

/* ---- sim_model_book.c ---- */

void model_book_init(struct model *model);
void model_book_release(struct model *model);

/* An open session, with its attachment. */
bool model_session(const struct model *model, uint64_t id, uint64_t *ret_attach);
/* The open session with that number in sim_session, or 0. */
uint64_t model_session_id(const struct model *model, uint32_t number);
size_t model_session_count(const struct model *model);
void model_session_open(struct model *model, const struct sim_session *session, zxid_t zxid);
void model_session_move(struct model *model, uint64_t id, uint64_t attach);
void model_session_close(struct model *model, uint64_t id);

/* `scope` is the session to which the key belongs, or 0. */
const struct sim_op *model_remembered(const struct model *model, uint64_t scope, uint32_t key);
void model_remember(struct model *model, uint64_t scope, const struct sim_op *op, zxid_t zxid,
                    int64_t age_ms);
/* Forgets results from before `horizon`; returns the time of the newest of them, or INT64_MIN. */
int64_t model_forget(struct model *model, zxid_t horizon);
/* True when a TTL znode or a remembered result exists. */
bool model_counts_age(const struct model *model);

void model_fire(struct model *model, enum watch_event_type type, const char *path, zxid_t zxid,
                bool readable);
const struct sim_trigger *model_triggers(const struct model *model, size_t *ret_count);

/* ---- sim_model.c ---- */

/* True for equal requests, whichever client sends them. */
bool model_is_same(const struct sim_op *a, const struct sim_op *b);

/* Removes a childless znode, as part of a transaction. */
bool model_drop(struct model *model, const char *path, zxid_t zxid);

/* Number of a session's ephemerals. */
uint32_t model_owned(const struct model *model, uint64_t session);

const struct model_node *model_find(const struct model *model, const char *path);
struct stat_view model_stat(const struct model_node *node, uint32_t pad_bytes);

/* Hash of the children's names, in order. */
uint64_t model_names_hash(const struct model *model, const char *path);

#endif
