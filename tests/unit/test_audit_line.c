/* The lines of the audit log: form, escapes, and what the beginning and end of a line say. */
#include "base/mem.h"
#include "server/audit/audit_line.h"
#include "tests/lib/state_kit.h"
#include "tests/lib/unit.h"
#include "zab/config.h"

#include <jansson.h>
#include <stdio.h>

struct lines {
    struct buf txn;
    struct buf out;
};

static void set_up(struct lines *lines)
{
    buf_init(&lines->txn, 16 << 20);
    buf_init(&lines->out, 64 << 20);
}

static void tear_down(struct lines *lines)
{
    buf_release(&lines->txn);
    buf_release(&lines->out);
}

static void begin_of(struct lines *lines, const struct txn_actor *actor)
{
    struct txn_header header = {.stamp_ms = -1, .age_ms = 1, .origin_member = 3};
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, actor);
    header.actor = buf_slice(&bytes);
    txn_begin(&lines->txn, &header);
    buf_release(&bytes);
}

/* The lines of the transaction as one text. */
static const char *text_of(struct lines *lines, enum logrec_type type)
{
    struct logrec *rec =
        logrec_new(type, UINT64_C(0x200000001), UINT64_C(0x200000000), 0, buf_slice(&lines->txn));
    struct audit_record record;
    bool more = true;

    audit_record_begin(&record, rec);
    while (more) {
        more = audit_record_line(&record, 0, &lines->out);
    }
    logrec_unref(rec);
    return buf_cstr(&lines->out);
}

TEST(each_change_has_its_form, lines, set_up, tear_down)
{
    const struct txn_actor actor = {
        .op = OP_MULTI, .address = slice_str("10.0.0.7"), .session = 0x10, .super = true};

    begin_of(lines, &actor);
    kit_create(&lines->txn, "/a", "secret data", 0, 1);
    kit_create(&lines->txn, "/e", NULL, 0x10, 1);
    kit_create(&lines->txn, "/c", NULL, OWNER_CONTAINER, 1);
    kit_create(&lines->txn, "/t", NULL, OWNER_TTL_MARK | 500, 1);
    kit_set(&lines->txn, "/s", "x", 0);
    txn_put(&lines->txn, &(struct txn_effect){.type = TXN_DELETE,
                                              .flags = TXN_VERSION_BEFORE,
                                              .path = slice_str("/d"),
                                              .version = 4});
    kit_delete(&lines->txn, "/old");
    kit_check(&lines->txn, "/k");
    kit_set_acl(&lines->txn, "/l", "an ACL", 2);
    kit_open(&lines->txn, 0x20, 99);
    kit_move(&lines->txn, 0x20, 5, 2);
    kit_close(&lines->txn, 0x20);
    kit_remember(&lines->txn, "scope", "key", "result");
    assert_string_equal(
        text_of(lines, LOGREC_TXN),
        "{\"event\":\"change\",\"zxid\":\"0x200000001\",\"time\":\"1969-12-31T23:59:59.999Z\","
        "\"op\":\"multi\",\"by\":\"client\",\"address\":\"10.0.0.7\","
        "\"identities\":[\"ip:10.0.0.7\"],\"super\":true,\"session\":\"0x10\",\"replica\":3,"
        "\"changes\":["
        "{\"change\":\"create\",\"path\":\"/a\",\"before\":null,\"after\":0},"
        "{\"change\":\"create\",\"path\":\"/e\",\"before\":null,\"after\":0,"
        "\"ephemeral\":\"0x10\"},"
        "{\"change\":\"create\",\"path\":\"/c\",\"before\":null,\"after\":0,\"container\":true},"
        "{\"change\":\"create\",\"path\":\"/t\",\"before\":null,\"after\":0,\"ttl\":500},"
        "{\"change\":\"set\",\"path\":\"/s\",\"before\":-2,\"after\":0},"
        "{\"change\":\"delete\",\"path\":\"/d\",\"before\":4,\"after\":null},"
        "{\"change\":\"delete\",\"path\":\"/old\",\"before\":null,\"after\":null},"
        "{\"change\":\"check\",\"path\":\"/k\"},"
        "{\"change\":\"setacl\",\"path\":\"/l\",\"before\":1,\"after\":2},"
        "{\"change\":\"session-open\",\"session\":\"0x20\",\"timeout\":5000},"
        "{\"change\":\"session-attach\",\"session\":\"0x20\",\"replica\":2},"
        "{\"change\":\"session-close\",\"session\":\"0x20\",\"cause\":\"closed\"}]}\n");
}

TEST(the_server_itself_is_named, lines, set_up, tear_down)
{
    const struct txn_actor actor = {.op = OP_EXPIRE};

    begin_of(lines, &actor);
    kit_delete(&lines->txn, "/e");
    txn_put(&lines->txn,
            &(struct txn_effect){.type = TXN_SESSION_CLOSE,
                                 .close = {.session = 0x20, .reason = TXN_CLOSED_EXPIRED}});
    const char *text = text_of(lines, LOGREC_TXN);

    assert_non_null(strstr(text, "\"op\":\"expire\",\"by\":\"server\",\"changes\":["));
    assert_non_null(strstr(text, "\"session\":\"0x20\",\"cause\":\"expired\"}"));
    assert_null(strstr(text, "identities"));
}

/* Transactions of earlier builds name no client; some records change nothing that is shown. */
TEST(other_records, lines, set_up, tear_down)
{
    kit_begin(&lines->txn, 1000);
    assert_string_equal(text_of(lines, LOGREC_TXN), "");
    kit_remember(&lines->txn, "scope", "key", "result");
    assert_string_equal(text_of(lines, LOGREC_TXN), "");
    kit_delete(&lines->txn, "/e");
    assert_non_null(strstr(text_of(lines, LOGREC_TXN), "\"by\":\"unknown\",\"changes\":[{"));
    buf_clear(&lines->txn);
    buf_clear(&lines->out);
    assert_string_equal(text_of(lines, LOGREC_EPOCH), "");
    assert_string_equal(text_of(lines, LOGREC_STAMP), "");
    assert_non_null(strstr(text_of(lines, LOGREC_CONFIG), "\"op\":\"configuration\""));
}

TEST(a_change_of_the_configuration_for_a_client_names_it, lines, set_up, tear_down)
{
    const struct txn_actor actor = {.op = OP_LEVEL, .address = slice_str("10.0.0.7")};
    const struct zab_config config = {
        .level = 1,
        .hold = 1,
        .count = 2,
        .members = {{.id = 1, .voter = true, .incarnation = 9}, {.id = 4, .incarnation = 8}},
        .removed_count = 2,
        .removed = {{.id = 2, .incarnation = 7, .zxid = UINT64_C(0x200000000)},
                    {.id = 3, .incarnation = 6, .zxid = UINT64_C(0x200000001)}}};
    struct zab_config_parts parts = {.edit_count = 0};
    struct buf bytes;

    begin_of(lines, &actor);
    parts.txn = buf_slice(&lines->txn);
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &bytes), ERR_OK);
    buf_clear(&lines->txn);
    buf_append_slice(&lines->txn, buf_slice(&bytes));
    buf_release(&bytes);
    const char *text = text_of(lines, LOGREC_CONFIG);

    assert_non_null(strstr(text, "\"op\":\"level\",\"by\":\"client\""));
    assert_non_null(strstr(text, "10.0.0.7"));
    assert_non_null(strstr(text, "\"replica\":3,\"changes\":[{\"change\":\"set\",\"path\":"
                                 "\"/zookeeper/config\",\"level\":1,\"voters\":[1],"
                                 "\"observers\":[4],\"removed\":[3]}]"));
}

/* Whatever a client names itself or a znode, each line is one JSON object. */
TEST(hostile_texts_are_escaped, lines, set_up, tear_down)
{
    static const char name[] = "digest:\"}\n{\"event\":\"change\",\"zxid\":\"0x9\"\\\x01\xff\xc3(";
    static const char path[] = "/\xe2\x80\xa8\"]}\\";
    const struct txn_actor actor = {.op = OP_SET,
                                    .address = slice_str("10.0.0.7"),
                                    .count = 1,
                                    .confirmed = 1,
                                    .ids = {slice_str(name)}};

    begin_of(lines, &actor);
    kit_set(&lines->txn, path, "x", 1);
    const char *text = text_of(lines, LOGREC_TXN);
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(json);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    const char *got = json_string_value(json_array_get(json_object_get(json, "identities"), 1));

    assert_int_equal(strncmp(got, "digest:\"}\n{\"event\"", 17), 0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(json, "confirmed"), 0)),
                        got);
    json_t *change = json_array_get(json_object_get(json, "changes"), 0);

    assert_string_equal(json_string_value(json_object_get(change, "path")), path);
    assert_true(audit_line_mark(slice_str(text)).zxid == UINT64_C(0x200000001));
    json_decref(json);
}

/* The largest line: the longest path and all identities, each byte escaped. */
TEST(lines_are_bounded, lines, set_up, tear_down)
{
    static char path[STATE_PATH_MAX];
    static char name[TXN_ACTOR_ID_MAX];
    struct txn_actor actor = {.op = OP_SET,
                              .address = slice_str("10.0.0.7"),
                              .count = TXN_ACTOR_IDS_MAX,
                              .confirmed = 0xffff};

    memset(name, 1, sizeof(name));
    memset(path, '"', sizeof(path));
    for (size_t i = 0; i < sizeof(path); i += 128) {
        path[i] = '/';
    }
    for (int i = 0; i < TXN_ACTOR_IDS_MAX; i++) {
        actor.ids[i] = slice_make(name, sizeof(name));
    }
    begin_of(lines, &actor);
    for (int i = 0; i < 20; i++) {
        txn_put(&lines->txn, &(struct txn_effect){.type = TXN_SET,
                                                  .path = slice_make(path, sizeof(path)),
                                                  .version = 1});
    }
    const char *text = text_of(lines, LOGREC_TXN);
    size_t count = 0;

    for (const char *end = strchr(text, '\n'); end; end = strchr(text, '\n')) {
        struct slice line = slice_make(text, (size_t)(end - text));
        struct audit_mark mark = audit_line_mark(line);

        assert_true(line.len < AUDIT_LINE_MAX);
        assert_true(mark.is_change && mark.zxid == UINT64_C(0x200000001));
        count++;
        text = end + 1;
        assert_int_equal(mark.more, *text != '\0');
    }
    assert_true(count >= 10);
}

TEST(a_refusal_has_no_hash, lines, set_up, tear_down)
{
    struct op_principal client = {.address = "10.0.0.7"};
    struct audit_refusal refusal = {.op = "get",
                                    .path = slice_str("/a"),
                                    .client = &client,
                                    .session = 0x10,
                                    .err = ERR_NO_AUTH,
                                    .why = "because"};

    assert_int_equal(auth_add(NULL, slice_str("digest"), slice_str("bob:geheim"), "", &client.auth),
                     ERR_OK);
    audit_put_refusal(&lines->out, &refusal, 1000);
    assert_string_equal(
        buf_cstr(&lines->out),
        "{\"event\":\"refused\",\"time\":\"1970-01-01T00:00:01.000Z\",\"op\":\"get\","
        "\"path\":\"/a\","
        "\"address\":\"10.0.0.7\",\"identities\":[\"ip:10.0.0.7\",\"digest:bob\"],"
        "\"session\":\"0x10\",\"status\":403,\"error\":\"NoAuth\",\"reason\":\"because\"}\n");
    assert_false(audit_line_mark(buf_slice(&lines->out)).has_zxid);
    refusal.status = 401; /* The answer may have another one than the error. */
    audit_put_refusal(&lines->out, &refusal, 1000);
    assert_non_null(strstr(buf_cstr(&lines->out), "\"status\":401,\"error\":\"NoAuth\""));
    principal_release(&client);
}

/* A refused request was not looked at: its path, and the reason, may have any length. */
TEST(refusals_are_bounded, lines, set_up, tear_down)
{
    struct op_principal client = {.address = "10.0.0.7"};
    struct audit_refusal refusal = {.op = "get", .client = &client, .err = ERR_NO_AUTH};

    enum {
        PATH_BYTES = 4 << 20,
        WHY_BYTES = 1 << 20
    };

    char *path = mem_alloc(PATH_BYTES);
    char *why = mem_zalloc(WHY_BYTES, 1);
    char credential[AUTH_CREDENTIAL_MAX + 1];

    memset(path, 1, PATH_BYTES);
    memset(why, '"', WHY_BYTES - 1);
    memset(credential, 1, sizeof(credential) - 1);
    credential[sizeof(credential) - 1] = '\0';
    for (int i = 0; i < AUTH_IDS_MAX; i++) {
        struct auth *more = NULL;

        credential[0] = (char)('a' + i);
        credential[600] = ':';
        assert_int_equal(
            auth_add(client.auth, slice_str("digest"), slice_str(credential), "", &more), ERR_OK);
        principal_release(&client);
        client.auth = more;
    }
    atomic_store(&client.auth->right, 0xffff);
    refusal.path = slice_make(path, PATH_BYTES);
    refusal.why = why;
    audit_put_refusal(&lines->out, &refusal, 1000);
    assert_false(lines->out.overflow);
    assert_true(lines->out.len <= AUDIT_LINE_MAX);
    json_t *json = json_loads(buf_cstr(&lines->out), JSON_REJECT_DUPLICATES, NULL);

    assert_non_null(json);
    assert_int_equal(json_string_length(json_object_get(json, "path")), STATE_PATH_MAX);
    assert_int_equal(json_array_size(json_object_get(json, "identities")), AUTH_IDS_MAX + 1);
    json_decref(json);
    principal_release(&client);
    mem_free(path);
    mem_free(why);
}

TEST(other_lines, lines, set_up, tear_down)
{
    struct audit_open open = {
        .zxid = 0x30, .member = 2, .cluster = {1, [15] = 0xfe}, .version = "v"};
    uint8_t cluster[AUDIT_CLUSTER_LEN];
    struct audit_mark mark;

    audit_put_open(&lines->out, &open);
    mark = audit_line_mark(buf_slice(&lines->out));
    assert_true(mark.has_zxid && mark.zxid == 0x30 && !mark.is_change && !mark.more);
    assert_true(audit_line_cluster(buf_slice(&lines->out), cluster));
    assert_memory_equal(cluster, open.cluster, AUDIT_CLUSTER_LEN);
    for (size_t len = 0; len < 60; len++) {
        assert_false(audit_line_cluster(slice_make(lines->out.data, len), cluster));
    }
    buf_clear(&lines->out);
    audit_put_gap(&lines->out, 0x10, 0x20, "why", 0);
    audit_put_dropped(&lines->out, 0x20, 0x21, 7, 0);
    audit_put_omitted(&lines->out, 9, 0);
    assert_string_equal(
        buf_cstr(&lines->out),
        "{\"event\":\"gap\",\"zxid\":\"0x20\",\"time\":\"1970-01-01T00:00:00.000Z\","
        "\"after\":\"0x10\",\"reason\":\"why\"}\n"
        "{\"event\":\"dropped\",\"zxid\":\"0x21\",\"time\":\"1970-01-01T00:00:00.000Z\","
        "\"after\":\"0x20\",\"lines\":7}\n"
        "{\"event\":\"omitted\",\"time\":\"1970-01-01T00:00:00.000Z\",\"refusals\":9}\n");
}

TEST(other_texts_have_no_mark, lines, set_up, tear_down)
{
    static const char *const texts[] = {"",
                                        "{",
                                        "{\"event\":\"",
                                        "{\"event\":\"change",
                                        "{\"event\":\"change\",\"zxid\":\"0x",
                                        "{\"event\":\"change\",\"zxid\":\"0x\"",
                                        "{\"event\":\"change\",\"zxid\":\"0x12",
                                        "{\"event\":\"change\",\"zxid\":\"0xg\"",
                                        "{\"event\":\"change\",\"zxid\":\"0x11112222333344445\"",
                                        "{\"zxid\":\"0x12\"}"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_false(audit_line_mark(slice_str(texts[i])).has_zxid);
    }
}

/* ---- The sample in docs/operating.md. ---- */

/* Returns the line of the page that begins with this text, without its line feed. */
static char *line_of_page(const char *begin)
{
    char *page = mem_alloc(1 << 20);
    FILE *file = fopen(ZABRA_DOCS "/operating.md", "re");

    assert_non_null(file);
    size_t len = fread(page, 1, (1 << 20) - 1, file);

    assert_int_equal(fclose(file), 0);
    page[len] = '\0';
    char *line = strstr(page, begin);

    assert_non_null(line);
    line[strcspn(line, "\n")] = '\0';
    char *copy = mem_strdup(line);

    mem_free(page);
    return copy;
}

TEST(the_sample_of_the_page_is_such_a_line, lines, set_up, tear_down)
{
    const struct txn_actor actor = {.op = OP_MULTI,
                                    .address = slice_str("10.0.0.7"),
                                    .session = UINT64_C(0x100000001),
                                    .count = 1,
                                    .confirmed = 1,
                                    .ids = {slice_str("digest:alice")}};
    struct txn_header header = {
        .stamp_ms = INT64_C(1795705766812), .age_ms = 1, .origin_member = 2};
    char *sample = line_of_page("{\"event\":\"change\",");
    struct buf bytes;

    buf_init(&bytes, TXN_ACTOR_MAX);
    txn_actor_encode(&bytes, &actor);
    header.actor = buf_slice(&bytes);
    txn_begin(&lines->txn, &header);
    buf_release(&bytes);
    kit_set(&lines->txn, "/app/config", "x", 5);
    txn_put(&lines->txn, &(struct txn_effect){.type = TXN_DELETE,
                                              .flags = TXN_VERSION_BEFORE,
                                              .path = slice_str("/app/lock")});
    const char *line = text_of(lines, LOGREC_TXN);

    assert_int_equal(strncmp(line, sample, strlen(sample)), 0);
    assert_string_equal(line + strlen(sample), "\n");
    mem_free(sample);
}
