/* A load of clients of ZooKeeper's protocol, the same for each server that speaks it; run by
 * tests/bench/zookeeper.py, which starts the servers. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/bench/line.h"
#include "tests/bench/native_parts.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    IDLE_AT_ONCE = 100
};

uint64_t part_cpu_ns(const struct part *part)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < part->pid_count; i++) {
        sum += line_cpu_ns((pid_t)part->pids[i]);
    }
    return sum;
}

void part_path(char path[PART_PATH_BYTES], uint32_t key)
{
    (void)snprintf(path, PART_PATH_BYTES, "/load/k%04u", key % PART_KEYS);
}

/* ---- The tree ---- */

static void check_fill(struct clients *clients, struct client *client UNUSED, const uint8_t *frame,
                       size_t len UNUSED)
{
    uint32_t *left = clients->own;
    int32_t err = clients_err(frame);

    if (err != 0 && err != -110) { /* It may exist already. */
        line_fail("a create is answered with error %d", err);
    }
    *left -= 1;
    clients->stop = *left == 0;
}

static void fill(const struct part *part)
{
    struct clients clients;
    uint32_t left = PART_KEYS + 1;
    char path[PART_PATH_BYTES];

    clients_init(&clients, part->ports, 1, 1);
    clients.own = &left;
    clients_open(&clients, PART_LIMIT_MS);
    clients.on_frame = check_fill;
    clients_write(&clients, &clients.all[0], ZK_CREATE, "/load", 0);
    for (uint32_t i = 0; i < PART_KEYS; i++) {
        part_path(path, i);
        clients_write(&clients, &clients.all[0], ZK_CREATE, path, part->bytes);
    }
    if (!clients_run(&clients, os_now_ms() + PART_LIMIT_MS)) {
        line_fail("%u of the znodes are not made", left);
    }
    clients_close(&clients, PART_LIMIT_MS);
    clients_release(&clients);
    (void)printf("znodes=%d\n", PART_KEYS);
}

/* ---- Idle connections ---- */

void part_idle(const struct part *part)
{
    struct clients clients;
    struct pollfd line = {.fd = STDIN_FILENO, .events = POLLIN};

    clients_init(&clients, part->ports, 1, part->connections);
    clients.opening_at_once = IDLE_AT_ONCE; /* What a storm of them needs is not theirs. */
    clients_open(&clients, PART_LIMIT_MS);
    (void)printf("idle=%u\n", clients.open);
    (void)fflush(stdout);
    while (poll(&line, 1, 0) == 0) {
        (void)clients_run(&clients, os_now_ms() + 50);
    }
    clients_close(&clients, PART_LIMIT_MS);
    clients_release(&clients);
}

/* ---- The command line ---- */

static uint32_t number(const char *text, char **ret_end)
{
    unsigned long value = strtoul(text, ret_end, 10);

    if (*ret_end == text || value > UINT32_MAX) {
        line_fail("no number: %s", text);
    }
    return (uint32_t)value;
}

/* Takes a list of numbers with commas; returns how many there are. */
static uint32_t numbers(char *text, uint32_t list[CLIENTS_SERVERS_MAX])
{
    uint32_t count = 0;
    char *end = text;

    do {
        text = count > 0 ? end + 1 : end;
        if (count == CLIENTS_SERVERS_MAX) {
            line_fail("more than %d servers", CLIENTS_SERVERS_MAX);
        }
        list[count++] = number(text, &end);
    } while (*end == ',');
    return count;
}

static void take_option(struct part *part, char *option)
{
    char *value = strchr(option, '=');
    uint32_t list[CLIENTS_SERVERS_MAX] = {0};

    if (!value) {
        line_fail("an option is NAME=VALUE, not %s", option);
    }
    *value++ = '\0';
    if (strcmp(option, "ports") == 0) {
        part->servers = numbers(value, list);
        for (uint32_t i = 0; i < part->servers; i++) {
            part->ports[i] = (uint16_t)list[i];
        }
        return;
    }
    if (strcmp(option, "pids") == 0) {
        part->pid_count = numbers(value, part->pids);
        return;
    }

    const struct {
        const char *name;
        uint32_t *to;
    } all[] = {
        {"connections", &part->connections},
        {"window", &part->window},
        {"bytes", &part->bytes},
        {"ms", &part->ms},
        {"warm", &part->warm_ms},
        {"rounds", &part->rounds},
        {"victim", &part->victim},
    };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(option, all[i].name) == 0) {
            *all[i].to = number(value, &value);
            return;
        }
    }
    line_fail("unknown option %s", option);
}

static void run(const struct part *part, const char *name)
{
    if (strcmp(name, "fill") == 0) {
        fill(part);
    } else if (strcmp(name, "reads") == 0) {
        part_rate(part, ZK_GET_DATA);
    } else if (strcmp(name, "writes") == 0) {
        part_rate(part, ZK_SET_DATA);
    } else if (strcmp(name, "watchers") == 0) {
        part_watchers(part);
    } else if (strcmp(name, "storm") == 0) {
        part_storm(part);
    } else if (strcmp(name, "idle") == 0) {
        part_idle(part);
    } else {
        line_fail("unknown part %s", name);
    }
}

int main(int argc, char **argv)
{
    struct part part = {
        .connections = 30, .window = 1, .bytes = 1024, .ms = 3000, .warm_ms = 500, .rounds = 20};
    struct rlimit files;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (argc < 3) {
        line_fail("usage: bench.bench_native fill|reads|writes|watchers|storm|idle ports=N,... "
                  "pids=N,... [connections=N] [window=N] [bytes=N] [ms=N] [warm=N] [rounds=N] "
                  "[victim=INDEX]");
    }
    for (int i = 2; i < argc; i++) {
        take_option(&part, argv[i]);
    }
    if (part.servers == 0 || part.connections == 0 || part.window == 0 ||
        part.victim >= part.servers || part.pid_count < part.servers) {
        line_fail("ports, pids, connections, window or victim is missing or too large");
    }
    run(&part, argv[1]);
    return 0;
}
