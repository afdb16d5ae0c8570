#include "base/check.h"
#include "tests/sim/sim_run.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Mutants and regressions. A line of a file of seeds reads
 *     seed=123 [scenario=S3] [mutant=2] [nodes=3] [reconfig=0] # one line of story
 * or seeds=1:20 ...; all of its seeds must pass or, with a mutant, one of them must fail. With
 * reconfig=1 the configuration changes in other ways than by admissions, too; without it, a line
 * means reconfig=0.
 */

enum {
    LINE_MAX_LEN = 400,
    NAME_MAX_LEN = 64,
    FINDS_MAX = 16,
};

/* Mutants that the simulator must catch; see README.md. */
static const int mutants[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                              17, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 36,
                              37, 38, 39, 40, 41, 42, 43, 44, 50, 51, 52, 53, 54, 55, 56, 57,
                              58, 61, 62, 63, 70, 71, 72, 73, 74, 75, 76, 77, 78, 80};

static bool take_number(const char *line, const char *key, uint64_t *ret_value)
{
    const char *at = strstr(line, key);

    if (at) {
        *ret_value = strtoull(at + strlen(key), NULL, 10);
    }
    return at != NULL;
}

/* `seed=N`, or `seeds=A:B`. */
static bool take_seeds(const char *line, struct run_plan *plan)
{
    const char *range = strstr(line, "seeds=");
    const char *colon = range ? strchr(range, ':') : NULL;

    if (colon) {
        plan->last = strtoull(colon + 1, NULL, 10);
        return take_number(line, "seeds=", &plan->first);
    }
    if (!take_number(line, "seed=", &plan->first)) {
        return false;
    }
    plan->last = plan->first;
    return true;
}

static bool parse_line(char *line, struct run_plan *plan, char *scenario)
{
    struct sim_options *options = &plan->options;
    char *story = strchr(line, '#');
    const char *name;
    uint64_t value = 0;

    if (story) {
        *story = 0;
    }
    if (!take_seeds(line, plan)) {
        return false;
    }
    if (take_number(line, "mutant=", &value)) {
        options->mutant = (int)value;
    }
    options->reconfig = take_number(line, "reconfig=", &value) && value != 0;
    if (take_number(line, "nodes=", &value)) {
        options->only_nodes = (uint32_t)value;
    }
    name = strstr(line, "scenario=");
    if (name && sscanf(name, "scenario=%63s", scenario) == 1) {
        options->scenario = scenario;
    }
    return true;
}

static bool replay_line(char *line, const struct sim_options *defaults)
{
    char scenario[NAME_MAX_LEN];
    struct run_plan plan = {.options = *defaults, .jobs = 1, .failures_max = 1, .quiet = true};
    static struct run_result result;
    bool must_fail;

    if (!parse_line(line, &plan, scenario)) {
        return true;
    }
    must_fail = plan.options.mutant != 0;
    run_all(&plan, &result);
    (void)printf("%-50s %s\n", line, result.failure_count > 0 ? result.failures[0].text : "passes");
    return (result.failure_count > 0) == must_fail;
}

int replay_file(const char *path)
{
    struct sim_options defaults = {.safety_ms = 60000, .ops_min = 500};
    char line[LINE_MAX_LEN];
    int wrong = 0;
    FILE *file = fopen(path, "re");

    if (!file) {
        (void)fprintf(stderr, "cannot read %s\n", path);
        return 1;
    }
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && line[0] != '#' && !replay_line(line, &defaults)) {
            (void)printf("WRONG: %s\n", line);
            wrong++;
        }
    }
    (void)fclose(file);
    return wrong;
}

/* ---- The search. ---- */

static int by_value(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;

    return *left < *right ? -1 : *left > *right;
}

static int by_seed(const void *a, const void *b)
{
    const struct run_failure *left = a;
    const struct run_failure *right = b;

    return left->seed < right->seed ? -1 : left->seed > right->seed;
}

/* Scenarios come first: they need no luck. */
static bool scenario_catches(int mutant, const struct sim_options *defaults, char *text,
                             size_t size)
{
    static struct run_result result;

    for (size_t i = 0; sim_scenario_name(i); i++) {
        struct run_plan plan = {.options = *defaults,
                                .first = 1,
                                .last = 5,
                                .jobs = 1,
                                .failures_max = 1,
                                .quiet = true};

        plan.options.mutant = mutant;
        plan.options.scenario = sim_scenario_name(i);
        run_all(&plan, &result);
        if (result.failure_count > 0) {
            (void)snprintf(text, size, "scenario %s seed %" PRIu64 ": %s", sim_scenario_name(i),
                           result.failures[0].seed, result.failures[0].text);
            return true;
        }
    }
    return false;
}

/* Target and limits of a search. */
struct search {
    struct sim_options defaults;
    uint64_t budget; /* Seeds. */
    uint32_t wanted; /* Finds. */
    uint32_t jobs;
};

static uint32_t random_finds(int mutant, const struct search *search, uint64_t *gaps,
                             struct run_failure *first)
{
    static struct run_result result;
    struct run_plan plan = {.options = search->defaults,
                            .first = 1,
                            .last = search->budget,
                            .jobs = search->jobs,
                            .failures_max = search->wanted,
                            .quiet = true};
    uint64_t before = 0;

    plan.options.mutant = mutant;
    run_all(&plan, &result);
    qsort(result.failures, result.failure_count, sizeof(result.failures[0]), by_seed);
    for (uint32_t i = 0; i < result.failure_count; i++) {
        uint64_t seed = result.failures[i].seed;

        gaps[i] = seed > before ? seed - before : 1;
        before = seed;
    }
    if (result.failure_count > 0) {
        *first = result.failures[0];
    }
    return result.failure_count;
}

static bool search_one(int mutant, const struct search *search)
{
    uint64_t gaps[FINDS_MAX];
    struct run_failure first = {0};
    char text[SIM_REASON_MAX + NAME_MAX_LEN] = "";
    bool scripted = scenario_catches(mutant, &search->defaults, text, sizeof(text));
    uint32_t count = random_finds(mutant, search, gaps, &first);

    if (count > 0) {
        qsort(gaps, count, sizeof(gaps[0]), by_value);
        (void)printf("M%-2d median %5" PRIu64 " seeds (%u finds), first %" PRIu64 ": %s\n", mutant,
                     gaps[count / 2], count, first.seed, first.text);
    } else {
        (void)printf("M%-2d not found by %" PRIu64 " random seeds\n", mutant, search->budget);
    }
    (void)printf("    %s\n", scripted ? text : "no scenario catches it");
    (void)fflush(stdout);
    return count > 0 || scripted;
}

int mutants_search(int only, uint64_t budget, uint32_t finds, uint32_t jobs)
{
    struct search search = {.defaults = {.safety_ms = 60000, .ops_min = 500, .reconfig = true},
                            .budget = budget,
                            .wanted = finds < FINDS_MAX ? finds : FINDS_MAX,
                            .jobs = jobs};
    int missed = 0;

    ASSERT(finds > 0);
    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        if (only == 0 || only == mutants[i]) {
            missed += !search_one(mutants[i], &search);
        }
    }
    (void)printf("%d mutants not caught\n", missed);
    return missed;
}
