/*
 * sim_totals.h - counts of a run, summed over its seeds and printed at its end: many seeds without
 * an election, a TRUNC, a SNAP or a quarantine prove little.
 */
#ifndef TESTS_SIM_SIM_TOTALS_H
#define TESTS_SIM_SIM_TOTALS_H

#include <stdint.h>

struct sim_totals {
    uint64_t seeds;
    uint64_t virtual_us;
    uint64_t events;
    uint64_t ops;
    uint64_t acked;
    uint64_t errors; /* Operations that failed at a zxid. */
    uint64_t unknown;
    uint64_t refused;
    uint64_t reads;
    uint64_t elections;
    uint64_t established;
    uint64_t truncs;
    uint64_t snaps_sent;
    uint64_t snaps_taken;
    uint64_t crashes;
    uint64_t power_cuts;
    uint64_t quarantines;
    uint64_t admissions;
    uint64_t raises;          /* Proposals of a higher feature level. */
    uint64_t unread;          /* Processes that ended because they did not know the level. */
    uint64_t changes;         /* Configurations that clients have asked for, ... */
    uint64_t changes_refused; /* ... and what was refused. */
    uint64_t emptied;
    uint64_t swapped; /* Disks that came back from the shelf. */
    uint64_t rotted;
    uint64_t partitions;
    uint64_t strikes; /* Faults while a configuration was pending. */
    uint64_t pauses;
    uint64_t full;
    uint64_t failing;   /* Disks that failed for a while, ... */
    uint64_t io_errors; /* ... and their I/O errors. */
    uint64_t decayed;   /* Disks whose closed files rotted in use. */
    uint64_t spoilt;    /* Wrong states after loading a snapshot. */
    uint64_t tree_full; /* Operations refused because the tree had no room. */
    uint64_t committed;
    uint64_t messages;
    uint64_t opened; /* Sessions. */
    uint64_t closed;
    uint64_t expired;
    uint64_t moved;
    uint64_t ephemerals;
    uint64_t retries;
    uint64_t replayed;  /* Answers repeated for an idempotency key. */
    uint64_t delivered; /* Events of watches. */
    uint64_t resumed;   /* Watches that resumed on another socket. */
    uint64_t diffed;
    uint64_t gaps;
    uint64_t lost;        /* Subscribers that fell behind. */
    uint64_t reaped;      /* TTL znodes. */
    uint64_t progress;    /* Times that all TTL znodes and remembered results had ended. */
    uint64_t converge_ms; /* Longest convergence. */
};

#endif
