/*
 * export.h - a subtree as lines of JSON, all of one zxid, while writes continue.
 *
 * It is read in slices of a cut (state/cut.h). The lines of a slice are written without any lock,
 * as fast as the client takes them. The last line says that the export is complete, or why it is
 * not. One thread at a time.
 */
#ifndef SERVER_EXPORT_H
#define SERVER_EXPORT_H

#include "server/json/op_json.h"

struct export;
struct view;

/* Starts an export of the present state. `args` are those of an OP_EXPORT; at most `kept_max` bytes
 * of znodes that change meanwhile are kept. NULL on ERR_NO_NODE, ERR_NO_AUTH, ERR_NOT_READY:
 * `result` then has err, detail and zxid; otherwise its zxid is that of the export. `view` outlives
 * it. */
struct export *export_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, uint64_t history, size_t kept_max,
                          struct op_result *result);
void export_free(struct export *export); /* Accepts NULL. */

/* Appends the next lines, about 16 KiB or one znode; nothing when many znodes in a row were left
 * out, so that other work gets its turn. False when the last line is among them. */
bool export_write(struct export *export, struct buf *out);

/* Appends a last line with the reason why the export ends here. */
void export_stop(struct export *export, struct buf *out, enum err err, const char *detail);

/* After the last line: the result. OK: complete. */
enum err export_error(const struct export *export);

const struct op_export_figures *export_figures(const struct export *export);

#endif
