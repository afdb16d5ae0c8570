/*
 * Random transactions, ACLs and watches against a naive model of ZooKeeper's two tables. A client
 * that watches all the time, and one that resumes with any `since`, receive exactly what the model
 * says, and nothing that was closed at the time of the change or of the event.
 */
#include "base/mem.h"
#include "server/state/path.h"
#include "server/watch/subscribe.h"
#include "tests/lib/unit.h"
#include "tests/lib/watch_kit.h"

#include <stdio.h>

enum {
    SEEDS = 150,
    STEPS = 250,
    OWNERS = 4,         /* With many watches each. */
    RETURNERS_MAX = 60, /* With one watch that was added with a `since`. */
    OWNERS_MAX = OWNERS + RETURNERS_MAX,
    WATCHES_MAX = 512,
    TXNS_MAX = STEPS + 1
};

struct client {
    struct watch_owner owner;
    struct buf actual;   /* By the product. */
    struct buf expected; /* By the model. */
};

/* A watch as the model sees it. */
struct rule {
    struct client *client; /* NULL: used up or removed. */
    enum watch_kind kind;
    const char *path;
    zxid_t start;
    uint32_t id;
};

/* A znode was created, closed or opened. */
struct turn_of_acl {
    zxid_t zxid;
    size_t word; /* Of the transaction. */
    struct slice path;
    bool closed;
};

struct run {
    struct rng rng;
    struct kit_world world;
    struct subscriber *subscriber;
    struct client clients[OWNERS_MAX];
    size_t client_count;
    struct rule rules[WATCHES_MAX];
    size_t rule_count;
    const char *txns[TXNS_MAX + 1][WATCH_KIT_RANDOM_MAX + 1]; /* By zxid. */
    zxid_t seen; /* The model is complete up to this zxid. */
    struct turn_of_acl acls[(TXNS_MAX + 1) * WATCH_KIT_RANDOM_MAX];
    size_t acl_count;
};

static const struct op_principal anonymous = {.address = "127.0.0.1"};

/* ---- The model. ---- */

/* The events of one transaction for one client, so that the last line can be marked. */
struct lines {
    char text[64][80];
    size_t count;
};

static bool is_below(const char *path, const char *top)
{
    size_t len = strlen(top);

    return strcmp(top, "/") == 0 ||
           (strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0'));
}

/* ZooKeeper's table of data watches. */
static bool data_table_fires(struct rule *rule, const char *type, const char *path)
{
    bool same = strcmp(rule->path, path) == 0;

    switch (rule->kind) {
    case WATCH_DATA:
        return same && strcmp(type, "NodeCreated") != 0;
    case WATCH_EXISTS:
    case WATCH_PERSISTENT:
        return same;
    case WATCH_RECURSIVE:
        return is_below(path, rule->path);
    case WATCH_CHILDREN:
    case WATCH_KINDS:
        break;
    }
    return false;
}

/* ZooKeeper's table of child watches. */
static bool child_table_fires(struct rule *rule, const char *path)
{
    return strcmp(rule->path, path) == 0 &&
           (rule->kind == WATCH_CHILDREN || rule->kind == WATCH_PERSISTENT);
}

static void model_acl(struct run *run, zxid_t zxid, size_t i, const char *word)
{
    const char *equals = strchr(word, '=');
    bool opens = word[0] == '+' || equals != NULL;
    size_t len = word[0] == '!' && equals != NULL ? (size_t)(equals - word) - 1 : strlen(word + 1);

    if (word[0] == '+' || word[0] == '!') {
        run->acls[run->acl_count++] = (struct turn_of_acl){
            .zxid = zxid, .word = i, .path = slice_make(word + 1, len), .closed = !opens};
    }
}

/* Its ACL as of word `i` of a transaction; for a deleted znode, its last one. */
static bool is_closed(const struct run *run, const char *path, zxid_t zxid, size_t i)
{
    for (size_t at = run->acl_count; at-- > 0;) {
        const struct turn_of_acl *turn = &run->acls[at];

        if ((turn->zxid < zxid || (turn->zxid == zxid && turn->word <= i)) &&
            slice_eq(turn->path, slice_str(path))) {
            return turn->closed;
        }
    }
    return false;
}

/* One transaction for one client. */
struct firing {
    const struct run *run;
    size_t word;
    struct rule *rules;
    size_t count;
    const struct client *client;
    zxid_t zxid;
    struct lines lines;
};

/* One trigger: does the client have a watch in the table? */
static bool trigger(struct firing *firing, bool data_table, const char *type, const char *path)
{
    bool fires = false;

    for (size_t i = 0; i < firing->count; i++) {
        struct rule *rule = &firing->rules[i];

        if (rule->client != firing->client || rule->start >= firing->zxid) {
            continue;
        }
        if (data_table ? data_table_fires(rule, type, path) : child_table_fires(rule, path)) {
            fires = true;
            if (rule->kind <= WATCH_CHILDREN) {
                rule->client = NULL;
            }
        }
    }
    return fires;
}

static void add_line(struct firing *firing, const char *type, const char *path)
{
    const struct run *run = firing->run;
    struct lines *lines = &firing->lines;

    if (is_closed(run, path, firing->zxid, firing->word) ||
        is_closed(run, path, run->world.zxid, WATCH_KIT_RANDOM_MAX)) {
        return;
    }
    snprintf(lines->text[lines->count++], sizeof(lines->text[0]), "%d %s %s", (int)firing->zxid,
             type, path);
}

static void model_change(struct firing *firing, const char *word)
{
    const char *path = word + 1;

    if (word[0] == '!') {
        return;
    }
    const char *type = word[0] == '+'   ? "NodeCreated"
                       : word[0] == '-' ? "NodeDeleted"
                                        : "NodeDataChanged";
    struct slice parent = path_parent(slice_str(path));
    char parent_path[32];

    snprintf(parent_path, sizeof(parent_path), "%.*s", (int)parent.len, (const char *)parent.data);
    bool fires = trigger(firing, true, type, path);

    if (word[0] == '-' && trigger(firing, false, type, path)) {
        fires = true;
    }
    if (fires) {
        add_line(firing, type, path);
    }
    if (word[0] != '=' && trigger(firing, false, "NodeChildrenChanged", parent_path)) {
        add_line(firing, "NodeChildrenChanged", parent_path);
    }
}

/* The events of the transactions in (after, upto] for a client with these rules. */
static void model_events(struct run *run, struct rule *rules, size_t count, struct client *client,
                         zxid_t after, zxid_t upto)
{
    for (zxid_t zxid = after + 1; zxid <= upto; zxid++) {
        struct firing firing = {
            .run = run, .rules = rules, .count = count, .client = client, .zxid = zxid};
        const struct lines *lines = &firing.lines;

        for (size_t i = 0; run->txns[zxid][i] != NULL; i++) {
            firing.word = i;
            model_change(&firing, run->txns[zxid][i]);
        }
        for (size_t i = 0; i < lines->count; i++) {
            buf_printf(&client->expected, "%s%s\n", lines->text[i],
                       i + 1 == lines->count ? " end" : "");
        }
    }
}

static void model_follow(struct run *run)
{
    zxid_t at = subscribe_at(run->subscriber);

    for (size_t i = 0; i < run->client_count; i++) {
        model_events(run, run->rules, run->rule_count, &run->clients[i], run->seen, at);
    }
    run->seen = at;
}

static bool model_has(const struct run *run, const struct client *client, uint32_t id)
{
    for (size_t i = 0; i < run->rule_count; i++) {
        if (run->rules[i].client == client && run->rules[i].id == id) {
            return true;
        }
    }
    return false;
}

static struct rule *model_add(struct run *run, struct client *client,
                              const struct subscribe_request *request, uint32_t id, zxid_t start)
{
    assert_true(run->rule_count < WATCHES_MAX);
    struct rule *rule = &run->rules[run->rule_count++];

    *rule = (struct rule){.client = client,
                          .kind = request->kind,
                          .path = (const char *)request->path.data,
                          .start = start,
                          .id = id};
    return rule;
}

/* ---- The product. ---- */

static void on_event(void *ctx, struct watch_owner *owner, struct watch *hits,
                     const struct watch_event *event)
{
    struct client *client = list_entry(owner, struct client, owner);

    (void)ctx;
    (void)hits;
    assert_false(event->diff);
    buf_printf(&client->actual, "%d %s %.*s%s\n", (int)event->zxid, watch_event_name(event->type),
               (int)event->path.len, (const char *)event->path.data, event->last ? " end" : "");
}

static void on_lost(void *ctx, zxid_t from)
{
    (void)ctx;
    (void)from;
    fail();
}

static struct client *new_client(struct run *run)
{
    struct client *client = &run->clients[run->client_count++];

    assert_true(run->client_count <= OWNERS_MAX);
    watch_owner_init(&client->owner, &anonymous, WATCHES_MAX, SIZE_MAX);
    buf_init(&client->actual, 1 << 20);
    buf_init(&client->expected, 1 << 20);
    return client;
}

static struct subscribe_request draw_request(struct run *run)
{
    return (struct subscribe_request){.kind =
                                          (enum watch_kind)rng_range(&run->rng, 1, WATCH_RECURSIVE),
                                      .path = slice_str(kit_random_path(&run->rng))};
}

/* ---- Steps. ---- */

static void step_change(struct run *run)
{
    zxid_t zxid = run->world.zxid + 1;
    const char **words = run->txns[zxid];
    const char *acl = kit_random_acl(&run->world, &run->rng);

    if (acl != NULL && rng_below(&run->rng, 3) == 0) {
        words[0] = acl;
        words[1] = NULL;
    } else {
        kit_random_words(&run->world, &run->rng, words);
    }
    for (size_t i = 0; words[i] != NULL; i++) {
        model_acl(run, zxid, i, words[i]);
    }
    kit_world_apply(&run->world, words);
}

/* Begins anywhere between the subscriber's place and the end. */
static void step_watch(struct run *run)
{
    struct client *client = &run->clients[rng_below(&run->rng, OWNERS)];
    struct subscribe_request request = draw_request(run);
    struct subscribe_result result;

    if (rng_below(&run->rng, 2) == 0) {
        request.since = rng_range(&run->rng, subscribe_at(run->subscriber), run->world.zxid);
        assert_int_equal(subscribe_add_at(run->subscriber, &client->owner, &request, &result),
                         ERR_OK);
        assert_int_equal(result.zxid, request.since);
    } else {
        assert_int_equal(subscribe_add(run->subscriber, &client->owner, &request, &result), ERR_OK);
        assert_int_equal(result.zxid, run->world.zxid);
    }
    model_follow(run);
    if (!model_has(run, client, result.id)) {
        model_add(run, client, &request, result.id, result.zxid);
    }
}

static void step_unwatch(struct run *run)
{
    struct watch_table *table = subscribe_table(run->subscriber);

    if (run->rule_count == 0) {
        return;
    }
    struct rule *rule = &run->rules[rng_below(&run->rng, run->rule_count)];

    if (rule->client != NULL) {
        watch_remove(table, watch_by_id(table, &rule->client->owner, rule->id));
        rule->client = NULL;
    }
}

/* A new client resumes with any `since`; from then on it must equal one that was never away. */
static void step_return(struct run *run)
{
    if (run->client_count == OWNERS_MAX) {
        return;
    }
    struct client *client = new_client(run);
    struct subscribe_request request = draw_request(run);
    struct subscribe_result result;

    request.has_since = true;
    request.since = rng_below(&run->rng, run->world.zxid + 1);
    assert_int_equal(subscribe_add(run->subscriber, &client->owner, &request, &result), ERR_OK);
    assert_int_equal(result.resumed, SUBSCRIBE_REPLAYED);
    model_follow(run);
    struct rule *rule = model_add(run, client, &request, result.id, request.since);

    model_events(run, rule, 1, client, request.since, run->seen);
    assert_int_equal(result.used_up, rule->client == NULL);
}

static void step(struct run *run)
{
    switch (rng_below(&run->rng, 8)) {
    case 0:
    case 1:
    case 2:
        step_change(run);
        break;
    case 3:
    case 4:
        step_watch(run);
        break;
    case 5:
        step_unwatch(run);
        break;
    case 6:
        step_return(run);
        break;
    default:
        subscribe_pump(run->subscriber, ZXID_MAX, rng_below(&run->rng, 3));
        model_follow(run);
    }
}

static void check_counts(struct run *run)
{
    size_t alive = 0;

    for (size_t i = 0; i < run->rule_count; i++) {
        alive += run->rules[i].client != NULL;
    }
    assert_int_equal(watch_table_count(subscribe_table(run->subscriber)), alive);
}

static size_t run_seed(struct run *run, uint64_t seed)
{
    const struct subscribe_sink sink = {.on_event = on_event, .on_lost = on_lost};
    size_t bytes = 0;

    *run = (struct run){0};
    rng_init(&run->rng, seed);
    kit_world_init(&run->world, TXNS_MAX);
    run->subscriber = subscriber_new(run->world.view, run->world.window, &sink);
    for (int i = 0; i < OWNERS; i++) {
        new_client(run);
    }
    for (int i = 0; i < STEPS; i++) {
        step(run);
        check_counts(run);
    }
    subscribe_pump(run->subscriber, ZXID_MAX, SIZE_MAX);
    model_follow(run);
    check_counts(run);
    for (size_t i = 0; i < run->client_count; i++) {
        struct client *client = &run->clients[i];

        bytes += client->actual.len;
        assert_string_equal(buf_cstr(&client->actual), buf_cstr(&client->expected));
        watch_owner_release(subscribe_table(run->subscriber), &client->owner);
        buf_release(&client->actual);
        buf_release(&client->expected);
    }
    subscriber_free(run->subscriber);
    kit_world_release(&run->world);
    return bytes;
}

TEST(all_clients_get_the_events_of_the_model)
{
    struct run *run = mem_zalloc(1, sizeof(*run));
    size_t bytes = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        bytes += run_seed(run, seed);
    }
    /* A run without events proves nothing. */
    assert_true(bytes > (size_t)SEEDS * 1000);
    mem_free(run);
}
