/* acl_text.h - ACLs as text that users type ("scheme:id:cdrwa"), and as JSON. Pure. */
#ifndef CLI_ACL_TEXT_H
#define CLI_ACL_TEXT_H

#include "base/buf.h"

#include <jansson.h>

/* Parses an entry "scheme:id:perms"; NULL when the text is malformed. The id may contain colons. */
json_t *acl_text_entry(struct slice text);

/* Parses an ACL: "open", "read" and "creator" become a JSON string; any other text is entries
 * separated by commas, and becomes a list of them. NULL: the text is malformed. */
json_t *acl_text_parse(const char *text);

/* Appends the entry as "scheme:id:perms". */
void acl_text_put(const json_t *entry, struct buf *out);

/* Puts an entry into a list, in place of an entry with the same scheme and id. */
void acl_text_add(json_t *list, json_t *entry);

/* Removes the entries of "scheme:id"; false when the list has none. */
bool acl_text_remove(json_t *list, const char *who);

#endif
