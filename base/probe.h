/*
 * probe.h - marks that tests use. Probes name a rare branch and count how often it was reached.
 * Mutants bring back a known historical bug, one at a time, in the test-only build.
 *
 * Without ZABRA_TESTING both expand to nothing: the shipped object code is the tested one minus
 * the counters and the bugs. Mutant numbers are those of the list in tests/sim/README.md.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#ifdef ZABRA_TESTING

#include <stdbool.h>
#include <stdint.h>

struct probe {
    const char *name;
    uint64_t hits;
    struct probe *next; /* Next in the list of probes that were reached. */
};

void probe_hit(struct probe *probe);
const struct probe *probe_first(void);
bool mutant_is(int number);
void mutant_select(int number); /* 0: none. */

#define PROBE(text)                                        \
    do {                                                   \
        static struct probe probe_here = {.name = (text)}; \
        probe_hit(&probe_here);                            \
    } while (0)
#define MUTANT(number) mutant_is(number)

#else

#define PROBE(text)    ((void)0)
#define MUTANT(number) 0

#endif

#endif
