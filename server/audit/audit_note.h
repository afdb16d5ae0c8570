/*
 * audit_note.h - the note of the last recorded zxid, a small file in the data directory.
 *
 * It is needed when the audit file was renamed or removed before a start, and for standard error.
 * The note is not synced, but the file is: so the note has two zxids, and tells by the id of the
 * machine's boot which of them counts. In the same boot nothing that was written is lost; after a
 * crash of the machine only what was synced counts.
 */
#ifndef SERVER_AUDIT_NOTE_H
#define SERVER_AUDIT_NOTE_H

#include "base/err.h"
#include "server/audit/audit_line.h"

enum {
    AUDIT_BOOT_LEN = 36 /* Characters of the id of a boot. */
};

struct audit_note {
    int fd; /* -1: not open. */
    bool is_known;
    zxid_t synced;  /* All up to here was synced. */
    zxid_t written; /* All up to here was written. */
    uint8_t cluster[AUDIT_CLUSTER_LEN];
    char boot[AUDIT_BOOT_LEN + 1]; /* Id of the present boot; zeros when it is unknown. */
};

/* Opens the file in `dir` and makes it if there is none; reads the note. In the note of an earlier
 * boot `written` is lowered to `synced`. A note that cannot be parsed counts as unknown. Returns
 * false with errno set: the file cannot be opened. */
bool audit_note_open(struct audit_note *note, const char *dir);
void audit_note_close(struct audit_note *note);

/* Writes the note. Best effort: an older note is no worse than its age. */
void audit_note_write(const struct audit_note *note);

#endif
