/*
 * acl_list.h - ACLs as text: "scheme:id:perms", separated by commas, as in ZooKeeper's shell. Pure.
 *
 * ZooKeeper splits at each comma, so it cannot name the subject of a certificate
 * ("x509:CN=bob,O=Example:cdrwa"). Here an entry of the scheme x509 ends at the first comma before
 * which it is whole: two colons, and letters of cdrwa behind the last one. It also ends before the
 * scheme of a next entry, and is then malformed. That reads every list that ZooKeeper reads. An id
 * that would be misread so is written in quotes ("x509:\"CN=a:r,O=b\":r", "digest:\"a,b:HASH\":r"),
 * with a backslash before each quote and backslash in it.
 */
#ifndef SERVER_ACL_LIST_H
#define SERVER_ACL_LIST_H

#include "server/op/acl.h"

/* Cuts the next entry off the list, without blanks around it. False at the end. */
bool acl_list_cut(struct slice *list, struct slice *ret_entry);

/* Parses an entry; false when it is malformed. The id may point into `memory`, which is cleared. */
bool acl_list_parse(struct slice text, struct buf *memory, struct acl_entry *ret_entry);

/* Appends an id as acl_list_parse reads it, in quotes if it needs them. */
void acl_list_put_id(struct buf *out, struct slice id);

#endif
