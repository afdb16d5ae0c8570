#include "tests/lib/unit.h"
#include "tests/proc/web.h"

int main(int count, char **args)
{
    web_setup();
    return unit_run(count, args);
}
