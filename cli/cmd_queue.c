/* queue: items in the order in which they were added, each taken once. */
#include "base/os_clock.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/url.h"
#include "cli/wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PAGE = 100, /* So many names are read at once: others may take the first ones meanwhile. */
    EMPTY = -2  /* There is no item. */
};

struct queue {
    struct cli *cli;
    struct wait wait;
    const char *path;
    bool take;                     /* Else the first item is only looked at. */
    struct buf item;               /* Path of the one that is looked at, */
    struct buf data;               /* what a replica has answered for it, */
    char match[CLIENT_HEADER_MAX]; /* and the header that asks for just that. */
};

/* A path, or an item, needs no table. */
static bool is_words(const struct cli *cli)
{
    return out_is_text(&cli->out) || cli->out.format == SETTINGS_TABLE;
}

/* ---- push ---- */

static int push(struct cli *cli, const char *path)
{
    struct client_request request = {
        .method = "POST",
        .target = "/znodes/v1",
        .path = path,
        .params = {{"op", "create"}, {"name", "item-"}, {"sequence", "true"}, {"parents", "true"}},
        .last = true};
    struct value value;
    int code = CMD_FAILED;

    if (!args_operand(&cli->args, 2)) {
        return cli_usage(cli, "the item is missing: DATA, @FILE or -");
    }
    if (value_read(cli, args_operand(&cli->args, 2), &value)) {
        value_put(&value, &request);
        code = cli_ask(cli, &request);
    }
    if (code == CMD_OK && is_words(cli)) {
        out_say(&cli->out, "%s\n", jsonr_text(client_json(cli->client), "path"));
    } else if (code == CMD_OK) {
        cli_answer(cli);
    }
    value_release(&value);
    return code;
}

/* ---- len ---- */

static int length(struct cli *cli, const char *path)
{
    struct client_request request = {
        .target = "/znodes/v1", .path = path, .params = {{"view", "stat"}}, .last = true};
    int code = cli_ask(cli, &request);

    if (code != CMD_OK) {
        return code;
    }

    int64_t items = jsonr_number(client_json(cli->client), "numChildren");

    if (out_is_text(&cli->out)) {
        out_say(&cli->out, "%" PRId64 "\n", items);
    } else {
        out_result(&cli->out, json_pack("{s:s,s:I}", "path", path, "length", (json_int_t)items));
    }
    return CMD_OK;
}

/* ---- peek, pop ---- */

static int read_item(struct queue *queue)
{
    bool words = is_words(queue->cli);
    struct client_request request = {.target = "/znodes/v1",
                                     .path = buf_cstr(&queue->item),
                                     .params = {{"dataformat", words ? NULL : "auto"}},
                                     .accept = words ? "application/octet-stream" : NULL,
                                     .last = !queue->take};
    int code = wait_ask(&queue->wait, &request);

    buf_clear(&queue->data);
    if (code == CMD_OK) {
        const struct client_reply *reply = client_reply(queue->cli->client);

        buf_append_slice(&queue->data, buf_slice(&reply->body));
        (void)snprintf(queue->match, sizeof(queue->match), "If-Match: %.256s", reply->etag);
    }
    return code;
}

/* The consumer whose delete succeeds has the item, with exactly the data that it read. */
static int delete_item(struct queue *queue)
{
    return wait_ask(&queue->wait, &(struct client_request){.method = "DELETE",
                                                           .target = "/znodes/v1",
                                                           .path = buf_cstr(&queue->item),
                                                           .headers = {queue->match}});
}

/* CMD_NO_NODE: another consumer has it. An item that changes before it can be taken is read again.
 */
static int try_item(struct queue *queue, const char *name)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)queue->cli->settings.timeout_ms;
    bool late = false;
    int code = CMD_OK;

    buf_clear(&queue->item);
    buf_printf(&queue->item, "%s/%s", queue->path, name);
    do {
        code = read_item(queue);
        if (code == CMD_OK && queue->take) {
            code = delete_item(queue);
        }
        late = code == CMD_CONFLICT && client_was_late(queue->cli->client);
    } while (late && os_now_ms() < end_ms);
    return code;
}

static int list_items(struct queue *queue)
{
    struct client_request request = {
        .target = "/znodes/v1",
        .path = queue->path,
        .params = {{"view", "children"}, {"limit", URL_NUMBER(queue->take ? PAGE : 1)}}};

    return wait_ask(&queue->wait, &request);
}

/* One look at the queue: CMD_OK, EMPTY, CMD_NO_NODE (no queue), else reported. */
static int try_queue(struct queue *queue)
{
    int code = CMD_NO_NODE;
    bool more = true;

    while (code == CMD_NO_NODE && more) {
        const json_t *name = NULL;
        json_t *page = NULL;

        code = list_items(queue);
        if (code != CMD_OK) {
            return code;
        }
        page = json_incref(cli_json(queue->cli));
        more = json_array_size(jsonr_at(page, "children")) > 0;
        code = CMD_NO_NODE;
        for (size_t i = 0;
             code == CMD_NO_NODE && (name = json_array_get(jsonr_at(page, "children"), i)); i++) {
            code = try_item(queue, json_string_value(name));
        }
        json_decref(page);
    }
    return code == CMD_NO_NODE ? EMPTY : code == CMD_CONFLICT ? cli_tell(queue->cli) : code;
}

/* Also waits for a queue that does not exist yet. */
static int wait_item(struct queue *queue)
{
    int code = CMD_OK;

    wait_watch(&queue->wait, queue->path);
    do {
        code = wait_next(&queue->wait);
        if (code == CMD_OK) {
            code = try_queue(queue);
        }
    } while (code == EMPTY || code == CMD_NO_NODE);
    wait_unwatch(&queue->wait);
    return code;
}

static void print_item(struct queue *queue)
{
    const struct out *out = &queue->cli->out;
    struct slice data = buf_slice(&queue->data);

    if (!is_words(queue->cli)) {
        out_answer(out, data);
        return;
    }
    out_bytes(out, data);
    if (isatty(STDOUT_FILENO) && (data.len == 0 || data.data[data.len - 1] != '\n')) {
        out_say(out, "\n");
    }
}

static int get_item(struct queue *queue)
{
    int code = try_queue(queue);

    if ((code == EMPTY || code == CMD_NO_NODE) && args_has(&queue->cli->args, "wait")) {
        code = wait_item(queue);
    }
    if (code == EMPTY) {
        return cli_fail(queue->cli, CMD_NO_NODE, "Empty", "%s: the queue is empty", queue->path);
    }
    if (code == CMD_NO_NODE) {
        return cli_tell(queue->cli);
    }
    if (code == CMD_OK) {
        print_item(queue);
    }
    return code;
}

static int get(struct cli *cli, const char *path, bool take)
{
    struct queue queue = {.cli = cli, .path = path, .take = take};
    int code = wait_open(&queue.wait, cli);

    buf_init(&queue.item, URL_MAX);
    buf_init(&queue.data, CLIENT_BODY_MAX);
    if (code == CMD_OK) {
        code = get_item(&queue);
    }
    buf_release(&queue.item);
    buf_release(&queue.data);
    wait_close(&queue.wait);
    return code;
}

/* ---- The command ---- */

static int run(struct cli *cli)
{
    const char *verb = args_operand(&cli->args, 0);
    const char *path = buf_cstr(&cli->named);
    bool pop = strcmp(verb, "pop") == 0;
    bool len = strcmp(verb, "len") == 0;

    if (strcmp(verb, "push") == 0) {
        return push(cli, path);
    }
    if (!pop && !len && strcmp(verb, "peek") != 0) {
        return cli_usage(cli, "\"%s\" is not one of push, pop, peek, len", verb);
    }
    if (args_operand(&cli->args, 2)) {
        return cli_usage(cli, "%s takes one path", verb);
    }
    return len ? length(cli, path) : get(cli, path, pop);
}

const struct cmd cmd_queue = {
    .name = "queue",
    .summary = "add items to a queue, take each item once",
    .usage = "push NAME (DATA | @FILE | -) | pop NAME | peek NAME | len NAME",
    .text = "NAME is a path or a name within /queues; docs/recipes/work-queue.md has the\n"
            "rules. 'pop' removes the item from the queue, even if its output is lost. Exit\n"
            "code 3 when the queue is empty.\n" VALUE_HELP,
    .options = {{"wait", 0, "TIME", "pop, peek: wait for an item; exit code 7 when none arrives",
                 NULL}},
    .examples = {{"zabra queue push mail @letter.txt", "prints the path of the item"},
                 {"zabra queue pop mail --wait 1h",
                  "takes the oldest item; no other consumer gets it"},
                 {"zabra queue len mail", "prints the number of items"}},
    .operands = {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_FILE},
    .folder = "/queues",
    .operands_min = 2,
    .run = run,
};
