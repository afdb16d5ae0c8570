#include "cli/progress.h"

#include "base/minmax.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    SHOW_MS = 250,  /* Time between two drawings. */
    RATE_MS = 1000, /* A rate of less time says nothing. */
    BAR_WIDTH = 30,
    SIZE_MAX_TEXT = 24
};

static void size_text(uint64_t bytes, char out[SIZE_MAX_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, SIZE_MAX_TEXT, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

/* The bar, and the share; a guess of the total may be too low. */
static int put_share(const struct progress *progress, char *out, size_t max)
{
    uint64_t done = min_u64(progress->bytes, progress->total);
    int full = (int)((double)done / (double)progress->total * BAR_WIDTH);
    int percent = (int)((double)done / (double)progress->total * 100);
    char total[SIZE_MAX_TEXT];

    size_text(progress->total, total);
    return snprintf(out, max, " [%.*s%*s] %d %% of %s,", full, "##############################",
                    BAR_WIDTH - full, "", percent, total);
}

void progress_text(const struct progress *progress, uint64_t now_ms, char out[PROGRESS_MAX])
{
    uint64_t elapsed_ms = progress->start_ms ? now_ms - progress->start_ms : 0;
    uint64_t rate = elapsed_ms >= RATE_MS ? progress->bytes * 1000 / elapsed_ms : 0;
    char size[SIZE_MAX_TEXT];
    int len = snprintf(out, PROGRESS_MAX, "%s", progress->verb);

    if (progress->total > 0) {
        len += put_share(progress, out + len, PROGRESS_MAX - (size_t)len);
    } else if (progress->lines > 0) {
        len +=
            snprintf(out + len, PROGRESS_MAX - (size_t)len, " %" PRIu64 " lines,", progress->lines);
    }
    size_text(progress->bytes, size);
    len += snprintf(out + len, PROGRESS_MAX - (size_t)len, " %s", size);
    if (rate > 0) {
        size_text(rate, size);
        len += snprintf(out + len, PROGRESS_MAX - (size_t)len, ", %s/s", size);
    }
    if (rate > 0 && progress->total > progress->bytes) {
        uint64_t left_s = (progress->total - progress->bytes) / rate;

        (void)snprintf(out + len, PROGRESS_MAX - (size_t)len, ", %" PRIu64 ":%02" PRIu64 " left",
                       left_s / 60, left_s % 60);
    }
}

void progress_show(struct progress *progress, uint64_t now_ms)
{
    char text[PROGRESS_MAX];

    if (progress->start_ms == 0) {
        progress->start_ms = now_ms;
    }
    if (now_ms < progress->shown_ms + SHOW_MS) {
        return;
    }
    progress->shown_ms = now_ms;
    progress_text(progress, now_ms, text);
    (void)fprintf(stderr, "\r%s\033[K", text);
}

void progress_clear(struct progress *progress)
{
    if (progress->shown_ms) {
        (void)fprintf(stderr, "\r\033[K");
        progress->shown_ms = 0;
    }
}
