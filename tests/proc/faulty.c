#include "tests/proc/faulty.h"

#include "tests/lib/unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct faulty *faulty_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, sizeof(struct faulty)), 0);

    void *page = mmap(NULL, sizeof(struct faulty), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    assert_true(page != MAP_FAILED);
    close(fd);
    return page;
}
