/*
 * member_list.h - the members of the ensemble, as the replica that answers sees them: for commands
 * that show or change them.
 */
#ifndef CLI_MEMBER_LIST_H
#define CLI_MEMBER_LIST_H

#include "cli/cli.h"

struct member_list {
    char tag[CLIENT_HEADER_MAX]; /* The version of the list, for If-Match. */
    const json_t *whole;         /* The answer of /ensemble/v1; valid until the next request. */
    const json_t *members;       /* Its list of members. */
};

/* Asks for the list, to change the members or to wait for one. Returns CMD_OK, or the code of a
 * reported error. With --curl the request is printed and sent. */
int member_list_take(const struct cli *cli, struct member_list *ret_list);

/* Prints the list, the only result of a command: as JSON, or as a table of these columns (out.h),
 * below which `say` prints lines about the whole answer. Returns an exit code. */
int member_list_print(const struct cli *cli, const char *columns,
                      void (*say)(const struct cli *cli, const json_t *whole));

/* Returns the member with this id; NULL: there is none. */
const json_t *member_list_find(const json_t *members, int64_t id);

/* Whether the member is a voter, or has a voter's seat without a disk. NULL: false. */
bool member_list_votes(const json_t *member);

#endif
