/*
 * out.h - what a command prints: text for people, JSON for programs, lines of it, or a table; and
 * errors, in the same form.
 *
 * Data goes to stdout, in JSON also errors, so that a program reads one place; in text errors go to
 * stderr. With --curl nothing but the request is printed.
 */
#ifndef CLI_OUT_H
#define CLI_OUT_H

#include "cli/jsonr.h"
#include "cli/settings.h"

struct out {
    const char *cmd; /* Its name, for errors. */
    bool nameless;   /* There is no such command: text does not name it. */
    enum settings_format format;
    bool color;
    bool silent; /* Data is not printed. */
};

/*
 * Columns are a text: "TITLE:member, TITLE:member>". The member is a path in the object
 * ("stat.version"); it is empty for an item that is no object. With `>` it is a number, which
 * stands at the right.
 */

/* True when the command itself prints its result as text; false when it uses out_answer() and
 * similar functions. With --curl text is silent, and this is true. */
bool out_is_text(const struct out *out);

/* JSON or lines of it, not text or a table. */
bool out_is_json(const struct out *out);

/* A line, or part of one; with text and table only. */
void out_say(const struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Bytes as they are; whatever the format is. */
void out_bytes(const struct out *out, struct slice bytes);

/* One result as JSON: text of it that a replica has sent, or a value. */
void out_answer(const struct out *out, struct slice json);
void out_json(const struct out *out, const json_t *value);

/* One result: a line of each column that is there, without columns of each member; or JSON. */
void out_facts(const struct out *out, json_t *value, const char *columns);

/* One result that the command itself has made. Drops it. */
void out_result(const struct out *out, json_t *value);

/* Many: `value` has them in the list `member`, which JSON prints as it is; NDJSON is one line each,
 * text and table have columns, text without their titles. */
void out_list(const struct out *out, const json_t *value, const char *member, const char *columns);

/* The same, where numbers need their titles: text is a table. */
void out_table(const struct out *out, const json_t *value, const char *member, const char *columns);

/* An error: `extra` (or NULL) has more members for JSON. */
void out_error(const struct out *out, int exit_code, const char *code, const char *message,
               const json_t *extra);

/* The same for what is wrong with a command line; returns CMD_USAGE. */
int out_usage(const struct out *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same as text, for a command that has a command line of its own. */
#define OUT_USAGE(cmd_row, ...) out_usage(&(struct out){.cmd = (cmd_row)->name}, __VA_ARGS__)

/* A string of JSON from text that may be no UTF-8, or end within a character. */
json_t *out_string(const char *text);

/* "2026-11-22T07:04:51Z"; ms since 1970. */
enum {
    OUT_TIME_MAX = 40
};

void out_time(int64_t ms, char text[OUT_TIME_MAX]);

/* True when the terminal shows UTF-8. */
bool out_is_utf8(void);

#endif
