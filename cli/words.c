#include "cli/words.h"

/* The state of splitting one line. */
struct walk {
    struct words *words;
    const char *at;
    char quote; /* ' or ", or 0. */
    bool in_word;
    size_t starts[WORDS_MAX];
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void begin_word(struct walk *walk)
{
    struct words *words = walk->words;

    if (walk->in_word) {
        return;
    }
    walk->in_word = true;
    if (words->count == WORDS_MAX) {
        words->fault = "the line has too many words";
        return;
    }
    walk->starts[words->count++] = words->text.len;
}

static void end_word(struct walk *walk)
{
    if (walk->in_word) {
        buf_append_byte(&walk->words->text, '\0');
        walk->in_word = false;
    }
}

static void take_quoted(struct walk *walk, char c)
{
    bool escape = walk->quote == '"' && c == '\\' && (walk->at[1] == '"' || walk->at[1] == '\\');

    if (c == walk->quote) {
        walk->quote = '\0';
        return;
    }
    walk->at += escape ? 1 : 0;
    buf_append_byte(&walk->words->text, (uint8_t)*walk->at);
}

static void take_plain(struct walk *walk, char c)
{
    if (is_blank(c)) {
        end_word(walk);
        return;
    }
    begin_word(walk);
    if (c == '\'' || c == '"') {
        walk->quote = c;
        return;
    }
    walk->at += c == '\\' && walk->at[1] ? 1 : 0;
    buf_append_byte(&walk->words->text, (uint8_t)*walk->at);
}

bool words_split(struct words *words, const char *line, bool unfinished)
{
    struct walk walk = {.words = words, .at = line};

    *words = (struct words){.count = 0};
    buf_init(&words->text, WORDS_LINE_MAX + WORDS_MAX);
    if (strlen(line) >= WORDS_LINE_MAX) {
        words->fault = "the line is too long";
        return false;
    }
    for (; *walk.at && !words->fault; walk.at++) {
        if (!walk.in_word && *walk.at == '#') {
            break;
        }
        if (walk.quote) {
            take_quoted(&walk, *walk.at);
        } else {
            take_plain(&walk, *walk.at);
        }
    }
    words->open = walk.in_word;
    end_word(&walk);
    if (walk.quote && !unfinished) {
        words->fault = "a quote is not terminated";
    }
    for (int i = 0; i < words->count; i++) {
        words->items[i] = (char *)words->text.data + walk.starts[i];
    }
    return !words->fault;
}

void words_release(struct words *words)
{
    buf_release(&words->text);
}

struct slice words_trim(struct slice text)
{
    while (text.len > 0 && is_blank((char)text.data[0])) {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && is_blank((char)text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

int words_find(const char *list, const char *word)
{
    size_t word_len = strlen(word);
    int index = 0;

    for (const char *at = list; *at; at += strspn(at, ", ")) {
        size_t len = strcspn(at, ",");

        if (len == word_len && memcmp(at, word, len) == 0) {
            return index;
        }
        at += len;
        index++;
    }
    return -1;
}

void words_quote(struct buf *out, struct slice word)
{
    buf_append_byte(out, '\'');
    for (size_t i = 0; i < word.len; i++) {
        if (word.data[i] == '\'') {
            buf_append_str(out, "'\\''");
        } else {
            buf_append_byte(out, word.data[i]);
        }
    }
    buf_append_byte(out, '\'');
}

static bool is_plain(uint8_t byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || (byte != '\0' && strchr("_./,:@%+=-", byte));
}

void words_quote_path(struct buf *out, const char *path)
{
    struct slice word = slice_str(path);
    bool plain = word.len > 0;

    for (size_t i = 0; i < word.len; i++) {
        plain = plain && is_plain(word.data[i]);
    }
    if (plain) {
        buf_append_slice(out, word);
    } else {
        words_quote(out, word);
    }
}
