/*
 * settings.h - the settings of all commands that talk to the ensemble. A flag overrides the
 * environment, the environment overrides the file $XDG_CONFIG_HOME/zabra/config, and the file
 * overrides the default.
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
    SETTINGS_MAX = 16, /* Maximum number of options. */
    SETTINGS_FILE_MAX = 64 << 10,
    SETTINGS_PASSWORD_MAX = 1024,
    SETTINGS_PATH_MAX = 4096,
    SETTINGS_ERROR_MAX = 512
};

struct settings {
    const char *endpoints;  /* "host:port,host:port". */
    bool endpoints_guessed; /* No endpoints were given: `endpoints` has the defaults. */
    const char *user;       /* The user of HTTP Basic, or NULL. */
    const char *password_file;
    const char *session; /* Secret of the session that all requests are in, or NULL. */
    const char *min_zxid;
    const char *ca;        /* https: the file of the authority; NULL: those of the machine. */
    const char *cert;      /* https: the file of the client's certificate, or NULL. */
    const char *key;       /* https: the file of its key, or NULL. */
    const char *tls_given; /* One of these options that the command line itself has, or NULL. */
    int64_t timeout_ms;    /* Timeout of one request, all attempts included. */
    enum settings_format format;
    bool linearizable;
    bool curl;
    bool color;
    bool verbose;
    struct buf file;                   /* The file; the texts above may point into it. */
    const char *in_file[SETTINGS_MAX]; /* The file's value for each row of the options, or NULL. */
    char error[SETTINGS_ERROR_MAX];
};

/* The options of all commands that talk to the ensemble; ends with a NULL name. */
extern const struct cmd_option settings_options[];

/* Loads the settings. Returns false when a setting is wrong: `error` says which, where and why. The
 * caller calls settings_release() in both cases. */
bool settings_load(struct settings *settings, const struct args *args);
void settings_release(struct settings *settings);

/* Returns the format that the words of a command line ask for. With `take` the words that name a
 * format are removed: for a command that parses its own command line. Without `take` only the words
 * before "--" are read, and none is removed: for reporting an error in this command line. */
enum settings_format settings_format(int *word_count, char **words, bool take);

/* Reads the password: the first line of the file, or without a file a line typed on the terminal
 * without an echo. Returns false with the reason in `error`. */
bool settings_password(struct settings *settings, char password[SETTINGS_PASSWORD_MAX]);

/* Returns an environment variable, or NULL when it is missing or empty. */
const char *settings_env(const char *name);

/* Makes the path of the file `name`: $VARIABLE/zabra/NAME if the environment variable `variable`
 * ("XDG_CONFIG_HOME") is set, else $HOME/USUAL/zabra/NAME with `usual` (".config"). Returns false
 * when $HOME is missing, too, or when the path is too long. */
bool settings_file(const char *variable, const char *usual, const char *name,
                   char path[SETTINGS_PATH_MAX]);

/* Reads to the end of the file. Returns false when a read fails, or when `out` is too small. */
bool settings_read_all(int fd, struct buf *out);

#endif
