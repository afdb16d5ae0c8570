/* What the core lets the worker write into the optional files, and the end of a replica that was
 * removed. */
#include "server/process/notes.h"
#include "server/process/server_int.h"
#include "zab/level.h"

#include <signal.h>
#include <unistd.h>

enum {
    RETRY_MS = 10000,   /* Pause after a failed write. */
    MARK_WAIT_MS = 4000 /* The end does not wait longer for the mark. */
};

static struct worker_job *note_new(const char *name)
{
    struct worker_job *job = mem_zalloc(1, sizeof *job);

    job->note = name;
    buf_init(&job->config, ZAB_CONFIG_BYTES_MAX);
    return job;
}

/* Level 2 is the first at which a configuration has texts; an earlier release knows no such file.
 */
void core_keep_members(struct server *server)
{
    struct core_notes *notes = &server->core.notes;
    const struct zab *zab = replica_zab(server->core.replica);
    const struct zab_config *committed = zab_config(zab);
    bool is_new = !notes->is_kept || committed->version > notes->version;
    bool is_due = committed->level >= ZAB_LEVEL_TEXTS && is_new && !notes->is_busy &&
                  server->core.now_ms >= notes->retry_ms;

    if (!is_due) {
        return;
    }
    struct worker_job *job = note_new(NOTE_MEMBERS);

    job->zxid = committed->version;
    (void)buf_append_slice(&job->config, zab_config_bytes(zab));
    notes->is_busy = true;
    worker_post(&server->worker, job);
}

void core_note_written(struct core *core, const struct worker_job *job)
{
    struct core_notes *notes = &core->notes;

    if (job->err != ERR_OK) {
        log_warn("storage", "{path}%s in the data directory cannot be written: {error}%s",
                 job->note, err_text(job->err));
    }
    if (strcmp(job->note, NOTE_REMOVED) == 0) {
        notes->is_marked = true;
        return;
    }
    notes->is_busy = false;
    if (job->err == ERR_OK) {
        notes->is_kept = true;
        notes->version = job->zxid;
    } else {
        notes->retry_ms = core->now_ms + RETRY_MS;
    }
}

void core_take_removal(struct server *server, zxid_t zxid)
{
    struct core *core = &server->core;
    struct worker_job *job = note_new(NOTE_REMOVED);

    atomic_store(&server->gate.removed, zxid);
    core->publish_now = true;
    core->notes.removed_ms = core->now_ms;
    log_warn("zab",
             "the change of the members at zxid {zxid}0x%llx has removed this replica: it ends",
             (unsigned long long)zxid);
    notes_encode_mark(&core->identity, zxid, &job->config);
    worker_post(&server->worker, job);
}

/* The main thread ends the process as for SIGTERM, which it waits for. */
void core_end_removed(struct server *server)
{
    struct core_notes *notes = &server->core.notes;
    bool is_late = server->core.now_ms >= notes->removed_ms + MARK_WAIT_MS;

    if (atomic_load(&server->gate.removed) == 0 || notes->is_ending ||
        (!notes->is_marked && !is_late)) {
        return;
    }
    notes->is_ending = true;
    (void)kill(getpid(), SIGTERM);
}
