/*
 * prep_model.h - write requests on a plain list of znodes, checked and done at once.
 *
 * Tests compare it with server/prepare, which checks against changes in flight. The model
 * shares no code with server/prepare, and is written to be compared with ZooKeeper's rules, not to
 * be fast.
 */
#ifndef TESTS_LIB_PREP_MODEL_H
#define TESTS_LIB_PREP_MODEL_H

#include "server/prepare/prep.h"

enum {
    MODEL_NODES_MAX = 600,
    MODEL_PATH_MAX = 64,
    MODEL_DATA_MAX = 20,
    MODEL_REPLIES_MAX = 5,
    MODEL_SESSIONS_MAX = 8,
    MODEL_KEYS_MAX = 8,
    MODEL_SCOPE_MAX = 80
};

/* The caller of a request. Ann and Bob have shown a digest, and root is the super user. */
enum model_caller {
    MODEL_SERVER, /* The server itself, which no ACL refuses. */
    MODEL_ANONYMOUS,
    MODEL_ANN,
    MODEL_BOB,
    MODEL_ROOT,
    MODEL_CALLER_COUNT
};

/* The lists that requests set; the last three are the results of "creator". */
enum model_list {
    MODEL_OPEN,    /* world:anyone has all rights. */
    MODEL_READ,    /* ... READ only. */
    MODEL_GROW,    /* ... READ, WRITE and CREATE. */
    MODEL_KEEP,    /* ... all but DELETE. */
    MODEL_ANN_ALL, /* ... READ, and Ann all. */
    MODEL_CREATOR, /* auth: all rights of the client that sets it. */
    MODEL_BAD,     /* An unknown scheme. */
    MODEL_EMPTY,   /* No entry. */
    MODEL_ANNS,
    MODEL_BOBS,
    MODEL_ROOTS,
    MODEL_LIST_COUNT
};

struct model_node {
    char path[MODEL_PATH_MAX];
    char data[MODEL_DATA_MAX]; /* Text. */
    bool null;
    struct stat_view stat;
    uint64_t owner;
    int64_t made_age_ms; /* Age of the ensemble when it was created ... */
    int64_t set_age_ms;  /* ... and last set. */
    uint32_t creates;
    enum model_list list;
};

struct model_session {
    uint64_t id;
    uint64_t secret;
    uint64_t attach;
    uint32_t member;
    uint32_t timeout_ms;
};

struct model_reply {
    char path[MODEL_PATH_MAX];
    bool has_stat;
    struct stat_view stat; /* Zero after a delete, and for an absent znode. */
};

struct model_verdict {
    enum err err;
    bool whole;      /* The request as a whole is refused, not one of its elements. */
    uint32_t failed; /* Element of a multi. */
    bool has_stat;
    struct stat_view stat; /* Of the znode whose version does not match. */
    bool created;          /* A set that created. */
    zxid_t replayed;       /* The transaction that did the request earlier; 0: it is new. */
    struct model_reply replies[MODEL_REPLIES_MAX];
    size_t reply_count;
};

/* A write with a key, in flight or remembered. */
struct model_key {
    char scope[MODEL_SCOPE_MAX];
    char key[MODEL_PATH_MAX];
    uint64_t request;
    zxid_t zxid;
    int64_t age_ms;
    struct model_verdict verdict;
};

struct model {
    struct model_node nodes[MODEL_NODES_MAX]; /* In no order. */
    size_t count;
    struct model_session sessions[MODEL_SESSIONS_MAX];
    size_t session_count;
    struct model_key keys[MODEL_KEYS_MAX]; /* By zxid. */
    size_t key_count;
    zxid_t applied; /* Last applied zxid: newer writes with a key are still in flight. */
    const struct prep_limits *limits;
};

/* A request, and everything that its answer depends on. */
struct model_ask {
    const struct op_args *args;
    const enum model_list *lists; /* Set by the operation, or by each element. */
    enum model_caller caller;
    const char *identity; /* Of the caller, as the scope of a key. */
    bool in_session;      /* The request shows a session:  */
    uint64_t session;     /* by its id, or */
    uint64_t secret;      /* by its secret when that is 0; */
    uint64_t attach;      /* and this attachment of it, if not 0. */
    uint64_t named;       /* Secret of the session that the operation names. */
    const char *key;      /* Empty: none. */
    uint64_t request;     /* Equal for equal requests. */
    uint32_t member;
    zxid_t zxid;
    int64_t age_ms;
    int64_t stamp_ms;
};

/* The built-in znodes. */
void model_init(struct model *model, const struct prep_limits *limits);
struct model_node *model_find(struct model *model, const char *path);
struct model_session *model_session_by_secret(struct model *model, uint64_t secret);

/* Does the whole request, or nothing. */
void model_request(struct model *model, const struct model_ask *ask, struct model_verdict *verdict);

/* Forgets the results that are due; false when there are none. */
bool model_forget(struct model *model, int64_t age_ms);

#endif
