/* prep_int.h - the inside of prep, shared by its files. */
#ifndef SERVER_PREP_INT_H
#define SERVER_PREP_INT_H

#include "server/overlay.h"
#include "server/prep.h"

struct prep {
    struct prep_limits limits;
    struct overlay overlay;
    struct buf path;  /* Path of the znode being created, sequence number included. */
    struct buf paths; /* Of a recursive delete. */
};

/* One request, or one element of a multi, on its way to a transaction. */
struct prep_step {
    struct prep *prep;
    const struct state *state;
    const struct prep_job *job;
    const struct txn_header *header;
    zxid_t zxid;
    struct buf *out;
    struct op_result *result; /* Of this request or element. */
};

/* Records why the request is refused; returns `err`. */
enum err prep_refuse(const struct prep_step *step, enum err err, const char *detail);

/* The znode as it will be. */
void prep_look(const struct prep_step *step, struct slice path, struct overlay_node *ret_node);

/* Version and ETag, in that order. On failure the result carries the current stat. */
enum err prep_check_version(const struct prep_step *step, const struct op_args *args,
                            const struct overlay_node *node);

enum err prep_create(const struct prep_step *step, const struct op_args *args);
enum err prep_set(const struct prep_step *step, const struct op_args *args);
enum err prep_delete(const struct prep_step *step, const struct op_args *args);
enum err prep_check(const struct prep_step *step, const struct op_args *args);
enum err prep_reap(const struct prep_step *step, const struct op_args *args);

#endif
