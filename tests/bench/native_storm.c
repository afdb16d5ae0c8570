#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "tests/bench/line.h"
#include "tests/bench/native_parts.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    WRITE_BYTES = 100
};

/* How far a session is since the kill. */
enum step {
    STEP_HELD, /* Its connection is not lost. */
    STEP_LOST,
    STEP_READING, /* Taken over; it reads. */
    STEP_SERVED,  /* The read is answered. */
    STEP_WRITING,
    STEP_WRITTEN
};

struct storm {
    uint64_t begin_ms;
    uint32_t losses;   /* Connections that ended. */
    uint32_t unserved; /* Sessions that lost their connection and were not served since. */
    uint32_t written;
    uint64_t first_ms;  /* The first session was served. */
    uint64_t served_ms; /* The last one that lost its connection was served. */
};

static uint8_t *step_of(const struct clients *clients, const struct client *client)
{
    uint8_t *steps = clients->all[0].own;

    return &steps[client - clients->all];
}

static void write_one(struct clients *clients, struct client *client)
{
    char path[PART_PATH_BYTES];

    part_path(path, (uint32_t)(client - clients->all));
    *step_of(clients, client) = STEP_WRITING;
    clients_write(clients, client, ZK_SET_DATA, path, WRITE_BYTES);
}

static void lost(struct clients *clients, struct client *client)
{
    struct storm *storm = clients->own;
    uint8_t *step = step_of(clients, client);

    storm->losses++;
    if (*step == STEP_HELD || *step >= STEP_SERVED) {
        storm->unserved++;
    }
    if (*step == STEP_WRITTEN) {
        storm->written--;
    }
    *step = STEP_LOST;
}

static void taken_over(struct clients *clients, struct client *client)
{
    char path[PART_PATH_BYTES];

    part_path(path, (uint32_t)(client - clients->all));
    *step_of(clients, client) = STEP_READING;
    clients_read(clients, client, ZK_EXISTS, path, false);
}

static void take(struct clients *clients, struct client *client, const uint8_t *frame,
                 size_t len UNUSED)
{
    struct storm *storm = clients->own;
    uint8_t *step = step_of(clients, client);

    if (clients_err(frame) != 0) {
        line_fail("a request is answered with error %d", clients_err(frame));
    }
    if (*step == STEP_READING) {
        storm->served_ms = os_now_ms() - storm->begin_ms;
        storm->first_ms = storm->first_ms > 0 ? storm->first_ms : storm->served_ms;
        storm->unserved--;
        *step = STEP_SERVED;
        write_one(clients, client);
    } else if (*step == STEP_WRITING) {
        *step = STEP_WRITTEN;
        storm->written++;
        clients->stop = storm->written == clients->count && storm->unserved == 0;
    }
}

/* Waits for the first session that is served, lets those that kept their connection write, and
 * waits for all. */
static void wait_all(struct clients *clients)
{
    struct storm *storm = clients->own;
    uint64_t end_ms = os_now_ms() + PART_LIMIT_MS;

    while (storm->first_ms == 0 && os_now_ms() < end_ms) {
        (void)clients_run(clients, os_now_ms() + 1);
    }
    for (uint32_t i = 0; i < clients->count; i++) {
        if (*step_of(clients, &clients->all[i]) == STEP_HELD) {
            write_one(clients, &clients->all[i]);
        }
    }
    if (!clients_run(clients, end_ms)) {
        line_fail("%u sessions were not served, %u of %u have written", storm->unserved,
                  storm->written, clients->count);
    }
}

void part_storm(const struct part *part)
{
    struct storm storm = {.first_ms = 0};
    struct clients clients;
    uint64_t begin_ms = os_now_ms();

    clients_init(&clients, part->ports, part->servers, part->connections);
    clients.own = &storm;
    clients.opening_at_once = clients.count;
    clients.stays = true;
    clients_open(&clients, PART_LIMIT_MS);
    uint64_t open_ms = os_now_ms() - begin_ms;
    uint64_t open_refusals = clients.refusals;

    clients.all[0].own = mem_zalloc(clients.count, 1);
    clients.on_lost = lost;
    clients.on_open = taken_over;
    clients.on_frame = take;
    if (kill((pid_t)part->pids[part->victim], SIGKILL) != 0) {
        line_fail("cannot kill process %u", part->pids[part->victim]);
    }
    storm.begin_ms = os_now_ms();
    wait_all(&clients);
    (void)printf(
        "open_ms=%llu open_refusals=%llu losses=%u expired=%llu refusals=%llu first_ms=%llu "
        "served_ms=%llu written_ms=%llu\n",
        (unsigned long long)open_ms, (unsigned long long)open_refusals, storm.losses,
        (unsigned long long)clients.expired, (unsigned long long)(clients.refusals - open_refusals),
        (unsigned long long)storm.first_ms, (unsigned long long)storm.served_ms,
        (unsigned long long)(os_now_ms() - storm.begin_ms));
    mem_free(clients.all[0].own);
    clients_release(&clients);
}
