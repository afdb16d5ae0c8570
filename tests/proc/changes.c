/*
 * Changes of the members, in each of which a replica is killed with SIGKILL: the leader, the member
 * that the change is about (one that joins, one that is removed), or any other, before the change
 * is answered or soon afterwards. It starts again. Within seconds all members have the same version
 * of the configuration, the removed replica has ended by itself, and the history that clients have
 * recorded meanwhile is possible.
 *
 *     changes [--count N] [--seed N] [--print FILE]
 */
#include "base/check.h"
#include "base/os_rng.h"
#include "tests/proc/history_run.h"
#include "tests/proc/membership.h"
#include "tests/proc/options.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum {
    COUNT = 200,
    REPLICAS = 5,
    FOUNDERS = 3,
    REST_MS = 10,
    AGREE_MS = 5000,
    SOON_US = 4000,    /* A change takes some ms; */
    LATER_US = 100000, /* then the removed replica learns it and ends, */
    JOIN_US = 300000,  /* and the new one starts, is refilled and is in step. */
    VERSION_MAX = 32
};

enum what {
    ADD,
    PROMOTE,
    DEMOTE,
    REMOVE,
    REPLACE,
    WHATS
};

static const char *const words[WHATS] = {"add", "promote", "demote", "remove", "replace"};

enum role {
    OUTSIDE,
    OBSERVER,
    VOTER
};

static const char keys[] = "tickTime=300\nsnapCount=3000\nmaxWindow=400\n"
                           "maxSessionTimeout=3600000\n" ENSEMBLE_SUPER;

static struct ensemble ensemble;
static struct history_run run;
static uint64_t change_count = COUNT;
static const char *print_path;
static enum role roles[REPLICAS];  /* As the replicas have agreed. */
static uint32_t leaver = REPLICAS; /* Index of the replica that the change removes, if any. */

/* What a replica that is killed is to the change. */
enum victim {
    LEADER,
    JOINING,  /* It was just added. */
    PROMOTED, /* Also in place of another one. */
    DEMOTED,
    REMOVED,
    BYSTANDER,
    VICTIMS
};

static const char *const victims[VICTIMS] = {"the leader",  "the joining", "the promoted",
                                             "the demoted", "the removed", "another one"};

static struct {
    uint32_t made[WHATS];
    uint32_t refused[WHATS];
    uint32_t open[WHATS];        /* Of unknown outcome. */
    uint32_t killed[VICTIMS][2]; /* Before the answer to the change, and after it. */
    uint32_t ended;              /* Removed replicas that ended by themselves. */
    uint64_t worst_ms;           /* From the restart until all had one version. */
} counts;

static void open_three(void)
{
    membership_open(&ensemble, REPLICAS, FOUNDERS, keys);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        roles[i] = VOTER;
    }
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- What the replicas say ---- */

/* Only the replica that this change removes ends by itself. Its disk never comes back: a later one
 * with this id begins with an empty directory. */
static void take_end(uint32_t index)
{
    ENSEMBLE_CHECK(&ensemble, index == leaver);
    membership_wait_removed(&ensemble, index);
    roles[index] = OUTSIDE;
    counts.ended++;
}

/* Whether the replica runs. The end of its process may be seen here first, so each caller leaves
 * the directory empty. */
static bool runs(uint32_t index)
{
    if (ensemble.replicas[index].pid != 0 && ensemble_has_ended(&ensemble, index)) {
        take_end(index);
    }
    return ensemble.replicas[index].pid != 0;
}

/* Returns whether it was killed: it may have ended by itself first. */
static bool kill_one(uint32_t index)
{
    if (!runs(index)) {
        return false;
    }
    ensemble_kill(&ensemble, index);
    if (WIFEXITED(ensemble.replicas[index].status)) {
        take_end(index);
        return false;
    }
    return true;
}

static enum role role_in(const json_t *seen, uint32_t index)
{
    const json_t *member = membership_find(seen, index);
    const char *role = json_string_value(json_object_get(member, "role"));

    return !member ? OUTSIDE : role && strcmp(role, "voter") == 0 ? VOTER : OBSERVER;
}

/* The version and members that a replica knows; false while it has a change that is not committed,
 * or does not serve. */
static bool config_of(uint32_t index, char version[VERSION_MAX], enum role ret_roles[REPLICAS])
{
    json_t *seen = membership_seen_by(&ensemble, index);
    const char *text = json_string_value(json_object_get(seen, "config_version"));
    bool known = text && !json_is_object(json_object_get(seen, "pending")) &&
                 json_integer_value(json_object_get(seen, "leader")) != 0;
    (void)snprintf(version, VERSION_MAX, "%s", text ? text : "");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        ret_roles[i] = role_in(seen, i);
    }
    json_decref(seen);
    return known && ensemble_call(&ensemble, index, "GET", "/readyz", NULL) == 200;
}

/* All members run, serve and have one version with the same members; all others have ended. */
static bool all_agree(void)
{
    char first[VERSION_MAX] = "";
    char version[VERSION_MAX];
    enum role got[REPLICAS];

    enum role agreed[REPLICAS] = {OUTSIDE};

    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (!runs(i)) {
            continue;
        }
        if (!config_of(i, version, got) || (first[0] && strcmp(first, version) != 0)) {
            return false;
        }
        ENSEMBLE_CHECK(&ensemble, !first[0] || memcmp(agreed, got, sizeof(agreed)) == 0);
        memcpy(first, version, sizeof(first));
        memcpy(agreed, got, sizeof(agreed));
    }
    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (!first[0] || runs(i) != (agreed[i] != OUTSIDE)) {
            return false;
        }
    }
    memcpy(roles, agreed, sizeof(roles));
    return true;
}

/* ---- One change ---- */

struct step {
    enum what what;
    uint32_t subject; /* Index of the member; of a replacement the one that goes. */
    uint32_t other;   /* Of a replacement the one that votes in its place. */
    struct membership_call call;
};

static uint32_t count_role(enum role role)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        count += roles[i] == role;
    }
    return count;
}

/* A random replica of that role; there is one. */
static uint32_t pick(struct rng *rng, enum role role)
{
    uint32_t left = (uint32_t)rng_below(rng, count_role(role));

    for (uint32_t i = 0;; i++) {
        if (roles[i] == role && left-- == 0) {
            return i;
        }
    }
}

static bool is_possible(enum what what)
{
    bool has_spare = count_role(VOTER) > FOUNDERS;
    bool has_observer = count_role(OBSERVER) > 0;

    return what == ADD      ? count_role(OUTSIDE) > 0
           : what == DEMOTE ? has_spare
           : what == REMOVE ? has_spare || has_observer
                            : has_observer;
}

/* The role of one that is removed. */
static enum role pick_role(struct rng *rng)
{
    if (count_role(VOTER) <= FOUNDERS) {
        return OBSERVER;
    }
    return count_role(OBSERVER) > 0 && rng_below(rng, 2) == 0 ? OBSERVER : VOTER;
}

static void draw(struct rng *rng, struct step *step)
{
    do {
        step->what = (enum what)rng_below(rng, WHATS);
    } while (!is_possible(step->what));
    switch (step->what) {
    case ADD:
        step->subject = pick(rng, OUTSIDE);
        membership_add(&ensemble, step->subject, &step->call);
        break;
    case PROMOTE:
        step->subject = pick(rng, OBSERVER);
        membership_role(step->subject, "voter", &step->call);
        break;
    case DEMOTE:
        step->subject = pick(rng, VOTER);
        membership_role(step->subject, "observer", &step->call);
        break;
    case REMOVE:
        step->subject = pick(rng, pick_role(rng));
        membership_remove(step->subject, &step->call);
        break;
    case REPLACE:
    case WHATS:
        step->subject = pick(rng, VOTER);
        step->other = pick(rng, OBSERVER);
        membership_replace(step->subject, step->other, &step->call);
        break;
    }
}

struct sender {
    struct thread thread;
    const struct membership_call *call;
    uint16_t port;
    long status;
    uint64_t answered_us;
};

static void send_it(void *arg)
{
    struct sender *sender = arg;
    struct web *web = web_open();
    struct web_reply reply;

    web_reply_init(&reply);
    sender->status = membership_send(web, &reply, sender->port, sender->call);
    sender->answered_us = os_now_us();
    web_reply_release(&reply);
    web_close(web);
}

/* Waits until a member that is to vote may do so: otherwise most changes would be refused. */
static void wait_in_step(struct rng *rng, const struct step *step)
{
    struct membership_call trial = step->call;

    if (step->what != PROMOTE && step->what != REPLACE) {
        return;
    }
    if (rng_below(rng, 8) == 0) {
        return; /* And some are to be refused. */
    }
    trial.body[strlen(trial.body) - 1] = '\0';
    (void)snprintf(trial.body + strlen(trial.body), sizeof(trial.body) - strlen(trial.body),
                   ",\"dryRun\":true}");
    membership_change(&ensemble, ensemble_wait_leader(&ensemble), &trial);
}

/* Which replica is to be killed, and how long after the request. */
struct fault {
    enum victim victim;
    uint32_t index;
    uint64_t after_us;
    uint64_t at_us; /* When it was killed. */
};

/* The member that the change is about; of a replacement one of the two. */
static void aim_at_subject(struct rng *rng, const struct step *step, struct fault *fault)
{
    static const enum victim subjects[WHATS] = {[ADD] = JOINING,
                                                [PROMOTE] = PROMOTED,
                                                [DEMOTE] = DEMOTED,
                                                [REMOVE] = REMOVED,
                                                [REPLACE] = REMOVED};

    bool is_other = step->what == REPLACE && rng_below(rng, 2) == 0;

    fault->victim = is_other ? PROMOTED : subjects[step->what];
    fault->index = is_other ? step->other : step->subject;
}

/* Half of the kills hit the change itself, the others what follows from it. */
static void draw_fault(struct rng *rng, const struct step *step, struct fault *fault)
{
    uint64_t dice = rng_below(rng, 8);
    uint32_t leader = ensemble_wait_leader(&ensemble);

    *fault = (struct fault){.victim = LEADER, .index = leader};
    if (dice >= 3 && dice < 7) {
        aim_at_subject(rng, step, fault);
    } else if (dice == 7) {
        fault->victim = BYSTANDER;
        fault->index = pick(rng, VOTER);
    }
    if (fault->index == leader && fault->victim != REMOVED && fault->victim != DEMOTED) {
        fault->victim = LEADER;
    }
    fault->after_us = rng_below(rng, fault->victim == JOINING ? JOIN_US
                                     : rng_below(rng, 2) == 0 ? SOON_US
                                                              : LATER_US);
}

static void play_fault(struct fault *fault)
{
    const struct timespec pause = {.tv_nsec = (long)fault->after_us * 1000};

    (void)ppoll(NULL, 0, &pause, NULL);
    fault->at_us = os_now_us();
    if (kill_one(fault->index)) {
        return;
    }
    fault->victim = BYSTANDER; /* The removed one has ended already. */
    for (fault->index = 0; roles[fault->index] != VOTER || !kill_one(fault->index);) {
        fault->index++;
        ASSERT(fault->index < REPLICAS);
    }
}

enum outcome {
    MADE,
    REFUSED,
    OPEN /* Unknown. */
};

static enum outcome take_outcome(const struct step *step, long status)
{
    if (status / 100 == 2) {
        counts.made[step->what]++;
        return MADE;
    }
    if (status == 409 || status == 404 || status == 503) {
        counts.refused[step->what]++;
        return REFUSED;
    }
    ENSEMBLE_CHECK(&ensemble, status == 0 || status == 504);
    counts.open[step->what]++;
    return OPEN;
}

/* What the change makes of the members. */
static void apply(const struct step *step, enum role of[REPLICAS])
{
    static const enum role after[WHATS] = {[ADD] = OBSERVER,
                                           [PROMOTE] = VOTER,
                                           [DEMOTE] = OBSERVER,
                                           [REMOVE] = OUTSIDE,
                                           [REPLACE] = OUTSIDE};

    of[step->subject] = after[step->what];
    if (step->what == REPLACE) {
        of[step->other] = VOTER;
    }
}

/* The members are those after a change that was answered, those before one that was refused, and
 * of the others one or the other. */
static void check_members(const struct step *step, enum outcome outcome,
                          const enum role before[REPLICAS])
{
    enum role after[REPLICAS];
    bool is_done = false;
    bool is_not_done = memcmp(roles, before, sizeof(roles)) == 0;

    memcpy(after, before, sizeof(after));
    apply(step, after);
    is_done = memcmp(roles, after, sizeof(roles)) == 0;
    ENSEMBLE_CHECK(&ensemble, outcome == MADE      ? is_done
                              : outcome == REFUSED ? is_not_done
                                                   : is_done || is_not_done);
}

/* All replicas that were killed start again, and one that may have been added. */
static void start_again(const struct step *step)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        bool starts = roles[i] != OUTSIDE || (step->what == ADD && i == step->subject);

        if (starts && ensemble.replicas[i].pid == 0) {
            ensemble_start(&ensemble, i);
        }
    }
}

static void wait_agreed(const struct step *step, uint64_t start_ms)
{
    uint64_t took_ms = 0;

    ENSEMBLE_WAIT(&ensemble, all_agree());
    took_ms = os_now_ms() - start_ms;
    counts.worst_ms = took_ms > counts.worst_ms ? took_ms : counts.worst_ms;
    if (took_ms > AGREE_MS) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s of replica %u: the replicas agreed after %" PRIu64 " ms", words[step->what],
                 step->subject + 1, took_ms);
    }
}

/* A replica that was added in vain never gets in: it is stopped. */
static void stop_strangers(const struct step *step)
{
    char version[VERSION_MAX];
    enum role got[REPLICAS];
    uint32_t leader = 0;

    if (step->what != ADD || !runs(step->subject)) {
        return;
    }
    leader = ensemble_wait_leader(&ensemble);
    ENSEMBLE_WAIT(&ensemble, config_of(leader, version, got));
    if (got[step->subject] == OUTSIDE) {
        ensemble_kill(&ensemble, step->subject);
        ensemble_empty(&ensemble, step->subject);
    }
}

static void play_one(struct rng *rng)
{
    struct step step = {.what = ADD};
    struct sender sender = {.call = &step.call};
    struct fault fault;
    enum role before[REPLICAS];
    enum outcome outcome = OPEN;
    uint64_t start_ms = 0;

    memcpy(before, roles, sizeof(before));
    draw(rng, &step);
    wait_in_step(rng, &step);
    draw_fault(rng, &step, &fault);
    leaver = step.what == REMOVE || step.what == REPLACE ? step.subject : (uint32_t)REPLICAS;
    sender.port = ensemble.replicas[ensemble_wait_leader(&ensemble)].client_port;
    if (step.what == ADD && (fault.victim == JOINING || rng_below(rng, 2) == 0)) {
        ensemble_start(&ensemble, step.subject); /* It waits until it is added. */
    }
    thread_start(&sender.thread, "sender", send_it, &sender);
    play_fault(&fault);
    thread_join(&sender.thread);
    outcome = take_outcome(&step, sender.status);
    counts.killed[fault.victim][fault.at_us > sender.answered_us]++;
    start_ms = os_now_ms();
    start_again(&step);
    stop_strangers(&step);
    wait_agreed(&step, start_ms);
    check_members(&step, outcome, before);
}

/* ---- The run ---- */

static void start_clients(void)
{
    static const struct {
        enum history_kind kind;
        const char *name;
    } clients[] = {{HISTORY_HTTP, "http 1"},   {HISTORY_HTTP, "http 2"},
                   {HISTORY_RAW, "raw"},       {HISTORY_SSE, "sse"},
                   {HISTORY_SOCKET, "socket"}, {HISTORY_NDJSON, "ndjson"}};

    ensemble_call_until(&ensemble, 0, "PUT", "/znodes/v1/h?upsert=true", "", 201);
    run.rest_ms = REST_MS;
    run.port_count = REPLICAS;
    for (uint32_t i = 0; i < REPLICAS; i++) {
        run.ports[i] = ensemble.replicas[i].client_port;
    }
    for (size_t i = 0; i < sizeof(clients) / sizeof(clients[0]); i++) {
        (void)history_client_add(&run, clients[i].kind, clients[i].name);
    }
    for (uint32_t i = 0; i < run.count; i++) {
        history_client_start(&run.clients[i]);
    }
}

/* For the last reads all replicas are members again. */
static void add_all(void)
{
    struct membership_call call;

    for (uint32_t i = 0; i < REPLICAS; i++) {
        if (roles[i] == OUTSIDE) {
            membership_add(&ensemble, i, &call);
            membership_change(&ensemble, ensemble_wait_leader(&ensemble), &call);
            ensemble_start(&ensemble, i);
        }
    }
    ENSEMBLE_WAIT(&ensemble, all_agree());
}

static void print_counts(void)
{
    for (uint32_t i = 0; i < WHATS; i++) {
        print_message("%-8s %3u made, %3u refused, %3u of unknown outcome\n", words[i],
                      counts.made[i], counts.refused[i], counts.open[i]);
    }
    for (uint32_t i = 0; i < VICTIMS; i++) {
        print_message("killed %-12s %3u times before the answer, %3u after it\n", victims[i],
                      counts.killed[i][0], counts.killed[i][1]);
    }
    print_message("%u removed replicas ended by themselves; all agreed %" PRIu64
                  " ms after the restart at the latest\n",
                  counts.ended, counts.worst_ms);
}

/* A run proves something only if it has done all of this. */
static void check_counts(void)
{
    static const enum victim needed[] = {LEADER, JOINING, REMOVED};

    for (uint32_t i = 0; i < WHATS; i++) {
        assert_true(counts.made[i] > 0);
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        assert_true(counts.killed[needed[i]][0] > 0 && counts.killed[needed[i]][1] > 0);
    }
    assert_true(counts.ended > 0);
}

TEST(the_members_agree_after_each_kill, open_three, close_all)
{
    struct history_report report;
    struct rng rng;

    print_message("seed %" PRIu64 "\n", run.seed);
    rng_init(&rng, run.seed);
    start_clients();
    for (uint64_t i = 0; i < change_count; i++) {
        play_one(&rng);
    }
    add_all();
    print_counts();
    if (change_count >= COUNT) {
        check_counts();
    }
    history_finish(&run, &ensemble);
    history_judge(&run, &ensemble, print_path, &report);
    history_run_release(&run);
}

int main(int argc, char **argv)
{
    const struct option_row rows[] = {{.name = "--count", .value = "N", .number = &change_count},
                                      {.name = "--seed", .value = "N", .number = &run.seed},
                                      {.name = "--print", .value = "FILE", .text = &print_path}};

    run.seed = os_random_u64() % 1000000;
    if (!options_take(argc, argv, rows, sizeof(rows) / sizeof(rows[0]))) {
        return 2;
    }
    web_setup();
    return unit_run(1, argv);
}
