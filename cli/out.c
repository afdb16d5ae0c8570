#include "cli/out.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <time.h>
#include <unistd.h>

enum {
    COLUMNS_MAX = 16,
    MEMBER_MAX = 32,
    CELL_MAX = 256, /* Bytes of a cell in a table; longer text is cut. */
    USAGE_MAX = 1024,
    NOTE_MAX = 1200,
    TIME_MAX = 40,
    TEXT_MAX = 256 << 20
};

bool out_is_json(const struct out *out)
{
    return out->format == SETTINGS_JSON || out->format == SETTINGS_NDJSON;
}

bool out_is_text(const struct out *out)
{
    return out->format == SETTINGS_TEXT || out->silent;
}

void out_say(const struct out *out, const char *format, ...)
{
    va_list list;

    if (out->silent || out_is_json(out)) {
        return;
    }
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
}

void out_bytes(const struct out *out, struct slice bytes)
{
    if (!out->silent && bytes.len > 0) {
        (void)fwrite(bytes.data, 1, bytes.len, stdout);
    }
}

void out_answer(const struct out *out, struct slice json)
{
    if (!out->silent && json.len > 0) {
        out_bytes(out, json);
        (void)putchar('\n');
    }
}

void out_json(const struct out *out, const json_t *value)
{
    BUF_AUTO(text, TEXT_MAX);

    jsonr_put(&text, value);
    out_answer(out, buf_slice(&text));
}

/* ---- Cells ---- */

/* Appends up to `max` bytes. Invalid UTF-8 becomes "?". With `visible` a control character becomes
 * "?", too: names of znodes hold none, but data may. */
static void put_text(struct buf *out, struct slice text, size_t max, bool visible)
{
    size_t pos = 0;

    while (pos < text.len && out->len < max) {
        size_t start = pos;
        int32_t point = utf8_next(text, &pos);
        bool control = point < 0x20 || (point >= 0x7f && point < 0xa0);

        if (point >= 0 && !(visible && control)) {
            buf_append(out, text.data + start, pos - start);
            continue;
        }
        buf_append_byte(out, '?');
        pos = point < 0 ? start + 1 : pos;
    }
}

void out_text(const struct out *out, const char *text)
{
    BUF_AUTO(visible, TEXT_MAX);

    put_text(&visible, slice_str(text), TEXT_MAX, true);
    out_say(out, "%s", buf_cstr(&visible));
}

/* ---- Columns ---- */

struct column {
    struct slice title;
    char member[MEMBER_MAX];
    bool right;
};

/* Parses the columns. Returns their number. */
static int parse_columns(const char *text, struct column columns[COLUMNS_MAX])
{
    int count = 0;

    for (const char *at = text; *at; at += strspn(at, ", ")) {
        struct column *column = &columns[count++];
        size_t title_len = strcspn(at, ":");
        const char *member = at + title_len + 1;
        size_t len = strcspn(member, ",");

        ASSERT(count <= COLUMNS_MAX && at[title_len] == ':' && len < MEMBER_MAX);
        column->title = slice_make(at, title_len);
        column->right = len > 0 && member[len - 1] == '>';
        (void)snprintf(column->member, MEMBER_MAX, "%.*s", (int)len - column->right, member);
        at = member + len;
    }
    return count;
}

/* Returns the member of the item for the column, or the item itself when the column has none. */
static const json_t *member_of(const json_t *item, const struct column *column)
{
    return *column->member ? jsonr_at(item, column->member) : item;
}

static void put_cell(struct buf *cell, const json_t *value)
{
    buf_clear(cell);
    if (json_is_string(value)) {
        put_text(cell, slice_make(json_string_value(value), json_string_length(value)),
                 CELL_MAX - 4, true);
    } else if (json_is_integer(value)) {
        buf_printf(cell, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    } else if (json_is_boolean(value)) {
        buf_append_str(cell, json_is_true(value) ? "yes" : "no");
    } else if (json_is_real(value)) {
        buf_printf(cell, "%.3f", json_real_value(value));
    } else {
        buf_append_byte(cell, '-');
    }
}

/* Returns the number of characters, each of which is taken to be one place wide. */
static int width_of(struct slice text)
{
    int width = 0;

    for (size_t i = 0; i < text.len; i++) {
        width += (text.data[i] & 0xc0) != 0x80 ? 1 : 0;
    }
    return width;
}

static void print_padded(struct slice text, int width, const struct column *column, bool last)
{
    int blanks = width - width_of(text);

    if (column->right) {
        (void)printf("%*s", blanks, "");
    }
    (void)fwrite(text.data, 1, text.len, stdout);
    if (!column->right && !last) {
        (void)printf("%*s", blanks, "");
    }
    (void)fputs(last ? "\n" : "  ", stdout);
}

/* ---- Lists ---- */

static void print_lines(const struct out *out, const json_t *list)
{
    JSONR_EACH (item, list) {
        json_auto_t *line =
            json_is_object(item) ? json_incref(item) : json_pack("{s:O}", "name", item);

        out_json(out, line);
    }
}

static void print_titles(const struct out *out, const struct column *columns, int count,
                         const int *widths)
{
    (void)fputs(out->color ? OUT_BOLD : "", stdout);
    for (int i = 0; i < count; i++) {
        print_padded(columns[i].title, widths[i], &columns[i], i + 1 == count);
    }
    (void)fputs(out->color ? OUT_PLAIN : "", stdout);
}

static void measure(const json_t *list, const struct column *columns, int count, bool titles,
                    int *widths)
{
    BUF_AUTO(cell, CELL_MAX);

    for (int i = 0; i < count; i++) {
        widths[i] = titles ? width_of(columns[i].title) : 0;
        JSONR_EACH (item, list) {
            put_cell(&cell, member_of(item, &columns[i]));

            int width = width_of(buf_slice(&cell));

            widths[i] = width > widths[i] ? width : widths[i];
        }
    }
}

static void print_table(const struct out *out, const json_t *list, const char *text, bool titles)
{
    struct column columns[COLUMNS_MAX];
    int count = parse_columns(text, columns);
    int widths[COLUMNS_MAX] = {0};
    BUF_AUTO(cell, CELL_MAX);

    measure(list, columns, count, titles, widths);
    if (titles) {
        print_titles(out, columns, count, widths);
    }
    JSONR_EACH (item, list) {
        for (int i = 0; i < count; i++) {
            put_cell(&cell, member_of(item, &columns[i]));
            print_padded(buf_slice(&cell), widths[i], &columns[i], i + 1 == count);
        }
    }
}

void out_list(const struct out *out, const json_t *value, const char *member, const char *columns)
{
    const json_t *list = jsonr_at(value, member);

    if (out->silent) {
        return;
    }
    if (out->format == SETTINGS_JSON) {
        out_json(out, value);
    } else if (out->format == SETTINGS_NDJSON) {
        print_lines(out, list);
    } else {
        print_table(out, list, columns, out->format == SETTINGS_TABLE);
    }
}

void out_table(const struct out *out, const json_t *value, const char *member, const char *columns)
{
    struct out with_titles = *out;

    with_titles.format = out->format == SETTINGS_TEXT ? SETTINGS_TABLE : out->format;
    out_list(&with_titles, value, member, columns);
}

/* ---- Facts ---- */

/* Returns {"title","value"} for each column whose member exists (no columns: each member). */
static json_t *facts_of(json_t *value, const char *text)
{
    struct column columns[COLUMNS_MAX];
    int count = text ? parse_columns(text, columns) : 0;
    json_t *facts = json_array();
    const char *name = NULL;
    json_t *member = NULL;

    for (int i = 0; i < count; i++) {
        member = jsonr_at(value, columns[i].member);
        if (member) {
            (void)json_array_append_new(facts,
                                        json_pack("{s:s%,s:O}", "title", columns[i].title.data,
                                                  columns[i].title.len, "value", member));
        }
    }
    if (!text) {
        json_object_foreach(value, name, member)
        {
            (void)json_array_append_new(facts,
                                        json_pack("{s:s,s:O}", "title", name, "value", member));
        }
    }
    return facts;
}

void out_facts(const struct out *out, json_t *value, const char *columns)
{
    if (out_is_json(out) || out->silent) {
        out_json(out, value);
        return;
    }

    json_auto_t *facts = facts_of(value, columns);

    print_table(out, facts, "title:title, value:value", false);
}

void out_result(const struct out *out, json_t *value)
{
    if (!out_is_text(out)) {
        out_facts(out, value, NULL);
    }
    json_decref(value);
}

/* ---- Errors ---- */

json_t *out_string(const char *text)
{
    BUF_AUTO(words, strlen(text) + 1);

    put_text(&words, slice_str(text), SIZE_MAX, false);

    json_t *value = json_string(buf_cstr(&words));

    ASSERT(value);
    return value;
}

static void put_json_error(struct buf *text, const struct out *out, int exit_code, const char *code,
                           const char *message, const json_t *extra)
{
    json_t *error = extra ? json_deep_copy(extra) : json_object();
    json_auto_t *whole = json_pack("{s:o}", "error", error);

    ASSERT(whole);
    (void)json_object_set_new(error, "code", json_string(code));
    (void)json_object_set_new(error, "message", out_string(message));
    (void)json_object_set_new(error, "command", out_string(out->cmd));
    (void)json_object_set_new(error, "exit_code", json_integer(exit_code));
    jsonr_put(text, whole);
}

/* Appends a message, which may hold text of a replica: line feeds stay, other control characters
 * would command the terminal. */
static void put_lines(struct buf *out, const char *message)
{
    for (const char *at = message; *at; at += *at ? 1 : 0) {
        size_t len = strcspn(at, "\n");

        put_text(out, slice_make(at, len), TEXT_MAX, true);
        at += len;
        if (*at) {
            buf_append_byte(out, '\n');
        }
    }
}

void out_note(const struct out *out, const char *format, ...)
{
    char message[NOTE_MAX];
    BUF_AUTO(text, TEXT_MAX);
    va_list list;

    if (out_is_json(out)) {
        return;
    }
    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    put_lines(&text, message);
    (void)fflush(stdout);
    (void)fprintf(stderr, "zabra %s: %s\n", out->cmd, buf_cstr(&text));
}

void out_error(const struct out *out, int exit_code, const char *code, const char *message,
               const json_t *extra)
{
    bool color = out->color && isatty(STDERR_FILENO);
    BUF_AUTO(text, TEXT_MAX);

    (void)fflush(stdout);
    if (!out_is_json(out)) {
        put_lines(&text, message);
        (void)fprintf(stderr, "%szabra%s%s:%s %s\n", color ? OUT_RED : "", out->nameless ? "" : " ",
                      out->nameless ? "" : out->cmd, color ? OUT_PLAIN : "", buf_cstr(&text));
        return;
    }
    put_json_error(&text, out, exit_code, code, message, extra);
    (void)printf("%s\n", buf_cstr(&text));
}

int out_usage(const struct out *out, const char *format, ...)
{
    char message[USAGE_MAX];
    size_t len = 0;
    va_list list;

    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    len = strlen(message);
    (void)snprintf(message + len, sizeof(message) - len, "; see 'zabra help %s'", out->cmd);
    out_error(out, CMD_USAGE, "Usage", message, NULL);
    return CMD_USAGE;
}

/* ---- Words ---- */

json_t *out_time(int64_t ms)
{
    char text[TIME_MAX] = "";
    time_t seconds = (time_t)(ms >= 0 ? ms / 1000 : (ms - 999) / 1000);
    struct tm date = {.tm_mday = 1};

    (void)gmtime_r(&seconds, &date);
    return json_stringn(text, strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &date));
}

bool out_is_utf8(void)
{
    const char *locale = settings_env("LC_ALL");

    locale = locale ? locale : settings_env("LC_CTYPE");
    locale = locale ? locale : settings_env("LANG");
    return locale && (strcasestr(locale, "utf-8") || strcasestr(locale, "utf8"));
}
