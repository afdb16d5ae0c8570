/*
 * redact.h - takes secrets out of configuration files and logs, line by line. Pure.
 *
 * Of a configuration only the keys that zabra knows keep their values, and none that proves an
 * identity does: comments and unknown keys may hold anything. In a log, which may be that of a
 * proxy in front, everything that looks like a secret is replaced: what follows a word such as
 * password, token or Authorization; credentials in URLs; UUIDs, because the secret of a session is
 * one; hashes of passwords; private keys. Too much rather than too little.
 */
#ifndef CLI_REDACT_H
#define CLI_REDACT_H

#include "base/buf.h"

/* What stands in place of a secret. */
#define REDACTED "[removed]"

struct redaction {
    bool in_key; /* Within a private key, which has several lines. */
};

/* Whether the text, whose beginning may be missing, begins within a private key. */
bool redact_begins_in_key(struct slice text);

/* Append the line (without its line feed), with a line feed, or nothing. */
void redact_config_line(struct slice line, struct buf *out);
void redact_log_line(struct redaction *redaction, struct slice line, struct buf *out);

#endif
