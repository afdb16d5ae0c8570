/*
 * load.h - writers that never stop, and the list of what was acknowledged to them.
 *
 * Each writer creates znodes with running numbers below one parent. Only a 201 counts; after it the
 * znode must be on every replica, whatever happened since. A patient load is for what must not fail
 * at all: each znode is tried until it is acknowledged, 503 and a refused connection are the only
 * reasons to try again, and whatever else is answered is wrong.
 */
#ifndef TESTS_PROC_LOAD_H
#define TESTS_PROC_LOAD_H

#include "base/thread.h"
#include "tests/proc/ensemble.h"

#include <stdatomic.h>

enum {
    LOAD_WRITERS_MAX = 4,
    LOAD_WRITES_MAX = 200000 /* Of one writer. */
};

enum load_kind {
    LOAD_IMPATIENT,
    LOAD_PATIENT,
    LOAD_PATIENT_FRESH /* And each write on a connection of its own. */
};

struct load_writer {
    struct load *load;
    struct thread thread;
    uint32_t number;
    uint8_t *acked;           /* By running number. */
    _Atomic uint32_t next;    /* Running number. */
    _Atomic uint32_t count;   /* Acknowledged. */
    _Atomic uint32_t unknown; /* No answer, or an answer that leaves it open. */
    _Atomic uint32_t wrong;   /* Answers that must not be. */
    _Atomic uint32_t retries; /* Of a patient load. */
    char wrong_text[256];
};

struct load {
    uint16_t ports[ENSEMBLE_MAX];
    uint32_t port_count;
    uint32_t writer_count;
    enum load_kind kind;
    struct load_writer writers[LOAD_WRITERS_MAX];
    _Atomic bool stopping;
};

/* Makes /load if need be and starts the writers on different replicas; a writer without an answer
 * goes on with the next replica. */
void load_start(struct load *load, struct ensemble *ensemble, uint32_t writer_count);
void load_start_kind(struct load *load, struct ensemble *ensemble, uint32_t writer_count,
                     enum load_kind kind);

/* Waits until so many more writes are acknowledged. */
void load_wait(struct load *load, struct ensemble *ensemble, uint32_t count);

/* Stops the writers and checks their answers. */
void load_stop(struct load *load, struct ensemble *ensemble);

/* Every acknowledged znode is on this replica. */
void load_verify(struct load *load, struct ensemble *ensemble, uint32_t index);
void load_release(struct load *load);

uint32_t load_acked(const struct load *load);

#endif
