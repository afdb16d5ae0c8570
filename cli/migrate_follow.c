/* Follows the changes of the source. Events say which znodes to read again, and their state is
 * copied, so that nothing depends on the order or the number of events. */
#include "cli/cmd.h"
#include "cli/migrate.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    GATHER_MS = 50, /* Events are gathered for this time before they are copied. */
    DIRTY_ENOUGH = 1000,
    RETRY_MS = 500
};

void migrate_forget_dirty(struct migrate *migrate)
{
    map_free_values(&migrate->dirty);
    map_init(&migrate->dirty);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Reads the znodes with changes again, parents first, and copies them. False: a pass is needed. */
static bool copy_changes(struct migrate *migrate, int *ret_code)
{
    size_t count = map_count(&migrate->dirty);
    char **paths = mem_zalloc(count + 1, sizeof(*paths));
    size_t cursor = 0;

    for (size_t i = 0; i < count; i++) {
        paths[i] = map_each(&migrate->dirty, &cursor);
    }
    qsort(paths, count, sizeof(*paths), by_path);
    for (size_t i = count; i > 0; i--) {
        migrate_walk_add(&migrate->walk, slice_str(paths[i - 1]));
    }
    mem_free(paths);
    migrate_forget_dirty(migrate);
    enum migrate_step step = migrate_walk_run(&migrate->walk);

    if (step == MIGRATE_STOPPED) {
        *ret_code = migrate_interrupted(migrate->cli);
    } else if (step == MIGRATE_ENDED || !migrate_target_flush(&migrate->target) ||
               !migrate_delete_known(migrate, migrate->missing)) {
        *ret_code = migrate->target.code;
    }
    (void)json_array_clear(migrate->missing);
    return step != MIGRATE_LOST;
}

/* Connects again, waiting as long as it takes, and makes a pass: events may have been lost. */
static int recover(struct migrate *migrate)
{
    int code = CMD_OK;

    progress_clear(&migrate->target.progress);
    out_note(&migrate->cli->out, "%s; connecting again", migrate->source.error);
    while (!zk_client_connect(&migrate->source)) {
        if (migrate_is_stopped(migrate, RETRY_MS)) {
            return cli_fail(migrate->cli, CMD_NO_ENSEMBLE, "Source",
                            "interrupted without a connection to the source: %s",
                            migrate->source.error);
        }
    }
    migrate_forget_dirty(migrate);
    migrate->lost_events = false;
    code = migrate_watch(migrate);
    code = code == CMD_OK ? migrate_pass(migrate) : code;
    migrate->follows = true;
    return code;
}

/* Waits for events: MIGRATE_LOST or MIGRATE_DONE. */
static enum migrate_step gather(struct migrate *migrate, int64_t wait_ms)
{
    uint64_t end_ms = os_now_ms() + (uint64_t)wait_ms;
    struct zk_client_news news;

    do {
        uint64_t now_ms = os_now_ms();

        zk_client_next(&migrate->source, now_ms < end_ms ? (int64_t)(end_ms - now_ms) : 0, &news);
        if (news.kind == ZK_CLIENT_EVENT) {
            migrate_walk_event(&migrate->walk, &news);
            end_ms = min_u64(end_ms, os_now_ms() + GATHER_MS);
        }
    } while (news.kind == ZK_CLIENT_EVENT && map_count(&migrate->dirty) < DIRTY_ENOUGH &&
             !migrate->lost_events && os_now_ms() < end_ms);
    return news.kind == ZK_CLIENT_LOST ? MIGRATE_LOST : MIGRATE_DONE;
}

/* Waits for changes, or (the source is idle) asks whether there are some: a server that is behind
 * its leader, or hangs, sends no events either. MIGRATE_STOPPED: a signal came instead of the
 * answer. */
static enum migrate_step await_changes(struct migrate *migrate, bool is_idle, int64_t wait_ms)
{
    migrate->source.stop_fd = migrate->signal_fd;
    enum migrate_step step = is_idle ? migrate_sync(migrate) : gather(migrate, wait_ms);

    migrate->source.stop_fd = -1;
    return step;
}

/* Follows until it is time to cut over. */
static int follow(struct migrate *migrate, int64_t idle_ms)
{
    uint64_t busy_ms = os_now_ms();
    int code = CMD_OK;

    while (code == CMD_OK && !migrate_is_stopped(migrate, 0)) {
        uint64_t before = migrate->events;
        uint64_t now_ms = os_now_ms();
        bool is_idle = idle_ms > 0 && now_ms >= busy_ms + (uint64_t)idle_ms;
        uint64_t wait_ms = idle_ms > 0 ? busy_ms + (uint64_t)idle_ms - now_ms : 1000;
        enum migrate_step step = await_changes(migrate, is_idle, (int64_t)min_u64(wait_ms, 1000));
        bool connected = step == MIGRATE_DONE;

        if (step == MIGRATE_STOPPED || (is_idle && connected && migrate->events == before)) {
            return CMD_OK;
        }
        if (connected && map_count(&migrate->dirty) > 0) {
            connected = copy_changes(migrate, &code);
        }
        if (code == CMD_OK && (!connected || migrate->lost_events)) {
            code = recover(migrate);
            connected = false;
        }
        /* What changed without a connection had no events. */
        busy_ms = !connected || migrate->events != before ? os_now_ms() : busy_ms;
    }
    return code;
}

/* Copies what the source has changed until now: all events of it come before the answer. */
static int catch_up(struct migrate *migrate)
{
    int code = CMD_OK;

    switch (migrate_sync(migrate)) {
    case MIGRATE_DONE:
        if (copy_changes(migrate, &code)) {
            return code;
        }
        break;
    case MIGRATE_STOPPED:
        return migrate_interrupted(migrate->cli);
    case MIGRATE_LOST:
    case MIGRATE_ENDED:
        break;
    }
    return code == CMD_OK ? migrate_connect(migrate) : code;
}

void migrate_drain_signals(const struct migrate *migrate)
{
    struct signalfd_siginfo info;

    while (read(migrate->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
    }
}

int migrate_follow(struct migrate *migrate, int64_t idle_ms)
{
    int code = CMD_OK;

    migrate->source.stop_fd = -1;
    migrate->cli->client->interrupt_fd = -1;
    migrate->follows = true;
    code = follow(migrate, idle_ms);
    progress_clear(&migrate->target.progress);
    migrate_drain_signals(migrate);
    /* A second signal ends the command. */
    migrate->source.stop_fd = migrate->signal_fd;
    migrate->cli->client->interrupt_fd = migrate->signal_fd;
    code = code == CMD_OK ? catch_up(migrate) : code;
    migrate->follows = false;
    return code;
}
