/*
 * Registers each test of each script zab/test_zab_*.txt, and runs it line by line: the output must
 * equal the lines below the line.
 */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/unit/zab/zab_play.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SCRIPT_BYTES_MAX = 1 << 20,
    LINE_MAX_BYTES = 512,
    DEPTH_MAX = 4, /* Of "let" within "let". */
    IN = 2,        /* Blanks before input ... */
    OUT = 4        /* ... and before the expected output. */
};

struct script_test {
    struct unit_test unit;
    char *path;
    char name[128];
};

struct script {
    const char *path;
    char *text;   /* All of it, each line a string. */
    char **lines; /* In it. */
    size_t count;
};

struct run {
    const struct script *script;
    struct play play;
    struct buf got; /* The test with its actual output, for ZABRA_REWRITE. */
    bool differs;
};

/* ---- A file, by lines. ---- */

static void script_open(struct script *script, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t len;

    *script = (struct script){.path = path, .text = mem_zalloc(1, SCRIPT_BYTES_MAX)};
    if (!file) {
        fail_msg("%s cannot be read", path);
    }
    len = fread(script->text, 1, SCRIPT_BYTES_MAX - 1, file);
    (void)fclose(file);
    for (size_t i = 0; i < len; i++) {
        script->count += script->text[i] == '\n';
    }
    script->lines = mem_zalloc(script->count + 1, sizeof(script->lines[0]));
    char *at = script->text;

    for (size_t i = 0; i < script->count; i++) {
        script->lines[i] = at;
        at = strchr(at, '\n');
        *at++ = '\0';
    }
}

static void script_close(struct script *script)
{
    mem_free(script->lines);
    mem_free(script->text);
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

static bool is_remark(const char *line)
{
    const char *text = line + indent_of(line);

    return *text == '\0' || *text == '#';
}

/* The line of "test NAME" or "let NAME"; `count` when there is none. */
static size_t script_find(const struct script *script, const char *kind, const char *name)
{
    size_t len = strlen(kind);

    for (size_t i = 0; i < script->count; i++) {
        const char *line = script->lines[i];

        if (strncmp(line, kind, len) == 0 && line[len] == ' ' &&
            strcmp(line + len + 1, name) == 0) {
            return i;
        }
    }
    return script->count;
}

/* The first line after a part: the next one at the margin. */
static size_t part_end(const struct script *script, size_t start)
{
    size_t end = start + 1;

    while (end < script->count && (script->lines[end][0] == ' ' || script->lines[end][0] == '\0')) {
        end++;
    }
    while (end > start + 1 && script->lines[end - 1][0] == '\0') {
        end--;
    }
    return end;
}

/* ---- A run. ---- */

static void wrong_line(const struct run *run, size_t line, const char *why)
{
    fail_msg("%s:%zu: %s", run->script->path, line + 1, why);
}

static void run_line(struct run *run, size_t line)
{
    char copy[LINE_MAX_BYTES];
    struct words words;

    (void)snprintf(copy, sizeof(copy), "%s", run->script->lines[line]);
    if (!line_split(&words, copy) || words.count == 0) {
        wrong_line(run, line, "the line has too many words");
    }
    if (!play_line(&run->play, &words)) {
        wrong_line(run, line, run->play.error);
    }
}

/* Carries out the lines of "let NAME"; appends their output. False when there is none. */
static bool run_part(struct run *run, const char *name, int depth, struct buf *came)
{
    size_t start = script_find(run->script, "let", name);

    if (start == run->script->count) {
        return false;
    }
    for (size_t i = start + 1; i < part_end(run->script, start); i++) {
        const char *line = run->script->lines[i];

        if (!is_remark(line) &&
            (depth >= DEPTH_MAX || !run_part(run, line + IN, depth + 1, came))) {
            run_line(run, i);
            play_report(&run->play, came);
        }
    }
    return true;
}

/* A line of a test: "NAME" of a "let" shows nothing, "see NAME" shows all its output. */
static void run_input(struct run *run, size_t line, struct buf *came)
{
    const char *text = run->script->lines[line] + IN;

    if (strncmp(text, "see ", 4) == 0 && run_part(run, text + 4, 0, came)) {
        return;
    }
    if (run_part(run, text, 0, came)) {
        buf_clear(came);
        return;
    }
    run_line(run, line);
    play_report(&run->play, came);
}

/* Compares the output with the lines after `line`; returns the first line after them. */
static size_t compare(struct run *run, size_t line, size_t end, char *came)
{
    char *rest = NULL;
    char *text = strtok_r(came, "\n", &rest);
    size_t at = line + 1;

    while (at < end && indent_of(run->script->lines[at]) >= OUT) {
        const char *want = run->script->lines[at] + OUT;

        if (*want != '#' && !run->differs && (!text || strcmp(want, text) != 0)) {
            run->differs = true;
            if (!getenv("ZABRA_REWRITE")) {
                fail_msg("%s:%zu:\n  after      %s\n  expected   %s\n  but got    %s",
                         run->script->path, at + 1, run->script->lines[line] + IN, want,
                         text ? text : "(nothing more)");
            }
        }
        if (*want != '#') {
            text = text ? strtok_r(NULL, "\n", &rest) : NULL;
        }
        at++;
    }
    if (text && !run->differs) {
        run->differs = true;
        if (!getenv("ZABRA_REWRITE")) {
            fail_msg("%s:%zu:\n  after      %s\n  not expected   %s", run->script->path, at + 1,
                     run->script->lines[line] + IN, text);
        }
    }
    return at;
}

static void note_lines(struct buf *out, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        (void)buf_printf(out, "%*s%.*s\n", OUT, "", (int)(end - text), text);
    }
}

static void play_test(struct run *run, size_t start, size_t end)
{
    (void)buf_printf(&run->got, "%s\n", run->script->lines[start]);
    for (size_t i = start + 1; i < end;) {
        const char *line = run->script->lines[i];
        struct buf came;

        if (indent_of(line) != IN || is_remark(line)) {
            if (!is_remark(line)) {
                wrong_line(run, i, "this output belongs to no input");
            }
            (void)buf_printf(&run->got, "%s\n", line);
            i++;
            continue;
        }
        buf_init(&came, 1 << 20);
        run_input(run, i, &came);
        (void)buf_printf(&run->got, "%s\n", line);
        note_lines(&run->got, buf_cstr(&came));
        i = compare(run, i, end, buf_cstr(&came));
        buf_release(&came);
    }
}

/* Writes the script with the actual output of the test. */
static void rewrite(const struct run *run, size_t start, size_t end)
{
    FILE *file = fopen(run->script->path, "we");

    assert_non_null(file);
    for (size_t i = 0; i < run->script->count; i++) {
        if (i == start) {
            (void)fwrite(run->got.data, 1, run->got.len, file);
            i = end;
        }
        if (i < run->script->count) {
            (void)fprintf(file, "%s\n", run->script->lines[i]);
        }
    }
    assert_int_equal(fclose(file), 0);
}

static void take(enum unit_step step, void *fixture)
{
    const struct script_test *test = fixture;
    struct script script;
    struct run run = {.script = &script};

    if (step != UNIT_RUN) {
        return;
    }
    script_open(&script, test->path);
    size_t start = script_find(&script, "test", test->name);
    size_t end = part_end(&script, start);

    play_init(&run.play);
    buf_init(&run.got, SCRIPT_BYTES_MAX);
    play_test(&run, start, end);
    if (run.differs) {
        rewrite(&run, start, end);
    }
    play_release(&run.play);
    buf_release(&run.got);
    script_close(&script);
}

/* ---- All scripts. ---- */

static void add_tests(const char *path)
{
    struct script script;

    script_open(&script, path);
    for (size_t i = 0; i < script.count; i++) {
        if (strncmp(script.lines[i], "test ", 5) == 0) {
            struct script_test *test = mem_zalloc(1, sizeof(*test));

            (void)snprintf(test->name, sizeof(test->name), "%s", script.lines[i] + 5);
            test->path = mem_dup(path, strlen(path) + 1);
            test->unit = (struct unit_test){
                .file = test->path, .name = test->name, .take = take, .fixture = test};
            unit_add(&test->unit);
        }
    }
    script_close(&script);
}

__attribute__((constructor)) static void add_scripts(void)
{
    glob_t found;

    if (glob(ZABRA_SCRIPTS "/test_zab_*.txt", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            add_tests(found.gl_pathv[i]);
        }
        globfree(&found);
    }
}
