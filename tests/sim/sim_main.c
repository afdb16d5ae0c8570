#include "base/check.h"
#include "tests/sim/sim_run.h"

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>

struct command {
    struct sim_options options;
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    uint64_t budget;
    uint32_t finds;
    bool mutants;
    bool selftest;
    bool determinism;
    bool need_probes;
    bool single; /* One seed, in this process. */
    const char *replay;
};

enum {
    SCENARIO_SEEDS = 5, /* Per scenario, when probes are counted. */
};

static const char usage_text[] =
    "sim --seed S [--trace]           one seed, in this process\n"
    "sim --seeds A:B [--jobs N]       many seeds\n"
    "sim --scenario NAME|all [...]    a script instead of random faults\n"
    "sim --mutant N ...               with a known historical bug brought back\n"
    "sim --mutants [--budget N] [--mutant N]  which mutants are caught, and how soon\n"
    "sim --replay FILE                regressions, or mutants with the seeds that catch them\n"
    "sim --determinism --seeds A:B    each seed twice: equal traces\n"
    "sim --selftest                   corrupted histories must be noticed\n"
    "options: --nodes N --safety-ms N --ops N --need-probes --finds N --reconfig 0|1\n";

enum {
    OPT_SEED = 1,
    OPT_SEEDS,
    OPT_JOBS,
    OPT_TRACE,
    OPT_SCENARIO,
    OPT_MUTANT,
    OPT_MUTANTS,
    OPT_BUDGET,
    OPT_REPLAY,
    OPT_DETERMINISM,
    OPT_SELFTEST,
    OPT_NODES,
    OPT_SAFETY,
    OPT_OPS,
    OPT_PROBES,
    OPT_FINDS,
    OPT_RECONFIG,
};

static const struct option long_options[] = {
    {"seed", required_argument, NULL, OPT_SEED},
    {"seeds", required_argument, NULL, OPT_SEEDS},
    {"jobs", required_argument, NULL, OPT_JOBS},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"scenario", required_argument, NULL, OPT_SCENARIO},
    {"mutant", required_argument, NULL, OPT_MUTANT},
    {"mutants", no_argument, NULL, OPT_MUTANTS},
    {"budget", required_argument, NULL, OPT_BUDGET},
    {"replay", required_argument, NULL, OPT_REPLAY},
    {"determinism", no_argument, NULL, OPT_DETERMINISM},
    {"selftest", no_argument, NULL, OPT_SELFTEST},
    {"nodes", required_argument, NULL, OPT_NODES},
    {"safety-ms", required_argument, NULL, OPT_SAFETY},
    {"ops", required_argument, NULL, OPT_OPS},
    {"need-probes", no_argument, NULL, OPT_PROBES},
    {"finds", required_argument, NULL, OPT_FINDS},
    {"reconfig", required_argument, NULL, OPT_RECONFIG},
    {NULL, 0, NULL, 0},
};

static uint64_t number(const char *text)
{
    return strtoull(text, NULL, 10);
}

static void take_seeds(struct command *command, const char *text)
{
    const char *colon = strchr(text, ':');

    command->first = number(text);
    command->last = colon ? number(colon + 1) : command->first;
}

/* Parses the numeric options of the plan; false for any other option. */
static bool take_number(struct command *command, int option, const char *text)
{
    struct sim_options *options = &command->options;

    switch (option) {
    case OPT_JOBS:
        command->jobs = (uint32_t)number(text);
        return true;
    case OPT_MUTANT:
        options->mutant = (int)number(text);
        return true;
    case OPT_BUDGET:
        command->budget = number(text);
        return true;
    case OPT_FINDS:
        command->finds = (uint32_t)number(text);
        return true;
    case OPT_NODES:
        options->only_nodes = (uint32_t)number(text);
        return true;
    case OPT_SAFETY:
        options->safety_ms = (uint32_t)number(text);
        return true;
    case OPT_RECONFIG:
        options->reconfig = number(text) != 0;
        return true;
    case OPT_OPS:
        options->ops_min = (uint32_t)number(text);
        return true;
    default:
        return false;
    }
}

static bool take_option(struct command *command, int option, const char *text)
{
    if (take_number(command, option, text)) {
        return true;
    }
    switch (option) {
    case OPT_SEED:
    case OPT_SEEDS:
        take_seeds(command, text);
        command->single = option == OPT_SEED;
        return true;
    case OPT_TRACE:
        command->options.trace = true;
        return true;
    case OPT_SCENARIO:
        command->options.scenario = text;
        return true;
    case OPT_MUTANTS:
        command->mutants = true;
        return true;
    case OPT_REPLAY:
        command->replay = text;
        return true;
    case OPT_DETERMINISM:
        command->determinism = true;
        return true;
    case OPT_SELFTEST:
        command->selftest = true;
        return true;
    case OPT_PROBES:
        command->need_probes = true;
        return true;
    default:
        return false;
    }
}

/* Runs each seed twice; the second run must equal the first, event by event. */
static int run_determinism(const struct command *command)
{
    struct sim_totals totals = {0};

    for (uint64_t seed = command->first; seed <= command->last; seed++) {
        struct sim_options options = command->options;
        uint64_t first;
        uint64_t second;

        options.seed = seed;
        first = run_one(&options, &totals);
        second = run_one(&options, &totals);
        if (first != second) {
            (void)printf("seed %" PRIu64 " differs: %" PRIx64 " %" PRIx64 "\n", seed, first,
                         second);
            return 1;
        }
    }
    (void)printf("%" PRIu64 " seeds, each the same twice\n", command->last - command->first + 1);
    return 0;
}

/* Scenarios reach probes that random seeds do not. */
static void add_scenario_probes(const struct command *command, struct run_result *total)
{
    static struct run_result result;

    for (size_t i = 0; sim_scenario_name(i); i++) {
        struct run_plan plan = {.options = command->options,
                                .first = 1,
                                .last = SCENARIO_SEEDS,
                                .jobs = command->jobs,
                                .failures_max = RUN_FAILURES_MAX};

        plan.options.scenario = sim_scenario_name(i);
        run_all(&plan, &result);
        for (size_t k = 0; k < RUN_PROBES_MAX; k++) {
            total->probes[k] |= result.probes[k];
        }
    }
}

static int run_plan(const struct command *command, const char *scenario)
{
    static struct run_result result;
    struct run_plan plan = {.options = command->options,
                            .first = command->first,
                            .last = command->last,
                            .jobs = command->jobs,
                            .failures_max = RUN_FAILURES_MAX};
    size_t unhit = 0;

    plan.options.scenario = scenario;
    run_all(&plan, &result);
    if (scenario) {
        (void)printf("scenario %s: ", scenario);
    }
    run_print(&result);
    if (command->need_probes) {
        add_scenario_probes(command, &result);
    }
    if (!scenario) {
        unhit = run_print_unhit(&result);
    }
    return result.failure_count > 0 || (command->need_probes && unhit > 0);
}

static int run_scenarios(const struct command *command)
{
    int failed = 0;

    if (strcmp(command->options.scenario, "all") != 0) {
        return run_plan(command, command->options.scenario);
    }
    for (size_t i = 0; sim_scenario_name(i); i++) {
        failed |= run_plan(command, sim_scenario_name(i));
    }
    return failed;
}

static int run_single(const struct command *command)
{
    static struct run_result result;
    struct sim_options options = command->options;
    uint64_t hash;

    options.seed = command->first;
    hash = run_one(&options, &result.totals);
    run_print(&result);
    (void)printf("trace %016" PRIx64 "\n", hash);
    return 0;
}

static int run_command(const struct command *command)
{
    if (command->mutants) {
        return mutants_search(command->options.mutant, command->budget, command->finds,
                              command->jobs) > 0;
    }
    if (command->replay) {
        return replay_file(command->replay) > 0;
    }
    if (command->selftest) {
        return selftest_run() > 0;
    }
    if (command->determinism) {
        return run_determinism(command);
    }
    if (command->single &&
        (!command->options.scenario || strcmp(command->options.scenario, "all") != 0)) {
        return run_single(command);
    }
    return command->options.scenario ? run_scenarios(command) : run_plan(command, NULL);
}

int main(int argc, char **argv)
{
    struct command command = {.options = {.safety_ms = 60000, .ops_min = 500, .reconfig = true},
                              .first = 1,
                              .last = 1,
                              .jobs = 1,
                              .budget = 2000,
                              .finds = 5};
    int option = getopt_long(argc, argv, "", long_options, NULL);

    /* Keeps freed memory: the next seed needs as much as the last. */
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    (void)mallopt(M_MMAP_THRESHOLD, 32 << 20);

    while (option != -1) {
        if (!take_option(&command, option, optarg)) {
            (void)fputs(usage_text, stderr);
            return 2;
        }
        option = getopt_long(argc, argv, "", long_options, NULL);
    }
    return run_command(&command);
}
