#include "tests/sim/sim_run.h"

int selftest_run(void)
{
    return 0;
}
