#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/bench/line.h"
#include "tests/bench/native_parts.h"

#include <stdio.h>

enum {
    WARM_ROUNDS = 5
};

static const char path[] = "/load/k0000";

struct herd {
    uint32_t reading;  /* Watchers without the reply to their read. */
    uint32_t unaware;  /* Watchers without an event. */
    uint64_t event_us; /* When the last one had its event. */
};

static void take(struct clients *clients, struct client *client, const uint8_t *frame,
                 size_t len UNUSED)
{
    struct herd *herd = clients->own;

    if (clients_xid(frame) == ZK_XID_EVENT) {
        herd->unaware--;
        herd->event_us = os_now_us();
        clients_read(clients, client, ZK_GET_DATA, path, true);
        return;
    }
    if (clients_err(frame) != 0) {
        line_fail("a read is answered with error %d", clients_err(frame));
    }
    if (clients_xid(frame) == client->xid && client != &clients->all[0]) {
        herd->reading--;
    }
    clients->stop = herd->reading == 0 && herd->unaware == 0;
}

static void wait_all(struct clients *clients)
{
    struct herd *herd = clients->own;

    if (!clients_run(clients, os_now_ms() + PART_LIMIT_MS)) {
        line_fail("%u watchers have no event, %u no reply", herd->unaware, herd->reading);
    }
}

void part_watchers(const struct part *part)
{
    uint64_t *event_us = mem_zalloc(part->rounds, sizeof(*event_us));
    uint64_t *all_us = mem_zalloc(part->rounds, sizeof(*all_us));
    struct herd herd = {.reading = part->connections};
    struct clients clients;
    uint64_t cpu_ns = 0;

    /* Client 0 writes, all others watch. */
    clients_init(&clients, part->ports, part->servers, part->connections + 1);
    clients.own = &herd;
    clients_open(&clients, PART_LIMIT_MS);
    clients.on_frame = take;
    for (uint32_t i = 1; i < clients.count; i++) {
        clients_read(&clients, &clients.all[i], ZK_GET_DATA, path, true);
    }
    wait_all(&clients);
    for (uint32_t round = 0; round < WARM_ROUNDS + part->rounds; round++) {
        uint64_t begin_us = os_now_us();

        cpu_ns = round == WARM_ROUNDS ? part_cpu_ns(part) : cpu_ns;
        herd = (struct herd){.reading = part->connections, .unaware = part->connections};
        clients_write(&clients, &clients.all[0], ZK_SET_DATA, path, part->bytes);
        wait_all(&clients);
        if (round >= WARM_ROUNDS) {
            event_us[round - WARM_ROUNDS] = herd.event_us - begin_us;
            all_us[round - WARM_ROUNDS] = os_now_us() - begin_us;
        }
    }
    cpu_ns = part_cpu_ns(part) - cpu_ns;
    (void)printf("event_ms=%.1f all_ms=%.1f worst_ms=%.1f cpu_ms=%.2f\n",
                 (double)line_percentile(event_us, part->rounds, 0.5) / 1e3,
                 (double)line_percentile(all_us, part->rounds, 0.5) / 1e3,
                 (double)line_percentile(all_us, part->rounds, 1) / 1e3,
                 (double)cpu_ns / 1e6 / part->rounds);
    clients_close(&clients, PART_LIMIT_MS);
    clients_release(&clients);
    mem_free(event_us);
    mem_free(all_us);
}
