/* Every row of ZooKeeper's table of watches, over WebSockets: watcher and writer on different
 * replicas. */
#include "tests/proc/talk.h"

#include <stdio.h>
#include <string.h>

enum {
    KINDS = 5,
    NAME_LEN = 64,
    WRITER = 0,
    WATCHER = 1
};

static struct ensemble ensemble;
static struct socket *writer;
static struct socket *watcher;

static int open_all(void **state)
{
    (void)state;
    ensemble_launch(&ensemble, 3, NULL);
    writer = talk_open(&ensemble, WRITER, NULL);
    watcher = talk_open(&ensemble, WATCHER, NULL);
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    socket_close(writer);
    socket_close(watcher);
    ensemble_close(&ensemble);
    return 0;
}

static const char *const kinds[KINDS] = {"data", "exists", "children", "persistent", "recursive"};

/* What a client can do; # stands for the znode's path. */
struct deed {
    const char *name;
    const char *before; /* Messages that make what must be there, separated by line feeds. */
    const char *message;
    const char *told[KINDS]; /* By kind; # as well. */
    bool fails;
};

#define CREATE_N  "\"op\":\"create\",\"path\":\"#\",\"dataUtf8\":\"0\""
#define CREATE_C  "\"op\":\"create\",\"path\":\"#/c\""
#define CREATED   "NodeCreated #."
#define DELETED   "NodeDeleted #."
#define CHANGED   "NodeDataChanged #."
#define CHILDREN  "NodeChildrenChanged #."
#define RECURSIVE "NodeCreated #/c."

static const struct deed deeds[] = {
    {.name = "create",
     .before = "",
     .message = CREATE_N,
     .told = {"", CREATED, "", CREATED, CREATED}},
    {.name = "delete",
     .before = CREATE_N,
     .message = "\"op\":\"delete\",\"path\":\"#\"",
     .told = {DELETED, DELETED, DELETED, DELETED, DELETED}},
    {.name = "set",
     .before = CREATE_N,
     .message = "\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"",
     .told = {CHANGED, CHANGED, "", CHANGED, CHANGED}},
    {.name = "setacl",
     .before = CREATE_N,
     .message = "\"op\":\"setacl\",\"path\":\"#\",\"acl\":\"open\"",
     .told = {"", "", "", "", ""}},
    {.name = "create of a child",
     .before = CREATE_N,
     .message = CREATE_C,
     .told = {"", "", CHILDREN, CHILDREN, RECURSIVE}},
    {.name = "set of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"set\",\"path\":\"#/c\",\"dataUtf8\":\"1\"",
     .told = {"", "", "", "", "NodeDataChanged #/c."}},
    {.name = "delete of a child",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"delete\",\"path\":\"#/c\"",
     .told = {"", "", CHILDREN, CHILDREN, "NodeDeleted #/c."}},
    {.name = "create of a grandchild",
     .before = CREATE_N "\n" CREATE_C,
     .message = "\"op\":\"create\",\"path\":\"#/c/d\"",
     .told = {"", "", "", "", "NodeCreated #/c/d."}},
    {.name = "multi",
     .before = CREATE_N,
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#/c\"},"
                "{\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\"},"
                "{\"op\":\"check\",\"path\":\"#\",\"version\":1},"
                "{\"op\":\"delete\",\"path\":\"#/c\"}]",
     .told = {CHANGED, CHANGED, CHILDREN,
              "NodeChildrenChanged #;NodeDataChanged #;NodeChildrenChanged #.",
              "NodeCreated #/c;NodeDataChanged #;NodeDeleted #/c."}},
    {.name = "multi that creates and deletes it",
     .before = "",
     .message = "\"op\":\"multi\",\"ops\":[{\"op\":\"create\",\"path\":\"#\"},"
                "{\"op\":\"delete\",\"path\":\"#\"}]",
     .told = {DELETED, CREATED, DELETED, "NodeCreated #;NodeDeleted #.",
              "NodeCreated #;NodeDeleted #."}},
    {.name = "set that fails",
     .before = CREATE_N,
     .message = "\"op\":\"set\",\"path\":\"#\",\"dataUtf8\":\"1\",\"version\":7",
     .told = {"", "", "", "", ""},
     .fails = true},
    {.name = "sync",
     .before = CREATE_N,
     .message = "\"op\":\"sync\"",
     .told = {"", "", "", "", ""}},
};

/* Puts the path in place of each #. */
static void fill_in(struct buf *out, const char *template, const char *path)
{
    buf_clear(out);
    for (const char *at = template; *at; at++) {
        if (*at == '#') {
            buf_append_str(out, path);
        } else {
            buf_append_byte(out, (uint8_t)*at);
        }
    }
}

static void prepare(const struct deed *deed, const char *path)
{
    const char *at = deed->before;
    struct buf text;
    struct buf line;

    buf_init(&text, TALK_TEXT_MAX);
    buf_init(&line, TALK_TEXT_MAX);
    while (*at) {
        size_t len = strcspn(at, "\n");

        buf_clear(&line);
        buf_append(&line, at, len);
        fill_in(&text, buf_cstr(&line), path);
        talk_ok(&ensemble, writer, "%s", buf_cstr(&text));
        at += len + (at[len] == '\n');
    }
    buf_release(&line);
    buf_release(&text);
}

/* Returns the id of the watch. */
static int begin(const char *kind, const char *path, const char *zxid)
{
    json_t *reply =
        socket_call(watcher, "\"op\":\"watch\",\"path\":\"%s\",\"kind\":\"%s\",\"since\":\"%s\"",
                    path, kind, zxid);
    int id = 0;

    assert_non_null(reply);
    ENSEMBLE_CHECK(&ensemble, json_is_true(json_object_get(reply, "ok")));
    id = (int)json_integer_value(json_object_get(reply, "watch"));
    json_decref(reply);
    return id;
}

static void check_row(const struct deed *deed, size_t number, int kind)
{
    char path[NAME_LEN];
    char zxid[TALK_FIELD_MAX];
    struct buf text;
    bool one_shot = kind <= 2;
    int id = 0;

    buf_init(&text, TALK_TEXT_MAX);
    (void)snprintf(path, sizeof(path), "/row%zu-%d", number, kind);
    prepare(deed, path);
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    id = begin(kinds[kind], path, zxid);
    fill_in(&text, deed->message, path);
    if (deed->fails) {
        assert_string_not_equal(talk_error(writer, "%s", buf_cstr(&text)), "");
    } else {
        talk_ok(&ensemble, writer, "%s", buf_cstr(&text));
    }
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, writer, "\"op\":\"sync\""));
    fill_in(&text, deed->told[kind], path);

    const char *told = talk_events(&ensemble, watcher, zxid);

    if (strcmp(told, buf_cstr(&text)) != 0) {
        (void)fprintf(stderr, "%s, %s: told '%s', not '%s'\n", deed->name, kinds[kind], told,
                      buf_cstr(&text));
        fail();
    }
    /* A one-shot watch is there until it has been told, the others until they are removed. */
    const char *gone = talk_error(watcher, "\"op\":\"unwatch\",\"watch\":%d", id);

    assert_string_equal(gone, one_shot && text.len > 0 ? "NotFound" : "");
    buf_release(&text);
}

static void test_every_row_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        for (int kind = 0; kind < KINDS; kind++) {
            check_row(&deeds[i], i, kind);
        }
    }
}

/* ---- Registered with a read ---- */

struct with_read {
    const char *op;
    const char *set;
    const char *create;
    const char *delete;
};

static void check_read(const struct with_read *row, size_t number, size_t deed)
{
    static const char *const does[] = {"set", "create", "delete"};
    const char *const told[] = {row->set, row->create, row->delete};
    char path[NAME_LEN];
    char expected[NAME_LEN * 2] = "";
    char zxid[TALK_FIELD_MAX];

    (void)snprintf(path, sizeof(path), "/read%zu-%zu", number, deed);
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"%s\"", path));
    talk_ok(&ensemble, watcher, "\"op\":\"%s\",\"path\":\"%s\",\"watch\":true,\"min_zxid\":\"%s\"",
            row->op, path, zxid);
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"%s\",\"path\":\"%s%s\",%s", does[deed],
                           path, deed == 1 ? "/c" : "",
                           deed == 0 ? "\"dataUtf8\":\"1\"" : "\"more\":0"));
    if (told[deed][0] != '\0') {
        (void)snprintf(expected, sizeof(expected), "%s %s.", told[deed], path);
    }
    assert_string_equal(talk_events(&ensemble, watcher, zxid), expected);
}

static void test_reads_register_their_kind(void **state)
{
    static const struct with_read rows[] = {
        {"get", "NodeDataChanged", "", "NodeDeleted"},
        {"stat", "NodeDataChanged", "", "NodeDeleted"},
        {"exists", "NodeDataChanged", "", "NodeDeleted"},
        {"children", "", "NodeChildrenChanged", "NodeDeleted"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t deed = 0; deed < 3; deed++) {
            check_read(&rows[i], i, deed);
        }
    }
}

static void test_a_read_of_nothing_registers_only_exists(void **state)
{
    char zxid[TALK_FIELD_MAX];

    (void)state;
    assert_string_equal(talk_error(watcher, "\"op\":\"get\",\"path\":\"/absent\",\"watch\":true"),
                        "NoNode");
    talk_ok(&ensemble, watcher, "\"op\":\"exists\",\"path\":\"/absent\",\"watch\":true");
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/absent\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "NodeCreated /absent.");
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/absent\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "");
}

/* ---- One event for one change ---- */

static void test_many_watches_of_one_socket_are_told_once(void **state)
{
    char zxid[TALK_FIELD_MAX];
    json_t *event = NULL;

    (void)state;
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/many\"");
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/many/x\"");
    talk_ok(&ensemble, watcher, "\"op\":\"sync\"");
    for (int kind = 0; kind < KINDS; kind++) {
        talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/many/x\",\"kind\":\"%s\"",
                kinds[kind]);
        talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/many/x\",\"kind\":\"%s\"",
                kinds[kind]);
    }
    talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/many\",\"kind\":\"recursive\"");
    talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/many/x\"");
    event = socket_event(watcher, "NodeDeleted", SOCKET_TIMEOUT_MS);
    assert_non_null(event);
    assert_int_equal(json_array_size(json_object_get(event, "watches")), KINDS + 1);
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_text(event, "zxid"));
    json_decref(event);
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "");
    /* What is not used up sees it come back: in one event again. */
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/many/x\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "NodeCreated /many/x.");
}

static void test_events_carry_values_on_request(void **state)
{
    char zxid[TALK_FIELD_MAX];

    (void)state;
    talk_ok(&ensemble, watcher,
            "\"op\":\"watch\",\"path\":\"/values\",\"kind\":\"recursive\",\"values\":true");
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/values\",\"dataUtf8\":\"a\"");
    talk_ok(&ensemble, writer, "\"op\":\"set\",\"path\":\"/values\",\"dataUtf8\":\"b\"");
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/values\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid),
                        "NodeCreated /values='a'.NodeDataChanged /values='b'.NodeDeleted /values.");
}

static void test_events_that_may_not_be_read_are_withheld(void **state)
{
    char zxid[TALK_FIELD_MAX];
    struct socket *other = talk_open(&ensemble, WATCHER, NULL);
    const char *acl = "\"acl\":[{\"perms\":[\"read\",\"write\",\"create\",\"delete\",\"admin\"],"
                      "\"scheme\":\"auth\",\"id\":\"\"}]";

    (void)state;
    talk_ok(&ensemble, writer,
            "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"ann:secret\"");
    talk_ok(&ensemble, other,
            "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"ann:secret\"");
    talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/mine\",\"kind\":\"recursive\"");
    talk_ok(&ensemble, other, "\"op\":\"watch\",\"path\":\"/mine\",\"kind\":\"recursive\"");
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/mine\",%s", acl);
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"set\",\"path\":\"/mine\",\"null\":true"));
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "");
    assert_string_equal(talk_events(&ensemble, other, zxid),
                        "NodeCreated /mine.NodeDataChanged /mine.");
    assert_string_equal(talk_error(watcher, "\"op\":\"get\",\"path\":\"/mine\""), "NoAuth");
    socket_close(other);
}

static void test_ephemerals_are_told_when_their_session_closes(void **state)
{
    struct socket *owner = talk_open(&ensemble, WRITER, NULL);
    char zxid[TALK_FIELD_MAX];

    (void)state;
    talk_ok(&ensemble, owner, "\"op\":\"session\",\"timeout_ms\":15000");
    talk_ok(&ensemble, owner, "\"op\":\"create\",\"path\":\"/e1\",\"ephemeral\":true");
    talk_ok(&ensemble, owner, "\"op\":\"create\",\"path\":\"/e2\",\"ephemeral\":true");
    talk_ok(&ensemble, watcher, "\"op\":\"sync\"");
    talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/e1\",\"kind\":\"data\"");
    talk_ok(&ensemble, watcher, "\"op\":\"watch\",\"path\":\"/e2\",\"kind\":\"persistent\"");
    (void)snprintf(zxid, sizeof(zxid), "%s", talk_ok(&ensemble, owner, "\"op\":\"close\""));

    const char *told = talk_events(&ensemble, watcher, zxid);

    /* Any order, in one transaction. */
    assert_true(strcmp(told, "NodeDeleted /e1;NodeDeleted /e2.") == 0 ||
                strcmp(told, "NodeDeleted /e2;NodeDeleted /e1.") == 0);
    socket_close(owner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_row_of_the_table),
        cmocka_unit_test(test_reads_register_their_kind),
        cmocka_unit_test(test_a_read_of_nothing_registers_only_exists),
        cmocka_unit_test(test_many_watches_of_one_socket_are_told_once),
        cmocka_unit_test(test_events_carry_values_on_request),
        cmocka_unit_test(test_events_that_may_not_be_read_are_withheld),
        cmocka_unit_test(test_ephemerals_are_told_when_their_session_closes),
    };

    web_setup();
    return cmocka_run_group_tests(tests, open_all, close_all);
}
