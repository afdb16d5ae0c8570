/* The replicated configuration as text: golden bytes, because the text is part of the state. */
#include "server/config/config.h"
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

struct sample {
    struct zab_config config;
    struct zab_config_edit edits[ZAB_MEMBERS_MAX];
    struct zab_config_parts parts;
    struct buf bytes;
    struct buf text;
};

static struct zab_texts texts(const char *host, uint16_t port, const char *client)
{
    return (struct zab_texts){.host = slice_str(host), .port = port, .client = slice_str(client)};
}

/* A voter, an empty seat with IPv6 addresses, an observer. */
static void set_up(struct sample *sample)
{
    *sample = (struct sample){
        .config = {.version = zxid_make(1, 3), .history = 99, .count = 3, .level = 2}};
    sample->config.members[0] =
        (struct zab_member){.id = 1, .voter = true, .incarnation = UINT64_C(0xabc)};
    sample->config.members[1] = (struct zab_member){.id = 20, .empty_seat = true};
    sample->config.members[2] = (struct zab_member){.id = 65535};
    sample->edits[0] =
        (struct zab_config_edit){.id = 1, .texts = texts("zk1.example", 10998, "zk1.example:9998")};
    sample->edits[1] = (struct zab_config_edit){
        .id = 20, .texts = texts("2001:db8::1", 10998, "[2001:db8::1]:9998")};
    sample->edits[2] =
        (struct zab_config_edit){.id = 65535, .texts = texts("10.0.0.7", 65535, "zk_7.example:1")};
    sample->parts = (struct zab_config_parts){.edits = sample->edits, .edit_count = 3};
    buf_init(&sample->bytes, (size_t)2 * ZAB_CONFIG_BYTES_MAX);
    buf_init(&sample->text, CONFIG_TEXT_MAX);
}

static void tear_down(struct sample *sample)
{
    buf_release(&sample->bytes);
    buf_release(&sample->text);
}

/* The text of the sample, valid until the next call. */
static const char *said(struct sample *sample)
{
    struct zab_config config;

    buf_clear(&sample->bytes);
    buf_clear(&sample->text);
    assert_int_equal(zab_config_write(&sample->config, &sample->parts, &sample->bytes), ERR_OK);
    assert_int_equal(zab_config_decode(buf_slice(&sample->bytes), &config), ERR_OK);
    config.version = sample->config.version;
    config_text(&config, buf_slice(&sample->bytes), &sample->text);
    assert_false(sample->text.overflow);
    return buf_cstr(&sample->text);
}

static const char old_text[] = "server.1=participant:0000000000000abc\n"
                               "server.20=vacant:0000000000000000\n"
                               "server.65535=observer:0000000000000000\n"
                               "version=100000003";

TEST(the_text_before_level_2, sample, set_up, tear_down)
{
    sample->config.level = 1;
    assert_string_equal(said(sample), old_text);
    sample->config.level = 0; /* Format 3 has no texts. */
    sample->parts.edit_count = 0;
    assert_string_equal(said(sample), old_text);
}

TEST(the_text_in_zookeepers_form, sample, set_up, tear_down)
{
    static const char golden[] =
        "server.1=zk1.example:10998:10998:participant;zk1.example:9998\n"
        "server.20=[2001:db8::1]:10998:10998:participant;[2001:db8::1]:9998\n"
        "server.65535=10.0.0.7:65535:65535:observer;zk_7.example:1\n"
        "version=100000003";

    assert_string_equal(said(sample), golden);
    sample->config.level = 3;
    assert_string_equal(said(sample), golden);
    /* What has no place in the text does not change it. */
    sample->config.members[0].incarnation++;
    sample->config.members[2].joining = true;
    sample->edits[0].texts.zone = slice_str("north");
    sample->parts.txn = slice_str("a transaction");
    assert_string_equal(said(sample), golden);
}

/* The record's bytes have the version that its zxid replaces. */
TEST(the_version_is_that_of_the_caller, sample, set_up, tear_down)
{
    (void)said(sample);
    sample->config.version = UINT64_C(0xabcdef0123456789);
    buf_clear(&sample->text);
    config_text(&sample->config, buf_slice(&sample->bytes), &sample->text);
    assert_non_null(strstr(buf_cstr(&sample->text), "\nversion=abcdef0123456789"));
}

/* One address that is not known, or not like an address, and the whole text is the old one: clients
 * must not take a part of it for the ensemble, or a text for another member. */
TEST(odd_addresses_do_not_enter_the_text, sample, set_up, tear_down)
{
    static const struct {
        const char *host;
        uint16_t port;
        const char *client;
    } odd[] = {
        {"", 0, "zk1.example:9998"},
        {"zk1.example", 10998, ""},
        {"zk1.example", 10998, "zk1.example"},
        {"zk1.example", 10998, "zk1.example:"},
        {"zk1.example", 10998, ":9998"},
        {"zk1.example", 10998, "zk1.example:0"},
        {"zk1.example", 10998, "zk1.example:65536"},
        {"zk1.example", 10998, "zk1.example:099999"},
        {"zk1.example", 10998, "zk1.example:+9998"},
        {"zk1.example", 10998, "zk1.example:9998;evil:1"},
        {"zk1.example", 10998, "evil:1|zk1.example:9998"},
        {"zk1.example", 10998, "2001:db8::1:9998"},
        {"zk1.example", 10998, "[]:9998"},
        {"zk1.example", 10998, "[evil]:9998"},
        {"zk1.example", 10998, "[zk1.example]:9998"},
        {"zk1.example:1:2:observer;evil", 10998, "zk1.example:9998"},
        {"zk1.example=", 10998, "zk1.example:9998"},
        {"[2001:db8::1]", 10998, "zk1.example:9998"},
        {"fe80::1%eth0", 10998, "zk1.example:9998"},
        {"zk1:2", 10998, "zk1.example:9998"},
    };

    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        sample->edits[0].texts = texts(odd[i].host, odd[i].port, odd[i].client);
        assert_string_equal(said(sample), old_text);
    }
    sample->edits[0].texts = texts("zk1.example", 10998, "ZK-1:09998");
    assert_non_null(strstr(said(sample), "participant;ZK-1:09998\n"));
}

/* As many bytes as a configuration may have. */
TEST(the_longest_text_has_room, sample, set_up, tear_down)
{
    char client[ZAB_CLIENT_MAX + 1];
    char hosts[ZAB_MEMBERS_MAX][ZAB_HOST_MAX + 1];

    memset(client, 'c', ZAB_CLIENT_MAX);
    (void)snprintf(client + ZAB_CLIENT_MAX - 6, 7, ":65535");
    sample->config.count = ZAB_MEMBERS_MAX;
    sample->parts.edit_count = ZAB_MEMBERS_MAX;
    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        (void)snprintf(hosts[i], sizeof hosts[i], "%0210u", i);
        sample->config.members[i] = (struct zab_member){.id = 65000 + i, .voter = true};
        sample->edits[i] = (struct zab_config_edit){
            .id = 65000 + i, .texts = texts(hosts[i], 65535, "c.example:65535")};
    }
    (void)said(sample);
    assert_true(sample->bytes.len > ZAB_CONFIG_BYTES_MAX - 700);
    assert_true(sample->text.len > ZAB_CONFIG_BYTES_MAX - 700);
    /* The bound holds for the longest addresses, although they exceed a configuration. */
    sample->config.count = 1;
    sample->parts.edit_count = 1;
    memset(hosts[0], 'h', ZAB_HOST_MAX);
    hosts[0][ZAB_HOST_MAX] = '\0';
    sample->edits[0].texts = texts(hosts[0], 65535, client);
    (void)said(sample);
    assert_true(sample->text.len * ZAB_MEMBERS_MAX < CONFIG_TEXT_MAX);
}
