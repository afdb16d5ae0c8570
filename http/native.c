/*
 * Connections that speak ZooKeeper's protocol or one of its command words. The first bytes show it:
 * a native client begins with the length of its first frame, which is far below 16 MiB, so its
 * first byte is 0; a command word is four letters and nothing else. No request of HTTP begins so.
 * All bytes stay in the socket for the front end in zk/.
 */
#include "http/accept_int.h"

enum {
    WORD_LEN = 4
};

struct http_seat *http_seat_new(struct http *http, uint64_t address_key)
{
    struct http_seat *seat = mem_alloc(sizeof(*seat));

    *seat = (struct http_seat){.http = http, .address_key = address_key};
    return seat;
}

void http_seat_give(void *take_seat)
{
    struct http_seat *seat = take_seat;

    http_caps_give(&seat->http->caps, seat->address_key);
    mem_free(seat);
}

static bool is_line_end(struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] != '\r' && bytes.data[i] != '\n') {
            return false;
        }
    }
    return true;
}

static bool is_word(struct slice bytes)
{
    static const char *const words[] = {"ruok", "srvr", "stat", "mntr", "conf", "cons", "envi",
                                        "isro", "dump", "dirs", "wchs", "wchc", "wchp"};

    if (bytes.len < WORD_LEN || !is_line_end(slice_from(bytes, WORD_LEN))) {
        return false;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (memcmp(bytes.data, words[i], WORD_LEN) == 0) {
            return true;
        }
    }
    return false;
}

bool http_native_is(const struct http *http, struct slice bytes)
{
    return http->upgrade.take_native && (bytes.data[0] == 0 || is_word(bytes));
}

/* Whether the connection may be served at all. Nothing can be answered to a client that may not:
 * the protocol has no word for it. */
static bool is_welcome(const struct pending *pending)
{
    const struct http *http = pending->accept->http;

    if (!pending->sealed && http->limits->tls.mode == (uint32_t)CONFIG_TLS_REQUIRED) {
        return false;
    }
    return pending->cap == HTTP_CAP_OK && !atomic_load(&http->draining);
}

bool http_native_give(struct pending *pending)
{
    struct http_accept *accept = pending->accept;
    struct http *http = accept->http;
    const struct sockaddr *address = (const struct sockaddr *)&pending->address;
    struct op_principal principal = {.https = pending->sealed};
    struct http_seat *seat = NULL;
    bool taken = false;

    if (!is_welcome(pending)) {
        metric_add(&http->metrics.refused_native, 1);
        return false;
    }
    http_address_text(address, principal.address, sizeof(principal.address));
    principal.auth = http_certificate(http->limits, pending->watch.fd);
    seat = http_seat_new(http, http_address_key(address));
    loop_low_water(pending->watch.fd, 1);
    loop_remove(&accept->loop, &pending->watch);
    taken = http->upgrade.take_native(http->upgrade.native, pending->watch.fd, &principal, seat);
    principal_release(&principal);
    if (!taken) {
        metric_add(&http->metrics.refused_native, 1);
        mem_free(seat);
        loop_add(&accept->loop, &pending->watch);
    }
    return taken;
}
