/*
 * out.h - prints results and errors in one form: text for people, JSON for programs, NDJSON (one
 * line of JSON per item), or a table.
 *
 * Data goes to stdout. If the format is JSON or NDJSON, errors go to stdout, too, so that a program
 * reads one place; otherwise errors go to stderr. With --curl only the request is printed.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include "cli/jsonr.h"
#include "cli/settings.h"

/* Codes that begin bold or red text on a terminal, and the code that ends both. */
#define OUT_BOLD  "\033[1m"
#define OUT_RED   "\033[31m"
#define OUT_PLAIN "\033[0m"

struct out {
    const char *cmd; /* The name of the command, for errors. */
    bool nameless;   /* The command does not exist, so no message names it. */
    enum settings_format format;
    bool color;
    bool silent; /* Data is not printed. */
};

/*
 * Columns are a text: "TITLE:member, TITLE:member>". The member is a path in the object
 * ("stat.version"), or empty for an item that is not an object. A `>` marks a number, which is
 * aligned to the right.
 */

/* Whether the command itself prints its result as text, with out_say(); else the command uses
 * out_answer() and similar functions. Also true with --curl, when out_say() prints nothing. */
bool out_is_text(const struct out *out);

/* Whether the format is JSON or NDJSON, and not text or a table. */
bool out_is_json(const struct out *out);

/* Prints a line, or part of one, if the format is text or a table. */
void out_say(const struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints text that a replica has sent, if the format is text or a table, without control
 * characters: a terminal would obey them. */
void out_text(const struct out *out, const char *text);

/* Prints bytes unchanged, whatever the format is. */
void out_bytes(const struct out *out, struct slice bytes);

/* Print one result as JSON: JSON text that a replica has sent, or a value. */
void out_answer(const struct out *out, struct slice json);
void out_json(const struct out *out, const json_t *value);

/* Prints one result: as JSON, or as text with one line for each column whose member exists. With
 * NULL `columns` there is one line for each member. */
void out_facts(const struct out *out, json_t *value, const char *columns);

/* Prints one result that the command itself has made, but not if out_is_text(). Drops `value` in
 * both cases. */
void out_result(const struct out *out, json_t *value);

/* Prints many items, the list `member` of `value`. JSON is `value` unchanged, and NDJSON one line
 * per item. Text and table have columns; text has no titles. */
void out_list(const struct out *out, const json_t *value, const char *member, const char *columns);

/* Prints a list whose numbers need titles: as out_list(), but text is a table. */
void out_table(const struct out *out, const json_t *value, const char *member, const char *columns);

/* Prints a line about what happens to stderr, unless the format is JSON or NDJSON. */
void out_note(const struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints an error; `extra` (or NULL) has more members for JSON. */
void out_error(const struct out *out, int exit_code, const char *code, const char *message,
               const json_t *extra);

/* Prints an error of a command line. Returns CMD_USAGE. */
int out_usage(const struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints an error of the command line as text, for a command that parses its own. */
#define OUT_USAGE(cmd_row, ...) out_usage(&(struct out){.cmd = (cmd_row)->name}, __VA_ARGS__)

/* Returns a JSON string of a text that may be invalid UTF-8, or end within a character. */
json_t *out_string(const char *text);

/* Returns a time, in ms since 1970, as a JSON string "2026-11-22T07:04:51Z". */
json_t *out_time(int64_t ms);

bool out_is_utf8(void);

#endif
