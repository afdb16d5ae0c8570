#include "cli/args.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

enum {
    WORD_MAX = 32 /* Longest word that guessing compares, in letters. */
};

/* The state of parsing one command line. */
struct parse {
    struct args *args;
    const struct cmd *cmd;
    const struct cmd_option *tables[ARGS_TABLES];
    char **words;
    int word_count;
    int pos;
};

bool args_refuse(char *error, size_t size, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(error, size, format, list);
    va_end(list);
    return false;
}

/* ---- Guessing ---- */

/* Returns how many letters must change to turn one word into the other. */
static int distance(const char *a, const char *b)
{
    int row[WORD_MAX + 1];
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);

    if (a_len > WORD_MAX || b_len > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = (int)j;
    }
    for (size_t i = 1; i <= a_len; i++) {
        int corner = row[0];

        row[0] = (int)i;
        for (size_t j = 1; j <= b_len; j++) {
            int above = row[j];
            int changed = corner + (a[i - 1] != b[j - 1]);
            int shorter = (above < row[j - 1] ? above : row[j - 1]) + 1;

            row[j] = changed < shorter ? changed : shorter;
            corner = above;
        }
    }
    return row[b_len];
}

bool args_is_nearer(const char *name, const char *word, int *wrong)
{
    int letters = distance(name, word);
    bool nearer = letters < *wrong;

    *wrong = nearer ? letters : *wrong;
    return nearer;
}

static const char *guess_option(const struct parse *parse, const char *name)
{
    const char *best = NULL;
    int wrong = ARGS_WRONG_MAX;

    for (int i = 0; i < ARGS_TABLES; i++) {
        for (const struct cmd_option *at = parse->tables[i]; at && at->name; at++) {
            best = args_is_nearer(name, at->name, &wrong) ? at->name : best;
        }
    }
    return best;
}

/* ---- Options ---- */

/* Returns the option called `name`; if `name` is NULL, the option with the short form `letter`. */
static const struct cmd_option *find(const struct cmd_option *const tables[ARGS_TABLES],
                                     const char *name, size_t len, char letter)
{
    for (int i = 0; i < ARGS_TABLES; i++) {
        for (const struct cmd_option *at = tables[i]; at && at->name; at++) {
            if (name ? strlen(at->name) == len && strncmp(at->name, name, len) == 0
                     : at->letter != 0 && at->letter == letter) {
                return at;
            }
        }
    }
    return NULL;
}

const struct cmd_option *args_option(const struct cmd *cmd, const struct cmd_option *common,
                                     const char *word)
{
    const struct cmd_option *const tables[ARGS_TABLES] = {cmd->options, common};

    if (strncmp(word, "--", 2) == 0) {
        return find(tables, word + 2, strcspn(word + 2, "="), '\0');
    }
    return word[0] == '-' && word[1] && !word[2] ? find(tables, NULL, 0, word[1]) : NULL;
}

static bool take(struct parse *parse, const struct cmd_option *option, const char *value)
{
    struct args *args = parse->args;

    if (args->given_count == ARGS_OPTIONS_MAX) {
        return ARGS_REFUSE(args, "more than %d options", (int)ARGS_OPTIONS_MAX);
    }
    args->given[args->given_count++] = (struct args_given){.option = option, .value = value};
    return true;
}

/* Takes an option with its value, which is attached or is the next word. */
static bool take_valued(struct parse *parse, const struct cmd_option *option, const char *attached)
{
    if (attached) {
        return take(parse, option, attached);
    }
    if (parse->pos == parse->word_count) {
        return ARGS_REFUSE(parse->args, "--%s needs a value: %s", option->name, option->value);
    }
    return take(parse, option, parse->words[parse->pos++]);
}

static bool take_long(struct parse *parse, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const struct cmd_option *option = find(parse->tables, word, len, '\0');

    if (!option) {
        const char *meant = guess_option(parse, word);

        return meant ? ARGS_REFUSE(parse->args, "there is no option --%.*s; did you mean --%s?",
                                   (int)len, word, meant)
                     : ARGS_REFUSE(parse->args, "there is no option --%.*s: zabra %s%s%s", (int)len,
                                   word, parse->cmd->name, *parse->cmd->usage ? " " : "",
                                   parse->cmd->usage);
    }
    if (option->value) {
        return take_valued(parse, option, equals ? equals + 1 : NULL);
    }
    if (equals) {
        return ARGS_REFUSE(parse->args, "--%s takes no value", option->name);
    }
    return take(parse, option, "");
}

static bool take_short(struct parse *parse, const char *letters)
{
    for (const char *at = letters; *at; at++) {
        const struct cmd_option *option = find(parse->tables, NULL, 0, *at);

        if (!option) {
            return ARGS_REFUSE(parse->args, "there is no option -%c", *at);
        }
        if (option->value) {
            return take_valued(parse, option, at[1] ? at + 1 : NULL);
        }
        if (!take(parse, option, "")) {
            return false;
        }
    }
    return true;
}

/* Whether a word is an operand. Some begin with a dash: "-" is standard input, -3 is a number. */
static bool is_operand(const struct parse *parse, const char *word)
{
    bool number = word[0] == '-' && word[1] >= '0' && word[1] <= '9';

    return word[0] != '-' || word[1] == '\0' || (number && !find(parse->tables, NULL, 0, word[1]));
}

static void add_operand(struct parse *parse, char *word)
{
    parse->args->operands[parse->args->operand_count++] = word;
}

/* Takes the words after "--": the child's command line, or operands that may look like options. */
static void take_rest(struct parse *parse)
{
    struct args *args = parse->args;

    if (parse->cmd->has_child) {
        args->child = parse->words + parse->pos;
        args->child_count = parse->word_count - parse->pos;
        return;
    }
    while (parse->pos < parse->word_count) {
        add_operand(parse, parse->words[parse->pos++]);
    }
}

static bool check_operands(struct parse *parse)
{
    struct args *args = parse->args;
    const struct cmd *cmd = parse->cmd;
    const char *blank = *cmd->usage ? " " : "";

    if (args->operand_count < cmd->operands.min) {
        return ARGS_REFUSE(args, "an argument is missing: zabra %s%s%s", cmd->name, blank,
                           cmd->usage);
    }
    if (args->operand_count > cmd->operands.max) {
        return ARGS_REFUSE(args, "unexpected argument \"%s\": zabra %s%s%s",
                           args->operands[cmd->operands.max], cmd->name, blank, cmd->usage);
    }
    return true;
}

bool args_parse(struct args *args, const struct cmd *cmd, const struct cmd_option *common,
                int word_count, char **words)
{
    struct parse parse = {.args = args,
                          .cmd = cmd,
                          .tables = {cmd->options, common},
                          .words = words,
                          .word_count = word_count};

    *args = (struct args){.operands = words};
    while (parse.pos < word_count) {
        char *word = words[parse.pos++];

        if (strcmp(word, "--") == 0) {
            take_rest(&parse);
            break;
        }
        if (is_operand(&parse, word)) {
            add_operand(&parse, word);
        } else if (word[1] == '-' ? !take_long(&parse, word + 2) : !take_short(&parse, word + 1)) {
            return false;
        }
    }
    return check_operands(&parse);
}

/* ---- Lookups ---- */

const char *args_get(const struct args *args, const char *name)
{
    for (int i = args->given_count; i > 0; i--) {
        if (strcmp(args->given[i - 1].option->name, name) == 0) {
            return args->given[i - 1].value;
        }
    }
    return NULL;
}

bool args_has(const struct args *args, const char *name)
{
    return args_get(args, name) != NULL;
}

const char *args_nth(const struct args *args, const char *name, int nth)
{
    for (int i = 0; i < args->given_count; i++) {
        if (strcmp(args->given[i].option->name, name) == 0 && nth-- == 0) {
            return args->given[i].value;
        }
    }
    return NULL;
}

const char *args_operand(const struct args *args, int index)
{
    return index < args->operand_count ? args->operands[index] : NULL;
}

/* ---- Numbers ---- */

/* Reads the number at the start of `text`, and gives its end. Returns false when there is no
 * number, or it is too large. */
static bool number_at(const char *text, int64_t *ret_number, const char **ret_end)
{
    const char *first = *text == '-' ? text + 1 : text;
    char *end = NULL;

    if (*first < '0' || *first > '9') {
        return false;
    }
    errno = 0;
    *ret_number = strtoll(text, &end, 10);
    *ret_end = end;
    return errno == 0;
}

static bool is_within(int64_t number, struct cmd_range range)
{
    return number >= range.min && number <= range.max;
}

bool args_number(const char *text, struct cmd_range range, int64_t *ret_number)
{
    const char *end = NULL;

    return number_at(text, ret_number, &end) && *end == '\0' && is_within(*ret_number, range);
}

bool args_take_number(const struct args *args, const struct cmd_option *option, int64_t *ret_number)
{
    const char *text = args_get(args, option->name);

    *ret_number = option->range.otherwise;
    return !text || (option->is_time ? args_duration_ms(text, option->range, ret_number)
                                     : args_number(text, option->range, ret_number));
}

bool args_duration_ms(const char *text, struct cmd_range range, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"h", 3600000}};

    const char *end = NULL;
    int64_t number = 0;

    if (!number_at(text, &number, &end)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].unit) == 0) {
            return !__builtin_mul_overflow(number, units[i].ms, ret_ms) &&
                   is_within(*ret_ms, range);
        }
    }
    return false;
}
