#include "zk/wire.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/bench/line.h"
#include "tests/bench/native_parts.h"
#include "tests/lib/zk_ask.h"

#include <stdio.h>
#include <string.h>

enum {
    BUCKETS_PER_OCTAVE = 32, /* So a percentile is exact to 3 %. */
    OCTAVES = 40,
    BATCH_BYTES = 64 << 20,
    KEY_AT = 23 /* Digits of the key in a request: behind length, xid, type, length, "/load/k". */
};

struct rate {
    const struct part *part;
    struct buf frame; /* A request; its xid and its path are changed for each. */
    struct buf batch;
    uint64_t now_ns; /* Of the bytes that are being read; 0: not asked yet. */
    bool counts;
    uint64_t done;
    uint64_t buckets[OCTAVES * BUCKETS_PER_OCTAVE];
};

/* A connection: when each of its open requests was sent, by xid modulo the window. */
struct lane {
    uint32_t in_flight;
    uint32_t key;
    uint64_t sent_ns[];
};

/* ---- Latencies ---- */

static uint32_t bucket_of(uint64_t ns)
{
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(ns | BUCKETS_PER_OCTAVE);
    uint32_t shift = octave - 5; /* 32 buckets are five bits. */
    uint64_t bucket = (uint64_t)shift * BUCKETS_PER_OCTAVE + (ns >> shift);

    return (uint32_t)(bucket < (uint64_t)OCTAVES * BUCKETS_PER_OCTAVE
                          ? bucket
                          : OCTAVES * BUCKETS_PER_OCTAVE - 1);
}

/* The middle of a bucket. */
static double bucket_us(uint32_t bucket)
{
    uint32_t shift = bucket < 2 * BUCKETS_PER_OCTAVE ? 0 : bucket / BUCKETS_PER_OCTAVE - 1;
    uint64_t low = (uint64_t)(bucket - shift * BUCKETS_PER_OCTAVE) << shift;

    return ((double)low + (double)(UINT64_C(1) << shift) / 2) / 1000;
}

static double percentile_us(const struct rate *rate, double share)
{
    uint64_t left = (uint64_t)((double)rate->done * share);

    for (uint32_t i = 0; i < OCTAVES * BUCKETS_PER_OCTAVE; i++) {
        if (left < rate->buckets[i]) {
            return bucket_us(i);
        }
        left -= rate->buckets[i];
    }
    return 0;
}

/* ---- Requests ---- */

static void build_frame(struct rate *rate, int32_t type)
{
    struct buf *out = &rate->frame;
    char path[PART_PATH_BYTES];
    uint8_t *data = mem_zalloc(1, rate->part->bytes);

    part_path(path, 0);
    buf_init(out, BATCH_BYTES);
    if (type == ZK_SET_DATA) {
        zk_ask_set(out, 0, path, slice_make(data, rate->part->bytes), -1);
    } else {
        zk_ask_path(out, 0, type, path, 0);
    }
    mem_free(data);
}

static void set_key(struct rate *rate, uint32_t key)
{
    uint8_t *digits = rate->frame.data + KEY_AT;

    for (int i = 3; i >= 0; i--) {
        digits[i] = (uint8_t)('0' + key % 10);
        key /= 10;
    }
}

/* Sends as many requests as the window has room for, in one write. */
static void refill(struct clients *clients, struct client *client)
{
    struct rate *rate = clients->own;
    struct lane *lane = client->own;
    uint32_t window = rate->part->window;
    uint64_t now_ns = os_now_ns();

    rate->now_ns = 0;
    buf_clear(&rate->batch);
    for (; lane->in_flight < window; lane->in_flight++) {
        client->xid = client->xid == INT32_MAX ? 1 : client->xid + 1;
        lane->key = (lane->key + 1) % PART_KEYS;
        zk_store_int(rate->frame.data + ZK_INT_BYTES, client->xid);
        set_key(rate, lane->key);
        lane->sent_ns[(uint32_t)client->xid % window] = now_ns;
        (void)buf_append_slice(&rate->batch, buf_slice(&rate->frame));
    }
    if (rate->batch.len > 0) {
        clients_send(clients, client, rate->batch.data, rate->batch.len);
    }
}

static void take_reply(struct clients *clients, struct client *client, const uint8_t *frame,
                       size_t len UNUSED)
{
    struct rate *rate = clients->own;
    struct lane *lane = client->own;
    uint32_t xid = (uint32_t)clients_xid(frame);

    if (clients_err(frame) != 0 || xid != (uint32_t)client->xid - lane->in_flight + 1) {
        line_fail("request %u is answered with error %d", xid, clients_err(frame));
    }
    lane->in_flight--;
    if (rate->counts) {
        rate->now_ns = rate->now_ns > 0 ? rate->now_ns : os_now_ns();
        rate->buckets[bucket_of(rate->now_ns - lane->sent_ns[xid % rate->part->window])]++;
        rate->done++;
    }
}

void part_rate(const struct part *part, int32_t type)
{
    struct rate *rate = mem_zalloc(1, sizeof(*rate));
    struct clients clients;

    rate->part = part;
    build_frame(rate, type);
    buf_init(&rate->batch, BATCH_BYTES);
    clients_init(&clients, part->ports, part->servers, part->connections);
    clients.own = rate;
    clients_open(&clients, PART_LIMIT_MS);
    clients.on_frame = take_reply;
    clients.on_batch = refill;
    for (uint32_t i = 0; i < part->connections; i++) {
        struct lane *lane = mem_zalloc(1, sizeof(*lane) + part->window * sizeof(lane->sent_ns[0]));

        lane->key = i * (PART_KEYS / part->connections + 1);
        clients.all[i].own = lane;
        refill(&clients, &clients.all[i]);
    }
    (void)clients_run(&clients, os_now_ms() + part->warm_ms);

    uint64_t begin_ns = os_now_ns();
    uint64_t cpu_ns = part_cpu_ns(part);
    uint64_t own_us = os_cpu_us();

    rate->counts = true;
    (void)clients_run(&clients, os_now_ms() + part->ms);
    cpu_ns = part_cpu_ns(part) - cpu_ns;
    own_us = os_cpu_us() - own_us;
    double took_s = (double)(os_now_ns() - begin_ns) / 1e9;

    if (rate->done == 0) {
        line_fail("no request was answered");
    }
    (void)printf("rate=%.0f p50_us=%.0f p99_us=%.0f cpu_ms=%.2f client_ms=%.2f\n",
                 (double)rate->done / took_s, percentile_us(rate, 0.5), percentile_us(rate, 0.99),
                 (double)cpu_ns / 1e3 / (double)rate->done, (double)own_us / (double)rate->done);
    for (uint32_t i = 0; i < part->connections; i++) {
        mem_free(clients.all[i].own);
    }
    clients_close(&clients, PART_LIMIT_MS);
    clients_release(&clients);
    buf_release(&rate->frame);
    buf_release(&rate->batch);
    mem_free(rate);
}
