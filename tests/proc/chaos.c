/* The ensemble under the faults: start, rounds, and recovery. */
#include "tests/proc/chaos.h"

#include "base/check.h"
#include "tests/proc/disk.h"

#include <stdio.h>
#include <string.h>

enum {
    REPLICAS = ENSEMBLE_MAX,
    HEAL_MS = 60000 /* From the end of all faults until all are in sync. */
};

/* ---- Recovery. ---- */

static bool is_in_sync(struct chaos *chaos, uint64_t since_ms)
{
    uint32_t all = (1U << chaos->ensemble.count) - 1;
    bool led = false;

    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        struct chaos_view *view = &chaos->views[i];

        if (atomic_load(&view->asked_ms) < since_ms || !atomic_load(&view->votes) ||
            chaos->harmed_ms[i] != 0) {
            return false;
        }
        led = led || (atomic_load(&view->leads) && atomic_load(&view->voters) == all);
    }
    return led;
}

static void note_epoch(struct chaos *chaos)
{
    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        uint32_t epoch = atomic_load(&chaos->views[i].epoch);

        if (epoch > chaos->counts.last_epoch) {
            chaos->counts.last_epoch = epoch;
        }
    }
}

static void wait_until_in_sync(struct chaos *chaos)
{
    uint64_t since_ms = os_now_ms();

    while (!is_in_sync(chaos, since_ms)) {
        ensemble_check(&chaos->ensemble, os_now_ms() < since_ms + HEAL_MS,
                       "all replicas are in step, and vote, within 60 s of the last fault");
        chaos_step(chaos, since_ms);
        ensemble_breathe();
    }
    ensemble_wait_all_ready(&chaos->ensemble);

    uint64_t took_ms = os_now_ms() - since_ms;

    if (took_ms > chaos->counts.heal_max_ms) {
        chaos->counts.heal_max_ms = took_ms;
    }
    note_epoch(chaos);
}

/* ---- Start, rounds, end. ---- */

void chaos_open(struct chaos *chaos, const char *keys)
{
    struct ensemble *ensemble = &chaos->ensemble;

    memset(chaos, 0, sizeof(*chaos));
    chaos->small_disks = disk_may_mount();
    if (!chaos->small_disks) {
        print_message("skips full disks: mounting a small tmpfs needs root\n");
    }
    ensemble_open(ensemble, REPLICAS, keys);
    ensemble->faulty = true;
    network_start(&chaos->network, ensemble);
    for (uint32_t i = 0; i < REPLICAS; i++) {
        chaos->faulty[i] = faulty_open(ensemble->replicas[i].faulty);
        if (chaos->small_disks) {
            disk_mount(ensemble, i, CHAOS_DISK_BYTES);
        }
        ensemble_start(ensemble, i);
        chaos_view_start(&chaos->views[i], ensemble->replicas[i].client_port, i + 1);
    }
    wait_until_in_sync(chaos);
    chaos->counts = (struct chaos_counts){.first_epoch = chaos->counts.last_epoch};
}

void chaos_close(struct chaos *chaos, bool keep_logs)
{
    struct ensemble *ensemble = &chaos->ensemble;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        ensemble_kill(ensemble, i);
        chaos_view_stop(&chaos->views[i]);
        if (chaos->small_disks) {
            disk_unmount(ensemble, i);
        }
    }
    network_stop(&chaos->network);
    if (keep_logs) {
        print_message("the logs are kept in %s\n", ensemble->dir);
    } else {
        ensemble_close(ensemble);
    }
}

void chaos_play(struct chaos *chaos, uint32_t round_ms)
{
    uint64_t start_ms = os_now_ms();

    while (os_now_ms() < start_ms + round_ms) {
        chaos_step(chaos, start_ms);
        ensemble_breathe();
    }
    chaos_heal(chaos);
    wait_until_in_sync(chaos);
}
