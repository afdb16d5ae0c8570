/* Replicas that are no members, in scripts. */
#include "tests/unit/zab/zab_play_int.h"

#include <stdio.h>

/* "joins zk4:10998 zone=b bootstrap=3 observers=2 voters=5": it has no server list, says this of
 * itself, and shows when it searches. With "observers" it adds others as leader, and has its list;
 * with "voters" it promotes them, too. */
static void do_joins(struct play *play, const struct words *words)
{
    struct zab_init *init = &play->drive.init;
    const char *zone = line_value(words, "zone");
    char *colon = NULL;

    (void)snprintf(play->host, sizeof play->host, "%s", word_at(play, words, 1));
    (void)snprintf(play->zone, sizeof play->zone, "%s", zone ? zone : "");
    colon = strchr(play->host, ':');
    if (!colon) {
        fail(play, "joins needs host:port");
        return;
    }
    init->texts.host = slice_make(play->host, (size_t)(colon - play->host));
    init->texts.port = (uint16_t)number_of(play, colon + 1);
    init->texts.zone = slice_str(play->zone);
    init->bootstrap = (uint32_t)value_or(play, words, "bootstrap", 0);
    init->auto_join = line_value(words, "observers") != NULL;
    init->max_observers = (uint32_t)value_or(play, words, "observers", 0);
    init->max_voters = (uint32_t)value_or(play, words, "voters", 0);
    init->seed_count = init->auto_join ? init->seed_count : 0;
    play->shows_search = true;
}

static void do_reached(struct play *play, const struct words *words)
{
    struct zab_event event = {.type = ZAB_EV_REACHED, .is_all_reached = !line_has(words, "not")};

    drive_step(&play->drive, &event);
}

static void do_searches(struct play *play, const struct words *words)
{
    (void)words;
    play->shows_search = true;
}

/* "waiting": the replicas that wait to be added. */
static void do_waiting(struct play *play, const struct words *words)
{
    struct zab_waiting waiting[ZAB_OUTSIDERS_MAX];
    size_t count = zab_waiting(play->drive.zab, waiting, ZAB_OUTSIDERS_MAX);

    (void)words;
    for (size_t i = 0; i < count; i++) {
        const struct zab_waiting *item = &waiting[i];

        (void)buf_printf(&play->said, "waiting %u:%llu ", item->id,
                         (unsigned long long)item->incarnation);
        (void)buf_append_slice(&play->said, item->texts.host);
        (void)buf_printf(&play->said, ":%u client=", item->texts.port);
        (void)buf_append_slice(&play->said, item->texts.client);
        (void)buf_append_str(&play->said, " zone=");
        (void)buf_append_slice(&play->said, item->texts.zone);
        (void)buf_printf(&play->said, "%s%s\n", item->fault == ZAB_FAULT_NONE ? "" : " ",
                         item->fault == ZAB_FAULT_NONE ? "" : zab_fault_name(item->fault));
    }
    if (count == 0) {
        (void)buf_append_str(&play->said, "no replica waits\n");
    }
}

/* "outsiders 9 bootstrapping": so many replicas that no list names connect, and ask. */
static void do_outsiders(struct play *play, const struct words *words)
{
    struct zab_msg msg = {.type = ZAB_JOIN};

    for (uint32_t id = 100; id < 100 + number_at(play, words, 1); id++) {
        drive_up_as(&play->drive, id, DRIVE_INCARNATION + id, line_has(words, "bootstrapping"));
        drive_recv(&play->drive, id, &msg);
    }
}

const struct command play_joins[] = {
    {"joins", do_joins},       {"outsiders", do_outsiders}, {"reached", do_reached},
    {"searches", do_searches}, {"waiting", do_waiting},     {NULL, NULL},
};
