/* TLS in place: reads and writes at each split, ends in each state, and damaged bytes. */
#include "base/loop.h"
#include "tests/unit/tls_kit.h"

#include <sys/epoll.h>
#include <sys/uio.h>

/* Bytes that show where each of them belongs. */
static uint8_t *pattern(size_t len)
{
    uint8_t *bytes = mem_alloc(len);

    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(i * 31 + (i >> 8));
    }
    return bytes;
}

static void hears(struct tls_kit *kit, const void *data, size_t len)
{
    struct slice got = tls_kit_hear(kit);

    assert_int_equal(got.len, len);
    assert_memory_equal(got.data, data, len);
}

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
    hears(tls_kit, "200", 3);
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
    uint8_t *bytes = pattern(40000);
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
    uint8_t *bytes = pattern(40000);
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
    uint8_t *bytes = pattern(100000);
    uint8_t *got = mem_alloc(100000);

    tls_kit_connect(tls_kit, NULL);
    send_in_records(tls_kit, bytes, 100000, 16384);
    assert_int_equal(loop_peek(tls_kit->fd, got, 100000), TLS_PEEK_MAX);
    assert_int_equal(recv(tls_kit->fd, got, 100000, 0), 100000);
    assert_memory_equal(got, bytes, 100000);
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

TEST(an_answer_follows_close_notify, tls_kit, tls_kit_open, tls_kit_close)
{
    char byte = 0;

    tls_kit_connect(tls_kit, NULL);
    (void)SSL_shutdown(tls_kit->peer.ssl);
    (void)tls_peer_push(&tls_kit->peer, SIZE_MAX);
    assert_int_equal(recv(tls_kit->fd, &byte, 1, 0), 0);
    assert_int_equal(recv(tls_kit->fd, &byte, 1, 0), 0);
    assert_int_equal(send(tls_kit->fd, "answer", 6, MSG_NOSIGNAL), 6);
    hears(tls_kit, "answer", 6);
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
    hears(tls_kit, "answer", 6);
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
        /* The version of a record tells TLS from other bytes. */
        expect_broken(tls_kit, at == 1 || at == 2 ? TLS_PLAIN : TLS_BROKEN);
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
    assert_int_equal(recv(tls_kit->fd, &(char){0}, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
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

/* ---- Writes ---- */

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
    uint8_t *bytes = pattern(300000);

    for (size_t i = 0; i < 4; i++) {
        tls_kit_connect(tls_kit, NULL);
        (void)setsockopt(tls_kit->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
        write_all(tls_kit, bytes, 300000, pieces[i]);
        while (tls_kit_hear(tls_kit).len < 300000) {
        }
        hears(tls_kit, bytes, 300000);
        tls_kit_hang_up(tls_kit);
    }
    mem_free(bytes);
}

/* Over TCP the kernel takes any part of a record. */
TEST(all_sent_means_that_the_kernel_has_all, tls_kit, tls_kit_open, tls_kit_close)
{
    const int small = 4096;
    uint8_t *bytes = pattern(300000);

    tls_kit_connect(tls_kit, NULL);
    (void)setsockopt(tls_kit->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    write_all(tls_kit, bytes, 300000, 3000);
    /* The server is gone at once; nothing of its answer was held in it. */
    close(tls_kit->fd);
    tls_kit->fd = -1;
    tls_kit->socket = NULL;
    (void)tls_kit_hear(tls_kit);
    hears(tls_kit, bytes, 300000);
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
    hears(tls_kit, "headbody", 8);
    assert_int_equal(send(tls_kit->fd, "", 0, MSG_NOSIGNAL), 0);
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
    tls_peer_close(&tls_kit->peer);
    tls_kit->far = -1;
}
