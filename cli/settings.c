#include "cli/settings.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define DEFAULT_ENDPOINTS "127.0.0.1:9998,127.0.0.1:9999,127.0.0.1:10000"

enum {
    TIMEOUT_DEFAULT_MS = 15000,
    TIMEOUT_MAX_MS = 3600 * 1000,
    OPEN_TO_OTHERS = 077, /* Mode bits that the file may not have; */
    OPEN_TO_ALL = 007,    /* a group may share the file of the password. */
    CHUNK = 16 << 10      /* That is read at once. */
};

const struct cmd_option settings_options[] = {
    {"endpoints", 0, "HOST:PORT,...", "replicas to ask, in this order (" DEFAULT_ENDPOINTS ")",
     "ZABRA_ENDPOINTS"},
    {"output", 'o', "text|json|ndjson|table", "output format, also of errors (text)",
     "ZABRA_OUTPUT"},
    {"timeout", 0, "TIME", "time limit of one request with all retries: 500ms, 15s, 2m (15s)",
     "ZABRA_TIMEOUT"},
    {"user", 0, "NAME", "the user to authenticate as; prompts for the password", "ZABRA_USER"},
    {"password-file", 0, "FILE", "read the password from the first line of FILE",
     "ZABRA_PASSWORD_FILE"},
    {"linearizable", 0, NULL, "never read stale data: confirm with a majority first",
     "ZABRA_LINEARIZABLE"},
    {"min-zxid", 0, "ZXID", "reads are at least as new as this", "ZABRA_MIN_ZXID"},
    {"curl", 0, NULL, "print the request as a curl command; change nothing", NULL},
    {"no-color", 0, NULL, "no colours, even on a terminal", "NO_COLOR"},
    {"verbose", 'v', NULL, "log each request and its replica to stderr", "ZABRA_VERBOSE"},
    {"help", 'h', NULL, "show this help", NULL},
    {.name = NULL},
};

/* Writes `error`. False, for the caller to return. */
static bool refuse(struct settings *settings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool refuse(struct settings *settings, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(settings->error, sizeof(settings->error), format, list);
    va_end(list);
    return false;
}

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

static bool read_file(struct settings *settings, int fd, const char *name)
{
    struct stat stat;

    if (fstat(fd, &stat) == 0 && (stat.st_mode & OPEN_TO_OTHERS) != 0) {
        return refuse(settings, "%s: other users may read or change this file; run: chmod 600 %s",
                      name, name);
    }
    return settings_read_all(fd, &settings->file) ||
           refuse(settings, "cannot read %s, or it is longer than %d bytes", name,
                  (int)SETTINGS_FILE_MAX);
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

/* The value that a line gives to the setting of that name; NULL when the line sets another one.
 * Blanks are trimmed in place. */
static char *value_in(char *line, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(line, name, len) != 0) {
        return NULL;
    }
    line += len;
    line += strspn(line, " \t");
    return *line == '=' ? trim(line + 1) : NULL;
}

static bool check_line(struct settings *settings, char *line, int number, const char *file)
{
    if (*line == '\0' || *line == '#') {
        return true;
    }
    for (const struct cmd_option *at = settings_options; at->name; at++) {
        if (at->env && value_in(line, at->name)) {
            return true;
        }
    }
    return refuse(settings,
                  "%s line %d: \"%.*s\" is not a setting; settings are the long options, as in "
                  "endpoints=host:port",
                  file, number, (int)strcspn(line, "= "), line);
}

static bool split_file(struct settings *settings, const char *name)
{
    char *text = buf_cstr(&settings->file);
    char *end = text + settings->file.len;
    int number = 0;

    if (strlen(text) != settings->file.len) {
        return refuse(settings, "%s: not a text file", name);
    }
    for (char *line = text; line < end; number++) {
        char *next = strchrnul(line, '\n');

        *next = '\0';
        if (!check_line(settings, trim(line), number + 1, name)) {
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

    if (fd < 0) {
        return true; /* Most have none. */
    }

    bool ok = read_file(settings, fd, name) && split_file(settings, name);

    close(fd);
    return ok;
}

/* The last line with this name wins. */
static const char *from_file(struct settings *settings, const char *name)
{
    const char *found = NULL;
    char *text = settings->file.len > 0 ? buf_cstr(&settings->file) : NULL;

    for (size_t at = 0; text && at < settings->file.len; at += strlen(text + at) + 1) {
        char *value = value_in(trim(text + at), name);

        found = value ? value : found;
    }
    return found;
}

/* ---- Values ---- */

static const struct cmd_option *option_of(const char *name)
{
    const struct cmd_option *at = settings_options;

    while (at->name && strcmp(at->name, name) != 0) {
        at++;
    }
    ASSERT(at->name);
    return at;
}

static const char *value_of(struct settings *settings, const struct args *args, const char *name)
{
    const struct cmd_option *option = option_of(name);
    const char *value = args_get(args, name);

    if (!value && option->env) {
        value = settings_env(option->env);
    }
    return value ? value : from_file(settings, name);
}

/* A switch is on when it is given; from elsewhere unless it says no. */
static bool is_on(struct settings *settings, const struct args *args, const char *name)
{
    const char *value = value_of(settings, args, name);

    return value && strcmp(value, "0") != 0 && strcmp(value, "false") != 0 &&
           strcmp(value, "no") != 0;
}

static bool format_of(const char *word, enum settings_format *ret_format)
{
    static const char *const words[] = {"text", "json", "ndjson", "table"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(words[i], word) == 0) {
            *ret_format = (enum settings_format)i;
            return true;
        }
    }
    return false;
}

/* How many of the words, from the first one on, name a format; 0: none does. */
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

/* That of the environment; text when it names none. */
static enum settings_format usual_format(void)
{
    enum settings_format format = SETTINGS_TEXT;
    const char *env = settings_env("ZABRA_OUTPUT");

    if (env) {
        (void)format_of(env, &format);
    }
    return format;
}

enum settings_format settings_glance(int word_count, char **words)
{
    enum settings_format format = usual_format();

    for (int i = 0; i < word_count && strcmp(words[i], "--") != 0;) {
        int taken = format_words(word_count - i, words + i, &format);

        i += taken ? taken : 1;
    }
    return format;
}

enum settings_format settings_take_format(int *word_count, char **words)
{
    enum settings_format format = usual_format();
    int kept = 0;

    for (int i = 0; i < *word_count;) {
        int taken = format_words(*word_count - i, words + i, &format);

        if (taken == 0) {
            words[kept++] = words[i++];
        }
        i += taken;
    }
    *word_count = kept;
    return format;
}

static bool take_format(struct settings *settings, const struct args *args)
{
    const char *word = value_of(settings, args, "output");

    return !word || format_of(word, &settings->format) ||
           refuse(settings, "--output: \"%s\" is not one of text, json, ndjson and table", word);
}

static bool take_timeout(struct settings *settings, const struct args *args)
{
    struct args_range range = {.min = 1, .max = TIMEOUT_MAX_MS};
    const char *text = value_of(settings, args, "timeout");

    settings->timeout_ms = TIMEOUT_DEFAULT_MS;
    return !text || args_duration_ms(text, range, &settings->timeout_ms) ||
           refuse(settings, "--timeout: \"%s\" is not a time like 500ms, 15s or 2m, up to 1h",
                  text);
}

/* Decimal, or hexadecimal with 0x. */
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
           refuse(settings, "--min-zxid: \"%s\" is not a zxid like 0x1f", text);
}

/* NO_COLOR counts whatever it says (no-color.org). */
static bool has_color(struct settings *settings, const struct args *args)
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
    settings->session = settings_env("ZABRA_SESSION");
    settings->linearizable = is_on(settings, args, "linearizable");
    settings->curl = args_has(args, "curl");
    settings->color = has_color(settings, args);
    settings->verbose = is_on(settings, args, "verbose");
    if (settings->user && strchr(settings->user, ':')) {
        return refuse(settings, "--user: the name contains a colon; give the password with "
                                "--password-file, never on the command line");
    }
    return take_format(settings, args) && take_timeout(settings, args) &&
           take_min_zxid(settings, args);
}

void settings_release(struct settings *settings)
{
    buf_release(&settings->file);
}

/* ---- The password: of a file ---- */

/* Keeps the first line; the end of the file without a line is no password. */
static bool take_line(int fd, char password[SETTINGS_PASSWORD_MAX])
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
        return refuse(settings, "--password-file: %s: %s", name, strerrordesc_np(errno));
    }

    bool open_to_all =
        fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && (stat.st_mode & OPEN_TO_ALL) != 0;
    bool ok = !open_to_all && take_line(fd, password);

    close(fd);
    if (open_to_all) {
        return refuse(settings, "--password-file: all users may read %s; run: chmod 600 %s", name,
                      name);
    }
    return ok || refuse(settings,
                        "--password-file: %s contains no usable password in its first line", name);
}

/* ---- The password: of a terminal ---- */

/* A signal during the typing ends the process as usual, but only after the terminal's echo is
 * restored. */

static volatile sig_atomic_t signal_that_came;

static void on_signal(int number)
{
    signal_that_came = number;
}

static const int ending_signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum {
    ENDING_SIGNALS = sizeof(ending_signals) / sizeof(ending_signals[0])
};

/* How signals were dealt with before. */
struct dealing {
    struct sigaction actions[ENDING_SIGNALS];
    sigset_t mask;
};

/* They interrupt a read from now on, also where they were blocked; what is ignored stays so. */
static void take_signals(struct dealing *before)
{
    struct sigaction mine = {.sa_handler = on_signal};
    sigset_t set;

    signal_that_came = 0;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        (void)sigaction(ending_signals[i], NULL, &before->actions[i]);
        if (before->actions[i].sa_handler != SIG_IGN) {
            (void)sigaction(ending_signals[i], &mine, NULL);
        }
        (void)sigaddset(&set, ending_signals[i]);
    }
    (void)pthread_sigmask(SIG_UNBLOCK, &set, &before->mask);
}

static void give_signals_back(const struct dealing *before)
{
    (void)pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
    for (size_t i = 0; i < ENDING_SIGNALS; i++) {
        (void)sigaction(ending_signals[i], &before->actions[i], NULL);
    }
}

/* Ends the process as the signal would have. */
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

static bool ask_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    int fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct dealing before;
    struct termios shown;

    if (fd < 0 || tcgetattr(fd, &shown) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return refuse(settings,
                      "cannot ask for the password of %s without a terminal; give --password-file",
                      settings->user);
    }

    struct termios hidden = shown;

    hidden.c_lflag &= ~(tcflag_t)ECHO;
    take_signals(&before);
    (void)tcsetattr(fd, TCSAFLUSH, &hidden);
    (void)dprintf(fd, "password of %s: ", settings->user);

    bool ok = signal_that_came == 0 && take_line(fd, password);

    (void)tcsetattr(fd, TCSAFLUSH, &shown);
    (void)dprintf(fd, "\n");
    close(fd);
    give_signals_back(&before);
    if (signal_that_came) {
        end_by(signal_that_came);
    }
    return ok || refuse(settings, "the typed password is empty or too long");
}

bool settings_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX])
{
    return settings->password_file ? password_of_file(settings, password)
                                   : ask_password(settings, password);
}
