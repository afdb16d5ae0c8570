/* What the doctor finds about the machines of the replicas, against what the replicas need: open
 * files, memory, disk. Also backups that are old, and a change of the members that does not end. */
#include "base/minmax.h"
#include "cli/doctor.h"

#include <inttypes.h>

enum {
    NEAR_FILES_PERCENT = 80,
    FILES_MIN = 4096, /* A lower limit of open files leaves room for few clients. */
    FULL_MEMORY_PERCENT = 90,
    TREE_MEMORY_PERCENT = 80, /* More of the memory for the tree leaves too little for the rest. */
    HOUR_S = 3600,
    BACKUP_HOURS = 48,      /* A daily backup has failed at least once. */
    UNKNOWN_HOURS = 7 * 24, /* A replica counts its backups since its start only. */
    PENDING_S = 30          /* A change is committed within a second. */
};

#define MIB       1048576.0
/* Log until the next snapshot (snapBytes), and the next segments. */
#define LOG_BYTES (320 * MIB)

static void look_at_files(struct look *look, const json_t *replica)
{
    double used = doctor_figure(replica, "process_open_fds");
    double limit = doctor_figure(replica, "process_max_fds");

    if (limit > 0 && used * 100 >= limit * NEAR_FILES_PERCENT) {
        doctor_find(look, FILES_SHORT, replica, "%.0f files are open; the limit is %.0f", used,
                    limit);
    } else if (limit > 0 && limit < FILES_MIN) {
        doctor_find(look, FILES_SHORT, replica,
                    "the limit of open files is %.0f, and should be at least %d", limit, FILES_MIN);
    }
}

static void look_at_memory(struct look *look, const json_t *replica)
{
    double limit = doctor_figure(replica, "zabra_memory_max_bytes");
    double used = doctor_figure(replica, "process_resident_memory_bytes");
    double tree = json_number_value(jsonr_at(replica, "limits.maxTreeBytes"));

    if (limit > 0 && used * 100 >= limit * FULL_MEMORY_PERCENT) {
        doctor_find(look, MEMORY_SHORT, replica,
                    "the replica uses %.0f MiB; its machine or control group has %.0f MiB",
                    used / MIB, limit / MIB);
    } else if (limit > 0 && tree * 100 > limit * TREE_MEMORY_PERCENT) {
        doctor_find(look, MEMORY_SHORT, replica,
                    "maxTreeBytes is %.0f MiB, more than %d %% of the %.0f MiB of its machine or "
                    "control group",
                    tree / MIB, TREE_MEMORY_PERCENT, limit / MIB);
    }
}

/* A snapshot is written beside the older ones, and log until then. */
static void look_at_space(struct look *look, const json_t *replica)
{
    double free = doctor_figure(replica, "zabra_disk_free_bytes");
    double need = doctor_figure(replica, "zabra_approximate_data_bytes") + LOG_BYTES;
    bool known = json_object_get(jsonr_at(replica, "metrics"), "zabra_disk_free_bytes") != NULL;
    bool told = doctor_figure(replica, "zabra_log_stuck") > 0 ||
                doctor_figure(replica, "zabra_disk_low") > 0;

    if (known && !told && free < need) {
        doctor_find(look, DISK_SHORT, replica,
                    "the disk has %.0f MiB left; the next snapshot and the log until it may need "
                    "%.0f MiB",
                    free / MIB, need / MIB);
    }
}

void doctor_look_at_host(struct look *look, const json_t *replica)
{
    look_at_files(look, replica);
    look_at_memory(look, replica);
    look_at_space(look, replica);
}

void doctor_look_at_backups(struct look *look)
{
    double newest_s = 0;
    double now_s = 0;
    double up_s = 0;
    bool known = false;

    JSONR_EACH (replica, look->replicas) {
        double last_s = doctor_figure(replica, "zabra_backup_last_seconds");
        double clock_s = (double)jsonr_number(replica, "clock_ms") / 1000;
        double start_s = doctor_figure(replica, "process_start_time_seconds");

        known |= json_object_get(jsonr_at(replica, "metrics"), "zabra_backup_last_seconds") != NULL;
        newest_s = last_s > newest_s ? last_s : newest_s;
        now_s = clock_s > now_s ? clock_s : now_s;
        up_s = start_s > 0 && clock_s - start_s > up_s ? clock_s - start_s : up_s;
    }
    if (known && newest_s > 0 && now_s - newest_s > (double)BACKUP_HOURS * HOUR_S) {
        doctor_find(look, BACKUP_OLD, NULL,
                    "the last whole backup was sent %.0f hours ago; the limit is %d hours",
                    (now_s - newest_s) / HOUR_S, BACKUP_HOURS);
    } else if (known && newest_s <= 0 && up_s > (double)UNKNOWN_HOURS * HOUR_S) {
        doctor_find(look, BACKUP_OLD, NULL,
                    "no replica has sent a backup since it was started; one runs for %.0f hours, "
                    "the limit is %d hours",
                    up_s / HOUR_S, UNKNOWN_HOURS);
    }
}

void doctor_look_at_change(struct look *look)
{
    int64_t pending_s = jsonr_number(look->ensemble, "pending.pending_ms") / 1000;

    if (pending_s >= PENDING_S) {
        doctor_find(look, CHANGE_PENDING, NULL,
                    "the change with the version %s is not committed after %" PRId64
                    " s; the limit is %d s",
                    jsonr_text(look->ensemble, "pending.version"), pending_s, PENDING_S);
    }
}
