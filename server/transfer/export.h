/*
 * export.h - a subtree as lines of JSON, all of one zxid, while writes go on.
 *
 * It is read in slices of a cut (state/cut.h); what one slice refers to is written out without any
 * lock, as fast as whoever asks takes it. The last line says that it is complete, or why it is not.
 * One thread at a time.
 */
#ifndef SERVER_EXPORT_H
#define SERVER_EXPORT_H

#include "server/json/op_json.h"

struct export;
struct view;

/* Begins with the state as it is. `args` are those of an OP_EXPORT; of changed znodes at most
 * `kept_max` bytes are kept. NULL on ERR_NO_NODE, ERR_NO_AUTH, ERR_NOT_READY: `result` then has
 * err, detail and zxid; otherwise its zxid is that of the export. `view` outlives it. */
struct export *export_new(struct view *view, const struct op_principal *who,
                          const struct op_args *args, uint64_t history, size_t kept_max,
                          struct op_result *result);
void export_free(struct export *export); /* Accepts NULL. */

/* Appends the next lines, about 16 KiB or one znode; nothing, when so many znodes in a row are left
 * out that others should have their turn first. False when the last line is among them. */
bool export_write(struct export *export, struct buf *out);

/* Appends a last line that says why there is nothing more. */
void export_stop(struct export *export, struct buf *out, enum err err, const char *detail);

/* Once the last line is written: how it ended. OK: complete. */
enum err export_error(const struct export *export);

const struct op_export_figures *export_figures(const struct export *export);

#endif
