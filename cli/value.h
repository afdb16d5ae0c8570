/* value.h - data that a command line gives: as text, from a file, from the standard input. */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include "cli/cli.h"

enum {
    VALUE_MAX = 64 << 20
};

/* Said in the help of each command that takes one. */
#define VALUE_HELP                                                                        \
    "DATA is text as it stands, @FILE what is in a file, - what comes by standard input " \
    "(text\nthat begins with @ comes by one of these).\n"

struct value {
    struct buf bytes;
    bool given;
    const char *from; /* "@FILE" or "@-" for --curl, or NULL: it is text. */
};

/* Reads what an operand gives; NULL: not given, no bytes. With --curl a file is named, not read,
 * and so is the standard input. False: told. Release in both cases. */
bool value_read(const struct cli *cli, const char *operand, struct value *value);
void value_release(struct value *value);

/* Makes it the body of a request. */
void value_put(const struct value *value, struct client_request *request);

/* Reads a whole file, or standard input for "-". False: told. */
bool value_read_file(const struct cli *cli, const char *name, struct buf *out);

#endif
