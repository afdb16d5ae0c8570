/* Watches over WebSockets beyond the table that all transports share: registered with reads, many
 * on one socket, values, permissions. Watcher and writer are on different replicas. */
#include "tests/lib/unit.h"
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

static void open_all(void)
{
    ensemble_launch(&ensemble, 3, NULL);
    writer = talk_open(&ensemble, WRITER, NULL);
    watcher = talk_open(&ensemble, WATCHER, NULL);
}

static void close_all(void)
{
    socket_close(writer);
    socket_close(watcher);
    ensemble_close(&ensemble);
}

static const char *const kinds[KINDS] = {"data", "exists", "children", "persistent", "recursive"};

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

TEST_GROUP(open_all, close_all)

TEST(reads_register_their_kind)
{
    static const struct with_read rows[] = {
        {"get", "NodeDataChanged", "", "NodeDeleted"},
        {"stat", "NodeDataChanged", "", "NodeDeleted"},
        {"exists", "NodeDataChanged", "", "NodeDeleted"},
        {"children", "", "NodeChildrenChanged", "NodeDeleted"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t deed = 0; deed < 3; deed++) {
            check_read(&rows[i], i, deed);
        }
    }
}

TEST(a_read_of_an_absent_znode_registers_only_exists)
{
    char zxid[TALK_FIELD_MAX];

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

TEST(many_watches_of_one_socket_get_one_event)
{
    char zxid[TALK_FIELD_MAX];
    json_t *event = NULL;

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
    /* The persistent watches get the new create, again in one event. */
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/many/x\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid), "NodeCreated /many/x.");
}

TEST(events_carry_values_on_request)
{
    char zxid[TALK_FIELD_MAX];

    talk_ok(&ensemble, watcher,
            "\"op\":\"watch\",\"path\":\"/values\",\"kind\":\"recursive\",\"values\":true");
    talk_ok(&ensemble, writer, "\"op\":\"create\",\"path\":\"/values\",\"dataUtf8\":\"a\"");
    talk_ok(&ensemble, writer, "\"op\":\"set\",\"path\":\"/values\",\"dataUtf8\":\"b\"");
    (void)snprintf(zxid, sizeof(zxid), "%s",
                   talk_ok(&ensemble, writer, "\"op\":\"delete\",\"path\":\"/values\""));
    assert_string_equal(talk_events(&ensemble, watcher, zxid),
                        "NodeCreated /values='a'.NodeDataChanged /values='b'.NodeDeleted /values.");
}

TEST(events_of_unreadable_znodes_are_withheld)
{
    char zxid[TALK_FIELD_MAX];
    struct socket *other = talk_open(&ensemble, WATCHER, NULL);
    const char *acl = "\"acl\":[{\"perms\":[\"read\",\"write\",\"create\",\"delete\",\"admin\"],"
                      "\"scheme\":\"auth\",\"id\":\"\"}]";

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

TEST(ephemerals_fire_events_when_their_session_closes)
{
    struct socket *owner = talk_open(&ensemble, WRITER, NULL);
    char zxid[TALK_FIELD_MAX];

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
