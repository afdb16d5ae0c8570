/* A majority of the disks is lost: the survivor continues alone, the emptied others are refilled
 * and vote again. Or all disks are lost except for a copy. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WRITES = 50,
    OUTPUT_MAX = 8192
};

static struct ensemble ensemble;
static char output[OUTPUT_MAX]; /* Output of the last command. */

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, NULL);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Runs `zabra recover` on a replica's directory; returns the exit code. */
static int recover(uint32_t index, uint32_t id, const char *more)
{
    char command[1024];

    (void)snprintf(command, sizeof(command), "%s recover %s --id %u %s </dev/null 2>&1",
                   ZABRA_BINARY, ensemble.replicas[index].data, id, more);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a fixed command. */

    assert_non_null(pipe);
    size_t len = fread(output, 1, sizeof(output) - 1, pipe);

    output[len] = '\0';
    int status = pclose(pipe);

    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void take_history(char history[17])
{
    const char *line = strstr(output, "\nhistory ");

    if (!line || sscanf(line, "\nhistory %16s", history) != 1) { /* NOLINT(cert-err34-c) */
        fail_msg("no history in: %s", output);
    }
}

static void check_all_there(uint32_t index)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/znodes/v1/w%u?consistency=linearizable", i);
        ensemble_call_until(&ensemble, index, "GET", path, NULL, 200);
    }
}

/* The number of voters in sync that the replica reports, including itself. */
static size_t voters_seen_by(uint32_t teller)
{
    size_t count = 0;

    if (ensemble_call(&ensemble, teller, "GET", "/ensemble/v1", NULL) != 200) {
        return 0;
    }
    json_t *answer = web_json(&ensemble.reply);
    json_t *members = json_object_get(answer, "members");

    for (size_t i = 0; i < json_array_size(members); i++) {
        json_t *member = json_array_get(members, i);
        const char *role = json_string_value(json_object_get(member, "state"));

        count += json_is_true(json_object_get(member, "votes")) && role &&
                 (!strcmp(role, "follower") || !strcmp(role, "leader"));
    }
    json_decref(answer);
    return count;
}

/* The replica's own status, which an operator checks after its return. */
static bool leads_or_follows(uint32_t index)
{
    return ensemble_call(&ensemble, index, "GET", "/status/v1", NULL) == 200 &&
           (strstr(web_text(&ensemble.reply), "\"role\":\"follower\"") ||
            strstr(web_text(&ensemble.reply), "\"role\":\"leader\""));
}

static void write_all(uint32_t index)
{
    for (uint32_t i = 0; i < WRITES; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/znodes/v1/w%u?upsert=true", i);
        ensemble_call_until(&ensemble, index, "PUT", path, "some data", 201);
    }
}

static void refusals_change_nothing(uint32_t index)
{
    const struct replica *survivor = &ensemble.replicas[index];

    assert_int_equal(recover(index, survivor->id, ""), 1); /* No answer to the prompt. */
    assert_non_null(strstr(output, "LOST"));
    assert_int_equal(recover(index, survivor->id, "--yes-i-accept-data-loss=0123456789abcdef"), 1);
    assert_non_null(strstr(output, "nothing was changed"));
    assert_int_equal(recover(index, survivor->id + 1, ""), 1);
    assert_non_null(strstr(output, "another replica"));
    assert_int_equal(recover((index + 1) % 3, ensemble.replicas[(index + 1) % 3].id, ""), 1);
    assert_non_null(strstr(output, "empty"));
}

static void continue_alone(uint32_t index)
{
    char before[17];
    char after[17];
    char option[64];
    uint32_t id = ensemble.replicas[index].id;

    assert_int_equal(recover(index, id, ""), 1);
    take_history(before);
    (void)snprintf(option, sizeof(option), "--yes-i-accept-data-loss=%s", before);
    assert_int_equal(recover(index, id, option), 0);
    assert_int_equal(recover(index, id, ""), 1);
    take_history(after);
    assert_string_not_equal(before, after);
    assert_non_null(strstr(output, "empty seat"));
}

TEST(one_survivor, open_three, close_three)
{
    uint32_t index = ensemble_wait_leader(&ensemble);

    write_all(index);
    assert_int_equal(recover(index, ensemble.replicas[index].id, ""), 1);
    assert_non_null(strstr(output, "in use"));
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
        if (i != index) {
            ensemble_empty(&ensemble, i);
        }
    }
    refusals_change_nothing(index);
    continue_alone(index);

    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    check_all_there(index);
    ensemble_call_until(&ensemble, index, "PUT", "/znodes/v1/alone?upsert=true", "x", 201);

    for (uint32_t i = 0; i < 3; i++) {
        if (i != index) {
            ensemble_start(&ensemble, i);
        }
    }
    ENSEMBLE_WAIT(&ensemble, voters_seen_by(index) == 3);
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        ENSEMBLE_WAIT(&ensemble, leads_or_follows(i));
    }
    ensemble_kill(&ensemble, index); /* The other two are a quorum without the survivor. */
    ensemble_call_until(&ensemble, (index + 1) % 3, "PUT", "/znodes/v1/proof?upsert=true", "x",
                        201);
    check_all_there((index + 2) % 3);
}

/* ---- The "lost" majority returns. ---- */

static bool is_refused_by(uint32_t teller, const char *why)
{
    return ensemble_call(&ensemble, teller, "GET", "/ensemble/v1", NULL) == 200 &&
           strstr(web_text(&ensemble.reply), why);
}

/* Two histories of one cluster: neither accepts data of the other. */
TEST(a_returning_majority_with_the_old_history_is_refused, open_three, close_three)
{
    uint32_t index = ensemble_wait_leader(&ensemble);
    uint32_t other = (index + 1) % 3;
    char history[17];
    char option[64];

    ensemble_call_until(&ensemble, index, "PUT", "/znodes/v1/before?upsert=true", "x", 201);
    ensemble_kill(&ensemble, index);
    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/without?upsert=true", "x", 201);
    assert_int_equal(recover(index, ensemble.replicas[index].id, ""), 1);
    take_history(history);
    (void)snprintf(option, sizeof(option), "--yes-i-accept-data-loss=%s", history);
    assert_int_equal(recover(index, ensemble.replicas[index].id, option), 0);

    ensemble_start(&ensemble, index);
    ensemble_call_until(&ensemble, index, "PUT", "/znodes/v1/alone?upsert=true", "x", 201);
    ENSEMBLE_WAIT(&ensemble, is_refused_by(index, "another history") ||
                                 is_refused_by(index, "closes the connection"));
    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/after?upsert=true", "x", 201);
    ensemble_call_until(&ensemble, other, "GET", "/znodes/v1/without?consistency=linearizable",
                        NULL, 200);
    ensemble_call_until(&ensemble, index, "GET", "/znodes/v1/without?consistency=linearizable",
                        NULL, 404);
}

/* ---- All are lost except for a copy that was taken while the others served. ---- */

/* Copies the directory `from` to `to`, which must not exist. */
static void copy_directory(const char *from, const char *to)
{
    char command[1024];

    (void)snprintf(command, sizeof(command), "cp -a %s %s", from, to);

    int status = system(command); /* NOLINT(cert-env33-c,concurrency-mt-unsafe): our own words. */

    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_copy_is_a_backup, open_three, close_three)
{
    uint32_t index = (ensemble_wait_leader(&ensemble) + 1) % 3;
    uint32_t other = (index + 1) % 3;
    const char *data = ensemble.replicas[index].data;
    char copy[ENSEMBLE_PATH_MAX + 8];

    write_all(index);
    assert_int_equal(ensemble_stop(&ensemble, index), 0);
    (void)snprintf(copy, sizeof(copy), "%s.copy", data);
    copy_directory(data, copy);
    ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/later?upsert=true", "x", 201);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
        ensemble_empty(&ensemble, i);
    }
    assert_int_equal(rmdir(data), 0);
    copy_directory(copy, data);
    continue_alone(index);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
    check_all_there(index);
    ensemble_call_until(&ensemble, index, "GET", "/znodes/v1/later?consistency=linearizable", NULL,
                        404);
    ensemble_start(&ensemble, other);
    ENSEMBLE_WAIT(&ensemble, voters_seen_by(index) == 2);
    check_all_there(other);
}
