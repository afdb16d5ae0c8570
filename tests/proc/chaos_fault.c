/* Begins and ends faults. */
#include "base/check.h"
#include "tests/proc/chaos.h"
#include "tests/proc/disk.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

enum {
    FRESH_MS = 2000, /* An older view does not show the current leader. */
    /* Exit codes of a replica whose disk failed: during its start, and later. */
    DISK_FAILED_EARLY = 2,
    DISK_FAILED = 4
};

static uint32_t leader_now(struct chaos *chaos)
{
    uint32_t found = CHAOS_LEADER;
    uint32_t epoch = 0;

    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        struct chaos_view *view = &chaos->views[i];

        if (atomic_load(&view->leads) && atomic_load(&view->epoch) >= epoch &&
            atomic_load(&view->asked_ms) + FRESH_MS > os_now_ms()) {
            epoch = atomic_load(&view->epoch);
            found = i;
        }
    }
    return found;
}

/* ---- Processes. ---- */

static void start(struct chaos *chaos, uint32_t index)
{
    chaos->failed[index] = atomic_load(&chaos->faulty[index]->failed);
    ensemble_start(&chaos->ensemble, index);
}

static bool may_end(struct chaos *chaos, uint32_t index)
{
    return atomic_load(&chaos->faulty[index]->failed) != chaos->failed[index];
}

/* Restarts a replica that has ended although no fault holds it. Only an I/O error may be the
 * cause. */
static void check_running(struct chaos *chaos, uint32_t index)
{
    const struct replica *replica = &chaos->ensemble.replicas[index];
    char text[128];

    if (!ensemble_has_ended(&chaos->ensemble, index)) {
        return;
    }

    int code = WIFEXITED(replica->status) ? WEXITSTATUS(replica->status) : -1;

    (void)snprintf(text, sizeof(text), "replica %u ended by itself only after an I/O error",
                   replica->id);
    ensemble_check(&chaos->ensemble,
                   may_end(chaos, index) && (code == DISK_FAILED || code == DISK_FAILED_EARLY),
                   text);
    chaos->counts.ended++;
    start(chaos, index);
}

static void restart(struct chaos *chaos, uint32_t index)
{
    if (!ensemble_has_ended(&chaos->ensemble, index)) {
        ensemble_kill(&chaos->ensemble, index);
    }
    start(chaos, index);
}

static bool begin_kill_all(struct chaos *chaos, const struct chaos_fault *fault)
{
    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        if (!chaos->holder[i]) {
            ensemble_signal(&chaos->ensemble, i, SIGKILL);
            chaos->holder[i] = fault;
        }
    }
    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        if (chaos->holder[i] == fault) {
            (void)ensemble_wait_end(&chaos->ensemble, i);
        }
    }
    return true;
}

static void end_kill_all(struct chaos *chaos, const struct chaos_fault *fault)
{
    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        if (chaos->holder[i] == fault) {
            start(chaos, i);
            chaos->holder[i] = NULL;
        }
    }
}

static bool begin_process(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t index = fault->met;

    if (fault->kind == CHAOS_KILL_ALL) {
        return begin_kill_all(chaos, fault);
    }
    if (chaos->holder[index]) {
        return false;
    }
    if (fault->kind == CHAOS_KILL) {
        ensemble_kill(&chaos->ensemble, index);
    } else {
        ensemble_signal(&chaos->ensemble, index, fault->kind == CHAOS_TERM ? SIGTERM : SIGSTOP);
    }
    chaos->holder[index] = fault;
    return true;
}

static void end_process(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t index = fault->met;

    if (fault->kind == CHAOS_KILL_ALL) {
        end_kill_all(chaos, fault);
        return;
    }
    if (fault->kind == CHAOS_PAUSE) {
        ensemble_signal(&chaos->ensemble, index, SIGCONT);
    } else {
        restart(chaos, index);
    }
    chaos->holder[index] = NULL;
}

/* ---- Disks. ---- */

static uint32_t harmed_count(const struct chaos *chaos)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        count += chaos->harmed_ms[i] != 0;
    }
    return count;
}

/* Acknowledged data must be on unharmed disks of a majority. */
static bool may_harm(const struct chaos *chaos, uint32_t index)
{
    return chaos->harmed_ms[index] == 0 && harmed_count(chaos) < (chaos->ensemble.count - 1) / 2;
}

static bool harm(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t index = fault->met;

    if (!may_harm(chaos, index)) {
        return false;
    }
    ensemble_kill(&chaos->ensemble, index);
    chaos->holder[index] = fault;
    if (fault->kind == CHAOS_EMPTY) {
        ensemble_empty(&chaos->ensemble, index);
    } else if (!disk_flip_bit(&chaos->ensemble, index, fault->per_mille)) {
        return true; /* The directory is almost empty: the fault is just a kill. */
    }
    chaos->harmed_ms[index] = os_now_ms();
    return true;
}

static bool begin_disk(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t index = fault->met;

    if (chaos->holder[index] || (fault->kind == CHAOS_FULL && !chaos->small_disks)) {
        return false;
    }
    if (fault->kind == CHAOS_FULL) {
        disk_fill(&chaos->ensemble, index);
        return true;
    }
    if (fault->kind == CHAOS_WRITE_ERROR || fault->kind == CHAOS_SYNC_ERROR) {
        chaos->holder[index] = fault;
        atomic_store(&chaos->faulty[index]->writes_fail, fault->kind == CHAOS_WRITE_ERROR);
        atomic_store(&chaos->faulty[index]->syncs_fail, fault->kind == CHAOS_SYNC_ERROR);
        return true;
    }
    return harm(chaos, fault);
}

static void end_disk(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t index = fault->met;

    if (fault->kind == CHAOS_FULL) {
        disk_free(&chaos->ensemble, index);
    } else if (fault->kind == CHAOS_WRITE_ERROR || fault->kind == CHAOS_SYNC_ERROR) {
        atomic_store(&chaos->faulty[index]->writes_fail, false);
        atomic_store(&chaos->faulty[index]->syncs_fail, false);
        chaos->holder[index] = NULL;
        check_running(chaos, index);
    } else {
        chaos->holder[index] = NULL;
        chaos->harmed_ms[index] = chaos->harmed_ms[index] ? os_now_ms() : 0;
        start(chaos, index);
    }
}

/* A harmed disk is repaired when the replica and a leader both report its vote, after its
 * restart. */
static void check_repaired(struct chaos *chaos, uint32_t index)
{
    uint32_t leader = leader_now(chaos);
    uint64_t since_ms = chaos->harmed_ms[index];

    if (since_ms == 0 || chaos->holder[index] || leader == CHAOS_LEADER ||
        atomic_load(&chaos->views[index].asked_ms) <= since_ms ||
        atomic_load(&chaos->views[leader].asked_ms) <= since_ms ||
        !atomic_load(&chaos->views[index].votes) ||
        !(atomic_load(&chaos->views[leader].voters) & 1U << index)) {
        return;
    }

    uint64_t took_ms = os_now_ms() - since_ms;

    chaos->harmed_ms[index] = 0;
    chaos->counts.refills++;
    if (took_ms > chaos->counts.refill_max_ms) {
        chaos->counts.refill_max_ms = took_ms;
    }
}

/* ---- The network. ---- */

static bool is_among(const struct chaos_fault *fault, uint32_t index)
{
    return index == fault->met || index == fault->other;
}

/* True if the fault affects this direction. */
static bool concerns(const struct chaos_fault *fault, uint32_t from, uint32_t to)
{
    bool comes = to == fault->met;
    bool goes = from == fault->met;
    bool within = is_among(fault, from) && is_among(fault, to);
    bool across = is_among(fault, from) != is_among(fault, to);
    const bool by_kind[CHAOS_KINDS] = {
        [CHAOS_ONE_WAY] = goes && to == fault->other,
        [CHAOS_TWO_WAY] = within,
        [CHAOS_DEAF] = comes,
        [CHAOS_MUTE] = goes,
        [CHAOS_ALONE] = comes || goes,
        [CHAOS_SPLIT] = across,
        [CHAOS_SLOW_LINK] = within,
        [CHAOS_SLOW_REPLICA] = comes || goes,
    };

    return by_kind[fault->kind];
}

static void worsen(struct network_quality *quality, const struct network_quality *by)
{
    quality->blocked = quality->blocked || by->blocked;
    if (by->delay_ms > quality->delay_ms) {
        quality->delay_ms = by->delay_ms;
    }
    if (by->bytes_per_s != 0 &&
        (quality->bytes_per_s == 0 || by->bytes_per_s < quality->bytes_per_s)) {
        quality->bytes_per_s = by->bytes_per_s;
    }
}

/* Each direction gets the quality of its worst active fault. */
static void apply_direction(struct chaos *chaos, uint32_t from, uint32_t to)
{
    struct network_quality quality = {.blocked = false};

    for (uint32_t i = 0; i < chaos->plan.count; i++) {
        const struct chaos_fault *fault = &chaos->plan.faults[i];

        if (fault->state == CHAOS_ACTIVE && concerns(fault, from, to)) {
            worsen(&quality, &fault->quality);
        }
    }
    network_set(&chaos->network, from, to, &quality);
}

static void apply_network(struct chaos *chaos)
{
    for (uint32_t from = 0; from < chaos->ensemble.count; from++) {
        for (uint32_t to = 0; to < chaos->ensemble.count; to++) {
            if (from != to) {
                apply_direction(chaos, from, to);
            }
        }
    }
}

/* ---- All kinds. ---- */

static bool is_of_process(enum chaos_kind kind)
{
    return kind <= CHAOS_PAUSE;
}

static bool is_of_disk(enum chaos_kind kind)
{
    return kind >= CHAOS_FULL;
}

static void choose_victim(struct chaos *chaos, struct chaos_fault *fault)
{
    uint32_t count = chaos->ensemble.count;
    uint32_t leader = leader_now(chaos);

    fault->met = fault->victim;
    if (fault->victim == CHAOS_LEADER) {
        fault->met = leader != CHAOS_LEADER ? leader : (fault->other + 1) % count;
    }
    if (fault->other == fault->met) {
        fault->other = (fault->other + 1) % count;
    }
}

static void note_begin(struct chaos *chaos, const struct chaos_fault *fault)
{
    uint32_t active = 0;

    for (uint32_t i = 0; i < chaos->plan.count; i++) {
        active += chaos->plan.faults[i].state == CHAOS_ACTIVE;
    }
    chaos->counts.done[fault->kind]++;
    chaos->counts.overlaps += active > 1;
    if (active > chaos->counts.overlap_max) {
        chaos->counts.overlap_max = active;
    }
}

static void begin(struct chaos *chaos, struct chaos_fault *fault)
{
    bool begun = true;

    choose_victim(chaos, fault);
    if (is_of_process(fault->kind)) {
        begun = begin_process(chaos, fault);
    } else if (is_of_disk(fault->kind)) {
        begun = begin_disk(chaos, fault);
    } else if (fault->kind == CHAOS_CLOCK) {
        atomic_store(&chaos->faulty[fault->met]->wall_offset_ms, fault->offset_ms);
    } else if (fault->kind == CHAOS_RESET) {
        network_cut(&chaos->network, fault->met, fault->other);
    }
    fault->state = begun ? CHAOS_ACTIVE : CHAOS_OVER;
    if (!begun) {
        chaos->counts.withheld[fault->kind]++;
        return;
    }
    note_begin(chaos, fault);
    apply_network(chaos);
}

static void end(struct chaos *chaos, struct chaos_fault *fault)
{
    fault->state = CHAOS_OVER;
    if (is_of_process(fault->kind)) {
        end_process(chaos, fault);
    } else if (is_of_disk(fault->kind)) {
        end_disk(chaos, fault);
    } else if (fault->kind == CHAOS_CLOCK) {
        atomic_store(&chaos->faulty[fault->met]->wall_offset_ms, 0);
    } else {
        apply_network(chaos);
    }
}

void chaos_step(struct chaos *chaos, uint64_t round_start_ms)
{
    uint64_t now_ms = os_now_ms() - round_start_ms;

    for (uint32_t i = 0; i < chaos->plan.count; i++) {
        struct chaos_fault *fault = &chaos->plan.faults[i];

        if (fault->state == CHAOS_PLANNED && now_ms >= fault->start_ms) {
            begin(chaos, fault);
        } else if (fault->state == CHAOS_ACTIVE && now_ms >= fault->start_ms + fault->lasts_ms) {
            end(chaos, fault);
        }
    }
    for (uint32_t i = 0; i < chaos->ensemble.count; i++) {
        if (!chaos->holder[i]) {
            check_running(chaos, i);
        }
        check_repaired(chaos, i);
    }
}

void chaos_heal(struct chaos *chaos)
{
    for (uint32_t i = 0; i < chaos->plan.count; i++) {
        if (chaos->plan.faults[i].state == CHAOS_ACTIVE) {
            end(chaos, &chaos->plan.faults[i]);
        }
        chaos->plan.faults[i].state = CHAOS_OVER;
    }
}
