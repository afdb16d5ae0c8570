/* acl_text.h - ACLs as people write them: "scheme:id:cdrwa", and as JSON has them. Pure. */
#ifndef CLI_ACL_TEXT_H
#define CLI_ACL_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* An entry out of "scheme:id:perms"; NULL when it is none. The id may hold colons. */
json_t *acl_text_entry(struct slice text);

/* "open", "read", "creator" as they are, or a list of entries parted by commas; NULL: neither. */
json_t *acl_text_parse(const char *text);

/* Appends "scheme:id:perms". */
void acl_text_put(const json_t *entry, struct buf *out);

/* Puts an entry into a list, in place of one for the same scheme and id. */
void acl_text_add(json_t *list, json_t *entry);

/* Removes the entries of "scheme:id"; false when the list has none. */
bool acl_text_remove(json_t *list, const char *who);

#endif
