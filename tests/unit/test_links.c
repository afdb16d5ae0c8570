/* What is known about connections, by id: replicas come and go. */
#include "base/mem.h"
#include "server/process/server_int.h"
#include "tests/lib/replica_bench.h"
#include "tests/lib/unit.h"
#include "zab/level.h"

#include <stdio.h>
#include <string.h>

struct table {
    struct links links;
};

static void empty(struct table *table)
{
    table->links = (struct links){.count = 0};
}

static void nothing(struct table *table)
{
    (void)table;
}

static void refuse(struct links *links, uint32_t id)
{
    struct core_peer *link = links_place(links, id);

    assert_non_null(link);
    assert_int_equal(link->id, id);
    (void)snprintf(link->refused, sizeof link->refused, "refused %u", id);
}

static void assert_refused(const struct links *links, uint32_t id)
{
    char text[PEER_REFUSED_MAX];

    (void)snprintf(text, sizeof text, "refused %u", id);
    assert_string_equal(links_see(links, id)->refused, text);
}

TEST(entries_are_in_order_of_their_ids, table, empty, nothing)
{
    static const uint32_t ids[] = {500, 3, 65535, 1, 77, 4};
    uint32_t last = 0;

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        refuse(&table->links, ids[i]);
    }
    refuse(&table->links, 77); /* Known already. */
    assert_int_equal(table->links.count, sizeof ids / sizeof ids[0]);
    for_each_link (link, &table->links) {
        assert_true(link->id > last);
        assert_refused(&table->links, link->id);
        last = link->id;
    }
    assert_int_equal(last, 65535);
    assert_ptr_equal(links_find(&table->links, 1), &table->links.items[0]);
    assert_null(links_find(&table->links, 2));
    assert_int_equal(links_see(&table->links, 2)->id, 0);
    assert_null(links_find(&table->links, 70000));
}

TEST(replicas_that_are_gone_leave_the_table, table, empty, nothing)
{
    refuse(&table->links, 7);
    for (uint32_t id = 1000; id < 1200; id++) {
        const uint32_t ids[] = {id, 7};

        links_keep(&table->links, ids, 2);
        assert_int_equal(table->links.count, 2);
        assert_refused(&table->links, 7);
        assert_string_equal(links_see(&table->links, id)->refused, ""); /* Nothing of the last. */
        refuse(&table->links, id);
        links_keep(&table->links, ids, 2);
        assert_refused(&table->links, 7);
        assert_refused(&table->links, id);
    }
}

TEST(a_full_table_keeps_its_entries, table, empty, nothing)
{
    for (uint32_t id = 1; id <= LINKS_MAX; id++) {
        refuse(&table->links, id * 2);
    }
    assert_null(links_place(&table->links, 1));
    assert_null(links_place(&table->links, 65535));
    assert_int_equal(table->links.count, LINKS_MAX);
    for (uint32_t id = 1; id <= LINKS_MAX; id++) {
        assert_refused(&table->links, id * 2);
    }
}

/* Replica 3 of 3. */
TEST(the_core_has_an_entry_for_itself_and_each_peer, bench, bench_lead, bench_tear_down)
{
    struct server *server = mem_zalloc(1, sizeof *server);
    struct config *config = mem_zalloc(1, sizeof *config);

    config->id = 3;
    server->config = config;
    server->core.replica = bench->replica;
    refuse(&server->core.links, 9);
    core_refresh_links(server);
    assert_int_equal(server->core.links.count, 3);
    for (uint32_t id = 1; id <= 3; id++) {
        refuse(&server->core.links, id);
    }
    core_refresh_links(server);
    assert_int_equal(server->core.links.count, 3);
    assert_refused(&server->core.links, 3);
    assert_int_equal(server->core.files_peers, 2);
    mem_free(config);
    mem_free(server);
}

/* A record with the address of member `id`. */
static void change_address(struct bench *bench, uint32_t id, const char *host, zxid_t zxid)
{
    struct zab_config config = bench->drive.init.config;
    struct zab_config_edit edit = {.id = id, .texts = {.host = slice_str(host), .port = 65535}};
    struct zab_config_parts parts = {.edits = &edit, .edit_count = 1};
    struct buf bytes;

    config.version = zxid;
    buf_init(&bytes, ZAB_CONFIG_BYTES_MAX);
    assert_int_equal(zab_config_write(&config, &parts, &bytes), ERR_OK);
    drive_entry(&bench->drive,
                drive_log_add_type(&bench->drive.theirs, LOGREC_CONFIG, zxid, buf_slice(&bytes)),
                0);
    buf_release(&bytes);
    bench_commit(&bench->drive, zxid);
}

/* Replica 1 of 3 follows, at a level whose configurations have addresses. */
static void follow_with_addresses(struct bench *bench)
{
    bench_open_level(bench, 1, 3, ZAB_LEVEL_TEXTS);
    drive_follow(&bench->drive, 3, 1);
    drive_clear(&bench->drive);
}

TEST(addresses_are_those_of_the_committed_configuration, bench, follow_with_addresses,
     bench_tear_down)
{
    struct server *server = mem_zalloc(1, sizeof *server);
    struct config *config = mem_zalloc(1, sizeof *config);
    const struct links *links = &server->core.links;
    char longest[ZAB_HOST_MAX + 1] = {0};

    memset(longest, 'h', ZAB_HOST_MAX);
    config->id = 1;
    server->config = config;
    server->core.replica = bench->replica;
    core_refresh_links(server);
    assert_string_equal(links_see(links, 2)->address, "");
    change_address(bench, 2, longest, zxid_make(1, 1));
    core_refresh_links(server);
    assert_int_equal(strlen(links_see(links, 2)->address), ZAB_HOST_MAX + 6);
    assert_string_equal(links_see(links, 3)->address, "");
    change_address(bench, 3, "zk3", zxid_make(1, 2));
    core_refresh_links(server);
    assert_string_equal(links_see(links, 2)->address, "");
    assert_string_equal(links_see(links, 3)->address, "zk3:65535");
    mem_free(config);
    mem_free(server);
}

TEST(an_address_shows_host_and_port)
{
    char address[LINK_ADDRESS_MAX];
    struct zab_texts texts = {.host = slice_str("zk4"), .port = 10998};

    links_address(&texts, address);
    assert_string_equal(address, "zk4:10998");
    texts.host = slice_str("fd00::4");
    links_address(&texts, address);
    assert_string_equal(address, "[fd00::4]:10998");
    texts = (struct zab_texts){.port = 0};
    links_address(&texts, address);
    assert_string_equal(address, "");
}
