#include "cli/redact.h"

#include "server/config/config.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
    UUID_LEN = 36,
    PLAIN_LEN = 12,      /* A word of a sentence has at most so many small letters. */
    USERINFO_MAX = 1024, /* Of "://user:password@" the end is looked for in so many bytes. */
    PORT_LEN = 5,        /* Digits of the greatest port. */
    NESTED_MAX = 4,      /* Names of secrets one behind the other. */
    HASH_LEN = 28,       /* A SHA-1 in base64, as ACLs have it. */
    KEY_LINES_MAX = 300  /* Lines of a private key: RSA with 16384 bits has 200. */
};

/* A value behind one of these words, in any case, is a secret. */
static const char *const words[] = {
    "password",   "passwd",    "passphrase",  "pwd",         "secret",     "token",
    "api_key",    "api-key",   "apikey",      "credential",  "basic ",     "bearer ",
    "zk-session", "signature", "superdigest", "private_key", "privatekey", "access_key",
    "-key",       "_key",      "pass",        "pw"};

/* What makes the bytes behind a word a value. */
enum need {
    NEED_NONE,      /* Any word is one: the name is an option, or a scheme such as "Basic". */
    NEED_ODD,       /* A separator, or that they look like no word of a sentence. */
    NEED_SEPARATOR, /* A separator: "pw" is also a part of words and paths. */
};

/* All that follows on the line is a secret. */
static const char *const heads[] = {"authorization", "cookie"};

/* Keys of the configuration that prove an identity, or name one. */
static const char *const hidden_keys[] = {"superDigest", "superX509"};

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static struct slice trimmed(struct slice text)
{
    while (text.len > 0 && isspace(text.data[0])) {
        text = slice_from(text, 1);
    }
    while (text.len > 0 && isspace(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* ---- Configuration ---- */

static bool is_known(struct slice key)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < COUNT(hidden_keys); i++) {
        if (slice_eq(key, slice_str(hidden_keys[i]))) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (slice_eq(key, slice_str(rows[i].key))) {
            return true;
        }
    }
    return slice_starts_with(key, slice_str("server.")) && key.len <= strlen("server.65535");
}

void redact_config_line(struct slice line, struct buf *out)
{
    size_t equals = slice_find(line, '=');
    struct slice key = trimmed(slice_make(line.data, equals));
    struct redaction none = {.in_key = false};

    if (equals >= line.len || key.len == 0 || key.data[0] == '#') {
        return; /* A comment, or no line of a configuration. */
    }
    if (is_known(key)) {
        /* The name of a key is none, but a path or URL may contain one. */
        buf_append(out, line.data, equals + 1);
        redact_log_line(&none, slice_from(line, equals + 1), out);
        return;
    }
    for (size_t i = 0; i < COUNT(hidden_keys); i++) {
        if (slice_eq(key, slice_str(hidden_keys[i]))) {
            buf_printf(out, "%s=" REDACTED "\n", hidden_keys[i]);
            return;
        }
    }
    buf_append_str(out, "# a line with an unknown key was removed\n");
}

/* ---- Logs ---- */

static bool begins(struct slice text, const char *word)
{
    size_t len = strlen(word);

    return text.len >= len && strncasecmp((const char *)text.data, word, len) == 0;
}

/* Returns the length of the first word of the list at the beginning of the text; 0: none. */
static size_t word_at(struct slice text, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (begins(text, list[i])) {
            return strlen(list[i]);
        }
    }
    return 0;
}

static bool is_base64(uint8_t byte)
{
    return isalnum(byte) || byte == '+' || byte == '/';
}

/* Returns the length of a UUID at the beginning; 0: there is none. */
static size_t uuid_at(struct slice text)
{
    if (text.len < UUID_LEN) {
        return 0;
    }
    for (size_t i = 0; i < UUID_LEN; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (dash ? text.data[i] != '-' : !isxdigit(text.data[i])) {
            return 0;
        }
    }
    return UUID_LEN;
}

/* Returns the length of a hash behind its colon at the beginning; 0: there is none. */
static size_t hash_at(struct slice text)
{
    if (text.len < 1 + HASH_LEN || text.data[0] != ':' || text.data[HASH_LEN] != '=') {
        return 0;
    }
    for (size_t i = 1; i < HASH_LEN; i++) {
        if (!is_base64(text.data[i])) {
            return 0;
        }
    }
    return 1 + HASH_LEN;
}

/* Whether a slash, question mark or quote behind this text, which follows "://", ends the name of a
 * host: the text has no password, but at most a port. */
static bool is_host(struct slice text)
{
    size_t at = slice_find(text, ':') + 1;

    if (begins(text, "[") || at > text.len) {
        return true;
    }
    struct slice port = slice_from(text, at);

    while (port.len > 0 && port.data[port.len - 1] == '\\') {
        port.len--; /* An escaped quote follows. */
    }
    for (size_t i = 0; i < port.len; i++) {
        if (!isdigit(port.data[i])) {
            return false;
        }
    }
    return port.len > 0 && port.len <= PORT_LEN;
}

/* Returns the length of what is not blank, nor one of these characters. */
static size_t word_len(struct slice text, const char *ends)
{
    size_t len = 0;

    while (len < text.len && !isspace(text.data[len]) && !strchr(ends, text.data[len])) {
        len++;
    }
    return len;
}

/* Returns the length of "://user:password@" at the beginning; 0: there is none. The password may
 * have each of the characters that end it in a URL that is well-formed. If the text is long, all up
 * to the next blank counts as password. */
static size_t userinfo_at(struct slice text)
{
    size_t len = 0;

    if (!begins(text, "://")) {
        return 0;
    }
    for (size_t i = 3; i < text.len && !isspace(text.data[i]); i++) {
        bool is_end = strchr("/?\"", text.data[i]) != NULL;

        if (i == USERINFO_MAX) {
            return i + word_len(slice_from(text, i), "");
        }
        if (is_end && len == 0 && is_host(slice_make(text.data + 3, i - 3))) {
            return 0;
        }
        if (text.data[i] == '"' && len > 0) {
            break;
        }
        len = text.data[i] == '@' ? i + 1 : len;
    }
    return len;
}

/* Returns the length of what is none of these characters. */
static size_t value_len(struct slice text, const char *ends)
{
    size_t at = 0;

    while (at < text.len && !strchr(ends, text.data[at])) {
        at += text.data[at] == '\\' ? 2 : 1; /* An escaped quote belongs to the value. */
    }
    return min_size(at, text.len);
}

/* Returns the length of a value behind "name: " or "name = ", as in YAML. It may have blanks, and
 * other delimiters than a double quote where no blank follows. */
static size_t plain_len(struct slice text)
{
    size_t at = value_len(text, "\"',;&");

    while (at + 1 < text.len && text.data[at] != '"' && !isspace(text.data[at + 1])) {
        at += 1 + value_len(slice_from(text, at + 1), "\"',;&");
    }
    return at;
}

static bool is_quote(uint8_t byte)
{
    return byte == '"' || byte == '\'';
}

/* Returns the length of what stands between a name and its value: these characters, what escapes a
 * quote, and in a list such as ["-u", "name:password"] a comma behind the quote of the name. */
static size_t between_len(struct slice text, const char *set)
{
    bool is_pair = false; /* A colon or an equals sign came: a comma would end the value. */
    size_t at = 0;

    for (; at < text.len; at++) {
        uint8_t byte = text.data[at];
        bool is_comma = byte == ',' && !is_pair && at > 0 && is_quote(text.data[at - 1]);
        bool is_escape = byte == '\\' && at + 1 < text.len && is_quote(text.data[at + 1]);

        if (!is_comma && !is_escape && !strchr(set, byte)) {
            break;
        }
        is_pair = is_pair || byte == ':' || byte == '=';
    }
    return at;
}

/* Returns the length of what stands before the closing quote. A doubled quote belongs to the value,
 * as in YAML. */
static size_t quoted_len(struct slice text, uint8_t quote)
{
    const char ends[] = {(char)quote, '\0'};
    size_t at = value_len(text, ends);

    while (at + 1 < text.len && text.data[at + 1] == quote) {
        at += 2 + value_len(slice_from(text, at + 2), ends);
    }
    return at;
}

/* Returns the length of "name:value" at the beginning, `*ret_name` that of "name:"; 0: there is
 * none. `before`: the byte before it; within quotes the value may have blanks. */
static size_t pair_at(struct slice text, uint8_t before, size_t *ret_name)
{
    size_t name = word_len(text, ":\"',/");
    size_t len = 0;

    if (name == 0 || name >= text.len || text.data[name] != ':') {
        return 0;
    }
    struct slice value = slice_from(text, name + 1);
    size_t quote = between_len(value, ""); /* Behind what escapes it. */

    if (quote < value.len && is_quote(value.data[quote])) {
        len = quote + 1 + quoted_len(slice_from(value, quote + 1), value.data[quote]);
    } else if (is_quote(before)) {
        len = quoted_len(value, before);
    } else {
        len = word_len(value, "\"',");
    }
    *ret_name = name + 1;
    return len > 0 ? name + 1 + len : 0;
}

/* Returns the length of what stands before the name of an identity, such as "digest:", "digest" in
 * quotes, or "digest" and the member "id" (in JSON) or "auth"; 0: there is none. */
static size_t digest_at(struct slice text)
{
    size_t at = strlen("digest");

    if (begins(text, "digest:") || begins(text, "digest ")) {
        return at + 1;
    }
    if (!begins(text, "digest")) {
        return 0;
    }
    while (at < text.len && strchr("\\\"', \t", text.data[at])) {
        at++;
    }
    struct slice rest = slice_from(text, at);
    size_t word = begins(rest, "id") ? strlen("id") : begins(rest, "auth") ? strlen("auth") : 0;
    /* Not that of "Authorization". */
    size_t member = word < rest.len && !isalnum(rest.data[word]) ? word : 0;

    if (member == 0) {
        return is_quote(text.data[at - 1]) ? at : 0;
    }
    at += member;
    while (at < text.len && strchr("\\\"':= \t", text.data[at])) {
        at++;
    }
    return at;
}

/* Returns the length of an option of a command line behind which credentials stand, such as "-u" or
 * "--user"; 0: there is none. */
static size_t option_at(struct slice text)
{
    size_t at = 0;

    while (at < text.len && (isalpha(text.data[at]) || text.data[at] == '-')) {
        at++;
    }
    if (begins(text, "-u") && at < text.len && text.data[at] == ':') {
        return strlen("-u"); /* "-uname:password". */
    }
    bool is_user = begins(text, "--user") || begins(text, "--proxy-user");

    return at >= 2 && (is_user || tolower(text.data[at - 1]) == 'u') ? at : 0;
}

/* Returns the length of credentials of a command line, such as "-u name:password", or of an
 * identity, such as "digest:name:password"; 0: there are none. `*ret_keep` bytes are no secret. */
static size_t credentials_at(struct slice text, size_t *ret_keep)
{
    size_t digest = digest_at(text);
    size_t at = digest > 0 ? digest : begins(text, "-") ? option_at(text) : 0;
    size_t name = 0;

    if (at == 0) {
        return 0;
    }
    at += between_len(slice_from(text, at), "= \"'");
    uint8_t before = text.data[at - 1];
    struct slice rest = slice_from(text, min_size(at, text.len));
    size_t pair = pair_at(rest, before, &name);

    *ret_keep = at + name;
    if (pair > 0 && digest > 0 && !is_quote(before) && hash_at(slice_from(rest, name - 1)) == 0) {
        pair = name + value_len(slice_from(rest, name), "\"',;"); /* It may have blanks. */
    }
    return pair > 0 ? at + pair : 0;
}

/* Whether a word behind a blank looks like a secret, not like the next word of a sentence. */
static bool is_odd(struct slice text)
{
    size_t len = word_len(text, "");
    size_t letters = 0;

    while (letters < len && islower(text.data[letters])) {
        letters++;
    }
    return letters < word_len(text, ".,;:") || len > PLAIN_LEN;
}

static bool holds(struct slice line, const char *text)
{
    return line.len > 0 && memmem(line.data, line.len, text, strlen(text)) != NULL;
}

static bool holds_one(struct slice text, const char *set)
{
    for (size_t i = 0; i < text.len; i++) {
        if (strchr(set, text.data[i])) {
            return true;
        }
    }
    return false;
}

/* Returns the length of a value, which follows these bytes: within quotes up to the same quote. */
static size_t len_behind(struct slice between, struct slice value)
{
    uint8_t last = between.len > 0 ? between.data[between.len - 1] : 0;

    if (is_quote(last)) {
        return quoted_len(value, last);
    }
    if (holds_one(between, "\"'")) {
        return value_len(value, "\"'");
    }
    bool is_plain = isspace(last) ? holds_one(between, ":=") : holds(between, ": ");

    return is_plain ? plain_len(value) : value_len(value, " \t\"',;&");
}

/* Whether a string of Python such as u'...' begins here. */
static bool is_prefixed(struct slice text)
{
    return text.len > 1 && strchr("bBrRuU", text.data[0]) && is_quote(text.data[1]);
}

/* Whether the text behind a comma, up to this quote, is the next name, as in
 * {"type":"password","key":1}. */
static bool is_next_name(struct slice text, uint8_t quote)
{
    const char behind[] = {(char)quote, '\\', ' ', '\t', '\0'};
    size_t at = quoted_len(text, quote);

    while (at < text.len && text.data[at] != '\0' && strchr(behind, text.data[at])) {
        at++;
    }
    return at < text.len && (text.data[at] == ':' || text.data[at] == '=');
}

/* Returns the length of the rest of a name, its separator, and the value up to the next blank,
 * quote or delimiter; of an object or a list, the rest of the line. 0: there is no value.
 * `*ret_value` is where the value begins. */
static size_t value_at(struct slice text, enum need need, size_t *ret_value)
{
    size_t at = 0;

    while (need != NEED_SEPARATOR && at < text.len &&
           (isalnum(text.data[at]) || strchr("_-.", text.data[at]))) {
        at++; /* "passwordFile", "token_id". */
    }
    size_t name = at;

    at += between_len(slice_from(text, at), "\"'\\ \t:=>{[");
    at += is_prefixed(slice_from(text, at)) ? 2 : 0;

    struct slice between = slice_make(text.data + name, at - name);
    struct slice rest = slice_from(text, at);
    uint8_t last = between.len > 0 ? between.data[between.len - 1] : 0;
    bool is_odd_word = need == NEED_ODD && between.len > 0 && is_odd(rest);

    *ret_value = at;
    if (need != NEED_NONE && !holds_one(between, ":=") && !is_odd_word) {
        return 0;
    }
    if (holds_one(between, ",") && is_quote(last) && is_next_name(rest, last)) {
        return 0;
    }
    return holds_one(between, "{[") ? text.len : at + len_behind(between, rest);
}

/* Returns the length of a name, of which `word` bytes behind the dashes are in the list, and its
 * value, which begins at `*ret_value`; 0: there is no value. */
static size_t named_at(struct slice text, size_t dashes, size_t word, size_t *ret_value)
{
    size_t at = dashes + word;
    bool is_scheme = text.data[at - 1] == ' ';
    enum need need = word == strlen("pw") ? NEED_SEPARATOR : NEED_ODD;

    need = dashes > 0 || is_scheme ? NEED_NONE : need;
    size_t value = value_at(slice_from(text, at), need, ret_value);

    *ret_value += at;
    return value > 0 ? at + value : 0;
}

/* Returns how many bytes at the beginning are a secret; `*ret_keep` of them name it and are kept,
 * and its value begins at `*ret_value`. */
static size_t secret_at(struct slice text, size_t *ret_keep, size_t *ret_value)
{
    size_t dashes = begins(text, "--") ? 2 : 0; /* An option: any word behind it is its value. */
    size_t word = word_at(slice_from(text, dashes), words, COUNT(words));
    size_t head = word_at(text, heads, COUNT(heads));

    *ret_keep = 0;
    *ret_value = text.len;
    if (head > 0) {
        *ret_keep = head;
        return text.len;
    }
    if (word > 0) {
        *ret_keep = dashes + word;
        return named_at(text, dashes, word, ret_value);
    }
    size_t found = credentials_at(text, ret_keep);

    if (found > 0) {
        return found;
    }
    found = userinfo_at(text);
    *ret_keep = found > 0 ? 3 : 0;
    if (found == 0) {
        found = hash_at(text);
        *ret_keep = found > 0 ? 1 : 0;
    }
    return found > 0 ? found : uuid_at(text);
}

/* As above, with what a value that is itself a name names, as in "password Basic abc". */
static size_t whole_secret_at(struct slice text, size_t *ret_keep)
{
    size_t value = 0;
    size_t end = secret_at(text, ret_keep, &value);

    for (int i = 0; i < NESTED_MAX && value < end; i++) {
        size_t at = value;
        size_t keep = 0;
        size_t inner = secret_at(slice_from(text, at), &keep, &value);

        value = inner > 0 ? at + value : end;
        end = at + inner > end ? at + inner : end;
    }
    return end;
}

/* A line of a private key in PEM. */
enum key_line {
    KEY_NONE,
    KEY_BEGIN,
    KEY_END,
    KEY_TORN /* Begin or end: the first half of the line is missing. */
};

/* Returns what the first or the last mark of a private key in the line is, if it has one. */
static enum key_line key_line(struct slice line, bool wants_last)
{
    enum key_line kind = KEY_TORN;
    enum key_line found = KEY_NONE;

    for (size_t at = 0; at < line.len && (wants_last || found == KEY_NONE); at++) {
        struct slice rest = slice_from(line, at);

        if (begins(rest, "-----BEGIN")) {
            kind = KEY_BEGIN;
        } else if (begins(rest, "-----END")) {
            kind = KEY_END;
        } else if (begins(rest, "PRIVATE KEY-----") || begins(rest, "PRIVATE KEY BLOCK-----")) {
            found = kind;
        }
    }
    return found;
}

bool redact_begins_in_key(struct slice text)
{
    enum key_line first = KEY_NONE;

    for (int i = 0; i < KEY_LINES_MAX && text.len > 0 && first == KEY_NONE; i++) {
        first = key_line(slice_cut(&text, '\n'), false);
    }
    return first == KEY_END;
}

void redact_log_line(struct redaction *redaction, struct slice line, struct buf *out)
{
    enum key_line last = key_line(line, true);

    if (last != KEY_NONE) {
        redaction->in_key = last == KEY_BEGIN;
        buf_append_str(out, REDACTED "\n");
        return;
    }
    for (size_t at = 0; !redaction->in_key && at < line.len;) {
        struct slice rest = slice_from(line, at);
        size_t keep = 0;
        size_t secret = whole_secret_at(rest, &keep);

        buf_append(out, rest.data, secret > 0 ? keep : 1);
        if (secret > 0) {
            buf_append_str(out, begins(rest, "://") ? REDACTED "@" : "=" REDACTED);
        }
        at += secret > 0 ? secret : 1;
    }
    if (!redaction->in_key) {
        buf_append_byte(out, '\n');
    }
}
