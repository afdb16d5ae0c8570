#include "base/probe.h"

#include <stddef.h>

#ifdef ZABRA_TESTING

static struct probe *first;
static int mutant;

void probe_hit(struct probe *probe)
{
    if (probe->hits++ == 0) {
        probe->next = first;
        first = probe;
    }
}

const struct probe *probe_first(void)
{
    return first;
}

bool mutant_is(int number)
{
    return mutant == number;
}

void mutant_select(int number)
{
    mutant = number;
}

#endif
