/*
 * load.h - writers that never stop, and the list of their acknowledged writes.
 *
 * Each writer creates znodes with running numbers below one parent. Only a 201 counts; after it the
 * znode must be on every replica, whatever faults follow. A patient load is for tests in which no
 * write may fail: each znode is tried until it is acknowledged, only a 503 or a refused connection
 * permits a retry, and every other answer is wrong.
 */
#ifndef TESTS_PROC_LOAD_H
#define TESTS_PROC_LOAD_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    LOAD_WRITERS_MAX = 4,
    LOAD_WRITES_MAX = 200000 /* For each writer. */
};

enum load_kind {
    LOAD_IMPATIENT,
    LOAD_PATIENT,
    LOAD_PATIENT_FRESH /* Patient, and each write on a new connection. */
};

struct load_writer {
    struct load *load;
    struct thread thread;
    uint32_t number;
    uint8_t *acked;           /* Indexed by running number. */
    _Atomic uint32_t next;    /* Next running number. */
    _Atomic uint32_t count;   /* Acknowledged writes. */
    _Atomic uint32_t unknown; /* Writes whose outcome is unknown. */
    _Atomic uint32_t wrong;   /* Forbidden answers. */
    _Atomic uint32_t retries; /* Retries of a patient load. */
    char wrong_text[256];
};

struct load {
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint32_t writer_count;
    enum load_kind kind;
    _Atomic int pause_ms; /* Of a writer after each write. */
    struct load_writer writers[LOAD_WRITERS_MAX];
    _Atomic bool stopping;
    bool joined; /* The writers have ended. */
};

/* Creates /load if it is absent and starts the writers on different replicas; a writer without an
 * answer continues at the next replica. `load` is static: the writers of a test that has failed end
 * first. */
void load_start(struct load *load, struct ensemble *ensemble, uint32_t writer_count);
void load_start_kind(struct load *load, struct ensemble *ensemble, uint32_t writer_count,
                     enum load_kind kind);

/* Changes the pause of the writers, for tests that need writes all the time, but not many. */
void load_pace(struct load *load, int pause_ms);

/* Waits until `count` further writes are acknowledged. */
void load_wait(struct load *load, struct ensemble *ensemble, uint32_t count);

/* Stops the writers and checks their answers. */
void load_stop(struct load *load, struct ensemble *ensemble);

/* Checks that every acknowledged znode is on this replica. */
void load_verify(struct load *load, struct ensemble *ensemble, uint32_t index);
void load_release(struct load *load);

uint32_t load_acked(const struct load *load);

#endif
