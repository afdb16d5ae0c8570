/* A line of the log is one JSON object, whatever the values are: its members are those of the
 * format, and the message is cut at its end at most. */
#include "base/log.h"
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TEXTS = 3
};

static int ends[2] = {-1, -1};

/* The texts of the input: its parts between bytes 0, each with its NUL. */
static void split(struct slice input, char texts[TEXTS][FUZZ_INPUT_MAX + 1])
{
    for (int i = 0; i < TEXTS; i++) {
        struct slice part = slice_cut(&input, '\0');
        size_t len = min_size(part.len, FUZZ_INPUT_MAX);

        if (len > 0) {
            memcpy(texts[i], part.data, len);
        }
        texts[i][len] = '\0';
    }
}

static size_t read_line(char line[2 * LOG_LINE_MAX])
{
    ssize_t len = read(ends[0], line, 2 * (size_t)LOG_LINE_MAX);

    ASSERT(len > 2 && len <= LOG_LINE_MAX && line[len - 1] == '\n');
    ASSERT(slice_find(slice_make(line, (size_t)len), '\n') == (size_t)len - 1);
    return (size_t)len;
}

/* Strings of JSON are UTF-8, so a value that was cut or replaced is still that. */
static void check_object(struct slice line, bool is_short)
{
    static const char *const names[] = {"time",    "level", "subject", "thread",
                                        "message", "path",  "peer",    "target"};
    json_error_t error;
    json_t *object = json_loadb((const char *)line.data, line.len, JSON_REJECT_DUPLICATES, &error);
    size_t known = 0;

    ASSERT(json_is_object(object));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        known += json_object_get(object, names[i]) ? 1 : 0;
    }
    ASSERT(known == json_object_size(object));
    ASSERT(json_is_string(json_object_get(object, "message")));
    ASSERT(strcmp(json_string_value(json_object_get(object, "level")), "INFO") == 0);
    ASSERT(!json_object_get(object, "peer") ||
           json_integer_value(json_object_get(object, "peer")) == 17);
    ASSERT(!is_short || known == sizeof names / sizeof names[0]);
    json_decref(object);
}

static bool fuzz_one(struct slice input)
{
    static char texts[TEXTS][FUZZ_INPUT_MAX + 1];
    static char line[2 * LOG_LINE_MAX];
    /* No byte takes more than 6 in JSON, and each text is there twice. */
    bool is_short = input.len < LOG_LINE_MAX / 12 / 2;

    if (ends[0] < 0) {
        ASSERT(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    }
    split(input, texts);
    log_setup(LOG_INFO, true, ends[1]);
    log_info("fuzz", "{path}%s of {peer}%u at {target}%.*s: %s", texts[0], 17U, 600, texts[1],
             texts[2]);
    check_object(slice_make(line, read_line(line)), is_short);
    log_setup(LOG_INFO, false, ends[1]);
    log_info("fuzz", "{path}%s of {peer}%u at {target}%.*s: %s", texts[0], 17U, 600, texts[1],
             texts[2]);
    (void)read_line(line);
    log_setup(LOG_INFO, false, STDERR_FILENO);
    return true;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const char parts[] = "/a/b\0the target\0and the rest";
    static const char hostile[] = "\",\"level\":\"x\n}\\\0\xff\xfe\xc3\0{peer}%s\x1b[31m\r";

    fuzz_seed_text(sink, "empty", "");
    fuzz_seed_text(sink, "text", "path");
    fuzz_seed(sink, "parts", slice_make(parts, sizeof parts - 1));
    fuzz_seed(sink, "hostile", slice_make(hostile, sizeof hostile - 1));
}

FUZZ_TARGET(log)
