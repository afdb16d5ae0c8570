#include "tests/lib/tcp_raw.h"

#include <errno.h>
#include <unistd.h>

enum {
    RAW_BYTES_MAX = 1 << 20
};

/* Gives the socket all sealed bytes. */
static void push(struct raw *raw)
{
    struct slice bytes = seal_pending(raw->seal);

    if (bytes.len > 0) {
        ssize_t sent = send(raw->fd, bytes.data, bytes.len, MSG_NOSIGNAL);

        seal_sent(raw->seal, sent > 0 ? (size_t)sent : 0);
    }
}

/* Takes what has arrived. */
static void pull(struct raw *raw, bool shakes)
{
    uint8_t bytes[4096];
    ssize_t got = recv(raw->fd, bytes, sizeof(bytes), 0);

    raw->ended |= got == 0 || (got < 0 && errno != EAGAIN);
    if (got > 0 && raw->seal) {
        assert_int_equal(seal_put(raw->seal, slice_make(bytes, (size_t)got)), ERR_OK);
        raw->ended |= !shakes && seal_read(raw->seal, &raw->in) != ERR_OK;
    } else if (got > 0) {
        assert_true(buf_append(&raw->in, bytes, (size_t)got));
    }
}

struct raw raw_dial_plain(const struct kit_setup *setup)
{
    struct sockaddr_in addr = kit_loopback(setup->port[1]);
    struct raw raw = {.fd = loop_connect((struct sockaddr *)&addr, sizeof(addr))};

    buf_init(&raw.in, RAW_BYTES_MAX);
    assert_true(raw.fd >= 0);
    KIT_RUN_UNTIL(setup, loop_connect_result(raw.fd) == 0);
    return raw;
}

void raw_begin_tls(struct raw *raw, const char *secret)
{
    struct seal_options options = {
        .keys = kit_keys(secret, NULL), .dials = true, .from = 2, .to = 1};

    raw->keys = options.keys;
    raw->seal = seal_open(&options);
    assert_int_equal(seal_shake(raw->seal), ERR_BUSY);
    push(raw);
}

enum err raw_shake(struct raw *raw)
{
    enum err err = ERR_OK;

    pull(raw, true);
    assert_false(raw->ended);
    err = seal_shake(raw->seal);
    push(raw);
    return err;
}

struct raw raw_dial_1(const struct kit_setup *setup)
{
    struct raw raw = raw_dial_plain(setup);

    if (kit_sealed()) {
        raw_begin_tls(&raw, setup->secret[1]);
        KIT_RUN_UNTIL(setup, raw_shake(&raw) == ERR_OK);
    }
    return raw;
}

void raw_write(struct raw *raw, const void *bytes, size_t len)
{
    if (!raw->seal) {
        assert_int_equal(write(raw->fd, bytes, len), (ssize_t)len);
        return;
    }
    assert_int_equal(seal_write(raw->seal, slice_make(bytes, len)), len);
    push(raw);
}

void raw_read(const struct kit_setup *setup, struct raw *raw, uint8_t *to, size_t len)
{
    KIT_RUN_UNTIL(setup, (pull(raw, false), raw->in.len >= len || raw->ended));
    assert_true(raw->in.len >= len);
    memcpy(to, raw->in.data, len);
    buf_consume(&raw->in, len);
}

bool raw_ended(struct raw *raw)
{
    pull(raw, false);
    return raw->ended;
}

void raw_end(struct raw *raw)
{
    close(raw->fd);
    seal_close(raw->seal);
    keys_release(raw->keys);
    buf_release(&raw->in);
}
