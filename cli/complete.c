#include "cli/complete.h"

#include "base/mem.h"
#include "cli/client.h"
#include "cli/cmd.h"
#include "cli/url.h"

#include <string.h>

/* What is being completed. */
struct completing {
    const struct cmd *cmd;
    struct args args; /* Options that stand before. */
    const char *cwd;
    const char *word;  /* Being typed, without `lead`. */
    struct slice lead; /* "--option=", which goes before each candidate. */
    struct buf *out;
    int candidates;
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void offer(struct completing *c, const char *text, const char *about)
{
    if (begins(text, c->word)) {
        buf_append_slice(c->out, c->lead);
        buf_append_str(c->out, text);
        buf_append_byte(c->out, '\t');
        buf_append_str(c->out, about);
        buf_append_byte(c->out, '\n');
        c->candidates++;
    }
}

/* The words to choose from, with which the alternatives begin: of "a|b|N" these are a and b, of
 * "add NAME [BY] | get NAME" add and get. */
static void offer_words(struct completing *c, const char *list)
{
    for (const char *at = list; *at;) {
        size_t len = 0;
        struct buf word;

        at += strspn(at, " [");
        len = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        if (*at != '-' && len > 0 && strchr(" |]", at[len])) { /* The end is one of them. */
            buf_init(&word, URL_MAX);
            buf_append(&word, at, len);
            offer(c, buf_cstr(&word), "");
            buf_release(&word);
        }
        at += strcspn(at, "|");
        at += *at ? 1 : 0;
    }
}

static void offer_commands(struct completing *c)
{
    for (const struct cmd *const *at = cmd_table; *at; at++) {
        if (!(*at)->hidden) {
            offer(c, (*at)->name, (*at)->summary);
        }
    }
}

/* ---- Paths ---- */

/* "/a" and "b/" are "/a/b"; the result has no slash at its end, but for the root. */
static void resolve(const char *cwd, struct slice typed, struct buf *path)
{
    bool absolute = typed.len > 0 && typed.data[0] == '/';

    if (!absolute && cwd && strcmp(cwd, "/") != 0) {
        buf_append_str(path, cwd);
    }
    if (!absolute) {
        buf_append_byte(path, '/');
    }
    buf_append_slice(path, typed);
    while (path->len > 1 && path->data[path->len - 1] == '/') {
        path->len--;
    }
}

static void offer_children(struct completing *c, const json_t *children, size_t typed_len)
{
    const char *word = c->word;
    struct buf text;
    const json_t *child = NULL;
    bool deep = false;
    size_t i = 0;

    buf_init(&text, URL_MAX);
    json_array_foreach(children, i, child)
    {
        buf_clear(&text);
        buf_append(&text, word, typed_len);
        buf_append_str(&text, jsonr_text(child, "name"));

        int before = c->candidates;

        offer(c, buf_cstr(&text), "");
        deep = c->candidates > before ? jsonr_number(child, "stat.numChildren") > 0 : deep;
    }
    if (c->candidates == 1 && deep) {
        buf_append_str(c->out, ":nospace\n");
    }
    buf_release(&text);
}

static void ask_children(struct completing *c, struct client *client)
{
    const char *slash = strrchr(c->word, '/');
    size_t typed_len = slash ? (size_t)(slash + 1 - c->word) : 0;
    struct client_request request = {.timeout_ms = COMPLETE_MS};
    struct buf path;
    struct buf url;

    buf_init(&path, URL_MAX);
    resolve(c->cwd, slice_make(c->word, typed_len), &path);
    if (!url_path_fault(buf_cstr(&path), false)) {
        const char *name = c->word + typed_len;

        url_init(&url, "/znodes/v1", buf_cstr(&path));
        url_param(&url, "view", "children");
        url_param(&url, "with", "stat");
        url_param_number(&url, "limit", COMPLETE_NAMES);
        /* All but the last letter: what is typed may be a whole name, and be wanted itself. */
        if (strlen(name) > 1 && !(name[strlen(name) - 1] & 0x80)) {
            struct buf after;

            buf_init(&after, URL_MAX);
            buf_append(&after, name, strlen(name) - 1);
            url_param(&url, "after", buf_cstr(&after));
            buf_release(&after);
        }
        request.target = buf_cstr(&url);
        if (client_ask(client, &request) == CMD_OK) {
            offer_children(c, jsonr_at(client_json(client), "children"), typed_len);
        }
        buf_release(&url);
    }
    buf_release(&path);
}

static void offer_paths(struct completing *c)
{
    struct settings *settings = mem_zalloc(1, sizeof(*settings));

    if (!*c->word && !c->cwd) {
        offer(c, "/", "the root");
        buf_append_str(c->out, ":nospace\n");
    } else if ((*c->word == '/' || c->cwd) && settings_load(settings, &c->args)) {
        struct client *client = NULL;

        settings->curl = false;
        settings->verbose = false;
        if (!settings->password_file) {
            settings->user = NULL; /* Completion asks for no password. */
        }
        client = client_open(settings);
        if (client) {
            ask_children(c, client);
        }
        client_close(client);
    }
    settings_release(settings);
    mem_free(settings);
}

/* ---- Options ---- */

static const struct cmd_option *option_in(const struct cmd_option *table, const char *word)
{
    size_t len = strcspn(word, "=");

    for (const struct cmd_option *at = table; at && at->name; at++) {
        bool by_name = begins(word, "--") && strlen(at->name) == len - 2 &&
                       strncmp(at->name, word + 2, len - 2) == 0;
        bool by_letter = word[0] == '-' && at->letter && word[1] == at->letter && !word[2];

        if (by_name || by_letter) {
            return at;
        }
    }
    return NULL;
}

static const struct cmd_option *option_of(const struct cmd *cmd, const char *word)
{
    const struct cmd_option *own = option_in(cmd->options, word);

    return own || !cmd->run ? own : option_in(settings_options, word);
}

static void offer_options(struct completing *c)
{
    const struct cmd_option *tables[] = {c->cmd->options, c->cmd->run ? settings_options : NULL};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct cmd_option *at = tables[i]; at && at->name; at++) {
            struct buf text;

            buf_init(&text, URL_MAX);
            buf_append_str(&text, "--");
            buf_append_str(&text, at->name);
            offer(c, buf_cstr(&text), at->help);
            buf_release(&text);
        }
    }
}

static void offer_value(struct completing *c, const struct cmd_option *option)
{
    if (strchr(option->value, '|')) {
        offer_words(c, option->value);
    } else if (strstr(option->value, "FILE")) {
        buf_append_str(c->out, ":file\n");
    } else if (strstr(option->value, "PATH")) {
        offer_paths(c);
    }
}

/* ---- Operands ---- */

static void offer_operand(struct completing *c, int index)
{
    const struct cmd *cmd = c->cmd;
    int place = index < CMD_OPERANDS_MAX ? index : CMD_OPERANDS_MAX - 1;

    if (index >= CMD_OPERANDS_MAX && cmd->operands[place] == CMD_OPERAND_NONE) {
        return;
    }
    switch (cmd->operands[place]) {
    case CMD_OPERAND_PATH:
        offer_paths(c);
        break;
    case CMD_OPERAND_NAME:
        c->cwd = *c->word == '/' ? NULL : cmd->folder;
        offer_paths(c);
        break;
    case CMD_OPERAND_FILE:
        buf_append_str(c->out, ":file\n");
        break;
    case CMD_OPERAND_COMMAND:
        offer_commands(c);
        offer_words(c, cmd->usage);
        break;
    case CMD_OPERAND_TEXT:
        if (index == 0) {
            offer_words(c, cmd->usage);
        }
        break;
    case CMD_OPERAND_NONE:
    default:
        break;
    }
}

/* ---- A line ---- */

/* Where the words before have led to. */
struct place {
    const struct cmd_option *pending; /* Its value is being typed. */
    int operands;
    int child_words; /* Behind "--". */
    bool rest;       /* "--" was there. */
};

static void take_word(struct completing *c, struct place *place, char *word)
{
    const struct cmd_option *option = NULL;
    struct args *args = &c->args;

    if (place->rest) {
        place->child_words++;
        place->operands++;
        return;
    }
    if (place->pending) {
        if (args->given_count < ARGS_OPTIONS_MAX) {
            args->given[args->given_count++] =
                (struct args_given){.option = place->pending, .value = word};
        }
        place->pending = NULL;
        return;
    }
    place->rest = strcmp(word, "--") == 0;
    option = place->rest ? NULL : option_of(c->cmd, word);
    if (option && option->value && !strchr(word, '=')) {
        place->pending = option;
    } else if (option && args->given_count < ARGS_OPTIONS_MAX) {
        const char *equals = strchr(word, '=');

        args->given[args->given_count++] =
            (struct args_given){.option = option, .value = equals ? equals + 1 : ""};
    } else if (!place->rest && word[0] != '-') {
        place->operands++;
    }
}

static void offer_place(struct completing *c, const struct place *place)
{
    const char *equals = begins(c->word, "--") ? strchr(c->word, '=') : NULL;
    const struct cmd_option *option = equals ? option_of(c->cmd, c->word) : NULL;

    if (place->rest && c->cmd->has_child) {
        buf_append_str(c->out, place->child_words == 0 ? ":command\n" : ":file\n");
    } else if (place->pending) {
        offer_value(c, place->pending);
    } else if (option && option->value) {
        c->lead = slice_make(c->word, (size_t)(equals + 1 - c->word));
        c->word = equals + 1;
        offer_value(c, option);
    } else if (c->word[0] == '-' && !place->rest) {
        offer_options(c);
    } else {
        offer_operand(c, place->operands);
    }
}

void complete(char *const *words, int count, const char *cwd, struct buf *out)
{
    struct completing *c = mem_zalloc(1, sizeof(*c));
    struct place place = {.operands = 0};

    c->out = out;
    c->cwd = cwd;
    c->word = count > 0 ? words[count - 1] : "";
    c->lead = slice_make("", 0);
    if (count <= 1) {
        offer_commands(c);
    } else {
        c->cmd = cmd_by_name(words[0]);
    }
    if (c->cmd) {
        for (int i = 1; i < count - 1; i++) {
            take_word(c, &place, words[i]);
        }
        offer_place(c, &place);
    }
    mem_free(c);
}
