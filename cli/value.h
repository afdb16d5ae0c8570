/* value.h - data that a command line gives: as text, from a file, from the standard input. */
#ifndef CLI_VALUE_H
#define CLI_VALUE_H

#include "cli/cli.h"

enum {
    VALUE_MAX = 64 << 20
};

/* Said in the help of each command that takes one. */
#define VALUE_HELP                                                                           \
    "DATA is literal text, @FILE the contents of a file, - the standard input. Use one of\n" \
    "the latter two for text that begins with @.\n"

struct value {
    struct buf bytes;
    bool given;
    const char *from; /* "@FILE" or "@-" for --curl, or NULL: it is text. */
};

/* Reads what an operand gives; NULL: not given, no bytes. With --curl a file is named, not read,
 * and so is the standard input. False: reported. Release in both cases. */
bool value_read(const struct cli *cli, const char *operand, struct value *value);
void value_release(struct value *value);

/* Makes it the body of a request. */
void value_put(const struct value *value, struct client_request *request);

/* Reads a whole file, or standard input for "-". False: reported. */
bool value_read_file(const struct cli *cli, const char *name, struct buf *out);

#endif
