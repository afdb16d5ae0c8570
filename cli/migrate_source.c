/* The source of a migration: connections, watches, and reads that lack nothing. */
#include "cli/cmd.h"
#include "cli/migrate.h"

#include <poll.h>

enum {
    CONNECTS_MAX = 10,
    RETRY_MS = 500,
    ASKS_MAX = 3, /* Of one request, when the connection is lost. */
    KEEP_MS = 100,
    EVENTS_AT_ONCE = 1000
};

bool migrate_is_stopped(const struct migrate *migrate, int64_t wait_ms)
{
    struct pollfd polled = {.fd = migrate->signal_fd, .events = POLLIN};

    return poll(&polled, 1, (int)wait_ms) > 0;
}

int migrate_connect(struct migrate *migrate)
{
    bool connected = zk_client_connect(&migrate->source);

    progress_clear(&migrate->target.progress);
    /* The server that was read before may be down, and the others still behind it. */
    for (int i = 1; i < CONNECTS_MAX && !connected && migrate->source.zxid > 0; i++) {
        if (migrate_is_stopped(migrate, RETRY_MS)) {
            break;
        }
        connected = zk_client_connect(&migrate->source);
    }
    if (!connected && migrate->source.stop_fd >= 0 && migrate_is_stopped(migrate, 0)) {
        return migrate_interrupted(migrate->cli);
    }
    return connected ? CMD_OK
                     : cli_fail(migrate->cli, CMD_NO_ENSEMBLE, "Source", "no ZooKeeper serves: %s",
                                migrate->source.error);
}

/* Sends a request about the top and waits for its answer, which follows those that are still due
 * to a wait that a signal has ended. */
static void ask(struct migrate *migrate, enum zk_client_op op, struct zk_client_news *ret_news)
{
    zk_client_send(&migrate->source, op,
                   migrate->top.len > 0 ? buf_slice(&migrate->top) : slice_str("/"), false);
    do {
        zk_client_next(&migrate->source, -1, ret_news);
        if (ret_news->kind == ZK_CLIENT_EVENT) {
            migrate_walk_event(&migrate->walk, ret_news);
        }
    } while (ret_news->kind == ZK_CLIENT_EVENT || ret_news->kind == ZK_CLIENT_NOTHING ||
             (ret_news->kind == ZK_CLIENT_REPLY && migrate->source.due_count > 0));
}

enum migrate_step migrate_sync(struct migrate *migrate)
{
    struct zk_client *source = &migrate->source;
    struct zk_client_news news;

    ask(migrate, ZK_CLIENT_SYNC, &news);
    if (news.kind == ZK_CLIENT_STOP) {
        return MIGRATE_STOPPED;
    }
    if (news.kind == ZK_CLIENT_REPLY && news.err != 0) {
        (void)zk_client_fail(source, "%s:%s cannot ask its leader for the newest state: %s",
                             source->hosts[source->host].name, source->hosts[source->host].port,
                             zk_client_err_text(news.err));
        zk_client_lose(source);
    }
    return news.kind == ZK_CLIENT_REPLY && news.err == 0 ? MIGRATE_DONE : MIGRATE_LOST;
}

/* Returns whether the source has answered. */
static bool add_watch(struct migrate *migrate)
{
    struct zk_client_news news;

    ask(migrate, ZK_CLIENT_ADD_WATCH, &news);
    migrate->recursive = news.kind == ZK_CLIENT_REPLY && news.err == 0;
    return news.kind == ZK_CLIENT_REPLY;
}

int migrate_watch(struct migrate *migrate)
{
    bool answered = false;
    int code = CMD_OK;

    if (migrate->signal_fd < 0 || migrate->one_shot) {
        return CMD_OK;
    }
    /* A connection that is lost says nothing about the version of the source. */
    for (int i = 0; i < ASKS_MAX && !answered && code == CMD_OK; i++) {
        answered = add_watch(migrate);
        code = answered ? CMD_OK : migrate_connect(migrate);
    }
    if (migrate->recursive || code != CMD_OK) {
        return code;
    }
    /* A server before 3.6 does not know the operation, and closes the connection after its answer.
     */
    migrate->one_shot = true;
    migrate->walk.watch = true;
    return migrate_connect(migrate);
}

int migrate_reconnect(struct migrate *migrate)
{
    int code = migrate_connect(migrate);

    return code == CMD_OK ? migrate_watch(migrate) : code;
}

void migrate_keep(void *ctx)
{
    struct migrate *migrate = ctx;
    struct zk_client_news news = {.kind = ZK_CLIENT_EVENT};
    uint64_t now_ms = os_now_ms();

    if (now_ms < migrate->keep_ms) {
        return;
    }
    migrate->keep_ms = now_ms + KEEP_MS;
    /* Only the walk takes its replies, and it still uses the last one. */
    if (migrate->walk.runs) {
        zk_client_keep(&migrate->source);
        return;
    }
    for (int i = 0; i < EVENTS_AT_ONCE && news.kind == ZK_CLIENT_EVENT; i++) {
        zk_client_next(&migrate->source, 1, &news);
        if (news.kind == ZK_CLIENT_EVENT) {
            migrate_walk_event(&migrate->walk, &news);
        }
    }
}
