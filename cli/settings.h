/*
 * settings.h - the settings of all commands that talk to the ensemble: a flag overrides the
 * environment, that the file $XDG_CONFIG_HOME/zabra/config, that the default.
 *
 * Secrets come from files, a terminal or the environment, never from the command line.
 */
#ifndef CLI_SETTINGS_H
#define CLI_SETTINGS_H

#include "base/buf.h"
#include "cli/args.h"

enum settings_format {
    SETTINGS_TEXT,
    SETTINGS_JSON,
    SETTINGS_NDJSON,
    SETTINGS_TABLE
};

enum {
    SETTINGS_MAX = 16, /* Options. */
    SETTINGS_FILE_MAX = 64 << 10,
    SETTINGS_PASSWORD_MAX = 1024,
    SETTINGS_PATH_MAX = 4096,
    SETTINGS_ERROR_MAX = 512
};

struct settings {
    const char *endpoints;  /* "host:port,host:port". */
    bool endpoints_guessed; /* None were given: these are the defaults. */
    const char *user;       /* Of HTTP Basic, or NULL. */
    const char *password_file;
    const char *session; /* Secret of the session that all requests are in, or NULL. */
    const char *min_zxid;
    int64_t timeout_ms; /* For one request, all its tries together. */
    enum settings_format format;
    bool linearizable;
    bool curl;
    bool color;
    bool verbose;
    struct buf file;                   /* The texts above may point into it. */
    const char *in_file[SETTINGS_MAX]; /* What it says of each row of the options; or NULL. */
    char error[SETTINGS_ERROR_MAX];
};

/* The options of all these commands; ends with a NULL name. */
extern const struct cmd_option settings_options[];

/* False: `error` says what is wrong, and where. Release in both cases. */
bool settings_load(struct settings *settings, const struct args *args);
void settings_release(struct settings *settings);

/* The format that a command line asks for, as far as it can be seen: for what is wrong with that
 * command line itself. With `take`, for a command that has a command line of its own, what names a
 * format is taken out; else the part before "--" is only looked at. */
enum settings_format settings_format(int *word_count, char **words, bool take);

/* Reads the password: first line of the file, else asked for on the terminal without an echo.
 * False: the reason is in `error`. */
bool settings_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX]);

/* A variable of the environment, or NULL when it is not there or empty. */
const char *settings_env(const char *name);

/* The file `name` in the folder zabra of the one that a variable names ("XDG_CONFIG_HOME"), or of
 * `usual` (".config") in the home. False: there is no home either. */
bool settings_file(const char *variable, const char *usual, const char *name,
                   char path[SETTINGS_PATH_MAX]);

/* Reads to the end of the file. False: it fails, or there is more than `out` may hold. */
bool settings_read_all(int fd, struct buf *out);

#endif
