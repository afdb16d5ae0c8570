/*
 * member_change.h - sends changes of the members, and waits until they can be made, or until a
 * member is in step. A change is sent with the version of the list that it was built from.
 */
#ifndef CLI_MEMBER_CHANGE_H
#define CLI_MEMBER_CHANGE_H

#include "cli/member_list.h"

enum member_verb {
    MEMBER_LIST,
    MEMBER_ADD,
    MEMBER_PROMOTE,
    MEMBER_DEMOTE,
    MEMBER_MOVE,
    MEMBER_REPLACE,
    MEMBER_REMOVE
};

/* What a command line asks for. */
struct member_wish {
    enum member_verb verb;
    int64_t id;          /* The member; of replace the new one. */
    int64_t leaves;      /* replace: the member that is removed. */
    const char *address; /* Of add, move and replace, for other replicas; NULL: not given. */
    const char *client;
    const char *zone;
    bool auto_promote;
    bool dry_run;
    bool waits;        /* Never with `dry_run`. */
    uint64_t until_ms; /* End of the wait, monotonic. */
};

/* Makes the change `verb`, a part of the wish. Builds it again for each attempt, as the list may
 * have changed. If the wish waits, a refusal that passes is tried again, with a note about it at
 * most once in 10 s. Returns CMD_OK with the answer in the client, CMD_SHOWN, or the code of a
 * reported error. */
int member_change_make(const struct cli *cli, const struct member_wish *wish,
                       enum member_verb verb);

/* Waits until the member `wish->id` is in step; if it is promoted by itself, until it votes.
 * Returns CMD_OK, or the code of a reported error. */
int member_change_await(const struct cli *cli, const struct member_wish *wish);

#endif
