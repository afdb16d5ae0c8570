#include "tests/proc/page.h"

#include "base/mem.h"
#include "tests/lib/unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    PAGE_MAX = 1 << 20
};

/* Joins a line that ends with a backslash with the next one; returns the start of the line after
 * it, NULL: there is none. */
static char *cut_line(char *line)
{
    char *end = strchr(line, '\n');

    while (end && end > line && end[-1] == '\\') {
        end[-1] = ' ';
        *end = ' ';
        end = strchr(end, '\n');
    }
    if (end) {
        *end = '\0';
    }
    return end ? end + 1 : NULL;
}

uint32_t page_run(const char *heading, uint32_t block, void (*run)(void *ctx, const char *line),
                  void *ctx)
{
    char *page = mem_alloc(PAGE_MAX);
    FILE *file = fopen(ZABRA_TOP "/docs/operating.md", "re");
    size_t len = file ? fread(page, 1, PAGE_MAX - 1, file) : 0;
    bool here = false;
    bool inside = false;
    uint32_t blocks = 0;
    uint32_t count = 0;

    assert_true(len > 0 && fclose(file) == 0);
    page[len] = '\0';
    for (char *line = page, *next = NULL; line; line = next) {
        next = cut_line(line);
        if (strncmp(line, "##", 2) == 0) {
            here = strcmp(line + strspn(line, "# "), heading) == 0;
        } else if (strncmp(line, "```", 3) == 0) {
            bool begins = here && strcmp(line, "```sh") == 0;

            blocks += begins ? 1 : 0;
            inside = begins && (block == 0 || blocks == block);
        } else if (inside) {
            run(ctx, line);
            count++;
        }
    }
    mem_free(page);
    return count;
}
