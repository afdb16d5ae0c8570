/*
 * change.h - changes of the members of the ensemble: the rules of their arguments, and their
 * answer.
 *
 * The leader judges a change and writes the answer into its transaction, because only the leader
 * knows which members are in step. So each replica that applies the transaction can answer the
 * client, and a repeated request has the same answer.
 */
#ifndef SERVER_OP_CHANGE_H
#define SERVER_OP_CHANGE_H

#include "server/op/op.h"

enum {
    OP_MEMBERS_MAX = 64,
    OP_MEMBER_ID_MAX = 65535,
    OP_HOST_MAX = 253,
    OP_CLIENT_MAX = 255,
    OP_ZONE_MAX = 63,
    OP_CHANGE_BYTES_MAX = 512, /* An encoded answer. */
    OP_ID_BYTES = 2            /* Bytes of one id in a list of ids. */
};

/* Returns "voter", "observer" or "empty-seat". */
const char *op_role_name(enum op_role role);

/* Whether the operation changes the members. */
bool op_changes_members(enum op_id op);

/* A list of ids, of which `args` have three: OP_ID_BYTES each, little endian. */
uint32_t op_ids_count(struct slice ids);
uint32_t op_ids_at(struct slice ids, uint32_t at);
void op_ids_put(uint8_t *list, uint32_t at, uint32_t id); /* `list` has room for it. */

/* Splits "host:port", an IPv6 address in brackets, which the host is without. False if the text has
 * another form. */
bool op_address_split(struct slice text, struct slice *ret_host, uint16_t *ret_port);

/* Checks the rules across the arguments of such an operation. ERR_BAD_ARGUMENTS with the reason as
 * a constant sentence. */
enum err op_change_check(const struct op_args *args, const char **ret_why);

/* The answer. */
struct op_change {
    zxid_t version;  /* Version of the new configuration; 0: nothing was changed. */
    zxid_t previous; /* Version of the configuration that the change was judged against. */
    /* How many voters in step may fail: before and after the change. Negative: voters are
     * missing already. */
    int32_t tolerance_before;
    int32_t tolerance_after;
    uint32_t in_step; /* Voters of the new configuration that are in step with the leader. */
    uint32_t count;

    struct op_change_member {
        uint32_t id;
        enum op_role role;
        bool joining;
    } members[OP_MEMBERS_MAX]; /* Of the new configuration, ascending by id. */
};

/* Encode and decode the answer: at most OP_CHANGE_BYTES_MAX bytes; false when they are malformed.
 */
void op_change_encode(const struct op_change *change, struct buf *out);
bool op_change_decode(struct slice bytes, struct op_change *ret_change);

/* Returns the version in an encoded answer by which a client may make its next change: the new one,
 * else that which the change was judged against. 0 for malformed bytes. */
zxid_t op_change_version(struct slice bytes);

/* Whether an encoded answer is that of a change which was made, not of a dry run. */
bool op_change_is_applied(struct slice bytes);

#endif
