/* `zabra dev`, as quickstart runs it: it reports errors, keeps replicas running, and its exit code
 * shows whether there was an ensemble. */
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "base/os_process.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/shell.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    NODES = 3,
    PEERS_AT = 1000, /* Above the client ports. */
    OUTPUT_MAX = 1 << 20,
    KILLS = 4
};

/* The replicas of `zabra dev`, with the fields that the helpers of this folder use: ports and
 * directory. */
static struct ensemble ensemble;
static uint16_t base;
static pid_t dev;
static int dev_status;
static char output[OUTPUT_MAX];
static char output_path[ENSEMBLE_PATH_MAX + 16];
static char data_path[ENSEMBLE_PATH_MAX + 16];

static void open_dir(void)
{
    ensemble_open(&ensemble, NODES, NULL);
    base = port_free_rows(NODES, PEERS_AT);
    for (uint16_t i = 0; i < NODES; i++) {
        ensemble.replicas[i].client_port = (uint16_t)(base + i);
    }
    (void)snprintf(output_path, sizeof(output_path), "%s/output", ensemble.dir);
    (void)snprintf(data_path, sizeof(data_path), "%s", ensemble.dir);
}

static bool has_ended(void)
{
    if (dev > 0 && waitpid(dev, &dev_status, WNOHANG) == dev) {
        dev = 0;
    }
    return dev == 0;
}

static void close_dir(void)
{
    if (dev > 0) {
        (void)kill(dev, SIGTERM);
        ENSEMBLE_WAIT(&ensemble, has_ended());
    }
    ensemble_close(&ensemble);
}

/* Ignores SIGHUP, like nohup. */
static bool ignore_hangup;

static bool with_tls;

static _Noreturn void become_dev(const char *wait)
{
    char name[] = "zabra";
    char command[] = "dev";
    char port[16];
    char data[sizeof(data_path) + 16];
    char seconds[32];
    char tls[] = "--tls";
    char *args[] = {name, command, port, data, with_tls ? tls : seconds, with_tls ? seconds : NULL,
                    NULL}; /* --tls right after --data, whose value it must not drop. */
    int fd = open(output_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (ignore_hangup) {
        const struct sigaction ignore = {.sa_handler = SIG_IGN};

        (void)sigaction(SIGHUP, &ignore, NULL);
    }
    (void)snprintf(port, sizeof(port), "--port=%u", base);
    (void)snprintf(data, sizeof(data), "--data=%s", data_path);
    (void)snprintf(seconds, sizeof(seconds), "--wait=%s", wait);
    if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0) {
        execv(ZABRA_BINARY, args);
    }
    _exit(127);
}

static void start_dev(const char *wait)
{
    dev = fork();
    assert_true(dev >= 0);
    if (dev == 0) {
        become_dev(wait);
    }
}

static int end_code(void)
{
    ENSEMBLE_WAIT(&ensemble, has_ended());
    return WIFEXITED(dev_status) ? WEXITSTATUS(dev_status) : -1;
}

static bool says(const char *text)
{
    int fd = open(output_path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, output, sizeof(output) - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    output[got > 0 ? got : 0] = '\0';
    return strstr(output, text) != NULL;
}

static void expect_said(const char *text)
{
    if (!says(text)) {
        fail_msg("\"%s\" is missing in: %s", text, output);
    }
}

/* The children of dev, in the order of their start. */
static uint32_t children(pid_t pids[NODES])
{
    char path[64];
    char text[256];
    uint32_t count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)dev, (int)dev);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0) {
        close(fd);
    }
    text[got > 0 ? got : 0] = '\0';
    for (char *at = text, *end = NULL; count < NODES; at = end) {
        pids[count] = (pid_t)strtoul(at, &end, 10);
        if (end == at) {
            break;
        }
        count++;
    }
    return count;
}

/* The process that `dev` has started since `known` was recorded; 0 while one is missing. (A later
 * process may have a smaller id.) */
static pid_t new_child(const pid_t known[NODES])
{
    pid_t pids[NODES];
    pid_t found = 0;
    uint32_t count = children(pids);

    for (uint32_t i = 0; i < count; i++) {
        bool was_there = false;

        for (uint32_t j = 0; j < NODES; j++) {
            was_there = was_there || pids[i] == known[j];
        }
        found = was_there ? found : pids[i];
    }
    return count == NODES ? found : 0;
}

TEST(a_port_in_use_is_reported, open_dir, close_dir)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(base + 1))};
    char text[128];

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    int fd = loop_listen((const struct sockaddr *)&addr, sizeof(addr), 1);

    assert_true(fd >= 0);
    start_dev("60");
    assert_int_equal(end_code(), 1);
    close(fd);
    expect_said("replica 2 ended unexpectedly: exit code 2");
    (void)snprintf(text, sizeof(text), "why   clientPort: port %u is in use", base + 1);
    expect_said(text);
    expect_said("--port (it uses BASE");
    expect_said("stopping all");
}

/* A forgotten ensemble holds the ports: its answers must not be taken for those of the new one. */
TEST(another_ensemble_is_not_taken_for_ours, open_dir, close_dir)
{
    pid_t first = 0;
    char text[128];

    start_dev("60");
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    (void)snprintf(text, sizeof(text), "export ZABRA_ENDPOINTS=127.0.0.1:%u,127.0.0.1:%u", base,
                   base + 1);
    expect_said(text);
    first = dev;
    (void)snprintf(data_path, sizeof(data_path), "%s/second", ensemble.dir);
    (void)snprintf(output_path, sizeof(output_path), "%s/output2", ensemble.dir);
    start_dev("60");

    int code = end_code();

    dev = first;
    assert_int_equal(code, 1);
    expect_said("ended unexpectedly: exit code 2");
    expect_said("stopping all");
    assert_false(says("one tree"));
    ensemble_wait_all_ready(&ensemble);
}

TEST(crashed_replicas_are_started_again, open_dir, close_dir)
{
    pid_t known[NODES];
    pid_t victim = 0;

    start_dev("60");
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    assert_int_equal(children(known), NODES);
    victim = known[0];
    for (uint32_t i = 0; i < KILLS; i++) {
        assert_int_equal(kill(victim, SIGKILL), 0);
        ENSEMBLE_WAIT(&ensemble, new_child(known) > 0);
        victim = new_child(known);
        assert_int_equal(children(known), NODES);
    }
    expect_said("ended unexpectedly: signal 9 (Killed)");
    expect_said("restart in 0.5 s");
    expect_said("restart in 1.0 s");
    ensemble_wait_all_ready(&ensemble);
    assert_int_equal(kill(dev, SIGINT), 0);
    assert_int_equal(end_code(), 0);
}

/* Two of three replicas are stopped: there is no quorum, and dev does not wait for ever. */
TEST(a_missing_quorum_is_a_failure, open_dir, close_dir)
{
    pid_t pids[NODES];

    start_dev("2");
    ENSEMBLE_WAIT(&ensemble, children(pids) == NODES);
    assert_int_equal(kill(pids[0], SIGSTOP), 0);
    assert_int_equal(kill(pids[1], SIGSTOP), 0);
    assert_int_equal(end_code(), 1);
    expect_said("does not serve");
    expect_said("0 of 3 replicas serve after 2 s");
}

/* A file of a replica: its log, or its configuration. */
static bool file_says(uint32_t id, const char *ending, const char *text)
{
    char before[sizeof(output_path)];
    bool said = false;

    memcpy(before, output_path, sizeof(before));
    (void)snprintf(output_path, sizeof(output_path), "%s/%u.%s", ensemble.dir, id, ending);
    said = says(text);
    memcpy(output_path, before, sizeof(before));
    return said;
}

static bool replica_said(uint32_t id, const char *text)
{
    return file_says(id, "log", text);
}

/* All replicas run on one machine. */
static void expect_shared_memory(void)
{
    char line[64];

    (void)snprintf(line, sizeof(line), "maxTreeBytes=%" PRIu64 "\n", os_memory_max() / 2 / NODES);
    for (uint32_t id = 1; id <= NODES; id++) {
        assert_true(file_says(id, "cfg", line));
    }
}

/* The replicas are connected by TLS, with a secret that only their user may read. */
static void expect_sealed_peers(void)
{
    char path[sizeof(data_path) + 16];
    struct stat about;

    (void)snprintf(path, sizeof(path), "%s/secret", data_path);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_true(about.st_size > 32);
    for (uint32_t i = 0; i < NODES; i++) {
        ENSEMBLE_WAIT(&ensemble,
                      ensemble_metric(&ensemble, i, "zabra_peer_connections{sealed=\"psk\"}") ==
                          NODES - 1);
    }
}

TEST(a_majority_is_an_ensemble, open_dir, close_dir)
{
    pid_t pids[NODES];

    start_dev("5");
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    expect_shared_memory();
    expect_sealed_peers();
    assert_int_equal(kill(dev, SIGTERM), 0);
    assert_int_equal(end_code(), 0);

    start_dev(ENSEMBLE_FACTOR > 1 ? "15" : "5");
    ENSEMBLE_WAIT(&ensemble, children(pids) == NODES);
    assert_int_equal(kill(pids[2], SIGSTOP), 0);
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    expect_said("replica 3 does not serve");
    expect_said("2 of 3 replicas serve");
    assert_int_equal(kill(pids[2], SIGCONT), 0);
    ensemble_wait_all_ready(&ensemble);
    assert_int_equal(kill(dev, SIGTERM), 0);
    assert_int_equal(end_code(), 0);
}

TEST(a_terminal_that_closes_ends_all_in_order, open_dir, close_dir)
{
    start_dev("60");
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    assert_int_equal(kill(dev, SIGHUP), 0);
    assert_int_equal(end_code(), 0);
    for (uint32_t id = 1; id <= NODES; id++) {
        assert_true(replica_said(id, "draining: new requests are refused"));
        assert_true(replica_said(id, "server stopped"));
    }
}

TEST(under_nohup_it_outlives_its_terminal, open_dir, close_dir)
{
    ignore_hangup = true;
    start_dev("60");
    ignore_hangup = false;
    ENSEMBLE_WAIT(&ensemble, says("Ctrl-C stops all"));
    assert_int_equal(kill(dev, SIGHUP), 0);
    assert_int_equal(kill(dev, SIGHUP), 0);
    ensemble_wait_all_ready(&ensemble);
    assert_false(has_ended());
    assert_false(says("stopping all replicas"));
    assert_int_equal(kill(dev, SIGTERM), 0);
    assert_int_equal(end_code(), 0);
}

/* ---- TLS ---- */

/* Runs a command of zabra with the authority of dev, at the first replica only, until it succeeds,
 * and once more. */
static void expect_command(const char *command, const char *said)
{
    char line[SHELL_LINE_MAX];

    (void)snprintf(line, sizeof(line),
                   "eval \"$LIB\"; one() { zabra %s --endpoints https://127.0.0.1:%u --ca "
                   "\"$DATA/tls/ca.pem\" 2>&1; }; await one; one",
                   command, base);
    shell_expect(line, 0, said);
}

/* One endpoint is enough: members that were found over https are asked over https. */
TEST(with_tls_everything_is_made_once_and_used, open_dir, close_dir)
{
    char line[SHELL_LINE_MAX];

    shell_open(&ensemble);
    /* The printed lines must be quoted for a shell. */
    (void)snprintf(data_path, sizeof(data_path), "%s/it's me", ensemble.dir);
    assert_int_equal(setenv("DATA", data_path, 1), 0);
    assert_int_equal(setenv("OUTPUT", output_path, 1), 0);
    with_tls = true;
    start_dev("60");
    ENSEMBLE_WAIT(&ensemble, has_ended() || says("Ctrl-C stops all"));
    expect_said("curl --cacert '");
    (void)snprintf(line, sizeof(line), "export ZABRA_ENDPOINTS=https://127.0.0.1:%u,https://",
                   base);
    expect_said(line);
    (void)snprintf(line, sizeof(line), "Dashboard: https://127.0.0.1:%u/ui/", base);
    expect_said(line);
    expect_command("set /a b --create", "");
    expect_command("doctor", "3 replicas asked, no problem found");
    expect_command("status -o json", "https://127.0.0.1");
    shell_expect("stat -c %a \"$DATA/tls/ca.key\" \"$DATA/tls/server.key\" | sort -u", 0, "600\n");

    /* The lines that it prints work as they are. */
    shell_expect("eval \"$(sed -n 's/^  export/export/p' \"$OUTPUT\")\"; zabra get /a; "
                 "zabra whoami -o json",
                 0, "CN=client");
    shell_expect("sed -n 's/^  curl/curl -sS/p' \"$OUTPUT\" | sh -e", 0, "\"dataUtf8\":\"hello\"");
    shell_expect("sha256sum \"$DATA\"/tls/* >\"$DATA/sums\"", 0, "");
    assert_int_equal(kill(dev, SIGTERM), 0);
    assert_int_equal(end_code(), 0);

    /* The next start uses the same files. */
    start_dev("60");
    ENSEMBLE_WAIT(&ensemble, has_ended() || says("Ctrl-C stops all"));
    expect_command("get /a", "b");
    shell_expect("sha256sum -c --quiet \"$DATA/sums\"", 0, "");
    assert_int_equal(kill(dev, SIGTERM), 0);
    assert_int_equal(end_code(), 0);

    /* A wrong file is reported, and nothing starts. */
    shell_expect("cp \"$DATA/tls/client.pem\" \"$DATA/tls/server.pem\"", 0, "");
    start_dev("60");
    with_tls = false;
    assert_int_equal(end_code(), 1);
    expect_said("server.pem: the key does not fit the certificate");
    expect_said("remove the directory");
}
