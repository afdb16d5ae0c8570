/* queue: items in the order in which they were added, each taken once. */
#include "cli/wait.h"

#include <unistd.h>

enum {
    PAGE = 100, /* Names per request; several, because other consumers may take the first items. */
    EMPTY = -2  /* There is no item. */
};

struct queue {
    struct cli *cli;
    struct wait wait;
    const char *path;
    bool take;        /* Take the first item; else only read it. */
    struct buf *item; /* The path of the current item. */
    struct buf *data; /* What a replica has answered for the current item. */
};

/* Whether to print text. The format table counts as text, too: the result is a single path or item,
 * to which a table would add nothing. */
static bool is_words(const struct cli *cli)
{
    return out_is_text(&cli->out) || cli->out.format == SETTINGS_TABLE;
}

/* ---- push ---- */

static int push(struct cli *cli, const char *path)
{
    struct client_request request = {
        .method = "POST",
        .path = path,
        .params = {{"op", "create"}, {"name", "item-"}, {"sequence", "true"}, {"parents", "true"}}};

    if (!args_operand(&cli->args, 2)) {
        return CLI_USAGE(cli, "the item is missing: DATA, @FILE or -");
    }

    int code = cli_take_data(cli, 2, &request) ? cli_ask(cli, &request) : CMD_FAILED;

    if (code == CMD_OK && is_words(cli)) {
        out_say(&cli->out, "%s\n", jsonr_text(client_json(cli->client), "path"));
    } else if (code == CMD_OK) {
        cli_answer(cli);
    }
    return code;
}

/* ---- len ---- */

static int length(struct cli *cli, const char *path)
{
    struct client_request request = {.path = path, .params = {{"view", "stat"}}};
    int code = cli_ask(cli, &request);

    if (code == CMD_OK) {
        cli_print_number(cli, path, "length",
                         jsonr_number(client_json(cli->client), "numChildren"));
    }
    return code;
}

/* ---- peek, pop ---- */

/* Reads the item and deletes it. The consumer whose delete succeeds has the item, with exactly the
 * data that it read. */
static int read_and_delete(struct queue *queue)
{
    const struct client_reply *reply = &queue->cli->client->reply;
    bool words = is_words(queue->cli);
    char match[CLIENT_HEADER_MAX];
    struct client_request read = {.path = buf_cstr(queue->item),
                                  .params = {{"dataformat", words ? NULL : "auto"}},
                                  .accept = words ? "application/octet-stream" : NULL,
                                  .last = !queue->take};
    struct client_request delete = {
        .method = "DELETE", .path = buf_cstr(queue->item), .headers = {match}};
    int code = wait_ask(&queue->wait, &read);

    buf_clear(queue->data);
    if (code != CMD_OK) {
        return code;
    }
    buf_append_slice(queue->data, buf_slice(&reply->body));
    (void)snprintf(match, sizeof(match), "If-Match: %.256s", reply->etag);
    return queue->take ? wait_ask(&queue->wait, &delete) : CMD_OK;
}

/* Tries to take one item, and retries when the item changes before its delete. CMD_NO_NODE: another
 * consumer has the item. */
static int try_item(struct queue *queue, const char *name)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)queue->cli->settings.timeout_ms;
    bool late = false;
    int code = CMD_OK;

    buf_clear(queue->item);
    buf_printf(queue->item, "%s/%s", queue->path, name);
    do {
        code = read_and_delete(queue);
        late = code == CMD_CONFLICT && queue->cli->client->error.status == HTTP_LATE;
    } while (late && os_now_ms() < end_ms);
    return code;
}

/* Tries the items of the queue once, first to last. Returns CMD_OK, EMPTY, CMD_NO_NODE (there is no
 * queue), or the code of a reported error. */
static int try_queue(struct queue *queue)
{
    struct client_request request = {
        .path = queue->path,
        .params = {{"view", "children"}, {"limit", URL_NUMBER(queue->take ? PAGE : 1)}}};
    int code = CMD_NO_NODE;
    bool more = true;

    while (code == CMD_NO_NODE && more) {
        code = wait_ask(&queue->wait, &request);
        if (code != CMD_OK) {
            return code;
        }

        json_auto_t *page = json_incref(cli_json(queue->cli));

        more = json_array_size(jsonr_at(page, "children")) > 0;
        code = CMD_NO_NODE;
        JSONR_EACH (name, jsonr_at(page, "children")) {
            code = try_item(queue, json_string_value(name));
            if (code != CMD_NO_NODE) {
                break;
            }
        }
    }
    return code == CMD_NO_NODE ? EMPTY : code == CMD_CONFLICT ? cli_tell(queue->cli) : code;
}

/* Waits for an item, also in a queue that does not exist yet. */
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
    live_unwatch(queue->wait.live);
    return code;
}

static void print_item(struct queue *queue)
{
    const struct out *out = &queue->cli->out;
    struct slice data = buf_slice(queue->data);

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
    BUF_AUTO(item, URL_MAX);
    BUF_AUTO(data, CLIENT_BODY_MAX);
    struct queue queue = {.cli = cli, .path = path, .take = take, .item = &item, .data = &data};
    int code = wait_open(&queue.wait, cli);

    if (code == CMD_OK) {
        code = get_item(&queue);
    }
    wait_close(&queue.wait);
    return code;
}

/* ---- The command ---- */

static int run(struct cli *cli)
{
    enum {
        PUSH,
        POP,
        PEEK,
        LEN
    };

    const char *verb = args_operand(&cli->args, 0);
    const char *path = buf_cstr(&cli->named);
    int index = cli_choice(cli, "", verb, "push, pop, peek, len");

    if (index < 0) {
        return CMD_USAGE;
    }
    if (index == PUSH) {
        return push(cli, path);
    }
    if (args_operand(&cli->args, 2)) {
        return CLI_USAGE(cli, "%s takes one path", verb);
    }
    return index == LEN ? length(cli, path) : get(cli, path, index == POP);
}

const struct cmd cmd_queue = {
    .name = "queue",
    .summary = "add items to a queue, take each item once",
    .usage = "push NAME (DATA | @FILE | -) | pop NAME | peek NAME | len NAME",
    .text = "NAME is a path or a name within /queues; docs/recipes/work-queue.md has the\n"
            "rules. 'pop' removes the item from the queue, even if its output is lost. Exit\n"
            "code 3 when the queue is empty.\n" VALUE_HELP,
    .options = {CMD_TIME("wait", 0, "pop, peek: wait for an item; exit code 7 when none arrives", 0,
                         WAIT_MAX_MS, -1)},
    .examples = {{"zabra queue push mail @letter.txt", "prints the path of the item"},
                 {"zabra queue pop mail --wait 1h",
                  "takes the oldest item; no other consumer gets it"},
                 {"zabra queue len mail", "prints the number of items"}},
    .operands = {2, 3, {CMD_OPERAND_TEXT, CMD_OPERAND_NAME, CMD_OPERAND_FILE}},
    .folder = "/queues",
    .run = run,
};
