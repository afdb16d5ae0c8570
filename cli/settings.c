#include "cli/settings.h"

#include "cli/inherited.h"
#include "cli/words.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define DEFAULT_ENDPOINTS "127.0.0.1:9998,127.0.0.1:9999,127.0.0.1:10000"

enum {
    TIMEOUT_DEFAULT_MS = 15000,
    TIMEOUT_MAX_MS = 3600 * 1000,
    OPEN_TO_OTHERS = 077, /* Mode bits that the settings file must not have. */
    OPEN_TO_ALL = 007,    /* Mode bits that a password file must not have; group access is fine. */
    CHUNK = 16 << 10      /* Bytes that are read at once. */
};

#define SETTING(n, l, v, h, e)                                            \
    {                                                                     \
        .name = (n), .letter = (l), .value = (v), .help = (h), .env = (e) \
    }

const struct cmd_option settings_options[] = {
    SETTING("endpoints", 0, "HOST:PORT,...",
            "replicas to ask, in this order, with https:// in front for TLS (" DEFAULT_ENDPOINTS
            ")",
            "ZABRA_ENDPOINTS"),
    SETTING("output", 'o', "text|json|ndjson|table", "output format, also of errors (text)",
            "ZABRA_OUTPUT"),
    SETTING("timeout", 0, "TIME",
            "time limit of one request with all retries: 500ms, 15s, 2m (15s)", "ZABRA_TIMEOUT"),
    SETTING("user", 0, "NAME", "the user to authenticate as; prompts for the password",
            "ZABRA_USER"),
    SETTING("password-file", 0, "FILE", "read the password from the first line of FILE",
            "ZABRA_PASSWORD_FILE"),
    SETTING("ca", 0, "FILE", "https: the only authority to trust (those of the machine)",
            "ZABRA_CA"),
    SETTING("cert", 0, "FILE", "https: the certificate of the client, for replicas that ask for it",
            "ZABRA_CERT"),
    SETTING("key", 0, "FILE", "https: the private key of --cert", "ZABRA_KEY"),
    SETTING("linearizable", 0, NULL, "never read stale data: confirm with a majority first",
            "ZABRA_LINEARIZABLE"),
    SETTING("min-zxid", 0, "ZXID", "reads are at least as new as this", "ZABRA_MIN_ZXID"),
    SETTING("curl", 0, NULL, "print the request as a curl command; change nothing", NULL),
    SETTING("no-color", 0, NULL, "no colours, even on a terminal", "NO_COLOR"),
    SETTING("verbose", 'v', NULL, "log each request and its replica to stderr", "ZABRA_VERBOSE"),
    SETTING("help", 'h', NULL, "show this help", NULL),
    {.name = NULL},
};

_Static_assert(sizeof(settings_options) / sizeof(settings_options[0]) <= SETTINGS_MAX, "rows");

const char *settings_env(const char *name)
{
    size_t len = strlen(name);

    for (char **at = environ; *at; at++) {
        if (strncmp(*at, name, len) == 0 && (*at)[len] == '=') {
            return (*at)[len + 1] ? *at + len + 1 : NULL;
        }
    }
    return NULL;
}

/* ---- The file ---- */

bool settings_file(const char *variable, const char *usual, const char *name,
                   char path[SETTINGS_PATH_MAX])
{
    const char *folder = settings_env(variable);
    const char *home = settings_env("HOME");
    int len = folder ? snprintf(path, SETTINGS_PATH_MAX, "%s/zabra/%s", folder, name)
              : home ? snprintf(path, SETTINGS_PATH_MAX, "%s/%s/zabra/%s", home, usual, name)
                     : -1;

    return len > 0 && len < SETTINGS_PATH_MAX;
}

bool settings_read_all(int fd, struct buf *out)
{
    for (;;) {
        uint8_t *to = buf_reserve(out, CHUNK);
        ssize_t got = to ? read(fd, to, CHUNK) : -1;

        if (got < 0 && to && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return got == 0;
        }
        out->len += (size_t)got;
    }
}

static char *trim(char *text)
{
    size_t len = 0;

    text += strspn(text, " \t");
    len = strlen(text);
    while (len > 0 && strchr(" \t\r", text[len - 1])) {
        text[--len] = '\0';
    }
    return text;
}

/* Takes a line of the file, which sets an option as "--name=value" does on a command line. Returns
 * false when the line is wrong. */
static bool take_line(struct settings *settings, char *line, int number, const char *file)
{
    char *equals = strchr(line, '=');
    int name_len = (int)strcspn(line, "= ");

    if (*line == '\0' || *line == '#') {
        return true;
    }
    if (equals) {
        *equals = '\0';
        (void)trim(line);
    }
    for (const struct cmd_option *at = settings_options; equals && at->name; at++) {
        if (at->env && strcmp(at->name, line) == 0) {
            settings->in_file[at - settings_options] = trim(equals + 1); /* The last line wins. */
            return true;
        }
    }
    return ARGS_REFUSE(
        settings,
        "%s line %d: \"%.*s\" is not a setting; settings are the long options, as in "
        "endpoints=host:port",
        file, number, name_len, line);
}

static bool split_file(struct settings *settings, const char *name)
{
    char *text = buf_cstr(&settings->file);
    char *end = text + settings->file.len;
    int number = 0;

    if (strlen(text) != settings->file.len) {
        return ARGS_REFUSE(settings, "%s: not a text file", name);
    }
    for (char *line = text; line < end; number++) {
        char *next = strchrnul(line, '\n');

        *next = '\0';
        if (!take_line(settings, trim(line), number + 1, name)) {
            return false;
        }
        line = next + 1;
    }
    return true;
}

static bool load_file(struct settings *settings)
{
    char name[SETTINGS_PATH_MAX];
    bool has_home = settings_file("XDG_CONFIG_HOME", ".config", "config", name);
    int fd = has_home ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    struct stat stat;

    if (fd < 0) {
        return true; /* Most users have no file. */
    }

    bool open_to_others = fstat(fd, &stat) == 0 && (stat.st_mode & OPEN_TO_OTHERS) != 0;
    bool ok = !open_to_others && settings_read_all(fd, &settings->file);

    close(fd);
    if (open_to_others) {
        return ARGS_REFUSE(settings,
                           "%s: other users may read or change this file; run: chmod 600 %s", name,
                           name);
    }
    return ok ? split_file(settings, name)
              : ARGS_REFUSE(settings, "cannot read %s, or it is longer than %d bytes", name,
                            (int)SETTINGS_FILE_MAX);
}

/* ---- Values ---- */

static const char *value_of(const struct settings *settings, const struct args *args,
                            const char *name)
{
    const struct cmd_option *option = settings_options;
    const char *value = args_get(args, name);

    while (option->name && strcmp(option->name, name) != 0) {
        option++;
    }
    ASSERT(option->name);
    if (!value && option->env) {
        value = settings_env(option->env);
    }
    return value ? value : settings->in_file[option - settings_options];
}

/* Whether a switch is on. A flag on the command line is on; a value from the environment or the
 * file is on unless it is "0", "false" or "no". */
static bool is_on(const struct settings *settings, const struct args *args, const char *name)
{
    const char *value = value_of(settings, args, name);

    return value && words_find("0, false, no", value) < 0;
}

static bool format_of(const char *word, enum settings_format *ret_format)
{
    int index = words_find("text, json, ndjson, table", word);

    if (index >= 0) {
        *ret_format = (enum settings_format)index;
    }
    return index >= 0;
}

/* Returns the number of words of the output option at words[0]: 2 for `-o json`, 1 for `-ojson` or
 * `--output=json`; 0 when words[0] is no such option, or when the option names no format. */
static int format_words(int word_count, char **words, enum settings_format *ret_format)
{
    const char *word = words[0];
    const char *next = word_count > 1 ? words[1] : "";

    if (strcmp(word, "--output") == 0 || strcmp(word, "-o") == 0) {
        return format_of(next, ret_format) ? 2 : 0;
    }
    if (strncmp(word, "--output=", 9) == 0) {
        return format_of(word + 9, ret_format) ? 1 : 0;
    }
    return strncmp(word, "-o", 2) == 0 && format_of(word + 2, ret_format) ? 1 : 0;
}

enum settings_format settings_format(int *word_count, char **words, bool take)
{
    enum settings_format format = SETTINGS_TEXT;
    const char *env = settings_env("ZABRA_OUTPUT");
    int count = *word_count;
    int kept = 0;

    (void)format_of(env ? env : "", &format);
    for (int i = 0; i < count && (take || strcmp(words[i], "--") != 0);) {
        int taken = format_words(count - i, words + i, &format);

        if (take && taken == 0) {
            words[kept++] = words[i];
        }
        i += taken ? taken : 1;
    }
    *word_count = take ? kept : count;
    return format;
}

static bool take_format(struct settings *settings, const struct args *args)
{
    const char *word = value_of(settings, args, "output");

    return !word || format_of(word, &settings->format) ||
           ARGS_REFUSE(settings, "--output: \"%s\" is not one of text, json, ndjson and table",
                       word);
}

static bool take_timeout(struct settings *settings, const struct args *args)
{
    struct cmd_range range = {.min = 1, .max = TIMEOUT_MAX_MS};
    const char *text = value_of(settings, args, "timeout");

    settings->timeout_ms = TIMEOUT_DEFAULT_MS;
    return !text || args_duration_ms(text, range, &settings->timeout_ms) ||
           ARGS_REFUSE(settings, "--timeout: \"%s\" is not a time like 500ms, 15s or 2m, up to 1h",
                       text);
}

/* Takes --min-zxid, which is decimal, or hexadecimal with 0x. */
static bool take_min_zxid(struct settings *settings, const struct args *args)
{
    const char *text = value_of(settings, args, "min-zxid");
    char *end = NULL;

    settings->min_zxid = text;
    if (!text) {
        return true;
    }
    errno = 0;
    (void)strtoull(text, &end, 0);
    return (*text >= '0' && *text <= '9' && *end == '\0' && errno == 0) ||
           ARGS_REFUSE(settings, "--min-zxid: \"%s\" is not a zxid like 0x1f", text);
}

static void take_tls(struct settings *settings, const struct args *args)
{
    settings->ca = value_of(settings, args, "ca");
    settings->cert = value_of(settings, args, "cert");
    settings->key = value_of(settings, args, "key");
    settings->tls_given = args_has(args, "ca")     ? "ca"
                          : args_has(args, "cert") ? "cert"
                          : args_has(args, "key")  ? "key"
                                                   : NULL;
}

/* Whether to print in color. Any text in NO_COLOR turns color off (no-color.org). */
static bool has_color(const struct settings *settings, const struct args *args)
{
    const char *term = settings_env("TERM");

    return !settings_env("NO_COLOR") && !is_on(settings, args, "no-color") && term &&
           strcmp(term, "dumb") != 0 && isatty(STDOUT_FILENO);
}

bool settings_load(struct settings *settings, const struct args *args)
{
    *settings = (struct settings){.format = SETTINGS_TEXT};
    buf_init(&settings->file, SETTINGS_FILE_MAX + CHUNK);
    if (!load_file(settings)) {
        return false;
    }
    settings->endpoints = value_of(settings, args, "endpoints");
    if (!settings->endpoints) {
        settings->endpoints = DEFAULT_ENDPOINTS;
        settings->endpoints_guessed = true;
    }
    settings->user = value_of(settings, args, "user");
    settings->password_file = value_of(settings, args, "password-file");
    take_tls(settings, args);
    settings->session = settings_env("ZABRA_SESSION");
    settings->linearizable = is_on(settings, args, "linearizable");
    settings->curl = args_has(args, "curl");
    settings->color = has_color(settings, args);
    settings->verbose = is_on(settings, args, "verbose");
    if (settings->user && strchr(settings->user, ':')) {
        return ARGS_REFUSE(settings, "--user: the name contains a colon; give the password with "
                                     "--password-file, never on the command line");
    }
    return take_format(settings, args) && take_timeout(settings, args) &&
           take_min_zxid(settings, args);
}

void settings_release(struct settings *settings)
{
    buf_release(&settings->file);
}

/* ---- The password: from a file ---- */

/* Reads the first line. Returns false if a read fails, the file is empty, or the line is too
 * long. */
static bool read_line(int fd, char password[SETTINGS_PASSWORD_MAX])
{
    size_t len = 0;

    while (len < SETTINGS_PASSWORD_MAX - 1) {
        ssize_t got = read(fd, password + len, 1);

        if (got < 0 || (got == 0 && len == 0)) {
            return false;
        }
        if (got == 0 || password[len] == '\n') {
            break;
        }
        len++;
    }
    if (len > 0 && password[len - 1] == '\r') {
        len--;
    }
    password[len] = '\0';
    return len < SETTINGS_PASSWORD_MAX - 1;
}

static bool password_of_file(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    const char *name = settings->password_file;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat stat;

    if (fd < 0) {
        return ARGS_REFUSE(settings, "--password-file: %s: %s", name, strerrordesc_np(errno));
    }

    bool open_to_all =
        fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (stat.st_mode & OPEN_TO_ALL) != 0;
    bool ok = !open_to_all && read_line(fd, password);

    close(fd);
    if (open_to_all) {
        return ARGS_REFUSE(settings, "--password-file: all users may read %s; run: chmod 600 %s",
                           name, name);
    }
    return ok ||
           ARGS_REFUSE(settings,
                       "--password-file: %s contains no usable password in its first line", name);
}

/* ---- The password: from a terminal ---- */

/* Waits until a line is typed. Returns the signal that comes before it, or 0. */
static int wait_line(int terminal, int signals)
{
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = terminal, .events = POLLIN}};
    struct signalfd_siginfo info = {.ssi_signo = 0};

    while (poll(fds, sizeof(fds) / sizeof(fds[0]), -1) < 0 && errno == EINTR) {
    }
    return read(signals, &info, sizeof(info)) > 0 ? (int)info.ssi_signo : 0;
}

/* Ends the process as the signal does by default. */
static void end_by(int number)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    (void)sigaction(number, &usual, NULL);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    (void)raise(number);
}

/* Asks for the password on the terminal. A signal during the typing ends the process as usual, but
 * only after the terminal's echo is restored. */
static bool ask_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, 0};
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    sigset_t before;
    struct termios shown;

    if (fd < 0 || tcgetattr(fd, &shown) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return ARGS_REFUSE(
            settings, "cannot ask for the password of %s without a terminal; give --password-file",
            settings->user);
    }

    struct termios hidden = shown;
    int signal_fd = inherited_take_signals(signals, &before);

    hidden.c_lflag &= ~(tcflag_t)ECHO;
    (void)tcsetattr(fd, TCSAFLUSH, &hidden);
    (void)dprintf(fd, "password of %s: ", settings->user);

    int number = wait_line(fd, signal_fd);
    bool ok = number == 0 && read_line(fd, password);

    (void)tcsetattr(fd, TCSAFLUSH, &shown);
    (void)dprintf(fd, "\n");
    close(fd);
    close(signal_fd);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (number) {
        end_by(number);
    }
    return ok || ARGS_REFUSE(settings, "the typed password is empty or too long");
}

bool settings_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    return settings->password_file ? password_of_file(settings, password)
                                   : ask_password(settings, password);
}
