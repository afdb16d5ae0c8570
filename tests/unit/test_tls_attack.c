/* Clients that make valid records of TLS which break the rules, after an honest handshake. */
#include "base/loop.h"
#include "tests/lib/tls_forge.h"
#include "tests/unit/tls_kit.h"

static const uint8_t update_begin[] = {SSL3_MT_KEY_UPDATE, 0, 0, 1};
static const uint8_t update_end[] = {0};

static void open_forge(struct tls_kit *kit, struct tls_forge *forge)
{
    tls_kit_connect(kit, NULL);
    tls_forge_open(forge, &kit->peer);
}

/* ---- The part of a message of the handshake ---- */

/* The client sends 100 bytes, which are peeked, then a part of a KeyUpdate, then its end and bytes
 * that are not TLS. The server reads the 100 bytes and answers: only a read may take more. */
static void send_in_the_middle_of_an_update(struct tls_kit *kit)
{
    struct tls_forge forge;
    char junk[300];
    char bytes[100];

    memset(junk, 'A', sizeof(junk));
    tls_forge_open(&forge, &kit->peer);
    tls_forge_put(&forge, TLS_FORGE_DATA, junk, sizeof(bytes));
    tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, update_begin, sizeof(update_begin));
    assert_true(tls_forge_send(&forge, kit->far));
    assert_int_equal(loop_peek(kit->fd, bytes, sizeof(bytes)), sizeof(bytes));
    assert_int_equal(loop_peek(kit->fd, junk, sizeof(junk)), sizeof(bytes));
    assert_int_equal(recv(kit->fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, update_end, sizeof(update_end));
    assert_true(buf_append(&forge.out, junk, sizeof(junk)));
    assert_true(tls_forge_send(&forge, kit->far));
    assert_int_equal(send(kit->fd, "answer", 6, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(kit->broken, TLS_BROKEN);
    tls_forge_close(&forge);
}

/* A connection on the same thread, with `records` of five bytes each. */
static void open_other(struct tls_kit *other, int records)
{
    *other = (struct tls_kit){.fd = -1};
    tls_kit_open(other);
    tls_kit_connect(other, NULL);
    for (int i = 0; i < records; i++) {
        tls_peer_send(&other->peer, "hello", 5);
    }
}

static void expect_hello(struct tls_kit *other)
{
    char bytes[5];

    assert_int_equal(recv(other->fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    assert_memory_equal(bytes, "hello", sizeof(bytes));
}

TEST(a_part_of_an_update_breaks_no_other_connection_of_the_thread, tls_kit, tls_kit_open,
     tls_kit_close)
{
    struct tls_kit other;

    open_other(&other, 1);
    tls_kit_connect(tls_kit, NULL);
    send_in_the_middle_of_an_update(tls_kit);
    expect_hello(&other);
    tls_kit_close(&other);
}

TEST(a_part_of_an_update_ends_no_process_that_holds_bytes_of_another, tls_kit, tls_kit_open,
     tls_kit_close)
{
    struct tls_kit other;

    open_other(&other, 3);
    tls_kit_connect(tls_kit, NULL);
    expect_hello(&other);
    send_in_the_middle_of_an_update(tls_kit);
    expect_hello(&other);
    expect_hello(&other);
    tls_kit_close(&other);
}

TEST(an_update_in_two_records_is_one_update, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_forge forge;
    char bytes[8] = "";

    open_forge(tls_kit, &forge);
    tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, update_begin, sizeof(update_begin));
    assert_true(tls_forge_send(&forge, tls_kit->far));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), -1);
    assert_int_equal(errno, EAGAIN);
    tls_forge_put(&forge, TLS_FORGE_HANDSHAKE, update_end, sizeof(update_end));
    tls_forge_renew(&forge);
    tls_forge_put(&forge, TLS_FORGE_DATA, "renewed", 7);
    assert_true(tls_forge_send(&forge, tls_kit->far));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 7);
    assert_string_equal(bytes, "renewed");
    assert_int_equal(send(tls_kit->fd, "answer", 6, MSG_NOSIGNAL), 6);
    tls_kit_hears(tls_kit, "answer", 6);
    tls_forge_close(&forge);
}

/* The answer that the update demands cannot follow close_notify. */
TEST(an_update_after_the_end_of_writing_breaks_nothing, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_forge forge;
    char bytes[8] = "";

    open_forge(tls_kit, &forge);
    assert_int_equal(shutdown(tls_kit->fd, SHUT_WR), 0);
    for (int i = 0; i < 2; i++) {
        tls_forge_update(&forge, true);
        tls_forge_put(&forge, TLS_FORGE_DATA, "more", 4);
    }
    assert_true(tls_forge_send(&forge, tls_kit->far));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 8);
    assert_memory_equal(bytes, "moremore", 8);
    assert_int_equal(tls_peer_receive(&tls_kit->peer, &tls_kit->got), SSL_ERROR_ZERO_RETURN);
    tls_forge_close(&forge);
}

TEST(an_alert_after_the_handshake_is_named, tls_kit, tls_kit_open, tls_kit_close)
{
    static const uint8_t alert[] = {SSL3_AL_FATAL, SSL_AD_INTERNAL_ERROR};
    struct tls_forge forge;

    open_forge(tls_kit, &forge);
    tls_forge_put(&forge, TLS_FORGE_ALERT, alert, sizeof(alert));
    assert_true(tls_forge_send(&forge, tls_kit->far));
    assert_int_equal(recv(tls_kit->fd, &(char){0}, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(tls_kit->broken, TLS_ALERT);
    assert_string_equal(tls_kit->detail, "internal error");
    tls_forge_close(&forge);
}

/* ---- Floods ---- */

/* Reads until there is nothing more or the connection is broken; returns the number of bytes. */
static size_t read_all(struct tls_kit *kit)
{
    char bytes[4096];
    size_t done = 0;
    ssize_t got = 1;

    while (got > 0) {
        got = recv(kit->fd, bytes, sizeof(bytes), 0);
        done += got > 0 ? (size_t)got : 0;
    }
    assert_int_equal(got, -1);
    return done;
}

static void expect_flood(struct tls_kit *kit)
{
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(kit->broken, TLS_FLOOD);
    assert_int_equal(send(kit->fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, ECONNRESET);
}

TEST(some_updates_at_once_are_accepted, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_forge forge;

    open_forge(tls_kit, &forge);
    for (int i = 0; i < TLS_UPDATES_MAX; i++) {
        tls_forge_update(&forge, i % 2 == 0);
    }
    tls_forge_put(&forge, TLS_FORGE_DATA, "data", 4);
    assert_true(tls_forge_send(&forge, tls_kit->far));
    assert_int_equal(read_all(tls_kit), 4);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(tls_kit->fd, "answer", 6, MSG_NOSIGNAL), 6);
    tls_kit_hears(tls_kit, "answer", 6);
    tls_forge_close(&forge);
}

TEST(a_flood_of_updates_ends_the_connection, tls_kit, tls_kit_open, tls_kit_close)
{
    for (int every = 0; every < 2; every++) { /* With data between them as well. */
        struct tls_forge forge;

        open_forge(tls_kit, &forge);
        for (int i = 0; i < 2 * TLS_UPDATES_MAX; i++) {
            tls_forge_update(&forge, false);
            if (every) {
                tls_forge_put(&forge, TLS_FORGE_DATA, "data", 4);
            }
        }
        assert_true(tls_forge_send(&forge, tls_kit->far));
        assert_true(read_all(tls_kit) <= TLS_UPDATES_MAX * strlen("data"));
        expect_flood(tls_kit);
        tls_forge_close(&forge);
        tls_kit_hang_up(tls_kit);
    }
}

/* OpenSSL ends the connection at the 33rd record without data in a row, so one byte is between. */
TEST(records_almost_without_data_end_the_connection, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_forge forge;
    uint32_t sent = 0;
    size_t got = 0;

    open_forge(tls_kit, &forge);
    for (errno = EAGAIN; errno == EAGAIN; got += read_all(tls_kit)) {
        assert_true(sent < 4 * TLS_CREDIT_MAX);
        for (int i = 0; i < 32; i++) {
            tls_forge_put(&forge, TLS_FORGE_DATA, "", 0);
        }
        tls_forge_put(&forge, TLS_FORGE_DATA, "x", 1);
        sent += (uint32_t)forge.out.len;
        assert_true(tls_forge_send(&forge, tls_kit->far));
    }
    assert_true(got < TLS_CREDIT_MAX / 100);
    expect_flood(tls_kit);
    tls_forge_close(&forge);
}

TEST(small_records_are_no_flood, tls_kit, tls_kit_open, tls_kit_close)
{
    struct tls_forge forge;

    open_forge(tls_kit, &forge);
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 300; i++) {
            tls_forge_put(&forge, TLS_FORGE_DATA, "x", 1);
        }
        assert_true(tls_forge_send(&forge, tls_kit->far));
        assert_int_equal(read_all(tls_kit), 300);
        assert_int_equal(errno, EAGAIN);
    }
    tls_forge_close(&forge);
}
