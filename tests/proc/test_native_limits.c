/* Clients of ZooKeeper's protocol: hostile bytes, slow readers, command words, the end of a
 * replica, and what the configuration allows. */
#include "zk/wire.h"

#include "tests/lib/ports.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/native.h"

#include <signal.h>
#include <stdio.h>

enum {
    TIMEOUT_MS = 20000,
    VALUE_MAX = 64
};

static struct ensemble ensemble;

static uint16_t port(uint32_t index)
{
    return ensemble.replicas[index].client_port;
}

static void open_one(void)
{
    ensemble_launch(&ensemble, 1, "headTimeout=2000\nzkWords=ruok,srvr,mntr\n");
}

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void shut(void)
{
    ensemble_close(&ensemble);
}

#define TEST_ONE(name) TEST(name, open_one, shut)

static int32_t do_path(struct native *native, int32_t type, const char *path, int flag)
{
    native_send_path(native, type, path, flag);
    return native_reply(native, NULL);
}

static int32_t do_create(struct native *native, const char *path, int flags)
{
    native_send_create(native, path, "x", flags);
    return native_reply(native, NULL);
}

/* ---- Hostile bytes ---- */

TEST_ONE(frames_that_no_client_sends_end_the_connection)
{
    static const int32_t lengths[] = {INT32_MAX, 0, -1, INT32_MIN, 7, 64 << 20};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct native *native = native_open(port(0), TIMEOUT_MS);
        uint8_t frame[3 * ZK_INT_BYTES] = {0};

        zk_store_int(frame, lengths[i]);
        zk_store_int(frame + ZK_INT_BYTES, 1);
        zk_store_int(frame + 2 * (size_t)ZK_INT_BYTES, ZK_SET_DATA);
        native_send_bytes(native, frame, sizeof(frame));
        assert_true(native_ends(native));
        native_close(native);
    }
    struct native *after = native_open(port(0), TIMEOUT_MS);

    assert_int_equal(do_path(after, ZK_EXISTS, "/", 0), 0);
    native_close(after);
}

TEST_ONE(unknown_operations_get_an_error_and_the_end)
{
    static const int32_t types[] = {13, -10, 99, 9999};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct native *native = native_open(port(0), TIMEOUT_MS);

        native_send_plain(native, types[i]);
        assert_int_equal(native_reply(native, NULL), -6);
        assert_true(native_ends(native));
        native_close(native);
    }
}

TEST_ONE(half_a_first_frame_is_given_up)
{
    struct native *native = native_dial(port(0));
    static const uint8_t half[] = {0, 0, 0, 45, 0, 0};

    native_send_bytes(native, half, sizeof(half));
    assert_true(native_ends(native));
    native_close(native);
}

/* A client that sends requests and reads nothing is not read, costs little, and is answered when it
 * reads. */
TEST_ONE(a_slow_reader_stops_itself_only)
{
    struct native *slow = native_open(port(0), TIMEOUT_MS);
    struct native *other = native_open(port(0), TIMEOUT_MS);
    static char data[100001];

    enum {
        READS = 300
    };
    struct native_frame frame;

    memset(data, 'x', sizeof(data) - 1);
    native_send_create(other, "/big", data, 0);
    assert_int_equal(native_reply(other, NULL), 0);
    int32_t first = slow->xid + 1;

    for (int i = 0; i < READS; i++) {
        native_send_path(slow, ZK_GET_DATA, "/big", 0);
    }
    for (int i = 0; i < READS; i++) {
        assert_int_equal(do_path(other, ZK_EXISTS, "/big", 0), 0);
    }
    for (int i = 0; i < READS; i++) {
        assert_true(native_next(slow, &frame));
        assert_int_equal(frame.xid, first + i);
        assert_int_equal(zk_get_bytes(&frame.body).len, sizeof(data) - 1);
    }
    native_close(slow);
    native_close(other);
}

TEST_ONE(words_are_answered)
{
    static const struct {
        const char *word;
        const char *begins;
    } words[] = {{"ruok", "imok"},
                 {"srvr", "Zookeeper version: 3."},
                 {"mntr", "zk_version\t3."},
                 {"cons", "cons is not executed because it is not in the whitelist."}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct native *native = native_dial(port(0));

        native_send_bytes(native, words[i].word, strlen(words[i].word));
        ENSEMBLE_WAIT(&ensemble, native_ends(native) || native->in.len > 0);
        assert_true(slice_starts_with(buf_slice(&native->in), slice_str(words[i].begins)));
        native_close(native);
    }
}

/* Whether the answer to a command word has all these texts; the last is NULL. */
static bool says(uint32_t index, const char *word, const char *const *texts)
{
    struct native *native = native_dial(port(index));
    bool all = true;

    native_send_bytes(native, word, strlen(word));
    (void)native_ends(native);
    (void)buf_append_byte(&native->in, '\0');
    for (size_t i = 0; texts[i]; i++) {
        all = all && strstr((const char *)native->in.data, texts[i]);
    }
    native_close(native);
    return all;
}

TEST_ONE(one_replica_is_standalone)
{
    static const char *const texts[] = {"\nMode: standalone\n", NULL};
    static const char *const metrics[] = {
        "\nzk_server_state\tstandalone\n", "\nzk_znode_count\t4\n", "\nzk_uptime\t",
        "\nzk_local_sessions\t0\n",        "\nzk_watch_count\t0\n", NULL};

    ENSEMBLE_WAIT(&ensemble, says(0, "srvr", texts));
    ENSEMBLE_WAIT(&ensemble, says(0, "mntr", metrics));
}

TEST(members_of_an_ensemble_name_their_roles, open_three, shut)
{
    static const char *const leader[] = {
        "\nzk_server_state\tleader\n", "\nzk_peer_state\tleading - broadcast\n",
        "\nzk_quorum_size\t3\n",       "\nzk_followers\t2\n",
        "\nzk_synced_followers\t2\n",  "\nzk_synced_observers\t0\n",
        "\nzk_pending_syncs\t0\n",     NULL};
    static const char *const follower[] = {"\nzk_server_state\tfollower\n",
                                           "\nzk_peer_state\tfollowing - broadcast\n", NULL};
    uint32_t leads = ensemble_wait_leader(&ensemble);

    ENSEMBLE_WAIT(&ensemble, says(leads, "mntr", leader));
    ENSEMBLE_WAIT(&ensemble, says((leads + 1) % 3, "mntr", follower));
}

TEST_ONE(a_replica_that_ends_answers_what_has_arrived)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);
    struct native_frame frame;

    assert_int_equal(do_create(native, "/d", 0), 0);
    ensemble_signal(&ensemble, 0, SIGTERM);
    assert_true(native_ends(native));
    assert_int_equal(ensemble_wait_end(&ensemble, 0), 0);
    ensemble_start(&ensemble, 0);
    ensemble_wait_all_ready(&ensemble);
    struct native *again = native_take_over(port(0), native, 0);

    assert_non_null(again);
    native_send_path(again, ZK_GET_DATA, "/d", 0);
    assert_int_equal(native_reply(again, &frame), 0);
    native_close(native);
    native_close(again);
}

/* ---- Configuration ---- */

static uint16_t own_port;

static void open_apart(void)
{
    static char keys[VALUE_MAX * 2];

    own_port = port_free();
    (void)snprintf(keys, sizeof(keys), "zkPort=%u\nrequireIdentity=true\n" ENSEMBLE_SUPER,
                   own_port);
    ensemble_launch(&ensemble, 1, keys);
}

static void send_auth(struct native *native, const char *credential)
{
    (void)native_begin(native, ZK_AUTH);
    zk_put_int(&native->out, 0);
    zk_put_bytes(&native->out, slice_str("digest"));
    zk_put_bytes(&native->out, slice_str(credential));
    native_end(native);
}

TEST(a_port_of_their_own_serves_native_clients_alone, open_apart, shut)
{
    struct native *native = native_open(own_port, TIMEOUT_MS);
    struct native *http = native_dial(own_port);
    struct native_frame frame;
    static const char request[] = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

    native_send_bytes(http, request, strlen(request));
    assert_true(native_ends(http));
    native_close(http);

    /* An identity first, then anything; it counts for this connection alone. */
    send_auth(native, "super:root");
    assert_true(native_next(native, &frame));
    assert_int_equal(frame.xid, ZK_XID_AUTH);
    assert_int_equal(frame.err, 0);
    assert_int_equal(do_create(native, "/x", 0), 0);
    native_close(native);
    for (int read = 0; read < 2; read++) {
        native = native_open(port(0), TIMEOUT_MS);
        if (read) {
            native_send_path(native, ZK_EXISTS, "/x", 0);
        } else {
            native_send_create(native, "/y", "x", 0);
        }
        assert_int_equal(native_reply(native, NULL), -124);
        assert_true(native_ends(native));
        native_close(native);
    }
    native = native_open(port(0), TIMEOUT_MS);
    send_auth(native, "no-colon");
    assert_true(native_next(native, &frame));
    assert_int_equal(frame.err, -115);
    assert_true(native_ends(native));
    native_close(native);
}

static void open_without(void)
{
    ensemble_launch(&ensemble, 1, "zkClients=false\n");
}

TEST(native_clients_can_be_turned_off, open_without, shut)
{
    struct native *native = native_dial(port(0));

    assert_false(native_connect(native, 0, TIMEOUT_MS));
    native_close(native);
}

static void open_reading(void)
{
    ensemble_launch(&ensemble, 1, "readOnly=true\n");
}

TEST(a_read_only_replica_takes_none, open_reading, shut)
{
    struct native *native = native_dial(port(0));

    assert_false(native_connect(native, 0, TIMEOUT_MS));
    assert_true(native_ends(native));
    native_close(native);
}

TEST_ONE(the_list_of_watches_shows_native_clients)
{
    struct native *native = native_open(port(0), TIMEOUT_MS);

    assert_int_equal(do_path(native, ZK_EXISTS, "/seen", 1), -101);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/watches/v1?path=/seen", NULL), 200);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"native\""));
    native_close(native);
}
