/* The end of a run: a last write, reads at each replica, and the verification of the history. */
#include "base/os_clock.h"
#include "tests/proc/history_run.h"

#include <inttypes.h>

/* Does the write that must be the last one. */
static zxid_t write_last(struct history_client *client, struct ensemble *ensemble)
{
    struct history_op op;
    uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;
    bool create = true;
    enum history_outcome outcome = HISTORY_NOT_DONE;

    while (outcome != HISTORY_OK) {
        op = (struct history_op){.count = 1};
        op.steps[0].what = create ? HISTORY_CREATE : HISTORY_SET;
        op.steps[0].value = client->number << 20 | ++client->values;
        outcome = history_http_one(client, 0, &op);
        create = outcome == HISTORY_NODE_EXISTS ? false : outcome == HISTORY_NO_NODE;
        ensemble_check(ensemble, os_now_ms() < end_ms, "the last write is done in time");
    }
    return op.zxid;
}

/* Reads the final state on each replica. */
static void read_all(struct history_client *client, struct ensemble *ensemble)
{
    for (uint32_t server = 0; server < client->run->port_count; server++) {
        for (uint32_t key = 0; key < HISTORY_KEYS; key++) {
            uint64_t end_ms = os_now_ms() + ENSEMBLE_DEADLINE_MS;
            enum history_outcome outcome = HISTORY_NOT_DONE;

            while (outcome != HISTORY_OK) {
                struct history_op op = {.count = 1, .linearizable = true};

                op.steps[0] = (struct history_step){.what = HISTORY_GET, .key = key};
                outcome = history_http_one(client, server, &op);
                ensemble_check(ensemble, os_now_ms() < end_ms, "the last read is done in time");
            }
        }
    }
}

void history_finish(struct history_run *run, struct ensemble *ensemble)
{
    struct history_client *last = history_client_add(run, HISTORY_HTTP, "last");

    atomic_store(&run->stopping, true);
    ensemble_wait_all_ready(ensemble);
    atomic_store(&run->end_ms, os_now_ms() + HISTORY_LAST_MS);
    atomic_store(&run->end_zxid, write_last(last, ensemble));
    for (uint32_t i = 0; i + 1 < run->count; i++) {
        thread_join(&run->clients[i].thread);
    }
    read_all(last, ensemble);
}

/* Prints the error before the logs, because they are long. */
static void fail_because(const struct history_run *run, struct ensemble *ensemble, const char *what,
                         const char *text)
{
    print_message("seed %" PRIu64 ": %s: %s\n", run->seed, what, text);
    ensemble_print_logs(ensemble);
    fail_msg("seed %" PRIu64 ": %s: %s", run->seed, what, text);
}

static void print_report(const struct history_run *run, const struct history_report *report)
{
    uint32_t retried = 0;

    for (uint32_t i = 0; i < run->count; i++) {
        retried += run->clients[i].retried;
    }
    print_message("%u writes, %u reads, %u refusals, %u of unknown outcome (%u found); %u changes, "
                  "%u events, %u differences, %u gaps; %u writes of unknown outcome succeeded when "
                  "retried with their key; %u sessions were closed, with %u ephemerals\n",
                  report->writes, report->reads, report->refused, report->unknown, report->found,
                  report->changes, report->events, report->diffs, report->gaps, retried,
                  report->closed, report->lives);
}

void history_judge(struct history_run *run, struct ensemble *ensemble, const char *print_path,
                   struct history_report *ret_report)
{
    const struct history_log *logs[HISTORY_CLIENTS_MAX];

    for (uint32_t i = 0; i < run->count; i++) {
        logs[i] = &run->clients[i].log;
    }
    if (print_path) {
        history_print(logs, run->count, print_path);
    }
    for (uint32_t i = 0; i < run->count; i++) {
        if (run->clients[i].wrong[0]) {
            fail_because(run, ensemble, run->clients[i].log.name, run->clients[i].wrong);
        }
    }
    history_check(logs, run->count, ret_report);
    print_report(run, ret_report);
    if (ret_report->rule) {
        fail_because(run, ensemble, ret_report->rule, ret_report->text);
    }
    assert_true(ret_report->writes > 0 && ret_report->reads > 0 && ret_report->events > 0);
}
