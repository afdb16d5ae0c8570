/* journal.h - reads the journal of systemd with journalctl, if there is one. One thread. */
#ifndef CLI_JOURNAL_H
#define CLI_JOURNAL_H

#include "base/buf.h"

/* Appends the newest lines about a unit; `out` bounds the bytes. Ends journalctl after `wait_ms`.
 * Returns NULL, or why there are no lines, or not all, a sentence without a full stop. */
const char *journal_read(const char *unit, int64_t wait_ms, struct buf *out);

#endif
