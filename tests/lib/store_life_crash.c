/* Disturbs the scripted life: crashes, kills, failing calls. */
#include "base/hash.h"
#include "base/map.h"
#include "tests/lib/draw.h"
#include "tests/lib/store_life.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    SUBSETS_MAX = 6, /* With at most this many pending changes, all subsets are tried. */
    SAMPLES = 10,    /* With more pending changes, this many images are tried. */
    PRINT_MAX = 3,
#ifdef ZABRA_SLOW
    STEP = 5 /* With a sanitizer every fifth call; otherwise all. */
#else
    STEP = 1
#endif
};

static bool fail(char text[LIFE_TEXT_MAX], const char *what, size_t done, const char *detail)
{
    (void)snprintf(text, LIFE_TEXT_MAX, "interrupted in '%s': %s %s", life_step_name(done), what,
                   detail);
    return false;
}

/* A second kit on a copy of the present disk. */
static void image_init(struct skit *image, const struct skit *kit)
{
    *image = (struct skit){.disk = vfs_mem_clone(kit->disk), .options = kit->options};
    image->options.vfs = vfs_mem_vfs(image->disk);
}

/* One of the images that a crash may leave; false when there are no more. */
static bool next_image(struct skit *image, const struct skit *kit, struct rng *rng,
                       enum vfs_mem_crash_mode mode, uint64_t index)
{
    size_t pending = vfs_mem_pending(kit->disk);
    uint64_t all = pending <= SUBSETS_MAX ? UINT64_C(1) << pending : 0;

    if (index >= (all ? all : SAMPLES)) {
        return false;
    }
    image_init(image, kit);
    if (all) {
        vfs_mem_crash_subset(image->disk, index);
    } else if (index < 2) {
        vfs_mem_crash(image->disk, rng, index == 0 ? VFS_MEM_KEEP_ALL : VFS_MEM_LOSE_ALL);
    } else {
        vfs_mem_crash(image->disk, rng, mode);
    }
    return true;
}

static size_t report_wrong(size_t wrong, uint64_t call, const char *text)
{
    if (wrong < PRINT_MAX) {
        (void)fprintf(stderr, "call %" PRIu64 ": %s\n", call, text);
    }
    return wrong + 1;
}

/* Many calls leave the same disk: reads, or writes of which nothing survives. `judged` has the
 * images that were right: the verdict is a function of the disk's content and of the steps that
 * were done, so a second look at the same ones would find the same. */
static bool judge_image(struct skit *image, const struct life *life, size_t done,
                        struct map *judged, char text[LIFE_TEXT_MAX])
{
    uint64_t key = hash64_mix(vfs_mem_digest(image->disk), done);

    if (map_get_u64(judged, key)) {
        return true;
    }
    if (!life_judge(image, life, done, text)) {
        return false;
    }
    (void)map_put_u64(judged, key, judged);
    return true;
}

/* Sometimes the machine crashes again during recovery. */
static void crash_again(struct skit *image, struct rng *rng, enum vfs_mem_crash_mode mode)
{
    if (!rng_chance(rng, 300000)) {
        return;
    }
    vfs_mem_crash_at(image->disk, vfs_mem_calls(image->disk) + 1 + rng_below(rng, 60));
    if (skit_open(image) == ERR_OK) {
        skit_close(image, false);
    } else {
        image->store = NULL;
    }
    vfs_mem_crash(image->disk, rng, mode);
}

size_t life_crash_everywhere(const struct life *life, size_t first, size_t last,
                             enum vfs_mem_crash_mode mode, uint64_t seed)
{
    struct rng rng;
    char text[LIFE_TEXT_MAX] = "";
    struct map judged;
    size_t wrong = 0;

    rng_init(&rng, seed);
    map_init(&judged);
    for (uint64_t call = life->states[first].calls + 1; call <= life->states[last].calls;
         call += STEP) {
        struct skit kit;
        struct skit image;
        enum err err = ERR_OK;

        life_kit_init(&kit);
        vfs_mem_crash_at(kit.disk, call);

        size_t done = life_run(&kit, life, &err);

        if (kit.store) {
            skit_close(&kit, false);
        }
        for (uint64_t i = 0; next_image(&image, &kit, &rng, mode, i); i++) {
            image.allows_damage = mode == VFS_MEM_TORN;
            crash_again(&image, &rng, mode);
            if (!judge_image(&image, life, done, &judged, text)) {
                wrong = report_wrong(wrong, call, text);
            }
            skit_release(&image);
        }
        skit_release(&kit);
    }
    map_release(&judged);
    return wrong;
}

/* What an opening reported, to compare with later. */
struct reported {
    enum store_verdict verdict;
    uint32_t promised_epoch;
    bool is_quarantined;
    zxid_t log_last;
    zxid_t snap_end;
};

static struct reported reported_by(const struct store_report *report)
{
    return (struct reported){
        .verdict = report->verdict,
        .promised_epoch = report->promised_epoch,
        .is_quarantined = report->quarantined,
        .log_last = report->log_last,
        .snap_end = report->snap_end,
    };
}

/* The process was killed; it starts again and reports, and then the power fails. */
static bool killed_then_cut(struct skit *kit, const struct life *life, size_t done, struct rng *rng,
                            char text[LIFE_TEXT_MAX])
{
    vfs_mem_crash(kit->disk, rng, VFS_MEM_PROCESS);
    skit_log_cut(&kit->log, 0);
    if (!life_judge_open(kit, life, done, text)) {
        return false;
    }

    struct reported before = reported_by(&kit->report);
    long count = (long)kit->log.count;

    if (before.verdict == STORE_EMPTY) {
        return true;
    }
    skit_close(kit, false);
    vfs_mem_crash(kit->disk, rng, VFS_MEM_LOSE_ALL);

    enum err err = skit_open(kit);

    if (err != ERR_OK) {
        kit->store = NULL;
        return fail(text, "cannot be opened after the power cut:", done, err_symbol(err));
    }

    struct reported after = reported_by(&kit->report);

    if (after.verdict != STORE_CLEAN || skit_check_log(kit) != count ||
        after.promised_epoch != before.promised_epoch || after.log_last != before.log_last ||
        after.is_quarantined != before.is_quarantined || after.snap_end != before.snap_end) {
        return fail(text, "the power cut lost what was reported before:", done, kit->report.reason);
    }
    return true;
}

size_t life_kill_everywhere(const struct life *life, uint64_t seed)
{
    struct rng rng;
    char text[LIFE_TEXT_MAX] = "";
    size_t wrong = 0;

    rng_init(&rng, seed);
    for (uint64_t call = 1; call <= life->states[life->step_count].calls; call += STEP) {
        struct skit kit;
        enum err err = ERR_OK;

        life_kit_init(&kit);
        vfs_mem_crash_at(kit.disk, call);

        size_t done = life_run(&kit, life, &err);

        if (kit.store) {
            skit_close(&kit, false);
        }
        if (!killed_then_cut(&kit, life, done, &rng, text)) {
            wrong = report_wrong(wrong, call, text);
        }
        skit_release(&kit);
    }
    return wrong;
}

/* The process ends with the error; then the remaining disk is checked, also after a crash of the
 * machine. */
static bool fail_once(const struct life *life, uint64_t call, enum err fault, struct rng *rng,
                      struct map *judged, char text[LIFE_TEXT_MAX])
{
    struct skit kit;
    struct skit image;
    enum err err = ERR_OK;
    bool is_good = true;

    life_kit_init(&kit);
    kit.retries_no_space = fault == ERR_NO_SPACE;
    vfs_mem_fail_at(kit.disk, call, fault);

    size_t done = life_run(&kit, life, &err);

    if (kit.store) {
        skit_close(&kit, false);
    }
    for (uint64_t i = 0; is_good && i < 3; i++) {
        image_init(&image, &kit);
        vfs_mem_crash(image.disk, rng,
                      i == 0   ? VFS_MEM_KEEP_ALL
                      : i == 1 ? VFS_MEM_LOSE_ALL
                               : VFS_MEM_SECTORS);
        is_good = judge_image(&image, life, done, judged, text);
        skit_release(&image);
    }
    skit_release(&kit);
    return is_good;
}

size_t life_fail_everywhere(const struct life *life, enum err err, uint64_t seed)
{
    struct rng rng;
    char text[LIFE_TEXT_MAX] = "";
    struct map judged;
    size_t wrong = 0;

    rng_init(&rng, seed);
    map_init(&judged);
    for (uint64_t call = 1; call <= life->states[life->step_count].calls; call += STEP) {
        if (!fail_once(life, call, err, &rng, &judged, text)) {
            wrong = report_wrong(wrong, call, text);
        }
    }
    map_release(&judged);
    return wrong;
}

/* True when there was no further open to fail, or everything was right. */
static bool lack_once(const struct life *life, uint64_t call, uint64_t count, bool *ret_hit,
                      struct map *judged, char text[LIFE_TEXT_MAX])
{
    struct skit kit;
    struct skit image;
    struct rng rng;
    enum err err = ERR_OK;

    rng_init(&rng, call);
    life_kit_init(&kit);
    kit.retries_no_files = true;
    vfs_mem_lack_files(kit.disk, call, count);

    size_t done = life_run(&kit, life, &err);
    bool is_good = done == life->step_count && err == ERR_OK;

    *ret_hit = vfs_mem_fault_hit(kit.disk);
    vfs_mem_lack_files(kit.disk, 0, 0);
    if (!is_good) {
        (void)fail(text, "not finished:", done, err_symbol(err));
    }
    if (kit.store) {
        skit_close(&kit, false);
    }
    for (int i = 0; is_good && i < 2; i++) {
        image_init(&image, &kit);
        vfs_mem_crash(image.disk, &rng, i == 0 ? VFS_MEM_KEEP_ALL : VFS_MEM_LOSE_ALL);
        is_good = judge_image(&image, life, done, judged, text);
        skit_release(&image);
    }
    skit_release(&kit);
    return is_good;
}

size_t life_lack_files_everywhere(const struct life *life)
{
    static const uint64_t counts[] = {1, 7};
    char text[LIFE_TEXT_MAX] = "";
    struct map judged;
    size_t wrong = 0;

    map_init(&judged);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        bool hit = true;

        for (uint64_t call = 1; hit; call++) {
            if (!lack_once(life, call, counts[i], &hit, &judged, text)) {
                wrong = report_wrong(wrong, call, text);
            }
        }
    }
    map_release(&judged);
    return wrong;
}
