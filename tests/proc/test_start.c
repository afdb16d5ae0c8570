/* Errors at the start of a replica: one line that names the key, exit code 2, an unchanged
 * directory. */
#include "base/crc32c.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/os_clock.h"
#include "server/process/notes.h"
#include "server/process/persist.h"
#include "server/process/server.h"
#include "storage/store.h"
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/disk.h"
#include "tests/proc/ensemble.h"
#include "zab/level.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    OUTPUT_MAX = 65536,
    FILE_MAX = 64 << 20,
    SEGMENT_BYTES = 64 << 10,
    RECORD_BYTES_MAX = 32 << 20
};

static struct ensemble ensemble;
static char output[OUTPUT_MAX]; /* Log of the last refused start. */
static bool random_is_hidden;

static void open_one(void)
{
    ensemble_open(&ensemble, 1, NULL);
}

static void close_one(void)
{
    ensemble_close(&ensemble);
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

static uint32_t file_sum(int dir_fd, const char *name)
{
    uint8_t *bytes = mem_alloc(FILE_MAX);
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);

    ssize_t got = read(fd, bytes, FILE_MAX);
    uint32_t sum = 0;

    assert_true(got >= 0);
    sum = crc32c(0, bytes, (size_t)got);
    close(fd);
    mem_free(bytes);
    return sum;
}

/* A number that changes when anything in the data directory does. */
static uint64_t directory_sum(void)
{
    DIR *dir = opendir(ensemble.replicas[0].data);
    uint64_t sum = 0;

    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        struct stat stat_buf;
        uint32_t name_sum = crc32c(0, entry->d_name, strlen(entry->d_name));

        assert_int_equal(fstatat(dirfd(dir), entry->d_name, &stat_buf, 0), 0);
        if (S_ISREG(stat_buf.st_mode)) {
            uint64_t parts = (uint64_t)name_sum << 32 | file_sum(dirfd(dir), entry->d_name);

            sum += parts ^ (uint64_t)stat_buf.st_mtim.tv_nsec ^ stat_buf.st_ino << 20;
        }
    }
    closedir(dir);
    return sum;
}

/* Starts replica 1 and expects this exit code and one line with both parts. */
static void expect_end(int want, const char *part, const char *other)
{
    (void)unlink(ensemble.replicas[0].log);
    ensemble_start(&ensemble, 0);

    int code = ensemble_wait_end(&ensemble, 0);

    read_log(0);
    if (code != want) {
        fail_msg("exit code %d: %s", code, output);
    }
    if (!strstr(output, part) || !strstr(output, other)) {
        fail_msg("\"%s\" does not name \"%s\" and \"%s\"", output, part, other);
    }

    const char *line = strstr(output, "zabra: "); /* Earlier log lines are no errors. */

    assert_non_null(line);
    assert_int_equal(strcspn(line, "\n") + 1, strlen(line));
    assert_null(strstr(output, " ERROR "));
}

static void expect_refused(const char *part, const char *other)
{
    expect_end(EXIT_CONFIG, part, other);
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

TEST_GROUP(open_one, close_one)

TEST(wrong_keys)
{
    expect_config_refused("snapcont=3\n", "snapcont: unknown key", "snapCount");
    expect_config_refused("tickTime=soon\n", "tickTime", "number");
    expect_config_refused("server.2=127.0.0.1:1\n", "id: 1", "server.1=");
    expect_config_refused("server.1=127.0.0.1:1\nserver.2=10.1.1.1:1\n", "peerSecretFile",
                          "server.2");
    expect_config_refused("clientAddress=0.0.0.0\n", "clientAddress", "insecure=true");
    write_config("id=1\n");
    expect_refused("dataDir: missing", "--dataDir");
}

/* A server outside of loopback requires the secret; the address here is unused. */
static void expect_secret_refused(const char *path, const char *other)
{
    char lines[512];

    (void)snprintf(lines, sizeof(lines), "peerSecretFile=%s\nserver.1=127.0.0.1:%u\n", path,
                   ensemble.replicas[0].peer_port);
    expect_config_refused(lines, "peerSecretFile", other);
}

static void write_secret(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

TEST(secret_unusable)
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/secret", ensemble.dir);
    expect_secret_refused(path, "check path and permission");
    expect_secret_refused(ensemble.dir, "regular file");
    write_secret(path, "short\n", 0600);
    expect_secret_refused(path, "16 to 1024 bytes");
    write_secret(path, "long enough to be a secret\n", 0644);
    expect_secret_refused(path, "chmod 600");
}

static int hold_port(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};

    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return loop_listen((const struct sockaddr *)&addr, sizeof(addr), 1);
}

TEST(ports_in_use)
{
    int client = hold_port(ensemble.replicas[0].client_port);
    int peer = hold_port(ensemble.replicas[0].peer_port);
    char lines[128];

    assert_true(client >= 0 && peer >= 0);
    expect_config_refused("", "clientPort", "in use");
    (void)snprintf(lines, sizeof(lines), "probeListen=127.0.0.1:%u\n",
                   ensemble.replicas[0].peer_port);
    close(client);
    expect_config_refused(lines, "probeListen", "in use");
    (void)snprintf(lines, sizeof(lines), "server.1=127.0.0.1:%u\nserver.2=127.0.0.1:1:observer\n",
                   ensemble.replicas[0].peer_port);
    expect_config_refused(lines, "server.1", "in use");
    close(peer);
}

TEST(addresses_unusable)
{
    char path[256];
    char lines[512];
    int peer = hold_port(ensemble.replicas[0].peer_port);

    assert_true(peer >= 0);
    (void)snprintf(path, sizeof(path), "%s/secret", ensemble.dir);
    write_secret(path, "long enough to be a secret\n", 0600);
    (void)snprintf(lines, sizeof(lines), "server.1=localhost:%u\n", ensemble.replicas[0].peer_port);
    expect_config_refused(lines, "server.1", "in use on localhost");
    close(peer);
    (void)snprintf(lines, sizeof(lines),
                   "peerSecretFile=%s\npeerTls=required\nserver.1=192.0.2.1:%u\n", path,
                   ensemble.replicas[0].peer_port);
    expect_config_refused(lines, "server.1", "cannot listen on 192.0.2.1");
    (void)snprintf(lines, sizeof(lines), "server.1=127.0.0.1:%u\n",
                   ensemble.replicas[0].client_port);
    expect_config_refused(lines, "server.1", "is also clientPort");
    expect_config_refused("clientAddress=192.0.2.1\ninsecure=true\n", "clientAddress", "192.0.2.1");
}

/* A socket cannot be opened as a file, not even by root. */
static void hide_random_device(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%.99s/random", ensemble.dir);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    random_is_hidden = disk_may_mount();
    if (random_is_hidden) {
        assert_int_equal(mount(address.sun_path, "/dev/urandom", NULL, MS_BIND, NULL), 0);
    }
}

static void show_random_device(void)
{
    if (random_is_hidden) {
        (void)umount("/dev/urandom");
    }
}

TEST(without_a_random_device, hide_random_device, show_random_device)
{
    if (!random_is_hidden) {
        print_message("skipped: mounting needs root\n");
        skip();
    }
    expect_config_refused("", "/dev/urandom: cannot be opened", "libwebsockets needs it");
}

TEST(data_directory_unusable)
{
    char text[512];

    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s\nclientPort=%u\n",
                   ensemble.replicas[0].config, ensemble.replicas[0].client_port);
    write_config(text);
    expect_refused("dataDir", ensemble.replicas[0].config);
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=/proc/nowhere\nclientPort=%u\n",
                   ensemble.replicas[0].client_port);
    write_config(text);
    expect_refused("dataDir", "/proc/nowhere");
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s/no/where\nclientPort=%u\n", ensemble.dir,
                   ensemble.replicas[0].client_port);
    write_config(text);
    expect_refused("dataDir", "parent directory");
}

static void start_single(const char *lines)
{
    char text[1024];

    (void)snprintf(text, sizeof(text), "dataDir=%s\nclientPort=%u\n%s", ensemble.replicas[0].data,
                   ensemble.replicas[0].client_port, lines);
    write_config(text);
}

TEST(directory_of_another)
{
    char lines[256];
    uint64_t before = 0;

    start_single("id=1\n");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(ensemble_call(&ensemble, 0, "PUT", "/znodes/v1/a?upsert=true", "x"), 201);
    ensemble_kill(&ensemble, 0); /* So that the start would have something to clean up. */
    before = directory_sum();
    start_single("id=2\n");
    expect_refused("dataDir", "belongs to replica 1");
    assert_true(directory_sum() == before);
    (void)snprintf(lines, sizeof(lines),
                   "id=1\nserver.1=127.0.0.1:%u\nserver.2=127.0.0.1:1\nserver.3=127.0.0.1:2\n",
                   ensemble.replicas[0].peer_port);
    start_single(lines); /* The members are those of the directory: still one. */
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(ensemble_call(&ensemble, 0, "GET", "/readyz?verbose", NULL), 200);
    assert_non_null(strstr(web_text(&ensemble.reply),
                           "[+] server_list: server.N: the list differs from the members of the "
                           "ensemble: replica 2 is no member, replica 3 is no member;"));
    ensemble_kill(&ensemble, 0);
    start_single("id=1\nwalSegmentBytes=70000\n");
    expect_refused("walSegmentBytes", "multiple of 4096");
    start_single("id=1\n");
    (void)unlink(ensemble.replicas[0].log);
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
}

/* An earlier release: its configuration has a format before the oldest one that is read. */
static void make_older(struct store_identity *identity)
{
    identity->genesis[0] = 2;
}

/* A later release: its ensemble has the level that follows. */
static void make_newer(struct store_identity *identity)
{
    struct zab_config config;

    assert_int_equal(
        zab_config_decode(slice_make(identity->genesis, identity->genesis_len), &config), ERR_OK);
    assert_int_equal(config.level, ZAB_LEVEL_KNOWN);
    config.level++;
    persist_genesis(identity, &config);
}

/* Makes a directory of another release. */
static void change_release(const char *dir, void (*change)(struct store_identity *identity))
{
    struct store_options options = {.segment_bytes = SEGMENT_BYTES,
                                    .snapshots_keep = 2,
                                    .salt_seed = 5,
                                    .record_bytes_max = RECORD_BYTES_MAX};
    struct store_report *report = mem_zalloc(1, sizeof(*report));
    struct store *store = NULL;

    assert_int_equal(vfs_posix_open(dir, &options.vfs), ERR_OK);
    assert_int_equal(store_open(&options, false, &store, report), ERR_OK);
    assert_true(report->identity.genesis_len > 0);
    struct store_identity identity = report->identity;
    struct store_op op = {.type = STORE_IDENTITY, .identity = &identity};
    struct store_op *ops[1] = {&op};
    size_t done = 0;

    change(&identity);
    assert_int_equal(store_run(store, ops, 1, &done), ERR_OK);
    store_close(store, true);
    vfs_posix_close(&options.vfs);
    mem_free(report);
}

/* Two processes on one directory: the second one is refused, the first one continues. */
TEST(directory_in_use)
{
    struct replica first = ensemble.replicas[0];
    char text[1024];

    ensemble.replicas[0].pid = 0;
    (void)snprintf(text, sizeof(text), "id=1\ndataDir=%s\nclientPort=%u\n", first.data,
                   port_free());
    write_config(text);
    expect_refused("dataDir", "in use");
    ensemble.replicas[0].pid = first.pid;
    ensemble_wait_ready(&ensemble, 0);
    ensemble_kill(&ensemble, 0);
}

TEST(directory_of_an_earlier_release)
{
    uint64_t before = 0;

    change_release(ensemble.replicas[0].data, make_older);
    before = directory_sum();
    expect_refused("dataDir", "written by an earlier release");
    assert_true(directory_sum() == before);
    ensemble_empty(&ensemble, 0);
}

TEST(directory_of_a_later_release)
{
    char line[512];
    uint64_t before = 0;

    start_single("id=1\n");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    change_release(ensemble.replicas[0].data, make_newer);
    before = directory_sum();
    (void)snprintf(line, sizeof(line),
                   "zabra: dataDir: %s: the ensemble has feature level %d, and this release knows "
                   "only levels up to %d: start a release that knows level %d\n",
                   ensemble.replicas[0].data, ZAB_LEVEL_KNOWN + 1, ZAB_LEVEL_KNOWN,
                   ZAB_LEVEL_KNOWN + 1);
    expect_refused("dataDir", line);
    assert_true(directory_sum() == before);
    ensemble_empty(&ensemble, 0);
}

/* A configuration without this replica. */
static void make_removed(struct store_identity *identity)
{
    struct zab_config config;

    assert_int_equal(
        zab_config_decode(slice_make(identity->genesis, identity->genesis_len), &config), ERR_OK);
    config.members[0].id++;
    config.version = 0x100000007;
    persist_genesis(identity, &config);
}

static struct store_identity seen;

static void see(struct store_identity *identity)
{
    seen = *identity;
}

static void start_and_stop(void)
{
    start_single("id=1\n");
    ensemble_start(&ensemble, 0);
    ensemble_wait_ready(&ensemble, 0);
    assert_int_equal(ensemble_stop(&ensemble, 0), 0);
    change_release(ensemble.replicas[0].data, see);
}

static void put_mark(zxid_t zxid)
{
    struct vfs vfs;
    struct buf mark;

    buf_init(&mark, NOTE_FILE_MAX);
    notes_encode_mark(&seen, zxid, &mark);
    assert_int_equal(vfs_posix_open(ensemble.replicas[0].data, &vfs), ERR_OK);
    assert_int_equal(note_file_write(&vfs, NOTE_REMOVED, buf_slice(&mark)), ERR_OK);
    vfs_posix_close(&vfs);
    buf_release(&mark);
}

/* Its own log shows it, or a mark does, if the others have told it. */
TEST(a_removed_replica_stays_out)
{
    uint64_t before = 0;

    start_and_stop();
    put_mark(0x100000009);
    before = directory_sum();
    expect_end(EXIT_REMOVED, "dataDir",
               "the change of the members at zxid 0x100000009 has removed replica 1 from the "
               "ensemble; if it is to come back, start it with an empty directory");
    assert_true(directory_sum() == before);
    seen.incarnation++; /* The mark of another disk. */
    put_mark(0x100000009);
    start_and_stop();
    change_release(ensemble.replicas[0].data, make_removed);
    before = directory_sum();
    expect_end(EXIT_REMOVED, "dataDir",
               "the change of the members at zxid 0x100000007 has removed replica 1");
    assert_true(directory_sum() == before);
    ensemble_empty(&ensemble, 0);
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

TEST(command_line)
{
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

TEST(a_removed_replica_is_no_survivor)
{
    char arguments[ENSEMBLE_PATH_MAX + 64];

    start_and_stop();
    put_mark(0x100000009);
    (void)snprintf(arguments, sizeof(arguments), "recover %s --id 1 </dev/null",
                   ensemble.replicas[0].data);
    assert_int_equal(run_command(arguments), 1);
    assert_non_null(strstr(output, "a change of the members has removed this replica: choose "
                                   "another survivor"));
    ensemble_empty(&ensemble, 0);
}
