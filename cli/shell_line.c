#include "cli/shell_line.h"

#include "base/lack.h"
#include "cli/complete.h"
#include "cli/jsonr.h"
#include "cli/library.h"
#include "cli/settings.h"
#include "cli/words.h"

#include <errno.h>
#include <fcntl.h>
#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

enum {
    HISTORY_LINES = 1000,
    PROMPT_MAX = 512,
    SHOWN_MAX = 100, /* Most candidates that are listed. */
    NO_TEXT = 0xff   /* A byte that valid text never has. */
};

struct shell_line {
    EditLine *edit; /* NULL: a script. */
    History *history;
    char history_file[SETTINGS_PATH_MAX]; /* "": there is no home. */
    const char *cwd;
    char prompt[PROMPT_MAX];
    struct buf script; /* The current line of a script. */
};

/* ---- The library ---- */

/* Only a terminal needs libedit. Its functions are called as edit.NAME. */
#define FUNCTIONS(row)                                                                      \
    row(el_init) row(el_end) row(el_set) row(el_wset) row(el_get) row(el_gets) row(el_line) \
        row(el_insertstr) row(history_init) row(history_end) row(history)
#define MEMBER(name) __typeof__(name) *(name);
#define SYMBOL(name) {#name, (void *)&edit.name},

static struct {
    FUNCTIONS(MEMBER)
} edit;

static void load_libedit(void)
{
    static const struct library_symbol symbols[] = {FUNCTIONS(SYMBOL){NULL, NULL}};
    char error[LIBRARY_ERROR_MAX];

    if (!library_load("libedit.so.2", "libedit2", symbols, error)) {
        lack_failed("%s, or give the shell its lines on standard input", error);
    }
}

/* ---- Completion ---- */

/* The common beginning of the candidates, and how many there are. */
struct candidates {
    struct slice common;
    int count;
    bool inner; /* The only candidate does not end the word. */
};

static void take_candidate(struct candidates *candidates, struct slice line)
{
    struct slice text = slice_make(line.data, slice_find(line, '\t')); /* Only the candidate. */
    size_t same = 0;

    if (line.len > 0 && line.data[0] == ':') {
        candidates->inner = true;
        return;
    }
    if (candidates->count++ == 0) {
        candidates->common = text;
        return;
    }
    while (same < text.len && same < candidates->common.len &&
           text.data[same] == candidates->common.data[same]) {
        same++;
    }
    candidates->common.len = same;
}

static void take_candidates(struct candidates *candidates, struct slice lines, bool show)
{
    int shown = 0;

    while (lines.len > 0) {
        struct slice line = slice_cut(&lines, '\n');

        if (!show) {
            take_candidate(candidates, line);
        } else if (line.len > 0 && line.data[0] != ':' && shown++ < SHOWN_MAX) {
            (void)printf("%.*s\n", (int)slice_find(line, '\t'), (const char *)line.data);
        }
    }
}

/* Inserts the rest of the word into the line, quoted as words_split reads it. */
static void insert(EditLine *el, struct slice rest, bool ends)
{
    BUF_AUTO(text, WORDS_LINE_MAX);

    for (size_t i = 0; i < rest.len; i++) {
        if (strchr(" \t'\"\\#", rest.data[i])) {
            buf_append_byte(&text, '\\');
        }
        buf_append_byte(&text, rest.data[i]);
    }
    if (ends) {
        buf_append_byte(&text, ' ');
    }
    (void)edit.el_insertstr(el, buf_cstr(&text));
}

static unsigned char complete_words(struct shell_line *line, struct words *words)
{
    static char ls[] = "ls";
    const char *typed = words->items[words->count - 1];
    struct candidates candidates = {.count = 0};
    unsigned char result = CC_ERROR;
    BUF_AUTO(out, COMPLETE_OUT_MAX);

    if (words->count > 1 && strcmp(words->items[0], "cd") == 0) {
        words->items[0] = ls; /* The operand of cd is a path, too. */
    }
    complete(words->items, words->count, line->cwd, &out);
    take_candidates(&candidates, buf_slice(&out), false);

    size_t len = strlen(typed);
    bool ends = candidates.count == 1 && !candidates.inner;

    if (candidates.count > 0 && (candidates.common.len > len || ends)) {
        insert(line->edit, slice_make(candidates.common.data + len, candidates.common.len - len),
               ends);
        result = CC_REFRESH;
    } else if (candidates.count > 1) {
        (void)putchar('\n');
        take_candidates(&candidates, buf_slice(&out), true);
        result = CC_REDISPLAY;
    }
    return result;
}

static unsigned char on_tab(EditLine *el, wint_t key)
{
    static char empty[] = "";
    struct shell_line *line = NULL;
    const LineInfo *info = edit.el_line(el);
    unsigned char result = CC_ERROR;
    struct words words;
    BUF_AUTO(text, WORDS_LINE_MAX);

    (void)key;
    (void)edit.el_get(el, EL_CLIENTDATA, &line);
    buf_append(&text, info->buffer, (size_t)(info->cursor - info->buffer));
    if (words_split(&words, buf_cstr(&text), true)) {
        if (!words.open && words.count < WORDS_MAX) {
            words.items[words.count++] = empty;
        }
        result = complete_words(line, &words);
    }
    words_release(&words);
    return result;
}

/* ---- Terminal ---- */

static char *prompt_of(EditLine *el)
{
    struct shell_line *line = NULL;

    (void)edit.el_get(el, EL_CLIENTDATA, &line);
    return line->prompt;
}

/* Finds the path of the history, $XDG_STATE_HOME/zabra/history, and makes its folder. */
static void find_history(char name[SETTINGS_PATH_MAX])
{
    if (!settings_file("XDG_STATE_HOME", ".local/state", "history", name)) {
        *name = '\0';
    }
    for (char *at = *name ? strchr(name + 1, '/') : NULL; at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(name, S_IRWXU);
        *at = '/';
    }
}

static void open_history(struct shell_line *line)
{
    HistEvent event;

    line->history = edit.history_init();
    ASSERT(line->history);
    (void)edit.history(line->history, &event, H_SETSIZE, HISTORY_LINES);
    (void)edit.history(line->history, &event, H_SETUNIQUE, 1);
    find_history(line->history_file);
    if (*line->history_file) {
        (void)edit.history(line->history, &event, H_LOAD, line->history_file);
    }
    (void)edit.el_set(line->edit, EL_HIST, edit.history, line->history);
}

static void open_terminal(struct shell_line *line)
{
    load_libedit();
    line->edit = edit.el_init("zabra", stdin, stdout, stderr);
    ASSERT(line->edit);
    (void)edit.el_set(line->edit, EL_CLIENTDATA, line);
    (void)edit.el_set(line->edit, EL_PROMPT, prompt_of);
    (void)edit.el_set(line->edit, EL_EDITOR, "emacs");
    /* el_set would leak the two names. */
    (void)edit.el_wset(line->edit, EL_ADDFN, L"zabra-complete", L"complete a word", on_tab);
    (void)edit.el_set(line->edit, EL_BIND, "^I", "zabra-complete", NULL);
    (void)edit.el_set(line->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    /* Ctrl-C drops the text that is typed. */
    (void)edit.el_set(line->edit, EL_SETTY, "-d", "-isig", NULL);
    (void)edit.el_set(line->edit, EL_BIND, "^C", "em-kill-line", NULL);
    open_history(line);
}

static void save_history(const struct shell_line *line)
{
    HistEvent event;
    mode_t before = umask(S_IRWXG | S_IRWXO);

    if (*line->history_file) {
        (void)edit.history(line->history, &event, H_SAVE, line->history_file);
    }
    (void)umask(before);
}

struct shell_line *shell_line_open(bool terminal)
{
    struct shell_line *line = mem_zalloc(1, sizeof(*line));

    buf_init(&line->script, WORDS_LINE_MAX); /* words_split refuses a line that does not fit. */
    if (terminal) {
        open_terminal(line);
    }
    return line;
}

void shell_line_close(struct shell_line *line)
{
    if (line->edit) {
        save_history(line);
        edit.history_end(line->history);
        edit.el_end(line->edit);
    }
    buf_release(&line->script);
    mem_free(line);
}

static const char *next_typed(struct shell_line *line)
{
    HistEvent event;
    int len = 0;
    const char *text = edit.el_gets(line->edit, &len);

    if (!text || len <= 0) {
        (void)putchar('\n');
        return NULL;
    }
    if (*text != ' ' && *text != '\n') {
        (void)edit.history(line->history, &event, H_ENTER, text);
    }
    return text;
}

/* Reads a line byte by byte, so that nothing is read ahead. */
static const char *next_of_script(struct shell_line *line)
{
    char byte = 0;
    ssize_t got = 1;

    buf_clear(&line->script);
    while (got != 0) {
        got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && errno != EINTR) {
            return NULL;
        }
        if (got == 1 && byte == '\n') {
            return buf_cstr(&line->script);
        }
        if (got == 1) { /* A NUL byte would cut the line off; NO_TEXT makes the line wrong. */
            (void)buf_append_byte(&line->script, byte ? (uint8_t)byte : NO_TEXT);
        }
    }
    return line->script.len > 0 ? buf_cstr(&line->script) : NULL;
}

const char *shell_line_next(struct shell_line *line, const char *cwd)
{
    line->cwd = cwd;
    if (!line->edit) {
        return next_of_script(line);
    }
    (void)snprintf(line->prompt, sizeof(line->prompt), "zabra %.400s> ", cwd);
    return next_typed(line);
}

void shell_line_detach(struct shell_line *line)
{
    if (!line->edit) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        if (fd >= 0) {
            (void)dup2(fd, STDIN_FILENO);
            close(fd);
        }
    }
}
