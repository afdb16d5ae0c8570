/*
 * sim_knobs.h - what a seed draws before its run begins (sim_swarm.c): the shape of the ensemble,
 * its limits, the work of the clients, and how often each kind of fault strikes.
 */
#ifndef TESTS_SIM_SIM_KNOBS_H
#define TESTS_SIM_SIM_KNOBS_H

#include "tests/lib/draw.h"
#include "zab/zab.h"

enum {
    SIM_RATES = 4
};

/* The mean time between two random faults of a kind; 0: never. */
struct sim_knobs {
    uint32_t nodes;   /* Machines. */
    uint32_t members; /* The first `members` nodes, with observers, found the ensemble. */
    uint32_t voters;  /* The first `voters` nodes are voters from the founding on. */
    uint32_t clients;
    bool lanes; /* A client sends all its requests to a node over one socket. */
    struct zab_limits limits;
    uint32_t snap_count;
    uint64_t segment_bytes;
    uint32_t snapshots_keep;
    uint64_t keep_bytes_max;        /* maxRefillLogBytes. */
    uint32_t link_rates[SIM_RATES]; /* Bytes per ms of each direction, to draw from; 0: no limit. */
    uint32_t queue_bytes;           /* Limit of each connection's queue; 0: no limit. */
    uint32_t requests_max;
    uint32_t forward_bytes; /* Limit of forwarded requests that wait in the leader. */
    uint32_t slice_bytes;   /* Part of our own snapshot that is written at a time. */
    uint32_t pad_bytes;     /* Added to the data of each write. */
    uint32_t delay_min_us;
    uint32_t delay_max_us;
    uint32_t delay_tail_ppm; /* Share of packets that take ten times as long. */
    uint32_t disk_min_us;
    uint32_t disk_max_us;
    uint32_t drift_ppm; /* Largest drift of a clock, in both directions. */
    uint32_t think_ms;  /* Longest pause of a client between requests. */
    uint32_t burst_ppm; /* Share of client turns that send many requests at once. */
    uint32_t lost_ppm;  /* Share of answers that never reach the client. */
    /* Coordination. */
    uint32_t sessions;          /* Limit for each client; 0: no sessions. */
    uint32_t timeout_ticks_max; /* Longest session timeout, at least 2. */
    uint32_t close_ppm;         /* Share of a client's turns that close a session. */
    uint32_t ephemerals_max;    /* Limit for each session. */
    uint32_t acl_ppm;        /* Share of writes that set an ACL, and of creates that carry one. */
    uint32_t quota_ppm;      /* Share of writes that set the one quota. */
    uint32_t key_ppm;        /* Share of writes with an idempotency key. */
    uint32_t remembered_max; /* Limit of remembered results. */
    uint32_t remember_ms;    /* They are kept for so much transaction time. */
    uint32_t watch_ppm;      /* Share of reads that register a watch; 0: no watches at all. */
    uint32_t window_sets;    /* Transactions in the window of recent changes. */
    uint32_t tree_bytes;     /* Upper end for a node's maxTreeBytes; 0: no limit. */
    uint32_t front_max_us;   /* A front end looks at the window after this delay at most. */
    /* Share of starts with the newer of the two releases of the moment; 0: all processes run one
     * release, which knows no feature level. */
    uint32_t newest_ppm;
    uint32_t newest_after_ms; /* From then on all start with the newest release. */
    /* Mean time between two requests for another configuration; 0: the members stay. */
    uint32_t change_ms;
    uint32_t join_ms;   /* Mean time between two machines that join without a list; 0: none. */
    bool auto_join;     /* Leaders add them by themselves. */
    uint32_t bootstrap; /* Replicas 1 to this one found, without a list; 0: those of the list. */
    /* Faults. */
    uint32_t crash_ms;     /* A process or its machine dies at a random instant. */
    uint32_t crash_fx_ms;  /* ... in the middle of a list of effects. */
    uint32_t crash_vfs_ms; /* ... in the middle of a disk operation. */
    uint32_t power_ms;     /* All machines lose power at once. */
    uint32_t stop_ms;      /* Clean shutdown and restart. */
    uint32_t power_ppm;    /* Share of crashes that are power cuts. */
    uint32_t down_max_ms;  /* A dead process restarts within this time. */
    uint32_t again_ppm;    /* The process dies again during its recovery. */
    uint32_t pause_ms;
    uint32_t reset_ms;
    uint32_t cut_ms;     /* Partition: two sides, an isolated node, a ring, or one way. */
    uint32_t clog_ms;    /* One direction of one pair carries nothing for a while. */
    uint32_t leader_ms;  /* The leader is isolated. */
    uint32_t slow_ms;    /* A disk takes up to seconds per sync, for a while. */
    uint32_t rot_ms;     /* Bits flip on a disk. */
    uint32_t empty_ms;   /* A disk is replaced by an empty one. */
    uint32_t swap_ms;    /* A disk that was replaced comes back from the shelf. */
    uint32_t config_ppm; /* Share of configuration proposals that trigger a fault. */
    uint32_t full_ms;    /* A disk fills up, and is freed later. */
    uint32_t fail_ms;    /* A disk fails writes, syncs, reads or all, for a while. */
    uint32_t decay_ms;   /* A closed file rots while a process uses the disk. */
    uint32_t spoil_ms;   /* A state that is loaded from a snapshot is wrong in memory. */
    uint32_t jump_ms;    /* A wall clock jumps. */
    uint32_t ttl_ppm; /* Share of creates that make TTL znodes; such seeds also forget results. */
    uint32_t reap_ms; /* Interval at which the leader looks for expired znodes and results. */
    uint32_t keep_age_ms; /* The leader writes the age after so much idle time. */
    bool torn;            /* A power cut tears and loses unsynced sectors. */
};

void sim_draw(struct rng *rng, struct sim_knobs *knobs);
void sim_draw_room(uint64_t seed, struct sim_knobs *knobs); /* maxTreeBytes. */
void sim_draw_lanes(uint64_t seed, struct sim_knobs *knobs);
void sim_draw_links(uint64_t seed, struct sim_knobs *knobs); /* Slow links, snapshots in pieces. */
void sim_draw_clocks(uint64_t seed, struct sim_knobs *knobs);
void sim_draw_failing(uint64_t seed, struct sim_knobs *knobs); /* Disks that fail or rot in use. */
void sim_draw_releases(uint64_t seed, struct sim_knobs *knobs);
void sim_draw_members(uint64_t seed, struct sim_knobs *knobs); /* Changes of the members. */

#endif
