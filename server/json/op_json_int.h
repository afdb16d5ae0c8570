/* op_json_int.h - shared by the files of this folder that read JSON and by those that write it. */
#ifndef SERVER_OP_JSON_INT_H
#define SERVER_OP_JSON_INT_H

#include "base/check.h"
#include "server/json/op_json.h"

struct json_t; /* Declared by jansson, which only .c files include. */

/* How the value of dataJson, dataUtf8 or data64 is found. */
enum op_json_form {
    OP_JSON_WRITTEN, /* dataJson: as it stands in the text. */
    OP_JSON_PLAIN,   /* A string without escapes, which is left out of the parsed text. */
    OP_JSON_PARSED   /* Anything else, found by the parser. */
};

struct op_json_value {
    enum op_json_form form;
    struct slice text; /* Empty for OP_JSON_PARSED. */
};

/* Result of a scan. */
struct op_json_scan {
    bool too_deep;
    struct slice lean;   /* The text with "" for each string that is OP_JSON_PLAIN. */
    struct buf memory;   /* Memory of `lean`, when `lean` is not the text itself. */
    struct buf root;     /* Array of struct op_json_value, of the outermost object. */
    struct buf elements; /* An array like `root`, of all elements of `ops` in order. */
};

void op_json_scan(struct slice text, struct op_json_scan *ret_scan);
void op_json_scan_release(struct op_json_scan *scan);

/* A text that is being parsed into arguments. */
struct op_json_parse {
    struct buf *memory; /* It has room for the whole text, so that slices into it stay valid. */
    const char *what;   /* Name of the text, for faults: "the body". */
    struct op_json_scan scan;
    bool message;    /* The text is a WebSocket message: unknown members are ignored, and no
                        slice points into the text. */
    bool in_element; /* The object is an element of a multi. */
    size_t next;     /* Index of the next value in scan.root; in an element, in scan.elements. */
    struct op_fault *fault;
};

/* Scans and parses the text, and returns its tree of values. Returns NULL, with the fault set, when
 * the text is no JSON object within the bounds. The caller calls op_json_end in any case. */
struct json_t *op_json_begin(struct op_json_parse *parse, struct slice text);
void op_json_end(struct op_json_parse *parse, struct json_t *root);

/* Writes "<key> <why>" into the fault; returns `err`. */
enum err op_json_fail(struct op_json_parse *parse, enum err err, const char *key, const char *why);

/* Returns a copy in the memory of the parse. */
struct slice op_json_keep(struct op_json_parse *parse, struct slice text);
struct slice op_json_string(const struct json_t *value);

/* Parses the members of one operation that is not a multi into its arguments. */
enum err op_json_parse_object(struct op_json_parse *parse, const struct op_def *def,
                              struct json_t *object, struct op_args *args);

/* Parses an ACL: the name of a standard list, or an array of entries. */
enum err op_json_take_acl(struct op_json_parse *parse, const struct json_t *value,
                          struct slice *ret_acl);

/* Parses a list of ids of members into the form of op_ids_at. */
enum err op_json_take_ids(struct op_json_parse *parse, const char *key, const struct json_t *value,
                          struct slice *ret_ids);

/* ---- Between the files that write ---- */

/* Writes the members of the answer to a change of the members of the ensemble. */
void op_json_change(struct jsonw *json, const struct op_result *result);

/* Writes the members of an answer that is not a multi into the open object. */
enum err op_json_members(struct jsonw *json, const struct op_args *args,
                         const struct op_result *result, const struct op_json_style *style);

/* Writes the member "results" of a multi. */
enum err op_json_results(struct jsonw *json, const struct op_args *args,
                         const struct op_result *result, bool message);

/* Writes the member "stat", an object. */
void op_json_stat_object(struct jsonw *json, const struct stat_view *stat, bool message);

/* Writes the member of the data; none when the data is null. ERR_NOT_ACCEPTABLE: the data cannot be
 * shown in this format. */
enum err op_json_data(struct jsonw *json, struct blob *data, enum op_dataformat format);

/* Writes a 64-bit number: as a number and as a hex string, or in messages as the hex string alone.
 */
void op_json_wide(struct jsonw *json, const char *key, const char *hex_key, uint64_t value,
                  bool message);

#endif
