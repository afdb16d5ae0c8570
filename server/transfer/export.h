/*
 * export.h - a subtree as lines of JSON, all of one zxid, while writes continue.
 *
 * The subtree is read in slices of a cut (state/cut.h). The lines of a slice are written without
 * any lock, as fast as the client takes them. The last line says that the export is complete, or
 * why it is not. Called by one thread at a time.
 */
#ifndef SERVER_EXPORT_H
#define SERVER_EXPORT_H

#include "server/json/op_json.h"

struct export;
struct view;

/* Starts an export of the present state. `args` are those of an OP_EXPORT. If the old versions of
 * znodes that change during the export exceed `kept_max` bytes, the export ends with ERR_TOO_LARGE.
 * Returns NULL on ERR_NO_NODE, ERR_NO_AUTH, ERR_NOT_READY: `result` then has err, detail and zxid.
 * Otherwise the zxid of `result` is that of the export. `view` must outlive the export. */
struct export *export_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, uint64_t history, size_t kept_max,
                          struct op_result *result);
void export_free(struct export *export); /* Accepts NULL. */

/* Appends the next lines, about 16 KiB, or more if a single line is longer. Appends nothing when
 * many znodes in a row were left out, so that other work gets its turn. False when the last line
 * was appended. */
bool export_write(struct export *export, struct buf *out);

/* Appends a last line with the reason why the export ends here. */
void export_stop(struct export *export, struct buf *out, enum err err, const char *detail);

/* Returns the result of an export whose last line was appended; ERR_OK: the export is complete. */
enum err export_error(const struct export *export);

const struct op_export_figures *export_figures(const struct export *export);

#endif
