#include "base/logfmt.h"

#include "base/check.h"
#include "base/minmax.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

enum {
    WIDTH_MAX = 1000
};

/* va_list as a member: functions that take the next argument share it by pointer. */
struct args {
    va_list list;
};

/* One conversion, as `%-08.3llu`. */
struct spec {
    bool left;     /* Flag `-`. */
    bool zeros;    /* Flag `0`. */
    int width;     /* 0: none; negative: blanks follow the value. */
    int precision; /* -1: none. */
    int size;      /* 0: int; 1: long; 2: long long, intmax_t; 3: size_t. */
    char conversion;
};

/* Names that every line has. A name of a format must not shadow them. */
static bool is_reserved(struct slice name)
{
    static const char *const names[] = {"time", "level", "subject", "thread", "message"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (slice_eq(name, slice_str(names[i]))) {
            return true;
        }
    }
    return false;
}

static bool has_field(const struct logfmt *message, struct slice name)
{
    for (size_t i = 0; i < message->count; i++) {
        if (slice_eq(message->fields[i].name, name)) {
            return true;
        }
    }
    return false;
}

static void put(struct logfmt *message, const char *text, size_t len)
{
    size_t room = sizeof message->text - 1 - message->len;
    size_t some = min_size(len, room);

    if (some > 0) {
        memcpy(message->text + message->len, text, some);
        message->len += some;
        message->text[message->len] = '\0';
    }
    message->cut = message->cut || some < len;
}

/*
 * ---- A conversion. ----
 *
 * NOLINTBEGIN(clang-analyzer-valist.Uninitialized,bugprone-branch-clone): logfmt_vprint() has
 * started `args`, and the types that va_arg() takes differ.
 */

static int parse_int(const char **at, struct args *args)
{
    int value = 0;

    if (**at == '*') {
        (*at)++;
        return va_arg(args->list, int);
    }
    while (**at >= '0' && **at <= '9' && value <= WIDTH_MAX) {
        value = value * 10 + (*(*at)++ - '0');
    }
    return value;
}

static void parse_size(const char **at, struct spec *spec)
{
    for (; **at != '\0' && strchr("hlzj", **at); (*at)++) {
        if (**at == 'l') {
            spec->size++;
        } else if (**at == 'j') {
            spec->size = 2;
        } else if (**at == 'z') {
            spec->size = 3;
        }
    }
}

/* Parses a conversion from behind its `%`. Moves `*at` behind it. */
static struct spec parse(const char **at, struct args *args)
{
    struct spec spec = {.precision = -1};

    for (; **at == '-' || **at == '0'; (*at)++) {
        spec.left = spec.left || **at == '-';
        spec.zeros = spec.zeros || **at == '0';
    }
    spec.width = parse_int(at, args);
    if (**at == '.') {
        (*at)++;
        spec.precision = parse_int(at, args);
    }
    parse_size(at, &spec);
    ASSERT(spec.width > -WIDTH_MAX && spec.width < WIDTH_MAX && **at != '\0');
    spec.width = spec.left && spec.width > 0 ? -spec.width : spec.width;
    spec.conversion = *(*at)++;
    return spec;
}

static long long take_signed(const struct spec *spec, struct args *args)
{
    switch (spec->size) {
    case 0:
        return va_arg(args->list, int);
    case 1:
        return va_arg(args->list, long);
    case 2:
        return va_arg(args->list, long long);
    default:
        return va_arg(args->list, ssize_t);
    }
}

static unsigned long long take_unsigned(const struct spec *spec, struct args *args)
{
    switch (spec->size) {
    case 0:
        return va_arg(args->list, unsigned);
    case 1:
        return va_arg(args->list, unsigned long);
    case 2:
        return va_arg(args->list, unsigned long long);
    default:
        return va_arg(args->list, size_t);
    }
}

static void put_text(struct logfmt *message, const struct spec *spec, const char *text)
{
    size_t max = spec->precision < 0 ? sizeof message->text : (size_t)spec->precision;
    size_t len = strnlen(text, max);
    size_t width = (size_t)(spec->width < 0 ? -spec->width : spec->width);
    size_t blanks = width > len ? width - len : 0;

    if (spec->width < 0) {
        put(message, text, len);
    }
    for (size_t i = 0; i < blanks; i++) {
        put(message, " ", 1);
    }
    if (spec->width >= 0) {
        put(message, text, len);
    }
}

/* Prints a number. `text` has room for a width of WIDTH_MAX and for any number of these sizes; a
 * longer one, which only %f can give, is cut. */
static void put_number(struct logfmt *message, const struct spec *spec, struct args *args)
{
    char text[WIDTH_MAX + 400];
    int width = spec->width;
    int len = 0;

    switch (spec->conversion) {
    case 'd':
    case 'i':
        len = snprintf(text, sizeof text, spec->zeros ? "%0*lld" : "%*lld", width,
                       take_signed(spec, args));
        break;
    case 'u':
        len = snprintf(text, sizeof text, spec->zeros ? "%0*llu" : "%*llu", width,
                       take_unsigned(spec, args));
        break;
    case 'x':
        len = snprintf(text, sizeof text, spec->zeros ? "%0*llx" : "%*llx", width,
                       take_unsigned(spec, args));
        break;
    case 'f':
        len = snprintf(text, sizeof text, "%*.*f", width, spec->precision < 0 ? 6 : spec->precision,
                       va_arg(args->list, double));
        break;
    default:
        UNREACHABLE();
    }
    ASSERT(len >= 0);
    put(message, text, min_size((size_t)len, sizeof text - 1));
}

static void put_value(struct logfmt *message, const struct spec *spec, struct args *args)
{
    char byte = '%';

    if (spec->conversion == 's') {
        const char *text = va_arg(args->list, const char *);

        put_text(message, spec, text ? text : "(null)");
    } else if (spec->conversion == 'c') {
        byte = (char)va_arg(args->list, int);
        put(message, &byte, 1);
    } else if (spec->conversion == '%') {
        put(message, &byte, 1);
    } else {
        put_number(message, spec, args);
    }
}

/* NOLINTEND(clang-analyzer-valist.Uninitialized,bugprone-branch-clone) */

/* ---- Names. ---- */

/* Returns the length of `{name}` at the start of `at` if a conversion follows, else 0. */
static size_t name_len(const char *at)
{
    size_t len = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz0123456789_");
    const char *next = at + len + 2;

    if (at[0] != '{' || len == 0 || len > LOG_NAME_MAX || at[len + 1] != '}') {
        return 0;
    }
    next += strncmp(next, "0x", 2) == 0 ? 2 : 0;
    return next[0] == '%' && next[1] != '%' ? len + 2 : 0;
}

/* Whether the text is an integer or a decimal fraction by the grammar of JSON: padded numbers,
 * `inf` and `nan` are not. */
static bool is_json_number(struct slice text)
{
    const char *at = (const char *)text.data;
    size_t pos = text.len > 0 && at[0] == '-' ? 1 : 0;
    size_t first = pos;

    while (pos < text.len && at[pos] >= '0' && at[pos] <= '9') {
        pos++;
    }
    if (pos == first || (pos > first + 1 && at[first] == '0')) {
        return false;
    }
    if (pos < text.len && at[pos] == '.') {
        first = ++pos;
        while (pos < text.len && at[pos] >= '0' && at[pos] <= '9') {
            pos++;
        }
        return pos == text.len && pos > first;
    }
    return pos == text.len;
}

/* Notes that the message from `from` on is the value of `name`. A number that was cut would be
 * another number, so it is left out. */
static void add_field(struct logfmt *message, struct slice name, size_t from, char conversion)
{
    struct slice value = slice_make(message->text + from, message->len - from);

    if (message->count == LOG_FIELDS_MAX || is_reserved(name) || has_field(message, name) ||
        (message->cut && conversion != 's')) {
        return;
    }
    message->fields[message->count++] = (struct logfmt_field){
        .name = name,
        .value = value,
        .is_number = strchr("diuf", conversion) && is_json_number(value),
    };
}

void logfmt_init(struct logfmt *message)
{
    message->text[0] = '\0';
    message->len = 0;
    message->cut = false;
    message->count = 0;
}

void logfmt_text(struct logfmt *message, struct slice text)
{
    put(message, (const char *)text.data, text.len);
}

void logfmt_value(struct logfmt *message, struct slice name, struct slice text, bool is_number)
{
    size_t from = message->len;

    logfmt_text(message, text);
    add_field(message, name, from, is_number ? 'd' : 's');
}

/* ---- The whole format. ---- */

/* Prints the conversion at `at`, which may have `0x` before it, and returns what follows. */
static const char *print_conversion(struct logfmt *message, const char *at, struct slice name,
                                    struct args *args)
{
    size_t from = message->len;
    struct spec spec;

    if (*at == '0') {
        put(message, at, 2);
        at += 2;
    }
    ASSERT(*at == '%');
    at++;
    spec = parse(&at, args);
    put_value(message, &spec, args);
    if (name.len > 0) {
        add_field(message, name, from, spec.conversion);
    }
    return at;
}

void logfmt_vprint(struct logfmt *message, const char *format, va_list args)
{
    const char *at = format;
    struct args rest;

    va_copy(rest.list, args);
    while (*at != '\0') {
        size_t plain = strcspn(at, "{%");
        size_t named = 0;

        put(message, at, plain);
        at += plain;
        named = *at == '{' ? name_len(at) : 0;
        if (named > 0) {
            at = print_conversion(message, at + named, slice_make(at + 1, named - 2), &rest);
        } else if (*at == '%') {
            at = print_conversion(message, at, slice_make(NULL, 0), &rest);
        } else if (*at != '\0') {
            put(message, at++, 1);
        }
    }
    va_end(rest.list);
}

void logfmt_print(struct logfmt *message, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    logfmt_vprint(message, format, args);
    va_end(args);
}
