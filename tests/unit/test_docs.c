/* docs/configuration.md against the program: each key of the configuration has its line there, and
 * each line its key. */
#include "base/buf.h"
#include "server/config/config.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1 << 20
};

static const char section[] = "## All keys\n";

static void read_page(const char *name, struct buf *out)
{
    char path[1024];
    ssize_t got = 1;

    (void)snprintf(path, sizeof(path), "%s/%s", ZABRA_DOCS, name);

    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    while (got > 0) {
        uint8_t *to = buf_reserve(out, BUFSIZ);

        assert_non_null(to);
        got = read(fd, to, BUFSIZ);
        out->len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
}

static void put_range(const struct config_row *row, struct buf *out)
{
    if (row->choices) {
        for (const char *const *choice = row->choices; *choice; choice++) {
            buf_printf(out, "%s%s", choice == row->choices ? "" : ", ", *choice);
        }
    } else if (row->type == CONFIG_BOOL) {
        buf_append_str(out, "true, false");
    } else if (row->type != CONFIG_TEXT) {
        buf_printf(out, "%" PRIu64 " to %" PRIu64, row->min, row->max);
    }
}

static void put_line(const struct config_row *row, struct buf *out)
{
    buf_clear(out);
    buf_printf(out, "| `%s` | %s | ", row->key, row->fallback ? row->fallback : "required");
    put_range(row, out);
    buf_printf(out, " | %s |\n", row->help);
}

/* The lines of the section are those of the table, in the same order. */
TEST(every_key_is_documented)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);
    struct buf page;
    struct buf line;
    bool same = true;

    buf_init(&page, TEXT_MAX);
    buf_init(&line, TEXT_MAX);
    read_page("configuration.md", &page);

    const char *at = strstr(buf_cstr(&page), section);

    assert_non_null(at);
    at = strstr(at, "| `");
    assert_non_null(at);
    for (size_t i = 0; i < count; i++) {
        put_line(&rows[i], &line);
        same = same && strncmp(at, buf_cstr(&line), line.len) == 0;
        at += same ? line.len : 0;
        if (!same) { /* Prints the section as it should be, to copy into the page. */
            (void)fprintf(stderr, "%s", buf_cstr(&line));
        }
    }
    assert_true(same);
    assert_true(strncmp(at, "| `", 3) != 0);
    buf_release(&page);
    buf_release(&line);
}

/* The tables of the page name no key that the program does not have, such as one that was renamed.
 */
TEST(every_documented_key_exists)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);
    struct buf page;

    buf_init(&page, TEXT_MAX);
    read_page("configuration.md", &page);
    for (const char *at = strstr(buf_cstr(&page), "\n| `"); at; at = strstr(at + 1, "\n| `")) {
        const char *end = strstr(at, " | ");

        for (const char *key = strchr(at, '`'); key && end && key < end;
             key = strchr(strchr(key + 1, '`') + 1, '`')) {
            struct slice name = slice_make(key + 1, strcspn(key + 1, "`"));
            bool known = slice_eq(name, slice_str("server.N"));

            for (size_t i = 0; i < count; i++) {
                known = known || slice_eq(name, slice_str(rows[i].key));
            }
            if (!known) {
                fail_msg("docs/configuration.md names an unknown key %.*s", (int)name.len,
                         (const char *)name.data);
            }
        }
    }
    buf_release(&page);
}
