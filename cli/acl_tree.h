/*
 * acl_tree.h - the ACLs of many znodes: one list for a whole subtree, and the warning about a new
 * znode that is more open than its parent.
 */
#ifndef CLI_ACL_TREE_H
#define CLI_ACL_TREE_H

#include "cli/cli.h"

/* Gives all znodes of the subtree the ACL `text`. Reads all lists first; then sets those that
 * differ, deepest znodes first, each only if it is unchanged since it was read. Znodes whose list
 * the caller may not set, or whose subtree it may not read, are skipped and reported (CMD_PARTLY).
 * After a lost connection the same call continues with the rest. Returns the exit code; errors are
 * reported. */
int acl_tree_set(struct cli *cli, const char *path, const char *text);

/* Warns on standard error when every client has a permission for the znode at `path` that its
 * parent does not give to every client. Says nothing when one of the lists cannot be read. */
void acl_tree_warn(const struct cli *cli, const char *path);

#endif
