/* Where other replicas are dialed, and how the server list differs from the members. */
#include "base/mem.h"
#include "server/process/addresses.h"
#include "tests/lib/unit.h"
#include "zab/level.h"

#include <stdio.h>
#include <string.h>

enum {
    BYTES_MAX = 64 << 10
};

struct fixture {
    struct config *config;
    struct buf committed;
    struct buf pending;
    struct buf hint;
    struct buf outside;
};

static void add_server(struct config *config, uint32_t id, const char *host, bool voter)
{
    struct config_server *server = &config->peers.servers[config->peers.server_count++];

    *server = (struct config_server){.id = id, .port = (uint16_t)(7000 + id), .voter = voter};
    (void)snprintf(server->host, sizeof server->host, "%s", host);
}

static void setup(struct fixture *fixture)
{
    fixture->config = mem_zalloc(1, sizeof *fixture->config);
    fixture->config->id = 1;
    fixture->config->peers.port = 7001;
    add_server(fixture->config, 1, "127.0.0.1", true);
    buf_init(&fixture->committed, BYTES_MAX);
    buf_init(&fixture->pending, BYTES_MAX);
    buf_init(&fixture->hint, BYTES_MAX);
    buf_init(&fixture->outside, BYTES_MAX);
}

static void teardown(struct fixture *fixture)
{
    buf_release(&fixture->committed);
    buf_release(&fixture->pending);
    buf_release(&fixture->hint);
    buf_release(&fixture->outside);
    mem_free(fixture->config);
}

static struct zab_config members(uint32_t count)
{
    struct zab_config config = {.level = ZAB_LEVEL_TEXTS, .count = count};

    for (uint32_t i = 0; i < count; i++) {
        config.members[i] = (struct zab_member){.id = i + 1, .voter = true, .incarnation = 1};
    }
    return config;
}

/* Encodes a configuration of two members, of which the second has this address. */
static void put(struct buf *out, const char *host, uint16_t port)
{
    struct zab_config config = members(2);
    struct zab_config_edit edit = {.id = 2, .texts = {.host = slice_str(host), .port = port}};

    buf_clear(out);
    assert_int_equal(
        zab_config_write(&config, &(struct zab_config_parts){.edits = &edit, .edit_count = 1}, out),
        ERR_OK);
}

static bool find(const struct fixture *fixture, uint32_t id, struct tcp_peer *ret_peer)
{
    const struct addresses from = {.config = fixture->config,
                                   .committed = buf_slice(&fixture->committed),
                                   .pending = buf_slice(&fixture->pending),
                                   .hint = buf_slice(&fixture->hint),
                                   .outside = buf_slice(&fixture->outside)};

    return addresses_find(&from, id, ret_peer);
}

static void expect(const struct fixture *fixture, const char *host, uint16_t port,
                   const char *next_host, uint16_t next_port)
{
    struct tcp_peer peer;

    assert_true(find(fixture, 2, &peer));
    assert_int_equal(peer.id, 2);
    assert_string_equal(peer.host, host);
    assert_int_equal(peer.port, port);
    assert_string_equal(peer.next_host, next_host);
    assert_int_equal(peer.next_port, next_port);
}

TEST(the_newest_known_address_is_dialed, fixture, setup, teardown)
{
    expect(fixture, "", 0, "", 0);
    put(&fixture->outside, "127.0.0.8", 8); /* It is no member yet. */
    expect(fixture, "127.0.0.8", 8, "", 0);
    put(&fixture->hint, "127.0.0.9", 9);
    expect(fixture, "127.0.0.9", 9, "", 0);
    put(&fixture->committed, "127.0.0.2", 2);
    expect(fixture, "127.0.0.2", 2, "", 0);
}

TEST(both_addresses_are_dialed_while_a_change_is_pending, fixture, setup, teardown)
{
    put(&fixture->committed, "127.0.0.2", 2);
    put(&fixture->pending, "127.0.0.3", 3);
    expect(fixture, "127.0.0.2", 2, "127.0.0.3", 3);
    put(&fixture->pending, "127.0.0.2", 2);
    expect(fixture, "127.0.0.2", 2, "", 0);
    buf_clear(&fixture->committed);
    expect(fixture, "127.0.0.2", 2, "", 0);
}

/* This replica knows its own address best: others must not use its host in a certificate. */
TEST(the_own_address_is_that_of_the_file, fixture, setup, teardown)
{
    struct tcp_peer peer;

    fixture->config->id = 2;
    put(&fixture->committed, "127.0.0.2", 2);
    assert_true(find(fixture, 2, &peer));
    assert_string_equal(peer.host, "127.0.0.2");
    fixture->config->peers.own = (struct config_address){.host = "127.0.0.7", .port = 7};
    assert_true(find(fixture, 2, &peer));
    assert_string_equal(peer.host, "127.0.0.7");
    assert_int_equal(peer.port, 7);
}

TEST(a_line_of_the_file_wins, fixture, setup, teardown)
{
    put(&fixture->committed, "127.0.0.2", 2);
    put(&fixture->pending, "127.0.0.3", 3);
    add_server(fixture->config, 2, "zk2.example", true);
    expect(fixture, "zk2.example", 7002, "", 0);
}

/* What another replica says must not lead this one beyond loopback without any proof. */
TEST(beyond_loopback_only_what_is_proven_is_dialed, fixture, setup, teardown)
{
    struct config_peers *peers = &fixture->config->peers;
    struct tcp_peer peer;

    put(&fixture->committed, "10.0.0.2", 2);
    put(&fixture->pending, "127.0.0.3", 3);
    assert_false(find(fixture, 2, &peer));
    /* The transport takes no next address without a first one. */
    assert_string_equal(peer.host, "127.0.0.3");
    assert_int_equal(peer.port, 3);
    assert_string_equal(peer.next_host, "");
    assert_int_equal(peer.next_port, 0);
    put(&fixture->committed, "127.0.0.2", 2);
    put(&fixture->pending, "10.0.0.3", 3);
    assert_false(find(fixture, 2, &peer));
    assert_string_equal(peer.host, "127.0.0.2");
    assert_string_equal(peer.next_host, "");
    put(&fixture->committed, "10.0.0.2", 2);
    assert_false(find(fixture, 2, &peer));
    assert_string_equal(peer.host, "");
    assert_int_equal(peer.port, 0);
    put(&fixture->pending, "127.0.0.3", 3);
    peers->secrets.count = 1;
    assert_false(find(fixture, 2, &peer));
    peers->tls = KEYS_REQUIRED;
    expect(fixture, "10.0.0.2", 2, "127.0.0.3", 3);
    peers->tls = KEYS_OFF;
    fixture->config->clients.insecure = true;
    expect(fixture, "10.0.0.2", 2, "127.0.0.3", 3);
    peers->secrets.count = 0;
    assert_false(find(fixture, 2, &peer));
}

TEST(a_list_that_differs_is_described, fixture, setup, teardown)
{
    struct zab_config config = members(3);
    char text[LIST_TEXT_MAX];

    add_server(fixture->config, 2, "127.0.0.1", false);
    add_server(fixture->config, 5, "127.0.0.1", true);
    addresses_compare(fixture->config, &config, text);
    assert_string_equal(text, "server.N: the list differs from the members of the ensemble: "
                              "replica 2 is a voter and no observer, it lacks replica 3, replica "
                              "5 is no member; the members count, so correct the list when it "
                              "suits");
    fixture->config->peers.servers[1].voter = true;
    fixture->config->peers.servers[2].id = 3;
    addresses_compare(fixture->config, &config, text);
    assert_string_equal(text, "");
    config.members[2].voter = false;
    config.members[2].empty_seat = true;
    addresses_compare(fixture->config, &config, text);
    assert_string_equal(text, "");
    config.count = 0;
    addresses_compare(fixture->config, &config, text);
    assert_string_equal(text, "");
}

/* Nothing is compared without lines of the operator's own. */
TEST(without_a_list_nothing_differs, fixture, setup, teardown)
{
    const struct zab_config committed = members(3);
    char text[LIST_TEXT_MAX];

    addresses_compare(fixture->config, &committed, text);
    assert_string_not_equal(text, "");
    fixture->config->peers.is_alone = true;
    addresses_compare(fixture->config, &committed, text);
    assert_string_equal(text, "");
    fixture->config->peers.is_alone = false;
    fixture->config->peers.server_count = 0;
    addresses_compare(fixture->config, &committed, text);
    assert_string_equal(text, "");
}

TEST(many_differences_are_counted, fixture, setup, teardown)
{
    struct zab_config config = members(ZAB_MEMBERS_MAX);
    char text[LIST_TEXT_MAX];

    for (uint32_t i = 0; i < ZAB_MEMBERS_MAX; i++) {
        config.members[i].id = ZAB_ID_MAX - ZAB_MEMBERS_MAX + i;
    }
    addresses_compare(fixture->config, &config, text);
    assert_non_null(strstr(text, "it lacks replica 65474, and 61 more; the members count"));
    fixture->config->peers.port = 0; /* Without a list there is nothing to compare. */
    addresses_compare(fixture->config, &config, text);
    assert_string_equal(text, "");
}
