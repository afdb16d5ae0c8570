#include "cli/count.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_MAX = 32 /* Bytes of a number, with blanks around it. */
};

/* Blanks around a number are ignored: a value written with echo ends in a line feed. */
static bool parse(const struct revise *revise, int64_t *ret_number)
{
    struct args_range all = {.min = INT64_MIN, .max = INT64_MAX};
    struct slice data = buf_slice(&revise->data);
    char text[NUMBER_MAX];
    size_t len = 0;

    while (data.len > 0 && strchr(" \t\r\n", data.data[data.len - 1])) {
        data.len--;
    }
    len = data.len < NUMBER_MAX ? data.len : 0;
    if (len > 0) {
        memcpy(text, data.data, len);
    }
    text[len] = '\0';
    return strlen(text) == data.len && args_number(text, all, ret_number);
}

int count_number(const struct revise *revise, int64_t *ret_number)
{
    if (parse(revise, ret_number)) {
        return CMD_OK;
    }
    return cli_fail(revise->cli, CMD_FAILED, "NotANumber", "%s: the data is not a whole number",
                    revise->path);
}

/* The future sum; an exit code whose error was reported. */
static int add(const struct revise *revise, int64_t by, int64_t *ret_sum)
{
    int64_t number = 0;

    int code = revise->exists ? count_number(revise, &number) : CMD_OK;

    if (code != CMD_OK) {
        return code;
    }
    if (__builtin_add_overflow(number, by, ret_sum)) {
        return cli_fail(revise->cli, CMD_LIMIT, "Overflow",
                        "%s: the sum would overflow 64 bits; the number is %" PRId64, revise->path,
                        number);
    }
    return CMD_OK;
}

static int add_once(struct revise *revise, int64_t by, bool create, int64_t *ret_sum)
{
    char text[NUMBER_MAX];
    int code = revise_read(revise);

    if (code == CMD_OK && !revise->exists && !create) {
        return cli_tell(revise->cli);
    }
    if (code == CMD_OK) {
        code = add(revise, by, ret_sum);
    }
    if (code != CMD_OK) {
        return code;
    }
    (void)snprintf(text, sizeof(text), "%" PRId64, *ret_sum);
    return revise_write(revise, slice_str(text), false);
}

int count_add(struct revise *revise, int64_t by, bool create, int64_t *ret_sum)
{
    int code = CMD_OK;

    do {
        code = add_once(revise, by, create, ret_sum);
    } while (code == REVISE_AGAIN);
    return code;
}

void count_print(const struct cli *cli, const char *path, int64_t number)
{
    static const struct out_column columns[] = {
        {"path", "path", false}, {"value", "value", false}, {.title = NULL}};

    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%" PRId64 "\n", number);
        return;
    }

    json_t *value = json_pack("{s:s,s:I}", "path", path, "value", (json_int_t)number);

    out_facts(&cli->out, value, columns);
    json_decref(value);
}
