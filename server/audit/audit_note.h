/*
 * audit_note.h - the note of the last recorded zxid, a small file in the data directory.
 *
 * It is needed when the audit file was renamed or removed while the replica did not run, and for
 * standard error. It is not synced: after a crash of the machine it may be older than the file,
 * and the later of the two zxids counts.
 */
#ifndef SERVER_AUDIT_NOTE_H
#define SERVER_AUDIT_NOTE_H

#include "base/err.h"
#include "server/audit/audit_line.h"

struct audit_note {
    bool is_known;
    zxid_t zxid;
    uint8_t cluster[AUDIT_CLUSTER_LEN];
};

/* Opens the file in `dir` and makes it if there is none; reads the note. Returns the descriptor, or
 * -1 with errno set. A note that cannot be parsed counts as unknown. */
int audit_note_open(const char *dir, struct audit_note *ret_note);

enum err audit_note_write(int fd, const struct audit_note *note);

#endif
