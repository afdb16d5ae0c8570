#include "tests/proc/page.h"

#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE_MAX = 1 << 20
};

static int top_fd; /* The working directory of the tests. */

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

static uint32_t each_line(const struct page_block *block, void (*run)(void *ctx, const char *line),
                          void *ctx)
{
    char *page = mem_alloc(PAGE_MAX);
    char path[PATH_MAX];
    bool here = false;
    bool inside = false;
    bool open = false;
    uint32_t blocks = 0;
    uint32_t count = 0;

    (void)snprintf(path, sizeof(path), "%s/%s", ZABRA_TOP, block->page);
    FILE *file = fopen(path, "re");
    size_t len = file ? fread(page, 1, PAGE_MAX - 1, file) : 0;

    assert_true(len > 0 && fclose(file) == 0);
    page[len] = '\0';
    for (char *line = page, *next = NULL; line; line = next) {
        next = cut_line(line);
        if (strncmp(line, "```", 3) == 0) {
            open = !open;
            bool begins = here && open && (!block->kind || strcmp(line + 3, block->kind) == 0);

            blocks += begins ? 1 : 0;
            inside = begins && (block->number == 0 || blocks == block->number);
        } else if (inside) {
            run(ctx, line);
            count++;
        } else if (!open && strncmp(line, "##", 2) == 0) {
            here = strcmp(line + strspn(line, "# "), block->heading) == 0;
        }
    }
    mem_free(page);
    return count;
}

uint32_t page_run(const char *heading, uint32_t block, void (*run)(void *ctx, const char *line),
                  void *ctx)
{
    const struct page_block chosen = {
        .page = "docs/operating.md", .heading = heading, .kind = "sh", .number = block};

    return each_line(&chosen, run, ctx);
}

static void write_line(void *ctx, const char *line)
{
    assert_true(fprintf(ctx, "%s\n", line) > 0);
}

void page_cut(const struct page_block *block, const char *name)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s/%s", getenv("D"), name);
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    assert_true(each_line(block, write_line, file) > 0);
    assert_int_equal(fclose(file), 0);
}

void page_localize(const struct ensemble *ensemble, const char *name)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        assert_int_equal(shell("sed -i 's/zk%u[.]example[.]org:9998/localhost:%u/' $D/%s", i + 1,
                               ensemble->replicas[i].client_port, name),
                         0);
    }
}

void page_ensemble_open(struct ensemble *ensemble, uint32_t count, void (*configure)(void),
                        const uint16_t *probes)
{
    top_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(top_fd >= 0);
    ensemble_open(ensemble, count, NULL);
    shell_open(ensemble);
    assert_int_equal(chdir(ensemble->dir), 0); /* The pages name files in tls/. */
    assert_int_equal(unsetenv("ZABRA_ENDPOINTS"), 0);
    configure();
    for (uint32_t i = 0; i < count; i++) {
        ensemble_start(ensemble, i);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(
            shell("eval \"$LIB\"; await 'curl -sSf http://127.0.0.1:%u/readyz'", probes[i]), 0);
    }
}

void page_ensemble_close(struct ensemble *ensemble)
{
    ensemble_close(ensemble);
    assert_int_equal(fchdir(top_fd), 0);
    close(top_fd);
}
