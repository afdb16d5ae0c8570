/* completion: the scripts for shells; __complete: what these scripts call on each TAB. */
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/words.h"

#include <stdio.h>
#include <string.h>

/* The script asks the program itself for completions, so that it never offers commands of another
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
    return cmd_usage_error(&cmd_completion, "name the shell: bash, zsh or fish");
}

static const struct cmd_example completion_examples[] = {
    {"source <(zabra completion bash)", "for this shell only"},
    {"zabra completion bash > ~/.local/share/bash-completion/completions/zabra", "for every shell"},
    {.line = NULL},
};

const struct cmd cmd_completion = {
    .name = "completion",
    .summary = "print the script that lets a shell complete commands, options and paths",
    .usage = "bash|zsh|fish",
    .text = "Completion asks the replicas for paths of znodes, for 300 ms at most. Endpoints\n"
            "and password file come from the command line, the environment or the\n"
            "configuration.\n",
    .examples = completion_examples,
    .operands = {CMD_OPERAND_TEXT},
    .run_alone = run_completion,
};

/* ---- __complete ---- */

/* Where the word begins that the shell sees: it breaks words in other places than we do. */
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
        const uint8_t *feed = memchr(lines.data, '\n', lines.len);
        size_t len = feed ? (size_t)(feed - lines.data) + 1 : lines.len;
        size_t skip = lines.data[0] == ':' ? 0 : hidden;

        (void)fwrite(lines.data + skip, 1, len - skip, stdout);
        lines = slice_make(lines.data + len, lines.len - len);
    }
}

/* The words of the line behind the name of the program; the last one is being typed. */
static void complete_line(const char *line, const char *breaks)
{
    static char empty[] = "";
    struct words words;
    struct buf out;

    buf_init(&out, COMPLETE_OUT_MAX);
    if (words_split(&words, line, true) && words.count > 0) {
        if (!words.open && words.count < WORDS_MAX) {
            words.items[words.count++] = empty;
        }
        complete(words.items + 1, words.count - 1, NULL, &out);
        print(buf_slice(&out), hidden_len(words.items[words.count - 1], breaks));
    }
    words_release(&words);
    buf_release(&out);
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
