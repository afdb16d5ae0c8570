/* TLS in place: handshakes and reads at each split, ends in each state, and damaged bytes. */
#include "tls/socket_int.h"

#include "base/loop.h"
#include "tests/unit/tls_kit.h"

#include <poll.h>
#include <sys/epoll.h>

/* ---- Plain descriptors ---- */

TEST(descriptors_that_are_not_attached_are_plain)
{
    char bytes[8] = "";
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_null(tls_socket_of(ends[0]));
    assert_int_equal(send(ends[0], "plain", 5, MSG_NOSIGNAL), 5);
    assert_int_equal(recv(ends[1], bytes, sizeof(bytes), 0), 5);
    assert_string_equal(bytes, "plain");
    assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
    assert_int_equal(recv(ends[1], bytes, sizeof(bytes), 0), 0);
    assert_false(tls_socket_waits(ends[0]));
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(close(ends[1]), -1);
    assert_int_equal(errno, EBADF);
    assert_null(tls_socket_of(-1));
}

/* ---- Handshakes ---- */

TEST(a_request_and_its_answer_pass_through_the_calls_of_the_process, tls_kit, tls_kit_open,
     tls_kit_close)
{
    char bytes[64] = "";

    tls_kit_connect(tls_kit, NULL);
    tls_peer_send(&tls_kit->peer, "GET /", 5);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 5);
    assert_string_equal(bytes, "GET /");
    assert_int_equal(send(tls_kit->fd, "200", 3, MSG_NOSIGNAL), 3);
    tls_kit_hears(tls_kit, "200", 3);
    assert_string_equal(SSL_get_version(tls_kit->peer.ssl), "TLSv1.3");
}

TEST(a_handshake_may_arrive_byte_by_byte, tls_kit, tls_kit_open, tls_kit_close)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    for (size_t i = 0; i < 2; i++) {
        const struct tls_peer_setup setup = {.version = versions[i]};
        enum tls_step step = TLS_STEP_READ;
        int peer = 0;

        tls_kit_dial(tls_kit, &setup);
        for (int steps = 0; step != TLS_STEP_DONE || peer != 1; steps++) {
            assert_true(steps < TLS_KIT_STEPS_MAX);
            peer = tls_peer_shake(&tls_kit->peer);
            assert_true(peer >= 0);
            (void)tls_peer_push(&tls_kit->peer, 1);
            if (step != TLS_STEP_DONE) {
                step = tls_kit_step(tls_kit);
                assert_int_not_equal(step, TLS_STEP_FAILED);
            }
            (void)tls_peer_pull(&tls_kit->peer, 1);
        }
        tls_socket_attach(tls_kit->socket);
        tls_peer_send(&tls_kit->peer, "x", 1);
        assert_int_equal(recv(tls_kit->fd, &(char){0}, 1, 0), 1);
        tls_kit_hang_up(tls_kit);
    }
}

TEST(a_request_may_arrive_with_the_last_bytes_of_the_handshake, tls_kit, tls_kit_open,
     tls_kit_close)
{
    char bytes[16] = "";

    tls_kit_dial(tls_kit, NULL);
    assert_int_equal(tls_peer_shake(&tls_kit->peer), 0);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_READ);
    (void)tls_peer_pull(&tls_kit->peer, SIZE_MAX);
    assert_int_equal(tls_peer_shake(&tls_kit->peer), 1);
    tls_peer_send(&tls_kit->peer, "early", 5);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_DONE);
    tls_socket_attach(tls_kit->socket);
    assert_true(tls_socket_waits(tls_kit->fd)); /* The kernel's socket is empty already. */
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 5);
    assert_string_equal(bytes, "early");
    assert_false(tls_socket_waits(tls_kit->fd));
}

TEST(a_client_that_goes_in_the_middle_of_the_handshake_fails_as_truncated, tls_kit, tls_kit_open,
     tls_kit_close)
{
    tls_kit_dial(tls_kit, NULL);
    assert_int_equal(tls_peer_shake(&tls_kit->peer), 0);
    (void)tls_peer_push(&tls_kit->peer, 100);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_READ);
    assert_int_equal(shutdown(tls_kit->far, SHUT_WR), 0);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_FAILED);
    assert_int_equal(tls_kit->failure, TLS_TRUNCATED);
}

TEST(bytes_that_are_not_tls_fail_as_such, tls_kit, tls_kit_open, tls_kit_close)
{
    tls_kit_dial(tls_kit, NULL);
    assert_int_equal(send(tls_kit->far, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_FAILED);
    assert_int_equal(tls_kit->failure, TLS_PLAIN);
}

/* The kernel takes the server's flight bit by bit: its buffer is full before. */
TEST(a_handshake_waits_for_a_client_that_does_not_read, tls_kit, tls_kit_open, tls_kit_close)
{
    static const char junk[4096];
    char trash[4096];
    ssize_t got = 1;

    tls_kit_dial(tls_kit, NULL);
    while (send(tls_kit->fd, junk, sizeof(junk), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
    assert_int_equal(tls_peer_shake(&tls_kit->peer), 0);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_WRITE);
    assert_int_equal(tls_kit_step(tls_kit), TLS_STEP_WRITE);
    while (got > 0) { /* Takes the junk and nothing else: the server has sent nothing more. */
        got = recv(tls_kit->far, trash, sizeof(trash), MSG_DONTWAIT);
    }
    assert_true(tls_kit_shake(tls_kit));
}

/* ---- Reads ---- */

/* Sends `len` bytes as records of `record` bytes. */
static void send_in_records(struct tls_kit *kit, const uint8_t *bytes, size_t len, size_t record)
{
    for (size_t at = 0; at < len; at += record) {
        tls_peer_send(&kit->peer, bytes + at, min_size(record, len - at));
    }
}

TEST(a_short_read_has_emptied_the_socket, tls_kit, tls_kit_open, tls_kit_close)
{
    static const size_t records[] = {1, 1000, 5000, 16384};
    uint8_t *bytes = tls_kit_pattern(40000);
    uint8_t *got = mem_alloc(65536);

    tls_kit_connect(tls_kit, NULL);
    for (size_t i = 0; i < 4; i++) {
        size_t len = records[i] == 1 ? 50 : 40000;

        send_in_records(tls_kit, bytes, len, records[i]);
        assert_int_equal(recv(tls_kit->fd, got, 65536, 0), len);
        assert_memory_equal(got, bytes, len);
        assert_false(tls_socket_waits(tls_kit->fd));
        assert_false(tls_socket_is_unread(tls_kit->fd));
        assert_int_equal(recv(tls_kit->fd, got, 65536, 0), -1);
        assert_int_equal(errno, EAGAIN);
    }
    mem_free(got);
    mem_free(bytes);
}

TEST(a_reader_with_a_small_buffer_learns_what_is_held, tls_kit, tls_kit_open, tls_kit_close)
{
    static const size_t sizes[] = {1, 7, 1000, 16383};
    uint8_t *bytes = tls_kit_pattern(40000);
    uint8_t *got = mem_alloc(40000);

    tls_kit_connect(tls_kit, NULL);
    for (size_t i = 0; i < 4; i++) {
        size_t len = sizes[i] == 1 ? 5000 : 40000;
        size_t done = 0;

        send_in_records(tls_kit, bytes, len, 3000);
        /* Only what tls_socket_waits and the kernel promise is read, so nothing may be unseen. */
        assert_true(tls_socket_is_unread(tls_kit->fd));
        do {
            ssize_t part = recv(tls_kit->fd, got + done, min_size(sizes[i], len - done), 0);

            assert_true(part > 0);
            done += (size_t)part;
        } while (tls_socket_is_unread(tls_kit->fd));
        assert_int_equal(done, len);
        assert_memory_equal(got, bytes, len);
    }
    mem_free(got);
    mem_free(bytes);
}

TEST(each_split_of_a_record_gives_the_same_bytes, tls_kit, tls_kit_open, tls_kit_close)
{
    char bytes[16];

    tls_kit_connect(tls_kit, NULL);
    for (size_t split = 1; split < 27; split++) { /* 5 + 5 + 1 + 16 bytes sealed. */
        size_t left = 0;

        assert_int_equal(SSL_write(tls_kit->peer.ssl, "hello", 5), 5);
        assert_int_equal(tls_peer_push(&tls_kit->peer, split), split);
        assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), -1);
        assert_int_equal(errno, EAGAIN);
        assert_false(tls_socket_waits(tls_kit->fd));
        left = tls_peer_push(&tls_kit->peer, SIZE_MAX);
        assert_int_equal(split + left, 27);
        assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 5);
        assert_memory_equal(bytes, "hello", 5);
    }
}

TEST(peeked_bytes_are_read_again, tls_kit, tls_kit_open, tls_kit_close)
{
    char bytes[16] = "";

    tls_kit_connect(tls_kit, NULL);
    tls_peer_send(&tls_kit->peer, "abc", 3);
    assert_int_equal(loop_peek(tls_kit->fd, bytes, sizeof(bytes)), 3);
    assert_true(tls_socket_waits(tls_kit->fd));
    tls_peer_send(&tls_kit->peer, "def", 3);
    assert_int_equal(loop_peek(tls_kit->fd, bytes, 4), 4);
    assert_int_equal(loop_peek(tls_kit->fd, bytes, sizeof(bytes)), 6);
    assert_memory_equal(bytes, "abcdef", 6);
    tls_peer_send(&tls_kit->peer, "ghi", 3);
    assert_int_equal(recv(tls_kit->fd, bytes, 2, 0), 2);
    assert_memory_equal(bytes, "ab", 2);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 7);
    assert_memory_equal(bytes, "cdefghi", 7);
    assert_int_equal(loop_peek(tls_kit->fd, bytes, 1), -EAGAIN);
}

TEST(a_peek_is_bounded, tls_kit, tls_kit_open, tls_kit_close)
{
    uint8_t *bytes = tls_kit_pattern(100000);
    uint8_t *got = mem_alloc(100000);

    tls_kit_connect(tls_kit, NULL);
    send_in_records(tls_kit, bytes, 100000, 16384);
    assert_int_equal(loop_peek(tls_kit->fd, got, 100000), TLS_PEEK_MAX);
    assert_int_equal(recv(tls_kit->fd, got, 100000, 0), 100000);
    assert_memory_equal(got, bytes, 100000);
    mem_free(got);
    mem_free(bytes);
}

/* A client that sends a part of its head holds no room for the rest. */
TEST(a_peek_keeps_little_more_than_its_bytes, tls_kit, tls_kit_open, tls_kit_close)
{
    uint8_t *bytes = tls_kit_pattern(8193);
    uint8_t *got = mem_alloc(8193);

    tls_kit_connect(tls_kit, NULL);
    for (size_t len = 1; len <= 6000; len += 1000) {
        tls_peer_send(&tls_kit->peer, bytes + len - 1, min_size(len, 1000));
        assert_true(loop_peek(tls_kit->fd, got, 8193) > 0);
        assert_true(tls_kit->socket->plain.cap < tls_kit->socket->plain.len + 1024);
    }
    assert_int_equal(recv(tls_kit->fd, got, 8193, 0), 5001);
    assert_memory_equal(got, bytes, 1);
    assert_memory_equal(got + 1, bytes + 1000, 5000);
    assert_null(tls_kit->socket->plain.data);
    assert_int_equal(loop_peek(tls_kit->fd, got, 8193), -EAGAIN);
    assert_null(tls_kit->socket->plain.data);
    mem_free(got);
    mem_free(bytes);
}

/* ---- The end of reading ---- */

static int watch_edges(int fd)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd};

    assert_true(epoll >= 0);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    return epoll;
}

static bool has_edge(int epoll)
{
    struct epoll_event event;

    return epoll_wait(epoll, &event, 1, 0) == 1;
}

/* An edge-triggered reader must learn of an end that it has consumed with the last bytes. */
TEST(an_end_behind_bytes_wakes_the_reader_again, tls_kit, tls_kit_open, tls_kit_close)
{
    char bytes[16];
    int epoll = -1;

    tls_kit_connect(tls_kit, NULL);
    epoll = watch_edges(tls_kit->fd);
    tls_peer_send(&tls_kit->peer, "last", 4);
    (void)SSL_shutdown(tls_kit->peer.ssl);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    assert_true(has_edge(epoll));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 4);
    assert_true(tls_socket_is_ended(tls_kit->fd));
    assert_true(has_edge(epoll));
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 0);
    assert_false(tls_socket_is_truncated(tls_kit->fd));
    close(epoll);
}

/* Also when the client keeps its side open, as a plain socket that was half-closed. */
TEST(an_end_stays_visible, tls_kit, tls_kit_open, tls_kit_close)
{
    struct pollfd look;

    tls_kit_connect(tls_kit, NULL);
    (void)SSL_shutdown(tls_kit->peer.ssl);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    for (int i = 0; i < 3; i++) {
        look = (struct pollfd){.fd = tls_kit->fd, .events = POLLIN};
        assert_int_equal(poll(&look, 1, 0), 1);
        assert_int_equal(recv(tls_kit->fd, &(char){0}, 1, 0), 0);
    }
}

TEST(an_answer_follows_close_notify, tls_kit, tls_kit_open, tls_kit_close)
{
    char byte = 0;

    tls_kit_connect(tls_kit, NULL);
    (void)SSL_shutdown(tls_kit->peer.ssl);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    assert_int_equal(recv(tls_kit->fd, &byte, 1, 0), 0);
    assert_int_equal(recv(tls_kit->fd, &byte, 1, 0), 0);
    assert_int_equal(send(tls_kit->fd, "answer", 6, MSG_NOSIGNAL), 6);
    tls_kit_hears(tls_kit, "answer", 6);
}

TEST(an_end_without_close_notify_is_the_end_of_file_and_known_as_truncated, tls_kit, tls_kit_open,
     tls_kit_close)
{
    char bytes[8];

    tls_kit_connect(tls_kit, NULL);
    tls_peer_send(&tls_kit->peer, "part", 4);
    assert_int_equal(shutdown(tls_kit->far, SHUT_WR), 0);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 4);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 0);
    assert_true(tls_socket_is_truncated(tls_kit->fd));
    /* As after the half-close of a plain connection, the answer can be sent. */
    assert_int_equal(send(tls_kit->fd, "answer", 6, MSG_NOSIGNAL), 6);
    tls_kit_hears(tls_kit, "answer", 6);
}

TEST(a_record_that_ends_in_its_middle_gives_no_byte, tls_kit, tls_kit_open, tls_kit_close)
{
    char bytes[8];

    tls_kit_connect(tls_kit, NULL);
    assert_int_equal(SSL_write(tls_kit->peer.ssl, "never", 5), 5);
    (void)tls_peer_push(&tls_kit->peer, 26);
    assert_int_equal(shutdown(tls_kit->far, SHUT_WR), 0);
    assert_int_equal(recv(tls_kit->fd, bytes, sizeof(bytes), 0), 0);
    assert_true(tls_socket_is_truncated(tls_kit->fd));
}

static void expect_broken(struct tls_kit *kit, enum tls_failure failure)
{
    char bytes[8];

    assert_int_equal(recv(kit->fd, bytes, sizeof(bytes), 0), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(kit->broken, failure);
    assert_true(tls_socket_is_truncated(kit->fd));
    assert_int_equal(send(kit->fd, "x", 1, MSG_NOSIGNAL), -1);
    assert_int_equal(errno, ECONNRESET);
}

TEST(a_flipped_bit_ends_the_connection, tls_kit, tls_kit_open, tls_kit_close)
{
    for (size_t at = 0; at < 27; at++) {
        char *data = NULL;

        tls_kit_connect(tls_kit, NULL);
        tls_peer_send(&tls_kit->peer, "good", 4);
        assert_int_equal(SSL_write(tls_kit->peer.ssl, "hello", 5), 5);
        assert_int_equal(BIO_get_mem_data(tls_kit->peer.out, &data), 27);
        data[at] = (char)(data[at] ^ (at == 3 ? 0x80 : 1)); /* The length: longer than allowed. */
        (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
        if (at == 4) { /* A record that is one byte shorter: the last byte waits for others. */
            tls_kit_hang_up(tls_kit);
            continue;
        }
        assert_int_equal(recv(tls_kit->fd, &(char[8]){0}, 8, 0), 4);
        expect_broken(tls_kit, TLS_BROKEN);
        tls_kit_hang_up(tls_kit);
    }
}

TEST(a_record_above_the_largest_size_ends_the_connection, tls_kit, tls_kit_open, tls_kit_close)
{
    static const uint8_t head[5] = {0x17, 3, 3, 0x50, 0};

    tls_kit_connect(tls_kit, NULL);
    assert_int_equal(send(tls_kit->far, head, sizeof(head), MSG_NOSIGNAL), 5);
    expect_broken(tls_kit, TLS_BROKEN);
}

TEST(plain_bytes_after_the_handshake_end_the_connection, tls_kit, tls_kit_open, tls_kit_close)
{
    tls_kit_connect(tls_kit, NULL);
    assert_int_equal(send(tls_kit->far, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    expect_broken(tls_kit, TLS_BROKEN); /* It is no client that does not know of TLS. */
    assert_string_equal(tls_kit->detail, "wrong version number");
}

TEST(a_renegotiation_is_refused, tls_kit, tls_kit_open, tls_kit_close)
{
    const struct tls_peer_setup setup = {.version = TLS1_2_VERSION};

    tls_kit_connect(tls_kit, &setup);
    assert_int_equal(SSL_renegotiate(tls_kit->peer.ssl), 1);
    (void)SSL_do_handshake(tls_kit->peer.ssl);
    assert_true(tls_peer_push(&tls_kit->peer, SIZE_MAX) > 0);
    expect_broken(tls_kit, TLS_RENEGOTIATION);
}

/* Each key update of this client demands one of the server. */
TEST(a_client_that_makes_the_server_answer_and_reads_nothing_is_ended, tls_kit, tls_kit_open,
     tls_kit_close)
{
    static const char junk[4096];
    ssize_t got = -1;

    tls_kit_connect(tls_kit, NULL);
    while (send(tls_kit->fd, junk, sizeof(junk), MSG_NOSIGNAL) > 0) {
    }
    errno = EAGAIN;
    for (int i = 0; i < 2000 && errno == EAGAIN; i++) {
        assert_int_equal(SSL_key_update(tls_kit->peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        tls_peer_send(&tls_kit->peer, "x", 1);
        do {
            got = recv(tls_kit->fd, &(char[8]){0}, 8, 0);
        } while (got > 0);
    }
    assert_int_equal(got, -1);
    assert_int_equal(errno, ECONNRESET);
}
