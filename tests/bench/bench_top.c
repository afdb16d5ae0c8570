/* The cost of counting a request for `GET /top/v1`: ns per request, for streams that a sketch finds
 * easy and hard, and of one report. */
#include "base/os_clock.h"
#include "server/op/ops.h"
#include "server/process/top.h"

#include <stdio.h>

enum {
    ROUNDS = 2000000,
    REPORTS = 200,
    PATH_BYTES = 64
};

static char paths[4096][PATH_BYTES];

/* Makes as many paths, which differ from the first component on, or only in the last one. */
static void make_paths(uint32_t count, bool differ_early)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(paths[i], PATH_BYTES, differ_early ? "/s%u/config/part/x" : "/svc/app/n%u/x",
                       i);
    }
}

static void measure(const char *name, uint32_t count, bool differ_early)
{
    struct top *top = top_new(0);
    struct op_principal who = {.address = "10.0.0.7"};
    struct op_args args;

    make_paths(count, differ_early);
    op_args_init(&args, OP_GET);

    uint64_t begin_ns = os_now_ns();

    for (uint32_t i = 0; i < ROUNDS; i++) {
        args.path = slice_str(paths[i % count]);
        top_note(top, &args, &who, 5000);
    }
    uint64_t took_ns = os_now_ns() - begin_ns;

    begin_ns = os_now_ns();
    for (uint32_t i = 0; i < REPORTS; i++) {
        struct top_report *report = top_report(top, 5000);
        struct sketch_row rows[SKETCH_ENTRIES];

        for (uint32_t depth = 1; depth <= TOP_DEPTHS; depth++) {
            (void)top_prefixes(report, depth, rows);
        }
        (void)top_clients(report, rows);
        top_report_free(report);
    }
    printf("%-34s %4.0f ns a request, %4.0f us a report\n", name, (double)took_ns / ROUNDS,
           (double)(os_now_ns() - begin_ns) / REPORTS / 1000);
    top_free(top);
}

int main(void)
{
    measure("one path", 1, false);
    measure("40 paths", 40, false);
    measure("4,000 paths, one prefix hot", 4000, false);
    measure("4,000 paths, all prefixes differ", 4000, true);
    return 0;
}
