/*
 * tcp_site_kit.h - some replicas with any ids, each with a list and addresses to join of its own.
 */
#ifndef TESTS_UNIT_TCP_SITE_KIT_H
#define TESTS_UNIT_TCP_SITE_KIT_H

#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/lib/tcp_kit.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum {
    SITES = 16,
    SITE_PROBE_MS = 100,
    SITE_SILENCE_MS = 5 * SITE_PROBE_MS, /* What the transport grants an outsider. */
};

struct site {
    struct loop loop;
    struct tcp *tcp; /* NULL: not running. */
    uint32_t id;
    uint16_t port;
    bool speaks; /* It sends each connected replica something in each turn. */
    bool is_up[SITES];
    bool is_outsider[SITES]; /* As on_up has said. */
    uint8_t levels[SITES];
    uint32_t ups[SITES];
    uint32_t downs[SITES];
    uint32_t heard[SITES];
    uint32_t refusals;
    uint32_t duplicates;
    uint32_t joins;    /* Calls of on_join. */
    char why[256];     /* Of the last refusal. */
    char down[256];    /* Of the last on_down. */
    char joining[256]; /* Last reason of on_join; "": none. */
};

/* How a site starts. */
struct site_setup {
    uint32_t slot; /* 0: `id`. */
    uint32_t id;
    uint32_t listed[SITES]; /* Ids of its list, up to 0; those of running sites have addresses. */
    uint32_t outsiders_max;
    const char *secret; /* NULL: the usual one. */
    enum keys_mode tls;
    struct keys_options files;
    uint64_t start;
    uint64_t queue_bytes_max;
    uint8_t level;
    uint8_t ensemble_level;
};

static struct site sites[SITES];

static inline void site_on_up(void *ctx, uint32_t peer, const struct tcp_identity *identity)
{
    struct site *site = ctx;

    assert_false(site->is_up[peer]);
    site->is_up[peer] = true;
    site->is_outsider[peer] = identity->is_outsider;
    site->levels[peer] = identity->level;
    site->ups[peer]++;
}

static inline void site_on_down(void *ctx, uint32_t peer, const char *why)
{
    struct site *site = ctx;

    assert_true(site->is_up[peer]);
    site->is_up[peer] = false;
    site->downs[peer]++;
    (void)snprintf(site->down, sizeof(site->down), "%s", why);
}

static inline void site_on_refused(void *ctx, uint32_t peer, const char *why)
{
    struct site *site = ctx;

    (void)peer;
    site->refusals++;
    (void)snprintf(site->why, sizeof(site->why), "%s", why);
}

static inline void site_on_duplicate(void *ctx, uint32_t id, const char *text)
{
    struct site *site = ctx;

    (void)id;
    site->duplicates++;
    (void)snprintf(site->why, sizeof(site->why), "%s", text);
}

static inline void site_on_join(void *ctx, const struct tcp_address *address, const char *why)
{
    struct site *site = ctx;

    assert_true(address->port != 0);
    site->joins++;
    (void)snprintf(site->joining, sizeof(site->joining), "%s", why ? why : "");
}

static inline void site_on_message(void *ctx, uint32_t peer, const struct zab_msg *msg)
{
    struct site *site = ctx;

    (void)msg;
    site->heard[peer]++;
}

/* Writes a list of replicas; those that run have their addresses. */
static inline uint32_t site_list(const uint32_t *ids, struct tcp_peer peers[SITES])
{
    uint32_t count = 0;

    for (; ids[count] != 0; count++) {
        peers[count] = (struct tcp_peer){.id = ids[count], .port = sites[ids[count]].port};
        (void)snprintf(peers[count].host, sizeof(peers[count].host), "%s",
                       peers[count].port ? "127.0.0.1" : "");
    }
    return count;
}

static inline void site_start(const struct site_setup *setup)
{
    struct site *site = &sites[setup->slot ? setup->slot : setup->id];
    uint16_t port = site->port ? site->port : port_free();
    struct tcp_peer peers[SITES];
    struct keys_options files = setup->files;
    const char *secret = setup->secret ? setup->secret : "the secret of the sites";
    struct keys *keys = NULL;
    char error[KEYS_ERROR_MAX] = "";

    files.secret_count = secret[0] ? 1 : 0;
    files.secrets[0] = slice_str(secret);
    assert_int_equal(keys_load(&files, &keys, error), ERR_OK);
    *site = (struct site){.id = setup->id, .port = port, .speaks = true};

    struct tcp_options options = {
        .id = setup->id,
        .listen_host = "127.0.0.1",
        .listen_port = port,
        .peers = peers,
        .peer_count = site_list(setup->listed, peers),
        .outsiders_max = setup->outsiders_max,
        .keys = keys,
        .tls = setup->tls ? setup->tls : (kit_sealed() ? KEYS_REQUIRED : KEYS_OFF),
        .ensemble = "kit",
        .queue_bytes_max = setup->queue_bytes_max ? setup->queue_bytes_max : 1 << 20,
        .connect_timeout_ms = 2000,
        .retry_min_ms = 5,
        .retry_max_ms = 40,
        .probe_ms = SITE_PROBE_MS,
        .incarnation = 100 + setup->id,
        .cluster = {7},
        .start = setup->start,
        .level = setup->level,
        .advertise = "site:9998"};
    struct tcp_handler handler = {.on_up = site_on_up,
                                  .on_down = site_on_down,
                                  .on_refused = site_on_refused,
                                  .on_duplicate = site_on_duplicate,
                                  .on_join = site_on_join,
                                  .on_message = site_on_message,
                                  .ctx = site};

    loop_init(&site->loop);
    assert_int_equal(tcp_open(&site->loop, &options, &handler, &site->tcp), ERR_OK);
    tcp_set_level(site->tcp, setup->ensemble_level);
    keys_release(keys);
}

static inline void site_stop(uint32_t slot)
{
    struct site *site = &sites[slot];

    if (site->tcp) {
        tcp_close(site->tcp);
        site->tcp = NULL;
        loop_release(&site->loop);
    }
}

/* Changes the list of a site; the ids end with 0. */
static inline void site_set_list(uint32_t slot, const uint32_t *ids)
{
    struct tcp_peer peers[SITES];

    tcp_set_peers(sites[slot].tcp, peers, site_list(ids, peers));
}

/* Makes a site join through the sites of these slots, which end with 0. */
static inline void site_join(uint32_t slot, const uint32_t *slots)
{
    struct tcp_address addresses[SITES];
    uint32_t count = 0;

    for (; slots[count] != 0; count++) {
        addresses[count] = (struct tcp_address){.port = sites[slots[count]].port};
        (void)snprintf(addresses[count].host, sizeof(addresses[count].host), "127.0.0.1");
    }
    tcp_set_join(sites[slot].tcp, addresses, count);
}

static inline void site_say(struct site *site)
{
    struct zab_msg msg = {.type = ZAB_PING, .epoch = 3};

    for (uint32_t id = 1; id < SITES && site->speaks; id++) {
        if (site->is_up[id]) {
            tcp_send(site->tcp, id, &msg);
        }
    }
}

static inline void site_turn_all(void)
{
    for (uint32_t slot = 0; slot < SITES; slot++) {
        struct site *site = &sites[slot];

        if (site->tcp) {
            tcp_tick(site->tcp, os_now_ms());
            loop_run_once(&site->loop, 0);
            site_say(site);
            tcp_flush(site->tcp);
        }
    }
    (void)poll(NULL, 0, 1);
}

static inline void site_look_again(uint64_t end_ms, const char *condition)
{
    if (os_now_ms() > end_ms) {
        fail_msg("not reached: %s", condition);
    }
    site_turn_all();
}

#define SITE_UNTIL(condition)                                                \
    for (uint64_t site_end_ms = os_now_ms() + KIT_DEADLINE_MS; !(condition); \
         site_look_again(site_end_ms, #condition)) {                         \
    }

static inline void site_run_for(uint64_t ms)
{
    uint64_t end_ms = os_now_ms() + ms;

    while (os_now_ms() < end_ms) {
        site_turn_all();
    }
}

static inline uint32_t site_outsiders(uint32_t slot)
{
    struct tcp_figures figures;

    tcp_figures(sites[slot].tcp, &figures);
    return figures.outsiders;
}

static inline void sites_set_up(void)
{
    memset(sites, 0, sizeof(sites));
}

static inline void sites_tear_down(void)
{
    for (uint32_t slot = 0; slot < SITES; slot++) {
        site_stop(slot);
    }
}

#endif
