/*
 * The members change under load: from three replicas to five and back to three, then each of the
 * three is replaced by a new one. A thousand sessions watch a znode meanwhile. No write fails for a
 * client that retries what was not applied, no session ends, no event is lost, and the longest time
 * without an acknowledged write is below a bound.
 */
#include "tests/lib/unit.h"
#include "tests/proc/crowd.h"
#include "tests/proc/load.h"
#include "tests/proc/membership.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REPLICAS = 5,
    FOUNDERS = 3,
    WRITERS = 4,
    WRITES = 20,      /* Of the watched znode, after each change. */
    GAP_MS = 50,      /* Longest time without an acknowledged write, */
    HANDOVER_MS = 300 /* and when the leader goes. */
};

static struct ensemble ensemble;
static struct crowd crowd;
static struct load load;

/* ---- The longest time without an acknowledged write ---- */

struct gaps {
    struct thread thread;
    _Atomic bool stopping;
    _Atomic uint64_t longest_us; /* Since it was read last. */
};

static struct gaps gaps;

static void look_for_gaps(void *arg)
{
    uint64_t at_us = os_now_us();
    uint32_t acked = load_acked(&load);

    (void)arg;
    while (!atomic_load(&gaps.stopping)) {
        uint64_t now_us = os_now_us();

        if (load_acked(&load) != acked) {
            acked = load_acked(&load);
            at_us = now_us;
        } else if (now_us - at_us > atomic_load(&gaps.longest_us)) {
            atomic_store(&gaps.longest_us, now_us - at_us);
        }
        (void)poll(NULL, 0, 1);
    }
}

static void end_step(const char *what, uint32_t bound_ms)
{
    uint64_t longest_us = 0;

    crowd_write(&crowd, &ensemble, WRITES);
    crowd_check(&crowd, &ensemble);
    longest_us = atomic_exchange(&gaps.longest_us, 0);
    print_message("%-40s longest time without a write %6.1f ms (at most %u)\n", what,
                  (double)longest_us / 1e3, bound_ms);
    ENSEMBLE_CHECK(&ensemble, longest_us <= bound_ms * UINT64_C(1000));
}

/* ---- Changes of the members ---- */

static void add(uint32_t index, uint32_t at)
{
    struct membership_call call;

    membership_add(&ensemble, index, &call);
    membership_change(&ensemble, at, &call);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
}

static void promote(uint32_t index, uint32_t at)
{
    struct membership_call call;

    membership_role(index, "voter", &call);
    membership_change(&ensemble, at, &call);
}

static void remove_member(uint32_t index, uint32_t at)
{
    struct membership_call call;

    membership_remove(index, &call);
    membership_change(&ensemble, at, &call);
    membership_wait_removed(&ensemble, index);
}

static void replace(uint32_t old, uint32_t new)
{
    struct membership_call call;

    add(new, old);
    membership_replace(old, new, &call);
    membership_change(&ensemble, new, &call);
    membership_wait_removed(&ensemble, old);
}

/* ---- The run ---- */

static void open_three(void)
{
    membership_open(&ensemble, REPLICAS, FOUNDERS,
                    ENSEMBLE_SUPER "maxStreams=4000\nmaxConnectionsPerAddress=4000\n");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

static void grow_and_shrink(void)
{
    uint32_t leader = 0;

    add(3, 0);
    end_step("replica 4 is added", GAP_MS);
    add(4, 0);
    end_step("replica 5 is added", GAP_MS);
    promote(3, 0);
    end_step("replica 4 votes", GAP_MS);
    promote(4, 0);
    end_step("replica 5 votes", GAP_MS);
    leader = ensemble_wait_leader(&ensemble);
    remove_member(leader, 4);
    end_step("the leader is removed", HANDOVER_MS);
    leader = ensemble_wait_leader(&ensemble);
    for (uint32_t i = 0; i < FOUNDERS; i++) { /* One that does not lead. */
        if (i != leader && ensemble.replicas[i].pid != 0) {
            remove_member(i, 4);
            break;
        }
    }
    end_step("another one is removed", GAP_MS);
}

static void replace_all(void)
{
    for (uint32_t round = 0; round < FOUNDERS; round++) {
        uint32_t leader = ensemble_wait_leader(&ensemble);
        uint32_t old = round == 0 ? leader : 0;
        uint32_t new = 0;

        for (uint32_t i = 0; i < REPLICAS; i++) {
            if (ensemble.replicas[i].pid != 0 && i != leader && round > 0) {
                old = i;
            }
            if (ensemble.replicas[i].pid == 0) {
                new = i;
            }
        }
        replace(old, new);
        end_step(round == 0 ? "the leader is replaced" : "a follower is replaced",
                 round == 0 ? HANDOVER_MS : GAP_MS);
    }
}

TEST(the_members_change_under_load, open_three, close_all)
{
    uint32_t retries = 0;

    crowd_start(&crowd, &ensemble, CROWD_MAX);
    load_start_kind(&load, &ensemble, WRITERS, LOAD_PATIENT);
    load_wait(&load, &ensemble, 1000);
    thread_start(&gaps.thread, "gaps", look_for_gaps, NULL);
    end_step("nothing changes", GAP_MS);
    grow_and_shrink();
    replace_all();
    atomic_store(&gaps.stopping, true);
    thread_join(&gaps.thread);
    load_stop(&load, &ensemble);
    for (uint32_t i = 0; i < WRITERS; i++) {
        retries += atomic_load(&load.writers[i].retries);
    }
    print_message("%u writes, %u retries; %" PRIu64 " events, %" PRIu64 " streams resumed, %" PRIu64
                  " of them with a difference\n",
                  load_acked(&load), retries, atomic_load(&crowd.events),
                  atomic_load(&crowd.resumes), atomic_load(&crowd.diffs));
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (ensemble.replicas[i].pid != 0) {
            load_verify(&load, &ensemble, i);
        }
    }
    load_release(&load);
    crowd_stop(&crowd);
}

int main(int argc, char **argv)
{
    web_setup();
    return unit_run(argc, argv);
}
