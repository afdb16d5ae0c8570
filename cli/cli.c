#include "cli/cli.h"

#include "cli/url.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 1000 /* Items of a list that are asked for at once. */
};

/* The exit code when the command that zabra should run has not run yet: other codes are those of
 * that command. */
static int own_code(const struct cli *cli, int code)
{
    return cli->args.child && code < CMD_CHILD_LOST ? CMD_CHILD_FAILED : code;
}

int cli_fail(const struct cli *cli, int exit_code, const char *code, const char *format, ...)
{
    char message[CLI_MESSAGE_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    exit_code = own_code(cli, exit_code);
    out_error(&cli->out, exit_code, code, message, NULL);
    return exit_code;
}

int cli_usage(const struct cli *cli, const char *format, ...)
{
    int code = CMD_USAGE;
    va_list list;

    va_start(list, format);
    code = out_usage_list(&cli->out, format, list);
    va_end(list);
    return code;
}

/* Members of a problem that programs use, without the text. */
static json_t *extra_of(const struct client_error *error)
{
    static const char *const members[] = {"path",     "outcome", "zxidHex", "zk_code",
                                          "op_index", "stat",    "instance"};
    json_t *extra = json_object();

    if (error->status) {
        (void)json_object_set_new(extra, "status", json_integer(error->status));
    }
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        json_t *value = json_object_get(error->problem, members[i]);

        if (value) {
            (void)json_object_set(extra, members[i], value);
        }
    }
    return extra;
}

int cli_tell(const struct cli *cli)
{
    const struct client_error *error = client_error(cli->client);
    int code = own_code(cli, error->exit_code);
    json_auto_t *extra = extra_of(error);

    client_explain(cli->client);
    out_error(&cli->out, code, error->code, error->message, extra);
    return code;
}

int cli_ask(const struct cli *cli, const struct client_request *request)
{
    int code = client_ask(cli->client, request);
    bool interrupted = strcmp(client_error(cli->client)->code, CLIENT_INTERRUPTED) == 0;

    return code > CMD_OK && !interrupted ? cli_tell(cli) : code;
}

json_t *cli_json(const struct cli *cli)
{
    json_t *json = client_json(cli->client);

    if (!json) {
        (void)cli_fail(cli, CMD_FAILED, "BadAnswer",
                       "the answer is not JSON; check that a zabra replica listens at %s",
                       endpoints_url(client_endpoints(cli->client)));
    }
    return json;
}

int cli_ask_json(const struct cli *cli, const struct client_request *request, json_t **ret_json)
{
    int code = cli_ask(cli, request);

    *ret_json = code == CMD_OK ? cli_json(cli) : NULL;
    return code == CMD_OK && !*ret_json ? CMD_FAILED : code;
}

/* Returns whether there is more. */
static bool add_page(json_t *whole, const json_t *page, const char *member)
{
    static const char *const place[] = {"more", "after"};
    json_t *looked = json_object_get(whole, "looked");

    (void)json_array_extend(json_object_get(whole, member), json_object_get(page, member));
    for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
        json_t *value = json_object_get(page, place[i]);

        (void)(value ? json_object_set(whole, place[i], value) : json_object_del(whole, place[i]));
    }
    if (looked) {
        (void)json_integer_set(looked, json_integer_value(looked) + jsonr_number(page, "looked"));
    }
    return json_is_true(json_object_get(page, "more"));
}

int cli_ask_pages(const struct cli *cli, const struct client_request *request, const char *member,
                  int64_t limit, json_t **ret_whole)
{
    struct client_request next = *request;
    struct client_param *params = next.params;
    int64_t left = limit;
    bool more = true;

    while (params->name) {
        params++;
    }
    next.last = true;
    *ret_whole = NULL;
    while (more && left > 0) {
        const char *after = jsonr_text(*ret_whole, "after");
        json_t *page = NULL;

        params[0] = (struct client_param){"limit", URL_NUMBER(left < PAGE ? left : PAGE)};
        params[1] = (struct client_param){"after", *after ? after : NULL};

        int code = cli_ask_json(cli, &next, &page);

        if (code != CMD_OK) {
            return code;
        }
        left -= (int64_t)json_array_size(json_object_get(page, member));
        if (*ret_whole) {
            more = add_page(*ret_whole, page, member);
        } else {
            *ret_whole = json_incref(page);
            more = json_is_true(json_object_get(page, "more"));
        }
    }
    return CMD_OK;
}

void cli_answer(const struct cli *cli)
{
    out_answer(&cli->out, buf_slice(&client_reply(cli->client)->body));
}

const char *cli_path(const struct cli *cli, int operand)
{
    const char *path = args_operand(&cli->args, operand);

    return path ? path : "/";
}

const char *cli_flag(const struct cli *cli, const char *option)
{
    return url_flag(args_has(&cli->args, option));
}

bool cli_number(const struct cli *cli, const char *option, struct args_range range,
                int64_t *ret_number)
{
    const char *text = args_get(&cli->args, option);

    *ret_number = range.otherwise;
    if (!text || args_number(text, range, ret_number)) {
        return true;
    }
    (void)cli_usage(cli, "--%s: \"%s\" is not a number from %" PRId64 " to %" PRId64, option, text,
                    range.min, range.max);
    return false;
}

bool cli_duration(const struct cli *cli, const char *option, struct args_range range,
                  int64_t *ret_ms)
{
    const char *text = args_get(&cli->args, option);

    *ret_ms = range.otherwise;
    if (!text || args_duration_ms(text, range, ret_ms)) {
        return true;
    }
    if (args_duration_ms(text, (struct args_range){INT64_MIN, INT64_MAX, 0}, ret_ms)) {
        (void)cli_usage(cli, "--%s: %s is not between %" PRId64 " ms and %" PRId64 " s", option,
                        text, range.min, range.max / 1000);
    } else {
        (void)cli_usage(cli, "--%s: \"%s\" is not a time like 500ms, 15s or 2m", option, text);
    }
    return false;
}

/* ---- Data ---- */

bool value_read_file(const struct cli *cli, const char *name, struct buf *out)
{
    bool input = strcmp(name, "-") == 0;
    int fd = input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && settings_read_all(fd, out);
    int why = errno;

    if (fd >= 0 && !input) {
        close(fd);
    }
    if (!ok && out->overflow) {
        (void)cli_fail(cli, CMD_LIMIT, "TooLarge", "%s is larger than %d bytes", name,
                       (int)VALUE_MAX);
    } else if (!ok) {
        (void)cli_fail(cli, CMD_FAILED, "File", "%s: %s", name, strerrordesc_np(why));
    }
    return ok;
}

bool value_read(const struct cli *cli, const char *operand, struct value *value)
{
    *value = (struct value){.given = operand != NULL};
    buf_init(&value->bytes, VALUE_MAX);
    if (!operand) {
        return true;
    }

    bool input = strcmp(operand, "-") == 0;

    if (!input && operand[0] != '@') {
        return buf_append_str(&value->bytes, operand);
    }
    value->from = input ? "@-" : operand;
    if (!input && operand[1] == '\0') {
        (void)cli_usage(cli, "a file name must follow @");
        return false;
    }
    return cli->settings.curl || value_read_file(cli, input ? "-" : operand + 1, &value->bytes);
}

void value_release(struct value *value)
{
    buf_release(&value->bytes);
}

void value_put(const struct value *value, struct client_request *request)
{
    request->has_body = value->given;
    request->body = buf_slice(&value->bytes);
    request->body_from = value->from;
}
