/* File descriptors: the clients' share, the files of a long log, the reserve. */
#include "base/os_files.h"
#include "base/os_process.h"
#include "server/process/files.h"
#include "storage/store.h"
#include "tests/lib/store_kit.h"
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MANY_SEGMENTS = 40,
    LOW = 64
};

static struct config usual(void)
{
    return (struct config){.clients.connections_max = 10000,
                           .clients.connections_per_address_max = 2500,
                           .clients.streams_max = 10000,
                           .clients.http_threads = 2,
                           .peers.server_count = 3};
}

TEST(everything_fits_into_a_usual_limit)
{
    struct config config = usual();
    struct files_plan plan;
    char text[FILES_TEXT_MAX];

    files_plan(&config, 524288, 4, &plan);
    assert_false(files_warn_connections(&plan, &config, text));
    assert_false(files_warn_streams(&plan, &config, text));
    files_apply(&plan, &config);
    assert_int_equal(config.clients.connections_max, 10000);
    assert_int_equal(config.clients.connections_per_address_max, 2500);
    assert_int_equal(config.clients.client_files_max, plan.clients);
}

TEST(clients_get_the_rest_of_the_descriptors)
{
    struct config config = usual();
    struct files_plan plan;
    char text[FILES_TEXT_MAX];

    files_plan(&config, 1024, 4, &plan);
    assert_int_equal(plan.clients + plan.reserve, 1024);
    assert_true(plan.reserve >= STORE_FILES_MAX + VFS_POSIX_FILES + plan.handshakes + plan.lingers);
    assert_true(plan.clients > 700);
    assert_true(files_warn_connections(&plan, &config, text));
    assert_non_null(strstr(text, "limit of 1024 open files"));
    assert_true(files_warn_streams(&plan, &config, text));
    files_apply(&plan, &config);
    assert_int_equal(config.clients.connections_max, plan.clients);
    assert_int_equal(config.clients.connections_per_address_max, plan.clients / 4);
}

TEST(too_low_a_limit_names_the_needed_one)
{
    struct config config = usual();
    struct files_plan plan;
    struct files_plan enough;
    char text[FILES_TEXT_MAX];

    files_plan(&config, 100, 4, &plan);
    assert_int_equal(plan.clients, 0);
    files_explain(&plan, text);
    assert_non_null(strstr(text, "at least "));
    files_plan(&config, strtoul(strstr(text, "at least ") + 9, NULL, 10), 4, &enough);
    assert_true(enough.clients >= FILES_CLIENTS_MIN);
    assert_int_equal(enough.limit, plan.lowest);
    files_plan(&config, plan.lowest - 1, 4, &enough);
    assert_int_equal(enough.clients, 0);
}

/* Members come while the process runs. */
TEST(descriptors_are_reserved_for_replicas_that_join)
{
    struct config config = usual();
    struct files_plan few;
    struct files_plan many;

    files_plan(&config, 10000, 4, &few);
    assert_int_equal(few.peers, 8 + 4);
    config.peers.server_count = 9;
    files_plan(&config, 10000, 4, &many);
    assert_int_equal(many.reserve, few.reserve);
    config.peers.server_count = 31;
    files_plan(&config, 10000, 4, &many);
    assert_int_equal(many.peers, 30 + 4);
    assert_int_equal(many.reserve - few.reserve, 4 * (34 - 12));
    assert_int_equal(many.clients + many.reserve, 10000);
    files_apply(&many, &config);
    assert_int_equal(config.peers.files_for, 34);
}

/* Each segment of the log once kept its file open, so a long log took all descriptors. */
TEST(a_long_log_needs_no_more_files, skit, no_set_up, skit_release)
{
    skit_init(skit, KIT_SEGMENT);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_format(skit), ERR_OK);
    for (int i = 0; i < MANY_SEGMENTS; i++) {
        assert_int_equal(skit_append(skit, 1, 2, KIT_RECORD_MAX - 100), ERR_OK);
    }

    struct store_figures figures;

    store_figures(skit->store, &figures);
    assert_true(figures.segments >= MANY_SEGMENTS);
    assert_int_equal(skit_check_log(skit), skit->log.count);
    assert_true(vfs_mem_open_max(skit->disk) <= STORE_FILES_MAX);
    skit_close(skit, true);
    assert_int_equal(vfs_mem_open_now(skit->disk), 0);
    assert_int_equal(skit_open(skit), ERR_OK);
    assert_int_equal(skit_check_log(skit), skit->log.count);
    assert_true(vfs_mem_open_max(skit->disk) <= STORE_FILES_MAX);
}

TEST(a_claim_of_descriptors_is_visible)
{
    assert_false(os_files_are_claimed());
    os_files_claim();
    assert_true(os_files_are_claimed());
}

/* Opens descriptors up to the limit. */
static void use_up(void)
{
    while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0) {
    }
}

/* Runs in a child process: 0 on success, otherwise a line number of this file. */
static int live_without_descriptors(const char *path)
{
    const struct rlimit low = {.rlim_cur = LOW, .rlim_max = LOW};
    struct vfs_file *files[VFS_KEPT + 1];
    struct vfs vfs;
    char name[16];

    if (setrlimit(RLIMIT_NOFILE, &low) != 0 || os_files_raise() != LOW ||
        vfs_posix_open(path, &vfs) != ERR_OK) {
        return __LINE__;
    }
    use_up();
    for (int i = 0; i <= VFS_KEPT; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);

        enum err err = vfs.ops->open(vfs.ctx, name, true, &files[i]);

        if (err != (i < VFS_KEPT ? ERR_OK : ERR_NO_FILES)) {
            return __LINE__;
        }
    }
    if (!os_files_are_claimed()) {
        return __LINE__;
    }
    /* Closed descriptors return to the reserve, where nothing else can take them. */
    vfs.ops->close(files[0]);
    if (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0 ||
        vfs.ops->open(vfs.ctx, "f0", false, &files[0]) != ERR_OK) {
        return __LINE__;
    }
    for (int i = 0; i < VFS_KEPT; i++) {
        vfs.ops->close(files[i]);
        (void)snprintf(name, sizeof(name), "f%d", i);
        (void)vfs.ops->unlink(vfs.ctx, name);
    }
    vfs_posix_close(&vfs);
    return 0;
}

static int run_child(int (*run)(const char *path), const char *path)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int line = run(path);

        if (line) {
            (void)fprintf(stderr, "%s:%d\n", __FILE__, line);
        }
        _exit(line != 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(storage_opens_with_the_reserve)
{
    char path[] = "files-XXXXXX";

    assert_non_null(mkdtemp(path));
    assert_int_equal(run_child(live_without_descriptors, path), 0);
    assert_int_equal(rmdir(path), 0);
}

static int forbid_and_allow(const char *path)
{
    struct rlimit limit;

    (void)path;
    os_dumps_allow(false);
    if (prctl(PR_GET_DUMPABLE) != 0 || getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0) {
        return __LINE__;
    }
    os_dumps_allow(true);
    return prctl(PR_GET_DUMPABLE) == 1 ? 0 : __LINE__;
}

TEST(dumps_are_forbidden_and_allowed)
{
    assert_int_equal(run_child(forbid_and_allow, NULL), 0);
}
