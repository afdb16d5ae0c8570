#include "tests/sim/sim_run.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/probe.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Memory that a worker shares with its parent. */
struct worker {
    pid_t pid;
    uint64_t seed; /* The current seed, or the next. */
    uint64_t last;
    uint64_t step;
    bool done;
    char text[SIM_REASON_MAX];
    struct sim_totals totals;
    uint8_t probes[RUN_PROBES_MAX];
};

static void add_totals(struct sim_totals *to, const struct sim_totals *from)
{
    uint64_t longest = to->converge_ms > from->converge_ms ? to->converge_ms : from->converge_ms;
    uint64_t sums[sizeof(*to) / sizeof(uint64_t)];
    uint64_t adds[sizeof(*to) / sizeof(uint64_t)];

    memcpy(sums, to, sizeof(sums));
    memcpy(adds, from, sizeof(adds));
    for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++) {
        sums[i] += adds[i];
    }
    memcpy(to, sums, sizeof(sums));
    to->converge_ms = longest;
}

uint64_t run_one(const struct sim_options *options, struct sim_totals *totals)
{
    struct sim *sim;
    uint64_t hash;

    mutant_select(options->mutant);
    sim = sim_new(options);
    sim_watch(sim);
    if (!options->scenario) {
        sim_seed(sim);
    } else if (!sim_scenario_run(sim, options->scenario)) {
        sim_fail(sim, "usage", "there is no scenario %s", options->scenario);
    }
    sim_watch(NULL);
    sim->totals.seeds = 1;
    add_totals(totals, &sim->totals);
    hash = sim->trace_hash;
    sim_free(sim);
    return hash;
}

static void work(const struct run_plan *plan, struct worker *worker)
{
    struct sim_options options = plan->options;

    sim_fail_to(worker->text, sizeof(worker->text));
    if (plan->quiet) {
        int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

        if (null_fd >= 0) {
            (void)dup2(null_fd, STDERR_FILENO);
        }
    }
    for (; worker->seed <= worker->last; worker->seed += worker->step) {
        options.seed = worker->seed;
        (void)run_one(&options, &worker->totals);
        sim_probe_collect(worker->probes);
    }
    worker->done = true;
    _exit(0);
}

static void spawn(const struct run_plan *plan, struct worker *worker)
{
    pid_t pid;

    (void)fflush(NULL);
    worker->text[0] = 0;
    pid = fork(); /* Not into the shared memory: the child would overwrite worker->pid. */
    if (pid == 0) {
        work(plan, worker);
    }
    ASSERT(pid > 0);
    worker->pid = pid;
}

static void note_failure(struct run_result *result, const struct worker *worker)
{
    if (result->failure_count < RUN_FAILURES_MAX) {
        struct run_failure *failure = &result->failures[result->failure_count++];

        failure->seed = worker->seed;
        (void)snprintf(failure->text, sizeof(failure->text), "%s",
                       worker->text[0] ? worker->text : "the worker process died");
    }
}

/* A worker has ended, normally or in the middle of a seed. True when it was restarted. */
static bool take_end(const struct run_plan *plan, struct worker *worker, struct run_result *result)
{
    worker->pid = 0;
    if (worker->done) {
        return false;
    }
    note_failure(result, worker);
    worker->seed += worker->step;
    if (result->failure_count >= plan->failures_max || worker->seed > worker->last) {
        return false;
    }
    spawn(plan, worker);
    return true;
}

static void stop_all(struct worker *workers, uint32_t jobs)
{
    for (uint32_t i = 0; i < jobs; i++) {
        if (workers[i].pid > 0) {
            (void)kill(workers[i].pid, SIGKILL);
            (void)waitpid(workers[i].pid, NULL, 0);
            workers[i].pid = 0;
        }
    }
}

static void supervise(const struct run_plan *plan, struct worker *workers, uint32_t jobs,
                      struct run_result *result)
{
    uint32_t running = jobs;

    while (running > 0) {
        pid_t pid = waitpid(-1, NULL, 0);

        ASSERT(pid > 0);
        for (uint32_t i = 0; i < jobs; i++) {
            if (pid > 0 && workers[i].pid == pid && !take_end(plan, &workers[i], result)) {
                running--;
            }
        }
        if (result->failure_count >= plan->failures_max) {
            stop_all(workers, jobs);
            return;
        }
    }
}

static void collect(struct worker *workers, uint32_t jobs, struct run_result *result)
{
    for (uint32_t i = 0; i < jobs; i++) {
        add_totals(&result->totals, &workers[i].totals);
        for (size_t j = 0; j < RUN_PROBES_MAX; j++) {
            result->probes[j] |= workers[i].probes[j];
        }
    }
}

void run_all(const struct run_plan *plan, struct run_result *ret_result)
{
    uint32_t jobs = plan->jobs < 1 ? 1 : plan->jobs > RUN_JOBS_MAX ? RUN_JOBS_MAX : plan->jobs;
    size_t size = sizeof(struct worker) * RUN_JOBS_MAX;
    struct worker *workers =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t begin_ms = os_now_ms();

    ASSERT(workers != MAP_FAILED);
    *ret_result = (struct run_result){0};
    for (uint32_t i = 0; i < jobs; i++) {
        workers[i].seed = plan->first + i;
        workers[i].last = plan->last;
        workers[i].step = jobs;
        spawn(plan, &workers[i]);
    }
    supervise(plan, workers, jobs, ret_result);
    collect(workers, jobs, ret_result);
    ret_result->wall_ms = os_now_ms() - begin_ms;
    (void)munmap(workers, size);
}

void run_print(const struct run_result *result)
{
    const struct sim_totals *t = &result->totals;
    double seconds = (double)(result->wall_ms ? result->wall_ms : 1) / 1000;

    (void)printf("seeds %" PRIu64 " (%.1f/s), virtual %.0f s (%.0f times as fast), events %" PRIu64
                 ", messages %" PRIu64 "\n",
                 t->seeds, (double)t->seeds / seconds, (double)t->virtual_us / 1e6,
                 (double)t->virtual_us / 1e6 / seconds, t->events, t->messages);
    (void)printf(
        "operations %" PRIu64 ": acknowledged %" PRIu64 ", errors %" PRIu64 ", refused %" PRIu64
        " (tree full %" PRIu64 "), unknown %" PRIu64 "; reads %" PRIu64 "; records %" PRIu64 "\n",
        t->ops, t->acked, t->errors, t->refused, t->tree_full, t->unknown, t->reads, t->committed);
    (void)printf("leaders established %" PRIu64 ", TRUNCs %" PRIu64 ", SNAPs %" PRIu64
                 ", snapshots taken %" PRIu64 ", crashes %" PRIu64 " (power cuts %" PRIu64
                 "), pauses %" PRIu64 ", partitions %" PRIu64 "\n",
                 t->established, t->truncs, t->snaps_sent, t->snaps_taken, t->crashes,
                 t->power_cuts, t->pauses, t->partitions);
    (void)printf("disks: rotten %" PRIu64 ", emptied %" PRIu64 ", back from the shelf %" PRIu64
                 ", full %" PRIu64 "; quarantines %" PRIu64 ", admissions %" PRIu64
                 " (struck %" PRIu64 "); longest convergence %" PRIu64 " ms\n",
                 t->rotted, t->emptied, t->swapped, t->full, t->quarantines, t->admissions,
                 t->strikes, t->converge_ms);
    (void)printf("feature levels: raises proposed %" PRIu64
                 ", processes that did not know the level %" PRIu64 "\n",
                 t->raises, t->unread);
    (void)printf("changes of the members %" PRIu64 ", refused %" PRIu64 "\n", t->changes,
                 t->changes_refused);
    (void)printf("disks in use: failing %" PRIu64 " (I/O errors %" PRIu64 "), rotten %" PRIu64
                 "; states wrong after loading a snapshot %" PRIu64 "\n",
                 t->failing, t->io_errors, t->decayed, t->spoilt);
    (void)printf(
        "sessions opened %" PRIu64 ", closed %" PRIu64 " (expired %" PRIu64 "), moved %" PRIu64
        "; ephemerals %" PRIu64 "; retries %" PRIu64 ", answered from memory %" PRIu64 "\n",
        t->opened, t->closed, t->expired, t->moved, t->ephemerals, t->retries, t->replayed);
    (void)printf("TTL znodes removed %" PRIu64 "; nothing counted the age %" PRIu64 " times\n",
                 t->reaped, t->progress);
    (void)printf("watch events %" PRIu64 ", resumed %" PRIu64 ", by difference %" PRIu64
                 ", gaps %" PRIu64 ", subscribers behind %" PRIu64 "\n",
                 t->delivered, t->resumed, t->diffed, t->gaps, t->lost);
    for (uint32_t i = 0; i < result->failure_count; i++) {
        (void)printf("FAILED seed %" PRIu64 ": %s\n", result->failures[i].seed,
                     result->failures[i].text);
    }
}

size_t run_print_unhit(const struct run_result *result)
{
    size_t missed = 0;
    size_t reached = 0;

    for (size_t i = 0; i < sim_probe_count(); i++) {
        reached += result->probes[i];
        if (!result->probes[i] && sim_probe_expected(i)) {
            (void)printf("not reached: %s\n", sim_probe_name(i));
            missed++;
        }
    }
    (void)printf("probes: %zu of %zu reached\n", reached, sim_probe_count());
    return missed;
}
