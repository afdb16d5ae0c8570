/*
 * Loading: the defaults, then the file, the environment and the flags, each overriding what came
 * before.
 */
#include "base/mem.h"
#include "server/config/config_int.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
    FILE_BYTES_MAX = 1 << 20,
    NAME_MAX_LEN = 64,   /* Longest key that is compared. */
    SUGGEST_DISTANCE = 4 /* With this many edits or more there is no suggestion. */
};

static const char env_prefix[] = "ZABRA_";
static const char env_server_prefix[] = "ZABRA_SERVER_";
static const char server_prefix[] = "server.";

/* The parentheses select the function tolower, not the macro of the same name. */
static int to_lower(char letter)
{
    return (tolower)((unsigned char)letter);
}

/* Returns Levenshtein's distance without regard to case. Only one row of its table is kept. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LEN + 1];
    size_t b_len = strlen(b);

    ASSERT(b_len <= NAME_MAX_LEN);
    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 1; j <= b_len; j++) {
            size_t cost = diagonal + (to_lower(a[i]) == to_lower(b[j - 1]) ? 0U : 1U);

            diagonal = row[j];
            row[j] = min_size(min_size(row[j], row[j - 1]) + 1, cost);
        }
    }
    return row[b_len];
}

static const char *nearest(const char *key)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);
    size_t best = SUGGEST_DISTANCE;
    const char *name = NULL;

    for (size_t i = 0; i < count && strlen(key) <= NAME_MAX_LEN; i++) {
        size_t edits = distance(key, rows[i].key);

        if (edits < best && edits < strlen(rows[i].key)) {
            best = edits;
            name = rows[i].key;
        }
    }
    return name;
}

static enum err unknown_key(struct config_loader *loader, const char *key)
{
    const char *name = nearest(key);

    if (name) {
        return config_fail(loader, "%.64s: unknown key (%s); did you mean %s?", key, loader->where,
                           name);
    }
    return config_fail(loader, "%.64s: unknown key (%s); 'zabra help serve' lists all keys", key,
                       loader->where);
}

static bool is_key(const char *key)
{
    size_t index = 0;

    return strncmp(key, server_prefix, sizeof(server_prefix) - 1) == 0 || config_find(key, &index);
}

static enum err set_key(struct config_loader *loader, const char *key, const char *value)
{
    size_t index = 0;

    if (!strncmp(key, server_prefix, sizeof(server_prefix) - 1)) {
        return config_set_server(loader, key + sizeof(server_prefix) - 1, value);
    }

    const struct config_row *row = config_find(key, &index);

    if (!row) {
        return unknown_key(loader, key);
    }
    if (loader->set_by[index] == loader->source) {
        return config_fail(loader, "%s: given twice (%s); remove one of the two", key,
                           loader->where);
    }
    loader->set_by[index] = (uint8_t)loader->source;
    return config_set_value(loader, row, value);
}

static void set_defaults(struct config_loader *loader)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].fallback) {
            enum err err = config_set_value(loader, &rows[i], rows[i].fallback);

            ASSERT(err == ERR_OK);
        }
    }
}

/* Cuts blanks off both ends, in place. */
static char *trim(char *text)
{
    size_t len = strlen(text);

    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        text[--len] = '\0';
    }
    while (isspace((unsigned char)*text)) {
        text++;
    }
    return text;
}

static enum err read_line(struct config_loader *loader, char *line)
{
    char *text = trim(line);

    if (*text == '\0' || *text == '#') {
        return ERR_OK;
    }

    char *equals = strchr(text, '=');

    if (!equals) {
        /* The line is not shown: it may be the rest of a secret that was split into two lines. */
        return config_fail(loader, "no '=' (%s); write key=value", loader->where);
    }
    *equals = '\0';
    return set_key(loader, trim(text), trim(equals + 1));
}

static enum err read_all(struct config_loader *loader, const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    if (fd < 0) {
        return config_fail(loader, "--config: %.256s cannot be read: %s; check path and permission",
                           path, strerrordesc_np(errno));
    }
    while (got > 0) {
        uint8_t *to = buf_reserve(out, BUFSIZ);

        got = to ? read(fd, to, BUFSIZ) : 0;
        if (got > 0) {
            out->len += (size_t)got;
        }
    }

    int error = errno;

    close(fd);
    if (got < 0) {
        return config_fail(loader, "--config: %.256s cannot be read: %s", path,
                           strerrordesc_np(error));
    }
    if (out->overflow || (out->len && memchr(out->data, 0, out->len))) {
        return config_fail(loader,
                           "--config: %.256s is not a text of at most 1 MiB; check the path", path);
    }
    return ERR_OK;
}

static enum err load_file(struct config_loader *loader, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    struct buf text;
    unsigned number = 0;

    buf_init(&text, FILE_BYTES_MAX);
    loader->source = CONFIG_FROM_FILE;

    enum err err = read_all(loader, path, &text);
    char *line = err == ERR_OK ? buf_cstr(&text) : NULL;

    while (err == ERR_OK && line) {
        char *end = strchr(line, '\n');

        if (end) {
            *end = '\0';
        }
        (void)snprintf(loader->where, sizeof(loader->where), "%.255s line %u", base, ++number);
        err = read_line(loader, line);
        line = end ? end + 1 : NULL;
    }
    buf_release(&text);
    return err;
}

/* Turns clientPort into ZABRA_CLIENT_PORT. */
static void env_name(const char *key, char *to, size_t size)
{
    size_t len = sizeof(env_prefix) - 1;

    memcpy(to, env_prefix, len);
    for (; *key && len + 2 < size; key++) {
        if (*key != to_lower(*key)) {
            to[len++] = '_';
        }
        to[len++] = (char)(toupper)((unsigned char)*key);
    }
    to[len] = '\0';
}

static const char *find_env(const char *const *env, const char *name)
{
    size_t len = strlen(name);

    for (; *env; env++) {
        if (!strncmp(*env, name, len) && (*env)[len] == '=') {
            return *env + len + 1;
        }
    }
    return NULL;
}

static enum err load_env_rows(struct config_loader *loader, const char *const *env)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        char name[NAME_MAX_LEN * 2];

        env_name(rows[i].key, name, sizeof(name));

        const char *value = find_env(env, name);

        (void)snprintf(loader->where, sizeof(loader->where), "environment %s", name);

        enum err err = value ? set_key(loader, rows[i].key, value) : ERR_OK;

        if (err) {
            return err;
        }
    }
    return ERR_OK;
}

/* Reads the environment. Other names with ZABRA_ are ignored, because they may belong to other
 * programs of the deployment. */
static enum err load_env(struct config_loader *loader, const char *const *env)
{
    size_t prefix_len = sizeof(env_server_prefix) - 1;

    loader->source = CONFIG_FROM_ENV;

    enum err err = load_env_rows(loader, env);

    for (; *env && err == ERR_OK; env++) {
        char key[NAME_MAX_LEN];
        const char *suffix = *env + prefix_len;
        size_t digits = 0;

        if (strncmp(*env, env_server_prefix, prefix_len) != 0) {
            continue;
        }
        digits = strspn(suffix, "0123456789");
        if (digits == 0 || digits > 10 || suffix[digits] != '=') {
            continue;
        }
        (void)snprintf(key, sizeof(key), "%s%.*s", server_prefix, (int)digits, suffix);
        (void)snprintf(loader->where, sizeof(loader->where), "environment %s%.*s",
                       env_server_prefix, (int)digits, suffix);
        err = set_key(loader, key, suffix + digits + 1);
    }
    return err;
}

static enum err load_flag(struct config_loader *loader, const char *flag, const char *next,
                          bool *ret_used_next)
{
    char key[NAME_MAX_LEN + 1];
    const char *equals = strchr(flag, '=');

    *ret_used_next = false;
    (void)snprintf(loader->where, sizeof(loader->where), "command line");
    if (strncmp(flag, "--", 2) != 0 || !flag[2]) {
        return config_fail(loader, "%.64s: not understood; write --key value, or --config FILE",
                           flag);
    }

    int len = equals ? (int)(equals - flag - 2) : (int)strlen(flag + 2);

    if (len > NAME_MAX_LEN) {
        return config_fail(loader, "%.64s: unknown key (command line)", flag);
    }
    (void)snprintf(key, sizeof(key), "%.*s", len, flag + 2);
    (void)snprintf(loader->where, sizeof(loader->where), "flag --%s", key);
    if (equals) {
        return set_key(loader, key, equals + 1);
    }
    if (!next && !is_key(key)) {
        return unknown_key(loader, key);
    }
    if (!next) {
        return config_fail(loader, "--%s: the value is missing; write --%s VALUE", key, key);
    }
    *ret_used_next = true;
    return set_key(loader, key, next);
}

static enum err load_flags(struct config_loader *loader, const char *const *args, uint32_t count)
{
    enum err err = ERR_OK;

    loader->source = CONFIG_FROM_FLAG;
    for (uint32_t i = 0; i < count && err == ERR_OK; i++) {
        bool used_next = false;

        err = load_flag(loader, args[i], i + 1 < count ? args[i + 1] : NULL, &used_next);
        i += used_next ? 1U : 0U;
    }
    return err;
}

static enum err check_required(struct config_loader *loader)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        if (!rows[i].fallback && loader->set_by[i] == CONFIG_FROM_DEFAULT) {
            return config_fail(loader, "%s: missing; give %s=VALUE in the file or --%s VALUE (%s)",
                               rows[i].key, rows[i].key, rows[i].key, rows[i].help);
        }
    }
    return ERR_OK;
}

enum err config_take_sources(struct config_loader *loader, const struct config_sources *sources)
{
    loader->host_name = sources->host_name;
    memset(loader->config, 0, sizeof(*loader->config));
    memset(loader->report, 0, sizeof(*loader->report));
    zab_limits_default(&loader->config->zab);
    set_defaults(loader);

    enum err err = sources->file ? load_file(loader, sources->file) : ERR_OK;

    if (err == ERR_OK && sources->env) {
        err = load_env(loader, sources->env);
    }
    if (err == ERR_OK) {
        err = load_flags(loader, sources->args, sources->arg_count);
    }
    return err;
}

enum err config_load(const struct config_sources *sources, struct config *ret_config,
                     struct config_report *ret_report)
{
    struct config_loader loader = {.config = ret_config, .report = ret_report};
    enum err err = config_take_sources(&loader, sources);

    if (err == ERR_OK) {
        err = check_required(&loader);
    }
    return err == ERR_OK ? config_check(&loader) : err;
}
