/* shell: runs commands from a terminal or a script, with a current znode. */
#include "cli/cli.h"
#include "cli/inherited.h"
#include "cli/shell_line.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PASSWORD_FD_NAME_MAX = 64,
    EXEC_CODE = 128
};

struct shell {
    struct cli *cli;
    struct shell_line *line; /* The source of lines. */
    struct buf cwd;
    uint64_t *zxid; /* The newest zxid that a command has seen; shared with the children. */
    bool terminal;
    bool over;
};

/* ---- Paths ---- */

static bool takes_next(const struct cmd *cmd, const char *word)
{
    const struct cmd_option *option = args_option(cmd, settings_options, word);

    return option && option->value && !strchr(word, '=');
}

/* Makes operands that are paths absolute; `paths` holds the results. A missing operand becomes the
 * current znode. */
static void make_whole(struct shell *shell, const struct cmd *cmd, struct words *words,
                       struct buf paths[CMD_OPERANDS_MAX])
{
    const char *cwd = buf_cstr(&shell->cwd);
    int operand = 0;

    for (int i = 1; i < words->count && operand < CMD_OPERANDS_MAX; i++) {
        char *word = words->items[i];

        if (strcmp(word, "--") == 0) {
            return;
        }
        if (word[0] == '-' && word[1]) {
            i += takes_next(cmd, word) ? 1 : 0;
            continue;
        }
        if (cmd->operands.kinds[operand] == CMD_OPERAND_PATH) {
            url_resolve(cwd, word, &paths[operand]);
            words->items[i] = buf_cstr(&paths[operand]);
        }
        operand++;
    }
    if (operand == 0 && cmd->operands.kinds[0] == CMD_OPERAND_PATH && cmd->operands.min == 0 &&
        words->count < WORDS_MAX) {
        url_resolve(cwd, "", &paths[0]);
        words->items[words->count++] = buf_cstr(&paths[0]);
        words->items[words->count] = NULL;
    }
}

/* ---- Commands ---- */

/* Checks the target of cd. */
static int run_cd(struct cli *cli)
{
    return cli_ask(
        cli, &(struct client_request){.path = cli_path(cli, 0), .params = {{"view", "stat"}}});
}

static const struct cmd cmd_cd = {
    .name = "cd", .usage = "PATH", .operands = {0, 1, {CMD_OPERAND_PATH}}, .run = run_cd};

/* Runs a command in a process of its own, so that Ctrl-C ends the command, and not the shell. */
static int run_child(const struct shell *shell, const struct cmd *cmd, struct words *words)
{
    int status = 0;
    pid_t pid = 0;

    (void)fflush(stdout);
    pid = fork();
    if (pid < 0) {
        return cli_fail(shell->cli, CMD_FAILED, "Process", "cannot start a process: %s",
                        strerrordesc_np(errno));
    }
    if (pid == 0) {
        struct sigaction usual = {.sa_handler = SIG_DFL};

        (void)sigaction(SIGINT, &usual, NULL);
        shell_line_detach(shell->line);

        int code = cli_run(cmd, words->count - 1, words->items + 1, shell->zxid);

        _exit(fflush(stdout) || ferror(stdout) ? CMD_FAILED : code);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXEC_CODE + WTERMSIG(status);
}

static int run_command(struct shell *shell, struct words *words)
{
    const struct cmd *cmd = cmd_by_name(words->items[0]);
    struct buf paths[CMD_OPERANDS_MAX];
    int code = CMD_USAGE;

    if (!cmd) {
        return help_unknown(&shell->cli->out, words->items[0]);
    }
    if (cmd == &cmd_shell) {
        return cli_fail(shell->cli, CMD_USAGE, "Usage", "this shell cannot start another one");
    }
    for (int i = 0; i < CMD_OPERANDS_MAX; i++) {
        buf_init(&paths[i], URL_MAX);
    }
    make_whole(shell, cmd, words, paths);
    code = run_child(shell, cmd, words);
    for (int i = 0; i < CMD_OPERANDS_MAX; i++) {
        buf_release(&paths[i]);
    }
    return code;
}

/* Changes the current znode. The new one must exist. */
static int go_to(struct shell *shell, const char *text)
{
    static char name[] = "cd";
    struct words words = {.items = {name}, .count = 2};
    int code = CMD_OK;
    BUF_AUTO(path, URL_MAX);

    url_resolve(buf_cstr(&shell->cwd), text, &path);
    if (path.len > 1 && path.data[path.len - 1] == '/') {
        path.len--;
    }
    words.items[1] = buf_cstr(&path);
    code = run_child(shell, &cmd_cd, &words);
    if (code == CMD_OK) {
        buf_clear(&shell->cwd);
        buf_append_slice(&shell->cwd, buf_slice(&path));
    }
    return code;
}

static int run_words(struct shell *shell, struct words *words)
{
    const char *name = words->items[0];

    if (strcmp(name, "exit") == 0 || strcmp(name, "quit") == 0) {
        shell->over = true;
        return CMD_OK;
    }
    if (strcmp(name, "cd") == 0) {
        return go_to(shell, words->count > 1 ? words->items[1] : "/");
    }
    if (strcmp(name, "pwd") == 0) {
        (void)printf("%s\n", buf_cstr(&shell->cwd));
        return CMD_OK;
    }
    return run_command(shell, words);
}

static int run_line(struct shell *shell, const char *text)
{
    struct words words;
    int code = CMD_OK;

    if (!words_split(&words, text, false)) {
        code = cli_fail(shell->cli, CMD_USAGE, "Usage", "cannot read the line: %s", words.fault);
    } else if (words.count > 0) {
        code = run_words(shell, &words);
    }
    words_release(&words);
    return code;
}

/* ---- The shell ---- */

/* Asks once for the password, and keeps it in a file in memory. The shell's commands, and all
 * processes that they start, inherit the file, which has no name in the file system. */
static bool keep_password(struct cli *cli)
{
    char password[SETTINGS_PASSWORD_MAX];
    char name[PASSWORD_FD_NAME_MAX];
    int fd = -1;
    bool kept = false;

    if (!cli->settings.user || cli->settings.password_file) {
        return true;
    }
    if (!settings_password(&cli->settings, password)) {
        (void)cli_fail(cli, CMD_USAGE, "Usage", "%s", cli->settings.error);
        return false;
    }
    fd = memfd_create("zabra-password", 0);
    kept = fd >= 0 && fchmod(fd, S_IRUSR | S_IWUSR) == 0 && dprintf(fd, "%s\n", password) > 0;
    explicit_bzero(password, sizeof(password));
    inherited_add(fd);
    (void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread. */
    if (!kept || setenv("ZABRA_PASSWORD_FILE", name, 1) != 0) {
        (void)cli_fail(cli, CMD_FAILED, "Password", "cannot store the password: %s",
                       strerrordesc_np(errno));
        return false;
    }
    return true;
}

/* Applies the settings of the shell to its commands. */
static bool hand_down(struct cli *cli)
{
    for (int i = 0; i < cli->args.given_count; i++) {
        const struct args_given *given = &cli->args.given[i];

        if (given->option->env) {
            /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread. */
            (void)setenv(given->option->env, *given->value ? given->value : "1", 1);
        }
    }
    return keep_password(cli);
}

static int read_and_run(struct shell *shell, bool keep_going)
{
    const char *text = NULL;
    int failed = CMD_OK;
    int last = CMD_OK;
    int number = 0;

    while (!shell->over) {
        text = shell_line_next(shell->line, buf_cstr(&shell->cwd));
        if (!text) {
            break;
        }
        number++;
        last = run_line(shell, text);
        if (last != CMD_OK && !shell->terminal) {
            (void)fprintf(stderr, "zabra shell: line %d ended with exit code %d\n", number, last);
            failed = last;
        }
        if (failed != CMD_OK && !keep_going) {
            return failed;
        }
    }
    if (failed != CMD_OK) {
        return CMD_PARTLY;
    }
    return shell->terminal ? last : CMD_OK;
}

static int run(struct cli *cli)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction before;
    struct shell shell = {.cli = cli, .terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)};
    int code = CMD_OK;

    if (cli->settings.curl) {
        return CLI_USAGE(cli, "give --curl to the commands in the shell");
    }
    if (!hand_down(cli)) {
        return CMD_USAGE;
    }
    shell.zxid =
        mmap(NULL, sizeof(*shell.zxid), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(shell.zxid != MAP_FAILED);
    buf_init(&shell.cwd, URL_MAX);
    buf_append_byte(&shell.cwd, '/');
    shell.line = shell_line_open(shell.terminal);
    if (shell.terminal) {
        (void)sigaction(SIGINT, &ignore, &before);
        (void)printf("'help' lists the commands, 'exit' or Ctrl-D ends the shell\n");
    }
    code = read_and_run(&shell, args_has(&cli->args, "keep-going"));
    if (shell.terminal) {
        (void)sigaction(SIGINT, &before, NULL);
    }
    shell_line_close(shell.line);
    buf_release(&shell.cwd);
    (void)munmap(shell.zxid, sizeof(*shell.zxid));
    return code;
}

const struct cmd cmd_shell = {
    .name = "shell",
    .group = "Tools",
    .summary = "run commands from the terminal or a script",
    .usage = "",
    .text = "Also has the commands 'cd PATH', 'pwd' and 'exit'. A path without a leading\n"
            "slash is relative to the current znode. Words are quoted as in a shell; nothing\n"
            "is expanded. Each command sees at least what the commands before it have read\n"
            "or written. The lines are kept in $XDG_STATE_HOME/zabra/history, except those\n"
            "that begin with a blank.\n",
    .options = {CMD_FLAG("keep-going", 'k',
                         "continue after a failed command; exit code 9 if one failed")},
    .examples = {{"zabra shell",
                  "reads commands without 'zabra'; TAB completes commands, options and paths"},
                 {"zabra shell < script", "stops at the first failed command, with its exit code"}},
    .run = run,
};
