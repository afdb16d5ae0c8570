/* What can be wrong when a replica starts: one line that names the key, exit code 2, nothing
 * written. */
#include "base/loop.h"
#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/proc/ensemble.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    OUTPUT_MAX = 65536,
    END_MS = 10000 * ENSEMBLE_FACTOR
};

static struct ensemble ensemble;
static char output[OUTPUT_MAX]; /* Log of the last refused start. */

static int open_one(void **state)
{
    (void)state;
    ensemble_open(&ensemble, 1, NULL);
    return 0;
}

static int close_one(void **state)
{
    (void)state;
    ensemble_close(&ensemble);
    return 0;
}

static void read_log(uint32_t index)
{
    int fd = open(ensemble.replicas[index].log, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);

    ssize_t got = read(fd, output, sizeof(output) - 1);

    close(fd);
    output[got > 0 ? got : 0] = '\0';
}

static void write_config(const char *text)
{
    int fd = open(ensemble.replicas[0].config, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static bool exists(const char *path)
{
    struct stat stat_buf;

    return stat(path, &stat_buf) == 0;
}

/* Starts replica 1 and expects one line with both parts. */
static void expect_refused(const char *part, const char *other)
{
    (void)unlink(ensemble.replicas[0].log);
    ensemble_start(&ensemble, 0);
    assert_int_equal(ensemble_wait_end(&ensemble, 0, END_MS), 2);
    read_log(0);
    if (!strstr(output, part) || !strstr(output, other)) {
        fail_msg("\"%s\" names not \"%s\" and \"%s\"", output, part, other);
    }

    const char *line = strstr(output, "zabra: "); /* What was logged before is no complaint. */

    assert_non_null(line);
    assert_int_equal(strcspn(line, "\n") + 1, strlen(line));
    assert_null(strstr(output, " ERROR "));
}

/* The same with a configuration of the usual keys plus these lines. */
static void expect_config_refused(const char *lines, const char *part, const char *other)
{
    char text[2048];

    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s\nclientPort=%u\n%s",
                   ensemble.replicas[0].data, ensemble.replicas[0].client_port, lines);
    write_config(text);
    expect_refused(part, other);
    assert_false(exists(ensemble.replicas[0].data));
}

static void test_wrong_keys(void **state)
{
    (void)state;
    expect_config_refused("snapcont=3\n", "snapcont: unknown key", "snapCount");
    expect_config_refused("tickTime=soon\n", "tickTime", "number");
    expect_config_refused("server.2=127.0.0.1:1\n", "id: 1", "server.1=");
    expect_config_refused("server.1=127.0.0.1:1\nserver.2=10.1.1.1:1\n", "peerSecretFile",
                          "server.2");
    expect_config_refused("clientAddress=0.0.0.0\n", "clientAddress", "insecure=true");
    write_config("id=1\n");
    expect_refused("dataDir: missing", "--dataDir");
}

static int hold_port(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return loop_listen((const struct sockaddr *)&addr, sizeof(addr), 1);
}

static void test_ports_in_use(void **state)
{
    int client = hold_port(ensemble.replicas[0].client_port);
    int peer = hold_port(ensemble.replicas[0].peer_port);
    char lines[128];

    (void)state;
    assert_true(client >= 0 && peer >= 0);
    expect_config_refused("", "clientPort", "in use");
    close(client);
    (void)snprintf(lines, sizeof(lines), "server.1=127.0.0.1:%u\nserver.2=127.0.0.1:1:observer\n",
                   ensemble.replicas[0].peer_port);
    expect_config_refused(lines, "server.1", "in use");
    close(peer);
}

static void test_data_directory_unusable(void **state)
{
    char text[512];

    (void)state;
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s\nclientPort=%u\n",
                   ensemble.replicas[0].config, ensemble.replicas[0].client_port);
    write_config(text);
    expect_refused("dataDir", ensemble.replicas[0].config);
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=/proc/nowhere\nclientPort=%u\n",
                   ensemble.replicas[0].client_port);
    write_config(text);
    expect_refused("dataDir", "/proc/nowhere");
}

static void start_single(const char *lines)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "dataDir=%s\nclientPort=%u\n%s", ensemble.replicas[0].data,
                   ensemble.replicas[0].client_port, lines);
    write_config(text);
}

static void test_directory_of_another(void **state)
{
    (void)state;
    start_single("id=1\n");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    start_single("id=2\n");
    expect_refused("dataDir", "1");
    start_single("id=1\n");
    (void)unlink(ensemble.replicas[0].log);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

/* Two processes on one directory: the second one is refused, the first one goes on. */
static void test_directory_in_use(void **state)
{
    struct replica first = ensemble.replicas[0];
    char text[1024];

    (void)state;
    ensemble.replicas[0].pid = 0;
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s\nclientPort=%u\n", first.data,
                   port_free());
    write_config(text);
    expect_refused("dataDir", "in use");
    ensemble.replicas[0].pid = first.pid;
    ensemble_wait_ready(&ensemble, 0);
    ensemble_kill(&ensemble, 0);
}

static int run_command(const char *arguments)
{
    char command[2048];

    (void)snprintf(command, sizeof(command), "%s %s >%s/out 2>&1", ZABRA_BINARY, arguments,
                   ensemble.dir);

    int status = system(command); /* NOLINT(concurrency-mt-unsafe): one thread. */
    int fd = 0;

    (void)snprintf(command, sizeof(command), "%s/out", ensemble.dir);
    fd = open(command, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);

    ssize_t got = read(fd, output, sizeof(output) - 1);

    close(fd);
    output[got > 0 ? got : 0] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_command_line(void **state)
{
    (void)state;
    assert_int_equal(run_command("version"), 0);
    assert_non_null(strstr(output, "zabra "));
    assert_int_equal(run_command("--help"), 0);
    assert_non_null(strstr(output, "serve"));
    assert_int_equal(run_command("help serve"), 0);
    assert_non_null(strstr(output, "snapCount"));
    assert_int_equal(run_command(""), 2);
    assert_int_equal(run_command("nonsense"), 2);
    assert_int_equal(run_command("serve --config /nonexistent"), 2);
    assert_non_null(strstr(output, "--config"));
    assert_int_equal(run_command("serve --id 1 --dataDir"), 2);
    assert_int_equal(run_command("dev --nodes 99"), 2);
    assert_int_equal(run_command("inspect"), 2);
    assert_int_equal(run_command("inspect /nonexistent"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_ports_in_use),
        cmocka_unit_test(test_data_directory_unusable),
        cmocka_unit_test(test_directory_of_another),
        cmocka_unit_test(test_directory_in_use),
        cmocka_unit_test(test_command_line),
    };

    web_setup();
    return cmocka_run_group_tests(tests, open_one, close_one);
}
