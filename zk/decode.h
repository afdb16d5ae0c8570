/*
 * decode.h - bytes of a client of ZooKeeper's protocol, as plain data. Pure; any thread.
 *
 * A request becomes arguments for the gate or for a read, which have passed op_args_check, or the
 * fields of what the front end does itself, or an answer that is decided here: for the codes that
 * ZooKeeper derives from the request alone. Slices point into the frame, which the caller keeps
 * while it uses the request; only ACLs are written again, into the caller's `memory`. Memory is
 * allocated in proportion to the bytes that have arrived.
 *
 * ZooKeeper sees the code of a refused path only when it runs the request. Here it is decided
 * before the request runs, so a multi fails at the refused element even when an element before it
 * would have failed. A create whose name is refused gets ZK_BAD_ARGUMENTS also when the parent is
 * missing.
 *
 * Bytes behind a whole record are ignored, as ZooKeeper does.
 */
#ifndef ZK_DECODE_H
#define ZK_DECODE_H

#include "zk/errors.h"
#include "zk/wire.h"

#include "server/op/ops.h"

enum zk_type {
    ZK_CREATE = 1,
    ZK_DELETE = 2,
    ZK_EXISTS = 3,
    ZK_GET_DATA = 4,
    ZK_SET_DATA = 5,
    ZK_GET_ACL = 6,
    ZK_SET_ACL = 7,
    ZK_GET_CHILDREN = 8,
    ZK_SYNC = 9,
    ZK_PING = 11,
    ZK_GET_CHILDREN2 = 12,
    ZK_CHECK = 13, /* Only in a multi. */
    ZK_MULTI = 14,
    ZK_CREATE2 = 15,
    ZK_RECONFIG = 16,
    ZK_CHECK_WATCHES = 17,
    ZK_REMOVE_WATCHES = 18,
    ZK_CREATE_CONTAINER = 19,
    ZK_DELETE_CONTAINER = 20, /* The leader's own. */
    ZK_CREATE_TTL = 21,
    ZK_MULTI_READ = 22,
    ZK_AUTH = 100,
    ZK_SET_WATCHES = 101,
    ZK_SASL = 102,
    ZK_GET_EPHEMERALS = 103,
    ZK_GET_ALL_CHILDREN_NUMBER = 104,
    ZK_SET_WATCHES2 = 105,
    ZK_ADD_WATCH = 106,
    ZK_WHO_AM_I = 107,
    ZK_CREATE_SESSION = -10, /* The leader's own. */
    ZK_CLOSE_SESSION = -11,
    ZK_ERROR = -1 /* In replies of a multi. */
};

/* What clients put into the xid of requests that they do not number. */
enum {
    ZK_XID_EVENT = -1,
    ZK_XID_PING = -2,
    ZK_XID_AUTH = -4,
    ZK_XID_SET_WATCHES = -8
};

/* Values of zk_request.mode. */
enum {
    ZK_ADD_PERSISTENT = 0,
    ZK_ADD_RECURSIVE = 1,

    ZK_WATCHES_CHILDREN = 1, /* Of checkWatches and removeWatches. */
    ZK_WATCHES_DATA = 2,
    ZK_WATCHES_ANY = 3,
    ZK_WATCHES_PERSISTENT = 4,
    ZK_WATCHES_RECURSIVE = 5
};

enum {
    ZK_PASSWD_BYTES = 16,
    ZK_HEAD_BYTES = 12 /* Length, xid and type: what zk_frame_judge needs. */
};

struct zk_limits {
    size_t data_bytes_max;  /* maxDataBytes */
    size_t multi_bytes_max; /* maxMultiBytes */
    uint32_t multi_ops_max; /* maxMultiOps */
};

/* ---- Frames ---- */

enum zk_frame {
    ZK_FRAME_SHORT, /* More of `head` is needed. */
    ZK_FRAME_GOOD,
    ZK_FRAME_BAD /* The connection ends. */
};

/*
 * Judges a frame by its first bytes, before any memory is reserved for it. `head` is what has
 * arrived of the frame, its length included; ZK_HEAD_BYTES are enough. `hello`: the frame is the
 * first of the connection, a ConnectRequest. Sets `*ret_bytes` to the bytes of the whole frame,
 * length included, as soon as these are known and allowed.
 */
enum zk_frame zk_frame_judge(const struct zk_limits *limits, struct slice head, bool hello,
                             size_t *ret_bytes);

/* ---- The first frame ---- */

struct zk_connect {
    zxid_t last_zxid;    /* The client has seen the state at this zxid. */
    int32_t timeout_ms;  /* The wanted timeout; any number. */
    uint64_t session;    /* 0: a new one. */
    struct slice passwd; /* Any length. */
    bool has_read_only;  /* Clients of 3.4 and older leave it out, and expect an answer without. */
    bool read_only;
};

/* Decodes the body of a ConnectRequest (what follows the length). False: it is malformed, and the
 * connection ends. */
bool zk_decode_connect(struct slice body, struct zk_connect *ret_connect);

/* ---- Requests ---- */

enum zk_kind {
    ZK_DECIDED, /* The answer is known: zk_encode_decided writes it. */
    ZK_GATE,    /* A write, or sync: `args` are for gate_submit. */
    ZK_READ,    /* `args` are for view_run; args.watch: and register a watch. */
    ZK_FRONT    /* The front end does it, by `type`. */
};

/* Paths that stay encoded: the frame has been checked, and zk_paths_next cannot fail. */
struct zk_paths {
    uint32_t count;
    struct slice bytes;
};

/* Lists of setWatches and setWatches2. */
enum {
    ZK_LIST_DATA,
    ZK_LIST_EXISTS,
    ZK_LIST_CHILDREN,
    ZK_LIST_PERSISTENT,
    ZK_LIST_RECURSIVE,
    ZK_LISTS
};

struct zk_request {
    int32_t xid;
    int32_t type; /* enum zk_type, or what the client has sent. */
    enum zk_kind kind;

    enum zk_code code; /* DECIDED: the code. Else ZK_OK. */
    bool closes;       /* DECIDED: the connection ends after this answer. */
    uint32_t op_count; /* DECIDED, a multi: its elements, when the code is that of one of them. */
    uint32_t failed;   /* DECIDED, a multi with op_count > 0: the element with `code`. */

    struct op_args args;   /* GATE, READ. The elements of a multi are in `multi`. */
    struct op_args *multi; /* Heap array behind args.ops, or NULL; zk_request_release frees it. A
                              caller that takes it sets it to NULL. */
    int8_t *types;         /* Of a multi: for each element the type of a good result, or ZK_ERROR if
                              the element of a multiRead fails whatever its result. Heap array. */

    /* Of all types that have a path, but multi: as the client has sent it. */
    struct slice path; /* FRONT: legal (path_check), but for getEphemerals, whose prefix may be any
                          text, and for lists. */

    /* FRONT. */
    int32_t mode;                    /* addWatch, checkWatches, removeWatches. */
    zxid_t since;                    /* setWatches: what the client has seen. */
    struct zk_paths lists[ZK_LISTS]; /* setWatches. */
    uint32_t list_paths;             /* setWatches: paths of all lists together. */
    struct slice scheme;             /* auth; null is empty. */
    struct slice credential;         /* auth; null is empty. */
};

/*
 * Decodes the body of a request (what follows the length). Appends what had to be written again to
 * `memory`, in which slices of `ret_request` then point: the caller keeps it, and appends nothing
 * else. Returns false when the bytes have no header (8 bytes): the connection ends. In all other
 * cases there is a request, which the caller releases.
 */
bool zk_decode(const struct zk_limits *limits, struct slice body, struct buf *memory,
               struct zk_request *ret_request);

void zk_request_release(struct zk_request *request);

/* Takes the next path off the list; false at its end. A path may be illegal. */
bool zk_paths_next(struct zk_paths *paths, struct slice *ret_path);

#endif
