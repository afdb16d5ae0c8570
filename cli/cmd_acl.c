/* acl: the access control list of a znode. */
#include "base/os_clock.h"
#include "cli/acl_text.h"
#include "cli/cli.h"
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

enum {
    BODY_MAX = 1 << 20
};

/* ---- Lists as text ---- */

static const struct {
    char letter;
    const char *word;
} perms[] = {{'c', "create"}, {'d', "delete"}, {'r', "read"}, {'w', "write"}, {'a', "admin"}};

enum {
    PERMS = sizeof(perms) / sizeof(perms[0])
};

static const char *word_of(uint8_t letter)
{
    for (size_t i = 0; i < PERMS; i++) {
        if ((uint8_t)perms[i].letter == letter) {
            return perms[i].word;
        }
    }
    return NULL;
}

static json_t *words_of(struct slice letters)
{
    json_t *words = json_array();

    for (size_t i = 0; i < letters.len; i++) {
        const char *word = word_of(letters.data[i]);

        if (!word) {
            json_decref(words);
            return NULL;
        }
        (void)json_array_append_new(words, json_string(word));
    }
    if (letters.len == 0) {
        json_decref(words);
        return NULL;
    }
    return words;
}

json_t *acl_text_entry(struct slice text)
{
    const uint8_t *first = text.len > 0 ? memchr(text.data, ':', text.len) : NULL;
    const uint8_t *last = text.len > 0 ? memrchr(text.data, ':', text.len) : NULL;
    json_t *words = NULL;

    if (!first || first == last || first == text.data) {
        return NULL;
    }
    words = words_of(slice_make(last + 1, (size_t)(text.data + text.len - last - 1)));
    if (!words) {
        return NULL;
    }
    return json_pack("{s:o,s:s%,s:s%}", "perms", words, "scheme", (const char *)text.data,
                     (size_t)(first - text.data), "id", (const char *)first + 1,
                     (size_t)(last - first - 1));
}

static struct slice trim(const char *text, size_t len)
{
    while (len > 0 && *text == ' ') {
        text++;
        len--;
    }
    while (len > 0 && text[len - 1] == ' ') {
        len--;
    }
    return slice_make(text, len);
}

json_t *acl_text_parse(const char *text)
{
    json_t *list = NULL;

    if (strcmp(text, "open") == 0 || strcmp(text, "read") == 0 || strcmp(text, "creator") == 0) {
        return json_string(text);
    }
    list = json_array();
    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");
        json_t *entry = acl_text_entry(trim(at, len));

        if (!entry) {
            json_decref(list);
            return NULL;
        }
        (void)json_array_append_new(list, entry);
        if (at[len] == '\0') {
            return list;
        }
        at += len + 1;
    }
}

void acl_text_put(const json_t *entry, struct buf *out)
{
    const json_t *list = jsonr_at(entry, "perms");

    buf_printf(out, "%s:%s:", jsonr_text(entry, "scheme"), jsonr_text(entry, "id"));
    for (size_t i = 0; i < PERMS; i++) {
        const json_t *word = NULL;
        size_t at = 0;

        json_array_foreach(list, at, word)
        {
            if (strcmp(json_string_value(word), perms[i].word) == 0) {
                buf_append_byte(out, (uint8_t)perms[i].letter);
            }
        }
    }
}

static bool is_of(const json_t *entry, const char *scheme, const char *id)
{
    return strcmp(jsonr_text(entry, "scheme"), scheme) == 0 &&
           strcmp(jsonr_text(entry, "id"), id) == 0;
}

void acl_text_add(json_t *list, json_t *entry)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (is_of(json_array_get(list, i), jsonr_text(entry, "scheme"), jsonr_text(entry, "id"))) {
            (void)json_array_set_new(list, i, entry);
            return;
        }
    }
    (void)json_array_append_new(list, entry);
}

/* "scheme:id" of an entry. */
static bool is_who(const json_t *entry, const char *who)
{
    const char *scheme = jsonr_text(entry, "scheme");
    size_t len = strlen(scheme);

    return strncmp(who, scheme, len) == 0 && who[len] == ':' &&
           strcmp(who + len + 1, jsonr_text(entry, "id")) == 0;
}

bool acl_text_remove(json_t *list, const char *who)
{
    bool found = false;

    for (size_t i = json_array_size(list); i > 0; i--) {
        if (is_who(json_array_get(list, i - 1), who)) {
            (void)json_array_remove(list, i - 1);
            found = true;
        }
    }
    return found;
}

/* ---- Showing ---- */

static void print_acl(const struct cli *cli, const json_t *list)
{
    const json_t *entry = NULL;
    BUF_AUTO(line, BODY_MAX);

    for (size_t i = 0; (entry = json_array_get(list, i)); i++) {
        buf_clear(&line);
        acl_text_put(entry, &line);
        out_say(&cli->out, "%s\n", buf_cstr(&line));
    }
}

static int ask_acl(struct cli *cli, const char *path, bool last, json_t **ret_json)
{
    return cli_ask_json(
        cli,
        &(struct client_request){
            .target = "/znodes/v1", .path = path, .params = {{"view", "acl"}}, .last = last},
        ret_json);
}

static int show(struct cli *cli, const char *path)
{
    json_t *json = NULL;
    int code = ask_acl(cli, path, true, &json);

    if (code != CMD_OK) {
        return code;
    }
    if (out_is_json(&cli->out)) {
        cli_answer(cli);
    } else {
        print_acl(cli, jsonr_at(json, "acl"));
    }
    return CMD_OK;
}

/* ---- Setting ---- */

/* `match` is a header or NULL. */
static int patch(struct cli *cli, const char *path, json_t *body, const char *match)
{
    struct client_request request = {.method = "PATCH",
                                     .target = "/znodes/v1",
                                     .path = path,
                                     .has_body = true,
                                     .type = "application/json",
                                     .headers = {match},
                                     .last = true};
    BUF_AUTO(text, BODY_MAX);

    jsonr_put(&text, body);
    request.body = buf_slice(&text);
    return client_ask(cli->client, &request);
}

static int set(struct cli *cli, const char *path, const char *text)
{
    struct args_range range = {.min = 0, .max = INT32_MAX};
    json_t *list = acl_text_parse(text);
    json_t *body = NULL;
    int64_t version = 0;
    int code = CMD_OK;

    if (!list) {
        return cli_usage(cli,
                         "\"%s\" is not open, read, creator or a list scheme:id:perms,...; perms "
                         "are letters of cdrwa",
                         text);
    }
    body = json_pack("{s:o}", "acl", list);
    if (!cli_number(cli, "version", range, &version)) {
        json_decref(body);
        return CMD_USAGE;
    }
    if (args_has(&cli->args, "version")) {
        (void)json_object_set_new(body, "aversion", json_integer(version));
    }
    code = patch(cli, path, body, NULL);
    json_decref(body);
    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return code > CMD_OK ? cli_tell(cli) : code;
}

/* ---- Changing a part ---- */

static int apply(struct cli *cli, json_t *list)
{
    const char *text = NULL;

    for (int i = 0; (text = args_nth(&cli->args, "remove", i)); i++) {
        if (!acl_text_remove(list, text)) {
            return cli_fail(cli, CMD_FAILED, "NoEntry", "the ACL has no entry for %s", text);
        }
    }
    for (int i = 0; (text = args_nth(&cli->args, "add", i)); i++) {
        json_t *entry = acl_text_entry(slice_str(text));

        if (!entry) {
            return cli_usage(cli,
                             "--add: \"%s\" is not scheme:id:perms; perms are letters of "
                             "cdrwa",
                             text);
        }
        acl_text_add(list, entry);
    }
    return CMD_OK;
}

/* Another client changed the list, or the znode is another one now: not reported. */
static bool is_late(const struct cli *cli, int code)
{
    return code > CMD_OK && client_was_late(cli->client);
}

/* Reported, except for is_late(). */
static int change_once(struct cli *cli, const char *path)
{
    char match[CLIENT_HEADER_MAX];
    json_t *json = NULL;
    json_auto_t *body = NULL;
    int code = ask_acl(cli, path, false, &json);

    if (code != CMD_OK) {
        return code;
    }
    (void)snprintf(match, sizeof(match), "If-Match: %.256s", client_reply(cli->client)->etag);
    body = json_pack("{s:O}", "acl", jsonr_at(json, "acl"));
    code = apply(cli, jsonr_at(body, "acl"));
    if (code == CMD_OK) {
        code = patch(cli, path, body, match);
        if (code > CMD_OK && !is_late(cli, code)) {
            (void)cli_tell(cli);
        }
    }
    return code;
}

static int change(struct cli *cli, const char *path)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)cli->settings.timeout_ms;
    int code = CMD_OK;

    do {
        code = change_once(cli, path);
    } while (is_late(cli, code) && os_now_ms() < end_ms);
    if (code == CMD_OK && out_is_json(&cli->out)) {
        cli_answer(cli);
    }
    return is_late(cli, code) ? cli_tell(cli) : code;
}

static int run(struct cli *cli)
{
    const char *text = args_operand(&cli->args, 1);
    bool part = args_has(&cli->args, "add") || args_has(&cli->args, "remove");
    const char *path = cli_path(cli, 0);

    if (text && part) {
        return cli_usage(cli, "give either a whole list or --add and --remove");
    }
    if (args_has(&cli->args, "version") && !text) {
        return cli_usage(cli, "--version needs a list to set");
    }
    if (part) {
        return change(cli, path);
    }
    return text ? set(cli, path, text) : show(cli, path);
}

const struct cmd cmd_acl = {
    .name = "acl",
    .summary = "show or set the access control list of a znode",
    .usage = "PATH [LIST]",
    .text = "LIST is open (every client has all permissions), read (every client may read),\n"
            "creator (you have all permissions), or entries scheme:id:perms separated by\n"
            "commas, as in ZooKeeper's shell. Permissions are c(reate) d(elete) r(ead)\n"
            "w(rite) a(dmin); schemes are world, auth, digest, ip. A digest id holds a hash\n"
            "in place of the password: 'zabra whoami --user NAME' prints it. An ACL applies\n"
            "to its znode only, not to the znodes below.\n",
    .options = {{"add", 'a', "ENTRY", "add or replace an entry; may be repeated", NULL},
                {"remove", 'd', "SCHEME:ID", "remove an entry; may be repeated", NULL},
                {"version", 0, "N", "only if the version of the ACL (aversion) is N", NULL}},
    .examples = {{"zabra acl /app", "one entry per line"},
                 {"zabra acl /app read --user bob", "every client may read, none may write"},
                 {"zabra acl /app world:anyone:r,auth::cdrwa --user bob",
                  "every client may read, bob may do everything"},
                 {"zabra acl /app --add ip:10.0.0.0/8:rw --remove world:anyone",
                  "changes single entries"}},
    .operands = {CMD_OPERAND_PATH, CMD_OPERAND_TEXT},
    .operands_min = 1,
    .run = run,
};
