/* The client of ZooKeeper's protocol against a server that sends what a test says. */
#include "zk/wire.h"

#include "cli/zk_client.h"
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BYTES_MAX = 1 << 18,
    LARGE_BYTES = 100000, /* Data that no single read takes. */
    PATIENCE_MS = 5000,
    SHORT_MS = 200
};

/* One connection: waits for the first bytes, sends the script, then reads to the end. */
struct server {
    int listener;
    uint16_t port;
    struct buf script;
    bool hangs_up; /* After the script. */
    struct buf got;
    pthread_t thread;
    struct zk_client client;
};

static void *serve(void *ctx)
{
    struct server *server = ctx;
    uint8_t bytes[BYTES_MAX];
    int fd = accept(server->listener, NULL, NULL);
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);

    if (got > 0) {
        (void)buf_append(&server->got, bytes, (size_t)got);
    }
    (void)send(fd, server->script.data, server->script.len, MSG_NOSIGNAL);
    if (server->hangs_up) {
        (void)shutdown(fd, SHUT_WR);
    }
    while ((got = recv(fd, bytes, sizeof(bytes), 0)) > 0) {
        (void)buf_append(&server->got, bytes, (size_t)got);
    }
    close(fd);
    return NULL;
}

static void put_hello(struct buf *out, int32_t timeout_ms, int64_t session)
{
    static const uint8_t password[16];
    size_t at = zk_frame_begin(out);

    zk_put_int(out, 0);
    zk_put_int(out, timeout_ms);
    zk_put_long(out, session);
    zk_put_bytes(out, slice_make(password, sizeof(password)));
    zk_put_bool(out, false);
    zk_frame_end(out, at);
}

static size_t begin_reply(struct buf *out, int32_t xid, int32_t err)
{
    size_t at = zk_frame_begin(out);

    zk_put_int(out, xid);
    zk_put_long(out, 7);
    zk_put_int(out, err);
    return at;
}

static void put_stat(struct buf *out, int32_t cversion, int64_t owner, int32_t children)
{
    for (int i = 0; i < 4; i++) {
        zk_put_long(out, i);
    }
    zk_put_int(out, 1);
    zk_put_int(out, cversion);
    zk_put_int(out, 2);
    zk_put_long(out, owner);
    zk_put_int(out, 3);
    zk_put_int(out, children);
    zk_put_long(out, 9);
}

static void setup(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    *server = (struct server){.listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_int_equal(bind(server->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->listener, 1), 0);
    assert_int_equal(getsockname(server->listener, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
    buf_init(&server->script, BYTES_MAX);
    buf_init(&server->got, BYTES_MAX);
}

static void teardown(struct server *server)
{
    zk_client_close(&server->client);
    assert_int_equal(pthread_join(server->thread, NULL), 0);
    close(server->listener);
    buf_release(&server->script);
    buf_release(&server->got);
}

static bool connect_within(struct server *server, int64_t timeout_ms, const char *identity)
{
    char hosts[64];

    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%u/app/", server->port);
    assert_true(zk_client_init(&server->client, hosts, timeout_ms));
    assert_string_equal(server->client.chroot, "/app");
    assert_true(!identity || zk_client_auth(&server->client, slice_str(identity)));
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    return zk_client_connect(&server->client);
}

static void expect_lost(struct server *server, const char *why)
{
    struct zk_client_news news;

    zk_client_send(&server->client, ZK_CLIENT_GET_DATA, slice_str("/a"), false);
    zk_client_next(&server->client, -1, &news);
    assert_int_equal(news.kind, ZK_CLIENT_LOST);
    if (!strstr(server->client.error, why)) {
        fail_msg("%s, not %s", server->client.error, why);
    }
    zk_client_next(&server->client, 0, &news);
    assert_int_equal(news.kind, ZK_CLIENT_LOST);
}

TEST(replies_and_events_are_taken_in_order, server, setup, teardown)
{
    struct zk_client *client = &server->client;
    struct buf *out = &server->script;
    struct zk_client_news news;

    put_hello(out, 30000, 5);
    zk_frame_end(out, begin_reply(out, -4, 0)); /* The identity. */
    size_t at = begin_reply(out, -1, 0);

    zk_put_int(out, ZK_CLIENT_DELETED);
    zk_put_int(out, 3);
    zk_put_bytes(out, slice_str("/a/b"));
    zk_frame_end(out, at);
    at = begin_reply(out, 1, 0);
    zk_put_null(out);
    put_stat(out, 12, 0, 4);
    zk_frame_end(out, at);
    zk_frame_end(out, begin_reply(out, -2, 0)); /* A ping. */
    zk_frame_end(out, begin_reply(out, 2, ZK_CLIENT_NO_AUTH));
    at = begin_reply(out, 3, 0);
    zk_put_int(out, 2);
    zk_put_bytes(out, slice_str("x"));
    zk_put_bytes(out, slice_str("y"));
    put_stat(out, 1, 77, 2);
    zk_frame_end(out, at);

    assert_true(connect_within(server, PATIENCE_MS, "digest:user:pw"));
    zk_client_send(client, ZK_CLIENT_GET_DATA, slice_str("/a"), true);
    zk_client_send(client, ZK_CLIENT_GET_ACL, slice_str("/a"), false);
    zk_client_send(client, ZK_CLIENT_GET_CHILDREN, slice_str("/a"), false);
    zk_client_next(client, -1, &news);
    assert_int_equal(news.kind, ZK_CLIENT_EVENT);
    assert_int_equal(news.event, ZK_CLIENT_DELETED);
    assert_true(slice_eq(news.path, slice_str("/a/b")));
    zk_client_next(client, -1, &news);
    assert_int_equal(news.kind, ZK_CLIENT_REPLY);
    assert_int_equal(news.op, ZK_CLIENT_GET_DATA);
    assert_null(news.data.data);
    assert_int_equal(news.stat.cversion, 12);
    assert_int_equal(news.stat.num_children, 4);
    zk_client_next(client, -1, &news);
    assert_int_equal(news.err, ZK_CLIENT_NO_AUTH);
    zk_client_next(client, -1, &news);
    assert_int_equal(news.count, 2);
    assert_int_equal(news.stat.ephemeral_owner, 77);
    assert_true(slice_eq(zk_client_name_next(&news.list), slice_str("x")));
    assert_true(slice_eq(zk_client_name_next(&news.list), slice_str("y")));
    zk_client_next(client, 0, &news);
    assert_int_equal(news.kind, ZK_CLIENT_NOTHING);
}

TEST(the_next_server_is_told_what_the_last_one_has_shown, server, setup, teardown)
{
    struct zk_client *client = &server->client;
    struct server next;
    struct zk_client_news news;
    struct wire_reader reader;

    put_hello(&server->script, 30000, 5);
    zk_frame_end(&server->script, begin_reply(&server->script, 1, ZK_CLIENT_NO_NODE)); /* Zxid 7. */
    server->hangs_up = true;
    setup(&next);
    put_hello(&next.script, 30000, 6);
    assert_int_equal(pthread_create(&next.thread, NULL, serve, &next), 0);

    assert_true(connect_within(server, PATIENCE_MS, NULL));
    client->hosts[1] = client->hosts[0];
    (void)snprintf(client->hosts[1].port, sizeof(client->hosts[1].port), "%u", next.port);
    client->host_count = 2;
    zk_client_send(client, ZK_CLIENT_EXISTS, slice_str("/a"), false);
    zk_client_next(client, -1, &news);
    assert_int_equal(news.err, ZK_CLIENT_NO_NODE);
    expect_lost(server, "has closed the connection");
    assert_true(zk_client_connect(client));
    zk_client_close(client);

    assert_int_equal(pthread_join(next.thread, NULL), 0);
    wire_reader_init(&reader, buf_slice(&next.got));
    (void)zk_get_int(&reader); /* The length. */
    (void)zk_get_int(&reader); /* The version of the protocol. */
    assert_int_equal(zk_get_long(&reader), 7);
    close(next.listener);
    buf_release(&next.script);
    buf_release(&next.got);
}

TEST(a_refused_session_or_identity_is_an_error, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_frame_end(&server->script, begin_reply(&server->script, -4, ZK_CLIENT_AUTH_FAILED));
    assert_false(connect_within(server, PATIENCE_MS, "digest:user:pw"));
    assert_non_null(strstr(server->client.error, "has refused identity 1"));
}

TEST(a_server_that_is_no_zookeeper_is_found_out, server, setup, teardown)
{
    put_hello(&server->script, 0, 0);
    assert_false(connect_within(server, PATIENCE_MS, NULL));
    assert_non_null(strstr(server->client.error, "does not answer as ZooKeeper does"));
}

TEST(http_is_no_reply, server, setup, teardown)
{
    buf_append_str(&server->script, "HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_false(connect_within(server, PATIENCE_MS, NULL));
    assert_non_null(strstr(server->client.error, "it is no ZooKeeper"));
}

TEST(a_huge_length_reserves_nothing, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_put_int(&server->script, INT32_MAX);
    assert_true(connect_within(server, PATIENCE_MS, NULL));
    expect_lost(server, "a reply of 2147483647 bytes");
    assert_in_range(server->client.in.cap, 0, 1 << 20);
}

TEST(a_negative_length_is_refused, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_put_int(&server->script, -5);
    assert_true(connect_within(server, PATIENCE_MS, NULL));
    expect_lost(server, "a reply of -5 bytes");
}

TEST(a_wrong_xid_ends_the_connection, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_frame_end(&server->script, begin_reply(&server->script, 99, 0));
    assert_true(connect_within(server, PATIENCE_MS, NULL));
    expect_lost(server, "do not belong to the requests");
}

TEST(a_list_longer_than_its_frame_is_refused, server, setup, teardown)
{
    struct buf *out = &server->script;

    put_hello(out, 30000, 5);
    size_t at = begin_reply(out, 1, 0);

    zk_put_int(out, INT32_MAX); /* The length of the data. */
    zk_frame_end(out, at);
    assert_true(connect_within(server, PATIENCE_MS, NULL));
    expect_lost(server, "do not belong to the requests");
}

TEST(half_a_frame_and_an_end_is_a_lost_connection, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_put_int(&server->script, 100);
    zk_put_int(&server->script, 1);
    server->hangs_up = true;
    assert_true(connect_within(server, PATIENCE_MS, NULL));
    expect_lost(server, "has closed the connection");
}

TEST(silence_has_a_deadline, server, setup, teardown)
{
    put_hello(&server->script, 30000, 5);
    zk_put_int(&server->script, 100); /* A frame that never ends. */
    assert_true(connect_within(server, SHORT_MS, NULL));
    expect_lost(server, "no answer for 200 ms");
}

TEST(pings_do_not_extend_silence, server, setup, teardown)
{
    put_hello(&server->script, 300, 5); /* A ping each 100 ms. */
    assert_true(connect_within(server, SHORT_MS, NULL));
    expect_lost(server, "no answer for 200 ms");
}

TEST(pings_without_an_answer_are_silence, server, setup, teardown)
{
    struct zk_client_news news;

    put_hello(&server->script, 300, 5);
    assert_true(connect_within(server, SHORT_MS, NULL));
    zk_client_next(&server->client, PATIENCE_MS, &news);
    assert_int_equal(news.kind, ZK_CLIENT_LOST);
    assert_non_null(strstr(server->client.error, "no answer for 200 ms"));
}

TEST(an_answer_that_waits_for_the_client_is_no_silence, server, setup, teardown)
{
    static const uint8_t data[LARGE_BYTES];
    struct buf *out = &server->script;
    struct zk_client_news news;

    put_hello(out, 30000, 5);
    size_t at = begin_reply(out, 1, 0);

    zk_put_bytes(out, slice_make(data, LARGE_BYTES));
    put_stat(out, 1, 0, 0);
    zk_frame_end(out, at);
    assert_true(connect_within(server, SHORT_MS, NULL));
    zk_client_send(&server->client, ZK_CLIENT_GET_DATA, slice_str("/a"), false);
    (void)poll(NULL, 0, 2 * SHORT_MS); /* The client is busy. */
    zk_client_next(&server->client, -1, &news);
    assert_int_equal(news.kind, ZK_CLIENT_REPLY);
    assert_int_equal(news.data.len, LARGE_BYTES);
}

TEST(a_server_that_accepts_and_is_silent_has_a_deadline, server, setup, teardown)
{
    assert_false(connect_within(server, SHORT_MS, NULL));
    assert_non_null(strstr(server->client.error, "accepts connections but does not answer"));
}

TEST(addresses_are_parsed)
{
    static const char *const bad[] = {"", ":1", "a:b", "a:65536", "a:0", "a,,b", "a:1:2", "/x"};
    struct zk_client client;

    assert_true(zk_client_init(&client, "zk1,zk2:2182,[::1]:2183,[::1]/a/b//", 1));
    assert_int_equal(client.host_count, 4);
    assert_string_equal(client.hosts[0].port, "2181");
    assert_string_equal(client.hosts[1].port, "2182");
    assert_string_equal(client.hosts[2].name, "::1");
    assert_string_equal(client.hosts[2].port, "2183");
    assert_string_equal(client.hosts[3].port, "2181");
    assert_string_equal(client.chroot, "/a/b");
    assert_false(zk_client_auth(&client, slice_str("digest")));
    assert_false(zk_client_auth(&client, slice_str(":x")));
    zk_client_close(&client);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (zk_client_init(&client, bad[i], 1)) {
            fail_msg("%s is accepted", bad[i]);
        }
        zk_client_close(&client);
    }
}
