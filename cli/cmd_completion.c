/* completion: prints the scripts for shells. __complete: what these scripts call on each TAB. */
#include "cli/client.h"
#include "cli/complete.h"
#include "cli/out.h"
#include "cli/words.h"

/* ---- Candidates ---- */

/* The state of one completion. */
struct completing {
    const struct cmd *cmd;
    struct args args; /* Options before the word. */
    const char *cwd;
    const char *word;  /* The word that is typed, without `lead`. */
    struct slice lead; /* "--option=", which goes before each candidate. */
    struct buf *out;
    int candidates;

    /* Set by reading the words before the typed word. */
    const struct cmd_option *pending; /* The option whose value is being typed. */
    int operands;
    int child_words; /* Words behind "--". */
    bool rest;       /* "--" precedes the word. */
};

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void offer(struct completing *c, const char *text, const char *about)
{
    if (begins(text, c->word)) {
        buf_append_slice(c->out, c->lead);
        buf_printf(c->out, "%s\t%s\n", text, about);
        c->candidates++;
    }
}

/* Offers the fixed words that begin the alternatives of the list: a and b for "a|b|N", add and get
 * for "add NAME [BY] | get NAME". */
static void offer_words(struct completing *c, const char *list)
{
    for (const char *at = list; *at;) {
        size_t len = 0;

        at += strspn(at, " [");
        len = strspn(at, "abcdefghijklmnopqrstuvwxyz-");
        if (*at != '-' && len > 0 && strchr(" |]", at[len])) { /* strchr also finds the NUL. */
            BUF_AUTO(word, URL_MAX);

            buf_append(&word, at, len);
            offer(c, buf_cstr(&word), "");
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

static void offer_children(struct completing *c, const json_t *children, size_t typed_len)
{
    bool deep = false;
    BUF_AUTO(text, URL_MAX);

    JSONR_EACH (child, children) {
        int before = c->candidates;

        buf_clear(&text);
        buf_append(&text, c->word, typed_len);
        buf_append_str(&text, jsonr_text(child, "name"));
        offer(c, buf_cstr(&text), "");
        deep = c->candidates > before ? jsonr_number(child, "stat.numChildren") > 0 : deep;
    }
    if (c->candidates == 1 && deep) {
        buf_append_str(c->out, ":nospace\n");
    }
}

static void ask_children(struct completing *c, struct client *client)
{
    const char *slash = strrchr(c->word, '/');
    size_t typed_len = slash ? (size_t)(slash + 1 - c->word) : 0;
    const char *name = c->word + typed_len;
    BUF_AUTO(typed, URL_MAX);
    BUF_AUTO(path, URL_MAX);
    BUF_AUTO(after, URL_MAX);

    buf_append(&typed, c->word, typed_len);
    url_resolve(c->cwd ? c->cwd : "", buf_cstr(&typed), &path);
    if (path.len > 1 && path.data[path.len - 1] == '/') {
        path.len--;
    }
    /* The list has the names after `after`, without `after` itself. With the typed name as `after`
     * a znode with exactly this name would be missing, so the last letter is left out. */
    if (strlen(name) > 1 && !(name[strlen(name) - 1] & 0x80)) {
        buf_append(&after, name, strlen(name) - 1);
    }

    struct client_request request = {.path = buf_cstr(&path),
                                     .params = {{"view", "children"},
                                                {"with", "stat"},
                                                {"limit", URL_NUMBER(COMPLETE_NAMES)},
                                                {"after", after.len > 0 ? buf_cstr(&after) : NULL}},
                                     .timeout_ms = COMPLETE_MS};

    if (!url_path_fault(request.path, false) && client_ask(client, &request) == CMD_OK) {
        offer_children(c, jsonr_at(client_json(client), "children"), typed_len);
    }
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

static const struct cmd_option *option_of(const struct cmd *cmd, const char *word)
{
    return args_option(cmd, cmd->run ? settings_options : NULL, word);
}

static void offer_options(struct completing *c)
{
    const struct cmd_option *tables[] = {c->cmd->options, c->cmd->run ? settings_options : NULL};

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct cmd_option *at = tables[i]; at && at->name; at++) {
            BUF_AUTO(text, URL_MAX);

            buf_printf(&text, "--%s", at->name);
            offer(c, buf_cstr(&text), at->help);
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

    switch (cmd->operands.kinds[index < CMD_OPERANDS_MAX ? index : CMD_OPERANDS_MAX - 1]) {
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

static void take_option(struct completing *c, const struct cmd_option *option, const char *value)
{
    struct args *args = &c->args;

    c->pending = NULL;
    if (args->given_count < ARGS_OPTIONS_MAX) {
        args->given[args->given_count++] = (struct args_given){.option = option, .value = value};
    }
}

static void take_word(struct completing *c, const char *word)
{
    const char *equals = strchr(word, '=');
    bool child = c->rest;

    c->rest = c->rest || (!c->pending && strcmp(word, "--") == 0);

    const struct cmd_option *option = c->rest || c->pending ? NULL : option_of(c->cmd, word);

    if (child) {
        c->child_words++;
        c->operands++;
    } else if (c->pending) {
        take_option(c, c->pending, word);
    } else if (option && option->value && !equals) {
        c->pending = option;
    } else if (option) {
        take_option(c, option, equals ? equals + 1 : "");
    } else if (!c->rest && word[0] != '-') {
        c->operands++;
    }
}

static void offer_place(struct completing *c)
{
    const char *equals = begins(c->word, "--") ? strchr(c->word, '=') : NULL;
    const struct cmd_option *option = equals ? option_of(c->cmd, c->word) : NULL;

    if (c->rest && c->cmd->has_child) {
        buf_append_str(c->out, c->child_words == 0 ? ":command\n" : ":file\n");
    } else if (c->pending) {
        offer_value(c, c->pending);
    } else if (option && option->value) {
        c->lead = slice_make(c->word, (size_t)(equals + 1 - c->word));
        c->word = equals + 1;
        offer_value(c, option);
    } else if (c->word[0] == '-' && !c->rest) {
        offer_options(c);
    } else {
        offer_operand(c, c->operands);
    }
}

void complete(char *const *words, int count, const char *cwd, struct buf *out)
{
    struct completing *c = mem_zalloc(1, sizeof(*c));

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
            take_word(c, words[i]);
        }
        offer_place(c);
    }
    mem_free(c);
}

/* ---- completion ---- */

/* The scripts ask the program itself for completions, so they never offer commands of another
 * version. */
static const struct {
    const char *shell;
    const char *script;
} scripts[] = {
    {"bash", "# bash completion for zabra. To try it: source <(zabra completion bash)\n"
             "_zabra() {\n"
             "    local line\n"
             "    COMPREPLY=()\n"
             "    while IFS= read -r line; do\n"
             "        case $line in\n"
             "            :nospace) compopt -o nospace 2>/dev/null ;;\n"
             "            :file) compopt -o default 2>/dev/null ;;\n"
             "            :command) mapfile -t COMPREPLY < <(compgen -c -- \"$2\") ;;\n"
             "            *) COMPREPLY+=(\"$(printf %q \"${line%%$'\\t'*}\")\") ;;\n"
             "        esac\n"
             "    done < <(zabra __complete --breaks \"$COMP_WORDBREAKS\" "
             "-- \"${COMP_LINE:0:COMP_POINT}\" 2>/dev/null)\n"
             "}\n"
             "complete -F _zabra zabra\n"},
    {"zsh", "#compdef zabra\n"
            "# zsh completion for zabra: a file _zabra in a folder of $fpath, or\n"
            "# source <(zabra completion zsh)\n"
            "_zabra() {\n"
            "    local line text\n"
            "    local -a values options\n"
            "    text=\"${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX\"\n"
            "    while IFS= read -r line; do\n"
            "        case $line in\n"
            "            :nospace) options=(-S '') ;;\n"
            "            :file) compset -P '--*='; _files; return ;;\n"
            "            :command) _command_names -e; return ;;\n"
            "            *)\n"
            "                text=${${line%%$'\\t'*}//\\\\/\\\\\\\\}\n"
            "                values+=(\"${text//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
            "        esac\n"
            "    done < <(zabra __complete -- \"$text\" 2>/dev/null)\n"
            "    _describe zabra values \"${options[@]}\"\n"
            "}\n"
            "if [ \"$funcstack[1]\" = _zabra ]; then\n"
            "    _zabra \"$@\"\n"
            "else\n"
            "    compdef _zabra zabra\n"
            "fi\n"},
    {"fish",
     "# fish completion for zabra. To try it: zabra completion fish | source\n"
     "function __zabra_complete\n"
     "    for line in (zabra __complete -- (commandline -cp | string collect) 2>/dev/null)\n"
     "        switch $line\n"
     "            case ':nospace'\n"
     "            case ':file'\n"
     "                set -l word (commandline -ct)\n"
     "                set -l lead (string match -r '^--[^=]*=' -- $word)\n"
     "                set -l path (string replace -r '^--[^=]*=' '' -- $word)\n"
     "                for path in (__fish_complete_path $path)\n"
     "                    echo \"$lead$path\"\n"
     "                end\n"
     "            case ':command'\n"
     "                __fish_complete_command\n"
     "            case '*'\n"
     "                echo $line\n"
     "        end\n"
     "    end\n"
     "end\n"
     "complete -c zabra -f -a '(__zabra_complete)'\n"},
};

static int run_completion(int arg_count, char **args)
{
    for (size_t i = 0; arg_count == 1 && i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        if (strcmp(args[0], scripts[i].shell) == 0) {
            (void)fputs(scripts[i].script, stdout);
            return CMD_OK;
        }
    }
    return OUT_USAGE(&cmd_completion, "name the shell: bash, zsh or fish");
}

const struct cmd cmd_completion = {
    .name = "completion",
    .summary = "print the script that lets a shell complete commands, options and paths",
    .usage = "bash|zsh|fish",
    .text = "Completion asks the replicas for paths of znodes, for 300 ms at most. Endpoints\n"
            "and password file come from the command line, the environment or the\n"
            "configuration.\n",
    .examples = {{"source <(zabra completion bash)", "for this shell only"},
                 {"zabra completion bash > ~/.local/share/bash-completion/completions/zabra",
                  "for every shell"}},
    .operands = {0, 1, {CMD_OPERAND_TEXT}},
    .run_alone = run_completion,
};

/* ---- __complete ---- */

/* Returns how many bytes at the start of the word the shell keeps. `breaks` are the characters that
 * separate words for the shell: it replaces only the text after the last such character. */
static size_t hidden_len(const char *word, const char *breaks)
{
    size_t hidden = 0;

    for (size_t i = 0; word[i]; i++) {
        if (strchr(breaks, word[i])) {
            hidden = i + 1;
        }
    }
    return hidden;
}

static void print(struct slice lines, size_t hidden)
{
    while (lines.len > 0) {
        struct slice line = slice_cut(&lines, '\n');
        size_t skip = line.data[0] == ':' ? 0 : hidden;

        (void)fwrite(line.data + skip, 1, line.len - skip, stdout);
        (void)putchar('\n');
    }
}

/* Prints the completions of a line, which begins with the name of the program, and whose last word
 * is being typed. */
static void complete_line(const char *line, const char *breaks)
{
    static char empty[] = "";
    struct words words;
    BUF_AUTO(out, COMPLETE_OUT_MAX);

    if (words_split(&words, line, true) && words.count > 0) {
        if (!words.open && words.count < WORDS_MAX) {
            words.items[words.count++] = empty;
        }
        complete(words.items + 1, words.count - 1, NULL, &out);
        print(buf_slice(&out), hidden_len(words.items[words.count - 1], breaks));
    }
    words_release(&words);
}

static int run_complete(int arg_count, char **args)
{
    const char *breaks = "";
    int pos = 0;

    while (pos < arg_count && strcmp(args[pos], "--") != 0) {
        const char *value = cmd_option("breaks", arg_count, args, &pos);

        if (!value) {
            return CMD_USAGE;
        }
        breaks = value;
    }
    if (pos + 1 < arg_count) {
        complete_line(args[pos + 1], breaks);
    }
    return CMD_OK;
}

const struct cmd cmd_complete = {
    .name = "__complete",
    .summary = "print the possible completions of a command line",
    .usage = "[--breaks LETTERS] -- LINE",
    .hidden = true,
    .run_alone = run_complete,
};
