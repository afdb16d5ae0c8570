/* TLS in place: writes when the kernel takes parts, and the end of writing. */
#include "tls/socket_int.h"

#include "base/crypto.h"
#include "tests/unit/tls_kit.h"

#include <sys/uio.h>

/* Writes all bytes while the client reads in small pieces; each step asserts what send() promises.
 */
static void write_all(struct tls_kit *kit, const uint8_t *bytes, size_t len, size_t piece)
{
    size_t done = 0;
    int refusals = 0;

    while (done < len) {
        ssize_t sent = send(kit->fd, bytes + done, min_size(len - done, 100000), MSG_NOSIGNAL);

        if (sent < 0) {
            assert_int_equal(errno, EAGAIN);
            refusals++;
            (void)tls_peer_pull(&kit->peer, piece);
        }
        done += sent > 0 ? (size_t)sent : 0;
        assert_true(refusals < TLS_KIT_STEPS_MAX * 10);
    }
    assert_true(refusals > 0);
}

TEST(bytes_arrive_once_and_in_order_when_the_kernel_takes_parts, tls_kit, tls_kit_open,
     tls_kit_close)
{
    static const size_t pieces[] = {100, 1000, 5000, 20000};
    const int small = 4096;
    uint8_t *bytes = tls_kit_pattern(300000);

    for (size_t i = 0; i < 4; i++) {
        tls_kit_connect(tls_kit, NULL);
        (void)setsockopt(tls_kit->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        write_all(tls_kit, bytes, 300000, pieces[i]);
        while (tls_kit_hear(tls_kit).len < 300000) {
        }
        tls_kit_hears(tls_kit, bytes, 300000);
        tls_kit_hang_up(tls_kit);
    }
    mem_free(bytes);
}

/* Over TCP the kernel takes any part of a record. */
TEST(all_sent_means_that_the_kernel_has_all, tls_kit, tls_kit_open, tls_kit_close)
{
    const int small = 4096;
    uint8_t *bytes = tls_kit_pattern(300000);

    tls_kit_connect(tls_kit, NULL);
    (void)setsockopt(tls_kit->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    write_all(tls_kit, bytes, 300000, 3000);
    /* The server is gone at once; nothing of its answer was held in it. */
    close(tls_kit->fd);
    tls_kit->fd = -1;
    tls_kit->socket = NULL;
    (void)tls_kit_hear(tls_kit);
    tls_kit_hears(tls_kit, bytes, 300000);
    mem_free(bytes);
}

/* Fills the kernel's buffer with zeros; returns how many bytes were reported as sent. */
static size_t fill(struct tls_kit *kit)
{
    static const uint8_t zeros[65536];
    size_t done = 0;
    ssize_t sent = 0;

    while ((sent = send(kit->fd, zeros, sizeof(zeros), MSG_NOSIGNAL)) > 0) {
        done += (size_t)sent;
    }
    assert_int_equal(errno, EAGAIN);
    return done;
}

/* Sends one more of the zeros when the kernel has room again: the byte that is sealed already. */
static void send_owed(struct tls_kit *kit)
{
    for (int i = 0; send(kit->fd, "", 1, MSG_NOSIGNAL) != 1; i++) {
        assert_int_equal(errno, EAGAIN);
        assert_true(i < TLS_KIT_STEPS_MAX);
        (void)tls_peer_pull(&kit->peer, 1000);
    }
}

/* A caller may drop what it has not begun to send, as WebSockets drop old events. */
TEST(a_part_without_a_reported_byte_may_be_replaced, tls_kit, tls_kit_open, tls_kit_close)
{
    uint8_t first[TLS_RECORD_MAX - 1];
    uint8_t second[100];
    struct iovec parts[] = {{.iov_base = first, .iov_len = sizeof(first)},
                            {.iov_base = second, .iov_len = sizeof(second)}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    const struct msghdr rest = {.msg_iov = parts, .msg_iovlen = 2};
    const int small = 4096;
    size_t filled = 0;
    struct slice got;

    tls_kit_connect(tls_kit, NULL);
    (void)setsockopt(tls_kit->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    filled = fill(tls_kit);
    send_owed(tls_kit);
    filled++;
    memset(first, 'a', sizeof(first));
    memset(second, 'b', sizeof(second));
    assert_int_equal(sendmsg(tls_kit->fd, &message, MSG_NOSIGNAL), sizeof(first) - 1);
    parts[0].iov_len = 1;
    memset(second, 'c', sizeof(second));
    for (int i = 0; sendmsg(tls_kit->fd, &rest, MSG_NOSIGNAL) != 1 + sizeof(second); i++) {
        assert_int_equal(errno, EAGAIN);
        assert_true(i < TLS_KIT_STEPS_MAX);
        (void)tls_peer_pull(&tls_kit->peer, SIZE_MAX);
    }
    got = tls_kit_hear(tls_kit);
    assert_int_equal(got.len, filled + sizeof(first) + sizeof(second));
    for (size_t i = 0; i < sizeof(first) + sizeof(second); i++) {
        assert_int_equal(got.data[filled + i], i < sizeof(first) ? 'a' : 'c');
    }
}

TEST(a_message_of_many_parts_is_one_record, tls_kit, tls_kit_open, tls_kit_close)
{
    char head[] = "head";
    char body[] = "body";
    struct iovec parts[] = {{head, 4}, {head, 0}, {body, 4}, {body, 0}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 4};

    tls_kit_connect(tls_kit, NULL);
    (void)tls_kit_hear(tls_kit); /* The tickets. */
    assert_int_equal(sendmsg(tls_kit->fd, &message, MSG_NOSIGNAL), 8);
    assert_int_equal(tls_peer_pull(&tls_kit->peer, SIZE_MAX), 5 + 8 + 1 + 16);
    tls_kit_hears(tls_kit, "headbody", 8);
    assert_int_equal(send(tls_kit->fd, "", 0, MSG_NOSIGNAL), 0);
}

/* A key update of the server is a record of 27 bytes, before the record that follows. */
TEST(a_key_that_has_sealed_enough_is_renewed, tls_kit, tls_kit_open, tls_kit_close)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < 2; i++) {
        const struct tls_peer_setup setup = {.version = versions[i]};
        size_t before = 0;

        tls_kit_connect(tls_kit, &setup);
        assert_int_equal(send(tls_kit->fd, "a", 1, MSG_NOSIGNAL), 1);
        (void)tls_kit_hear(tls_kit); /* The tickets as well. */
        assert_int_equal(send(tls_kit->fd, "b", 1, MSG_NOSIGNAL), 1);
        before = tls_peer_pull(&tls_kit->peer, SIZE_MAX);
        tls_kit->socket->records = CRYPTO_KEY_RECORDS - 1;
        assert_int_equal(send(tls_kit->fd, "c", 1, MSG_NOSIGNAL), 1);
        assert_int_equal(tls_peer_pull(&tls_kit->peer, SIZE_MAX), before + (i == 0 ? 0 : 27));
        assert_int_equal(send(tls_kit->fd, "d", 1, MSG_NOSIGNAL), 1);
        tls_kit_hears(tls_kit, "abcd", 4);
        tls_peer_send(&tls_kit->peer, "answer", 6);
        assert_int_equal(recv(tls_kit->fd, &(char[8]){0}, 8, 0), 6);
        tls_kit_hang_up(tls_kit);
    }
}

TEST(shutdown_sends_close_notify_and_reading_goes_further, tls_kit, tls_kit_open, tls_kit_close)
{
    char bytes[8] = "";

    tls_kit_connect(tls_kit, NULL);
    assert_int_equal(send(tls_kit->fd, "bye", 3, MSG_NOSIGNAL), 3);
    assert_int_equal(shutdown(tls_kit->fd, SHUT_WR), 0);
    assert_int_equal(send(tls_kit->fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, EPIPE);
    assert_int_equal(tls_peer_receive(&tls_kit->peer, &tls_kit->got), SSL_ERROR_ZERO_RETURN);
    assert_memory_equal(tls_kit->got.data, "bye", 3);
    tls_peer_send(&tls_kit->peer, "more", 4);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 4);
    assert_string_equal(bytes, "more");
}

TEST(close_sends_close_notify, tls_kit, tls_kit_open, tls_kit_close)
{
    tls_kit_connect(tls_kit, NULL);
    assert_int_equal(close(tls_kit->fd), 0);
    assert_null(tls_socket_of(tls_kit->fd));
    tls_kit->fd = -1;
    tls_kit->socket = NULL;
    assert_int_equal(tls_peer_receive(&tls_kit->peer, &tls_kit->got), SSL_ERROR_ZERO_RETURN);
}

TEST(a_client_that_is_gone_gives_the_errors_of_a_plain_socket, tls_kit, tls_kit_open, tls_kit_close)
{
    tls_kit_connect(tls_kit, NULL);
    close(tls_kit->far);
    assert_int_equal(send(tls_kit->fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_true(errno == EPIPE || errno == ECONNRESET);
    assert_true(recv(tls_kit->fd, &(char){0}, 1, 0) <= 0);
    assert_int_equal(tls_kit->broken, TLS_NONE); /* No fault of TLS. */
    tls_peer_close(&tls_kit->peer);
    tls_kit->far = -1;
}
