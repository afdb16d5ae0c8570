#include "server/process/reload.h"

#include "base/log.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- Parts. ---- */

void reloads_add(struct reloads *reloads, struct reload_part part)
{
    MUTEX_HOLD(&reloads->mutex);
    ASSERT(reloads->part_count < RELOAD_PARTS_MAX);
    reloads->parts[reloads->part_count++] = part;
}

void reloads_remove(struct reloads *reloads, const char *name)
{
    uint32_t kept = 0;

    MUTEX_HOLD(&reloads->mutex);
    for (uint32_t i = 0; i < reloads->part_count; i++) {
        if (strcmp(reloads->parts[i].name, name) != 0) {
            reloads->parts[kept++] = reloads->parts[i];
        }
    }
    reloads->part_count = kept;
}

/* ---- One request. ---- */

static void note_failure(struct reload *reload, const char *name, const char *why)
{
    size_t len = strlen(reload->failure);

    (void)snprintf(reload->failure + len, sizeof(reload->failure) - len,
                   "%s%s: %s; the old files stay in use", len > 0 ? "; " : "", name, why);
}

static void run_parts(struct reloads *reloads, struct reload *reload)
{
    MUTEX_HOLD(&reloads->mutex);
    for (uint32_t i = 0; i < reloads->part_count; i++) {
        const struct reload_part *part = &reloads->parts[i];
        char why[RELOAD_WHY_MAX] = "";

        if (part->run(part->ctx, why)) {
            reload->names[reload->count++] = part->name;
        } else {
            reload->err = ERR_CONFIG;
            note_failure(reload, part->name, why);
        }
    }
}

static void join_names(const struct reload *reload, char text[RELOAD_NAMES_MAX])
{
    size_t len = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < reload->count; i++) {
        len += (size_t)snprintf(text + len, RELOAD_NAMES_MAX - len, "%s%s", i > 0 ? ", " : "",
                                reload->names[i]);
        ASSERT(len < RELOAD_NAMES_MAX);
    }
}

static void tell(const struct reload *reload)
{
    char names[RELOAD_NAMES_MAX];

    join_names(reload, names);
    if (reload->count > 0) {
        log_info("server", "{origin}%s: reloaded: {files}%s", reload->by, names);
    }
    if (reload->err) {
        log_error("server", "{origin}%s: not reloaded: {reason}%s", reload->by, reload->failure);
    } else if (reload->count == 0) {
        log_warn("server",
                 "{origin}%s: nothing is reloaded; the replica continues unchanged. Restart it to "
                 "change its configuration; send SIGTERM to end it",
                 reload->by);
    }
}

static void finish(struct reload *reload)
{
    if (reload->on_done) {
        reload->on_done(reload);
    } else {
        mem_free(reload);
    }
}

/* ---- The thread. ---- */

static void run(void *arg)
{
    struct reloads *reloads = arg;

    while (!mailbox_is_closed(&reloads->inbox)) {
        struct list asked;

        (void)mailbox_wait(&reloads->inbox, -1);
        (void)mailbox_drain(&reloads->inbox, &asked);
        list_take_each (struct reload, reload, node, &asked) {
            run_parts(reloads, reload);
            tell(reload);
            finish(reload);
        }
    }
}

void reloads_init(struct reloads *reloads)
{
    mutex_init(&reloads->mutex);
    mailbox_init(&reloads->inbox, RELOAD_WAITING_MAX);
    reloads->part_count = 0;
    reloads->has_thread = false;
}

void reloads_start(struct reloads *reloads)
{
    reloads->has_thread = true;
    thread_start(&reloads->thread, "zabra-reload", run, reloads);
}

void reloads_stop(struct reloads *reloads)
{
    struct list asked;

    if (reloads->has_thread) {
        mailbox_close(&reloads->inbox);
        thread_join(&reloads->thread);
        reloads->has_thread = false;
    }
    (void)mailbox_drain(&reloads->inbox, &asked);
    list_take_each (struct reload, reload, node, &asked) {
        finish(reload);
    }
}

void reloads_release(struct reloads *reloads)
{
    mailbox_release(&reloads->inbox);
    mutex_destroy(&reloads->mutex);
}

enum err reloads_ask(struct reloads *reloads, struct reload *take_reload)
{
    enum err err = mailbox_post(&reloads->inbox, &take_reload->node);

    return err == ERR_FULL ? ERR_THROTTLED : err;
}

void reload_write(const struct reload *reload, struct jsonw *json)
{
    jsonw_object(json);
    jsonw_kv_array(json, "reloaded");
    for (uint32_t i = 0; i < reload->count; i++) {
        jsonw_cstr(json, reload->names[i]);
    }
    jsonw_array_end(json);
    jsonw_object_end(json);
}
