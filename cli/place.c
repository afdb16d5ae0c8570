#include "cli/place.h"

#include "base/check.h"
#include "cli/url.h"

#include <stdlib.h>
#include <string.h>

enum {
    DIGITS = 10 /* Of the number that the ensemble puts behind a name. */
};

void place_init(struct place *place, struct wait *wait, const char *line, const char *prefix)
{
    *place = (struct place){.wait = wait, .line = line, .prefix = prefix};
    buf_init(&place->path, URL_MAX);
}

void place_release(struct place *place)
{
    buf_release(&place->path);
}

/* Reports errors that were not reported yet. */
static int tell(const struct place *place, int code)
{
    return code == CMD_NO_NODE || code == CMD_CONFLICT ? cli_tell(place->wait->cli) : code;
}

int64_t place_number(const char *name)
{
    size_t len = strlen(name);
    const char *digits = len >= DIGITS ? name + len - DIGITS : "";

    return strspn(digits, "0123456789") == DIGITS ? strtoll(digits, NULL, 10) : -1;
}

static const char *name_of(struct place *place)
{
    const char *path = buf_cstr(&place->path);
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int take_answer(struct place *place)
{
    const json_t *json = cli_json(place->wait->cli);

    if (!json) {
        return CMD_FAILED;
    }
    buf_append_str(&place->path, jsonr_text(json, "path"));
    place->fence = jsonr_number(json, "czxid");
    if (place_number(name_of(place)) < 0) {
        return cli_fail(place->wait->cli, CMD_FAILED, "BadAnswer",
                        "%s: the replica created this znode without a sequence number",
                        buf_cstr(&place->path));
    }
    return CMD_OK;
}

int place_take(struct place *place)
{
    struct client_request request = {
        .method = "POST", .body = place->data, .has_body = true, .last = true};
    struct buf url;
    int code = CMD_OK;

    ASSERT(place->path.len == 0);
    url_init(&url, "/znodes/v1", place->line);
    url_param(&url, "op", "create");
    url_param(&url, "name", place->prefix);
    url_param(&url, "sequence", NULL);
    url_param(&url, "ephemeral", NULL);
    url_param(&url, "parents", NULL);
    request.target = buf_cstr(&url);
    code = wait_ask(place->wait, &request);
    buf_release(&url);
    return code == CMD_OK ? take_answer(place) : tell(place, code);
}

/* ---- The places before ours ---- */

static int list_page(struct place *place, const char *after)
{
    struct client_request request = {.target = NULL};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", place->line);
    url_param(&url, "view", "children");
    if (*after) {
        url_param(&url, "after", after);
    }
    request.target = buf_cstr(&url);
    code = wait_ask(place->wait, &request);
    buf_release(&url);
    return code;
}

/* What a walk through the list has seen. */
struct walk {
    const char *mine; /* Our name, */
    int64_t number;   /* and its number. */
    int64_t before;   /* How many have a lower one, */
    int64_t highest;  /* the highest of these; -1: there is none, */
    struct buf last;  /* and its name. */
    struct buf after; /* Where the next page begins. */
    bool found;       /* Our znode exists. */
    bool over;
};

/* In whichever order the names come: one line may have more than one prefix. */
static void take_name(struct walk *walk, const char *name)
{
    int64_t number = place_number(name);

    walk->found = walk->found || strcmp(name, walk->mine) == 0;
    if (number < 0 || number >= walk->number) {
        return;
    }
    walk->before++;
    if (number > walk->highest) {
        walk->highest = number;
        buf_clear(&walk->last);
        buf_append_str(&walk->last, name);
    }
}

static void take_page(struct walk *walk, const json_t *page)
{
    const json_t *children = jsonr_at(page, "children");
    const json_t *name = NULL;
    size_t i = 0;

    json_array_foreach(children, i, name)
    {
        take_name(walk, json_is_string(name) ? json_string_value(name) : "");
    }
    buf_clear(&walk->after);
    buf_append_str(&walk->after, jsonr_text(page, "after"));
    walk->over = walk->after.len == 0;
}

static int walk_list(struct place *place, struct walk *walk)
{
    int code = CMD_OK;

    while (code == CMD_OK && !walk->over) {
        code = list_page(place, buf_cstr(&walk->after));
        if (code == CMD_OK) {
            const json_t *page = cli_json(place->wait->cli);

            if (!page) {
                return CMD_FAILED;
            }
            take_page(walk, page);
        }
    }
    return tell(place, code);
}

int place_look(struct place *place, int64_t *ret_before, struct buf *ret_last)
{
    struct walk walk = {.mine = name_of(place), .highest = -1};
    int code = CMD_OK;

    walk.number = place_number(walk.mine);
    buf_init(&walk.last, URL_MAX);
    buf_init(&walk.after, URL_MAX);
    code = walk_list(place, &walk);
    if (code == CMD_OK && !walk.found) {
        code = cli_fail(place->wait->cli, CMD_FAILED, "PlaceLost",
                        "%s: our place in the queue was deleted", buf_cstr(&place->path));
    }
    *ret_before = walk.before;
    buf_clear(ret_last);
    buf_printf(ret_last, "%s/%s", place->line, buf_cstr(&walk.last));
    buf_release(&walk.last);
    buf_release(&walk.after);
    return code;
}

int place_come_first(struct place *place)
{
    struct buf last;
    int64_t before = 0;
    int code = CMD_OK;

    buf_init(&last, URL_MAX);
    do {
        code = place_look(place, &before, &last);
        if (code == CMD_OK && before > 0) {
            code = wait_until(place->wait, buf_cstr(&last), false);
        }
    } while (code == CMD_OK && before > 0);
    buf_release(&last);
    return code;
}

int place_leave(struct place *place)
{
    struct client_request request = {.method = "DELETE"};
    struct buf url;
    int code = CMD_OK;

    url_init(&url, "/znodes/v1", buf_cstr(&place->path));
    request.target = buf_cstr(&url);
    code = wait_ask(place->wait, &request);
    buf_release(&url);
    return code == CMD_NO_NODE ? CMD_OK : tell(place, code);
}
