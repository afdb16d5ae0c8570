#include "base/os_rng.h"

#include "base/check.h"

#include <errno.h>
#include <sys/random.h>

void os_random(void *out, size_t len)
{
    unsigned char *pos = out;

    while (len > 0) {
        ssize_t got = getrandom(pos, len, 0);

        ASSERT(got > 0 || errno == EINTR);
        if (got > 0) {
            pos += got;
            len -= (size_t)got;
        }
    }
}

uint64_t os_random_u64(void)
{
    uint64_t value;

    os_random(&value, sizeof(value));
    return value;
}
