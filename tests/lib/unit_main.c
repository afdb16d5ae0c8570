#include "tests/lib/unit.h"

int main(int count, char **args)
{
    return unit_run(count, args);
}
