#include "tests/proc/ensemble.h"

#include "base/check.h"
#include "base/os_clock.h"
#include "tests/lib/ports.h"
#include "tests/proc/faulty.h"
#include "tests/proc/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    BREATH_MS = 5,
    PATIENCE_SHARE = 20, /* Share of the time waited so far: long waits check more rarely. */
    PATIENCE_MAX_MS = 50,
    LOG_TAIL = 3000,    /* Bytes shown when a test fails. */
    LOG_MAX = 64 << 20, /* Only this much of a longer log is checked. */
    LOG_PIECE = 64 << 10,
    WALK_FDS = 16,
    CONFIG_MAX = 8192
};

void ensemble_breathe(void)
{
    (void)poll(NULL, 0, BREATH_MS);
}

/* ---- Files. ---- */

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat;
    (void)type;
    return walk->level == 0 ? 0 : remove(path);
}

static void remove_below(const char *path)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread walks at that time. */
    (void)nftw(path, remove_entry, WALK_FDS, FTW_DEPTH | FTW_PHYS);
}

/* A start fills two segments with zeros: an eighth of the default's time, a thousand times. */
#define SEGMENTS "walSegmentBytes=4194304\n"

static void build_config(const struct ensemble *ensemble, const struct replica *replica,
                         struct buf *out)
{
    buf_printf(out, "id=%u\ndataDir=%s\nclientPort=%u\n", replica->id, replica->data,
               replica->client_port);
    for (uint32_t i = 0; i < ensemble->count; i++) {
        const struct replica *other = &ensemble->replicas[i];
        uint16_t port = ensemble->peer_ports[replica->id - 1][i];

        buf_printf(out, "server.%u=127.0.0.1:%u\n", other->id, port ? port : other->peer_port);
    }
    sealed_configure(ensemble->keys, out);
    if (!ensemble->keys || !strstr(ensemble->keys, "walSegmentBytes")) {
        buf_append_str(out, SEGMENTS);
    }
    buf_append_str(out, ensemble->keys ? ensemble->keys : "");
}

/* A replica that starts meanwhile reads the old file or the new one. */
static void write_config(const struct ensemble *ensemble, const struct replica *replica)
{
    char path[ENSEMBLE_PATH_MAX + 8];
    struct buf text;

    (void)snprintf(path, sizeof(path), "%s.new", replica->config);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    buf_init(&text, CONFIG_MAX);
    build_config(ensemble, replica, &text);
    assert_int_equal(write(fd, text.data, text.len), (ssize_t)text.len);
    close(fd);
    assert_int_equal(rename(path, replica->config), 0);
    buf_release(&text);
}

void ensemble_tls_keys(const char *dir, const char *name, const char *mode, const char *clients,
                       const char *more, char out[ENSEMBLE_KEYS_MAX])
{
    int len = snprintf(out, ENSEMBLE_KEYS_MAX,
                       "clientTls=%s\ntlsCertFile=%s/%s.pem\ntlsKeyFile=%s/%s.key\n%s", mode, dir,
                       name, dir, name, more);

    if (clients) {
        len += snprintf(out + len, (size_t)(ENSEMBLE_KEYS_MAX - len),
                        "clientCaFile=%s/ca.pem\nclientCertificates=%s\n", dir, clients);
    }
    ASSERT(len < ENSEMBLE_KEYS_MAX);
}

void ensemble_write_configs(const struct ensemble *ensemble)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        write_config(ensemble, &ensemble->replicas[i]);
    }
}

void ensemble_open(struct ensemble *ensemble, uint32_t count, const char *keys)
{
    ASSERT(count > 0 && count <= ENSEMBLE_MAX);
    memset(ensemble, 0, sizeof(*ensemble));
    ensemble->count = count;
    ensemble->keys = keys;
    (void)snprintf(ensemble->dir, sizeof(ensemble->dir), "%s/zabra-proc-XXXXXX", P_tmpdir);
    assert_non_null(mkdtemp(ensemble->dir));
    ensemble->web = web_open();
    web_reply_init(&ensemble->reply);
    for (uint32_t i = 0; i < count; i++) {
        struct replica *replica = &ensemble->replicas[i];

        replica->id = i + 1;
        replica->client_port = port_free();
        replica->peer_port = port_free();
        (void)snprintf(replica->data, sizeof(replica->data), "%.96s/%u", ensemble->dir,
                       replica->id);
        (void)snprintf(replica->config, sizeof(replica->config), "%.96s/%u.cfg", ensemble->dir,
                       replica->id);
        (void)snprintf(replica->log, sizeof(replica->log), "%.96s/%u.log", ensemble->dir,
                       replica->id);
        (void)snprintf(replica->faulty, sizeof(replica->faulty), "%.96s/%u.faulty", ensemble->dir,
                       replica->id);
    }
    ensemble_write_configs(ensemble);
}

/* A process that was killed later may have logged a sanitizer's report or a failed assertion. */
static const char *find_complaint(const char *text)
{
    static const char *const marks[] = {"Sanitizer", "runtime error:", "assertion failed"};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        const char *found = strstr(text, marks[i]);

        if (found) {
            return found;
        }
    }
    return NULL;
}

static void check_log(const struct replica *replica)
{
    struct buf text;
    int fd = open(replica->log, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    if (fd < 0) {
        return;
    }
    buf_init(&text, LOG_MAX);
    while (got > 0 && buf_reserve(&text, LOG_PIECE)) {
        got = read(fd, text.data + text.len, LOG_PIECE);
        text.len += got > 0 ? (size_t)got : 0;
    }
    close(fd);

    const char *complaint = find_complaint(buf_cstr(&text));

    if (complaint) {
        fail_msg("replica %u: %.3000s", replica->id, complaint);
    }
    buf_release(&text);
}

void ensemble_close(struct ensemble *ensemble)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        ensemble_kill(ensemble, i);
    }
    for (uint32_t i = 0; i < ensemble->count; i++) {
        check_log(&ensemble->replicas[i]);
    }
    web_close(ensemble->web);
    web_reply_release(&ensemble->reply);
    remove_below(ensemble->dir);
    (void)rmdir(ensemble->dir);
}

void ensemble_empty(struct ensemble *ensemble, uint32_t index)
{
    ASSERT(ensemble->replicas[index].pid == 0);
    remove_below(ensemble->replicas[index].data);
}

static void print_log(const struct replica *replica)
{
    char text[LOG_TAIL + 1];
    int fd = open(replica->log, O_RDONLY | O_CLOEXEC);
    struct stat stat;

    if (fd < 0 || fstat(fd, &stat)) {
        return;
    }

    off_t from = stat.st_size > LOG_TAIL ? stat.st_size - LOG_TAIL : 0;
    ssize_t got = pread(fd, text, LOG_TAIL, from);

    close(fd);
    text[got > 0 ? got : 0] = '\0';
    /* cmocka's own message would be cut after 1,024 bytes. */
    (void)fprintf(stderr, "---- end of the log of replica %u (pid %d, status %d)\n%s\n",
                  replica->id, (int)replica->pid, replica->status, text);
}

void ensemble_print_logs(const struct ensemble *ensemble)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        print_log(&ensemble->replicas[i]);
    }
}

void ensemble_look_again(const struct ensemble *ensemble, uint64_t end_ms, const char *condition)
{
    uint64_t now_ms = os_now_ms();

    if (now_ms > end_ms) {
        ensemble_print_logs(ensemble);
        fail_msg("not in time: %s", condition);
    }

    uint64_t breath_ms = (now_ms + ENSEMBLE_DEADLINE_MS - end_ms) / PATIENCE_SHARE;

    breath_ms = breath_ms > PATIENCE_MAX_MS ? (uint64_t)PATIENCE_MAX_MS : breath_ms;
    (void)poll(NULL, 0, breath_ms < BREATH_MS ? BREATH_MS : (int)breath_ms);
}

void ensemble_check(const struct ensemble *ensemble, bool holds, const char *condition)
{
    if (!holds) {
        ensemble_print_logs(ensemble);
        fail_msg("does not hold: %s", condition);
    }
}

/* ---- Processes. ---- */

static bool limit_files(uint32_t files_max)
{
    const struct rlimit limit = {.rlim_cur = files_max / 2, .rlim_max = files_max};

    return files_max == 0 || setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/* With a limit of descriptors the replica starts with half of it as the soft limit, as many shells
 * do. */
static _Noreturn void become_replica(struct replica *replica, uint32_t files_max, bool faulty)
{
    char name[] = "zabra";
    char command[] = "serve";
    char option[] = "--config";
    char *args[] = {name, command, option, replica->config, NULL};
    int log_fd = open(replica->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    int error_fd = replica->stderr_fd > 0 ? replica->stderr_fd : log_fd;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (faulty && (setenv("LD_PRELOAD", ZABRA_FAULTY_LIBRARY, 1) != 0 ||
                   setenv(FAULTY_VARIABLE, replica->faulty, 1) != 0)) {
        _exit(127);
    }
    if (log_fd >= 0 && dup2(log_fd, STDOUT_FILENO) >= 0 && dup2(error_fd, STDERR_FILENO) >= 0 &&
        limit_files(files_max)) {
        execv(replica->program ? replica->program : ZABRA_BINARY, args);
    }
    _exit(127);
}

void ensemble_start(struct ensemble *ensemble, uint32_t index)
{
    struct replica *replica = &ensemble->replicas[index];

    sealed_note(replica->client_port, replica->config);
    ASSERT(replica->pid == 0);
    replica->status = 0;
    replica->pid = fork();
    assert_true(replica->pid >= 0);
    if (replica->pid == 0) {
        become_replica(replica, ensemble->files_max[index], ensemble->faulty);
    }
}

void ensemble_signal(struct ensemble *ensemble, uint32_t index, int signal_number)
{
    ASSERT(ensemble->replicas[index].pid > 0);
    assert_int_equal(kill(ensemble->replicas[index].pid, signal_number), 0);
    if (signal_number == SIGSTOP) {
        siginfo_t info;

        assert_int_equal(waitid(P_PID, (id_t)ensemble->replicas[index].pid, &info, WSTOPPED), 0);
    }
}

static bool has_ended(struct replica *replica)
{
    if (replica->pid > 0 && waitpid(replica->pid, &replica->status, WNOHANG) == replica->pid) {
        replica->pid = 0;
    }
    return replica->pid == 0;
}

bool ensemble_has_ended(struct ensemble *ensemble, uint32_t index)
{
    return has_ended(&ensemble->replicas[index]);
}

int ensemble_wait_end(struct ensemble *ensemble, uint32_t index)
{
    struct replica *replica = &ensemble->replicas[index];

    ENSEMBLE_WAIT(ensemble, has_ended(replica));
    return WIFEXITED(replica->status) ? WEXITSTATUS(replica->status) : -1;
}

void ensemble_kill(struct ensemble *ensemble, uint32_t index)
{
    if (ensemble->replicas[index].pid > 0) {
        ensemble_signal(ensemble, index, SIGKILL);
        (void)ensemble_wait_end(ensemble, index);
    }
}

int ensemble_stop(struct ensemble *ensemble, uint32_t index)
{
    ensemble_signal(ensemble, index, SIGTERM);
    return ensemble_wait_end(ensemble, index);
}

/* ---- Conditions. ---- */

long ensemble_call(struct ensemble *ensemble, uint32_t index, const char *method, const char *path,
                   const char *body)
{
    struct web_call call = {.method = method,
                            .port = ensemble->replicas[index].client_port,
                            .path = path,
                            .body = body};

    return web_do(ensemble->web, &call, &ensemble->reply);
}

void ensemble_call_until(struct ensemble *ensemble, uint32_t index, const char *method,
                         const char *path, const char *body, long status)
{
    char key[WEB_KEY_LEN + 1];
    char headers[WEB_KEY_LEN + 32];
    struct web_call call = {.method = method,
                            .port = ensemble->replicas[index].client_port,
                            .path = path,
                            .body = body};

    /* Without a key the retry of an executed write would get another status. */
    if (status == 201 || status == 204) {
        web_make_key(key);
        (void)snprintf(headers, sizeof(headers), "Idempotency-Key: %s", key);
        call.headers = headers;
    }
    ENSEMBLE_WAIT(ensemble, web_do(ensemble->web, &call, &ensemble->reply) == status);
}

uint64_t ensemble_metric(struct ensemble *ensemble, uint32_t index, const char *name)
{
    size_t len = strlen(name);

    if (ensemble_call(ensemble, index, "GET", "/metrics", NULL) != 200) {
        return 0;
    }
    for (const char *line = web_text(&ensemble->reply); line; line = strchr(line, '\n')) {
        line += line[0] == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ' ') {
            return strtoull(line + len + 1, NULL, 10);
        }
    }
    ensemble_check(ensemble, false, name);
    return 0;
}

static long ask_quickly(struct ensemble *ensemble, uint32_t index, const char *path)
{
    struct web_call call = {
        .port = ensemble->replicas[index].client_port, .path = path, .timeout_ms = 1000};

    return web_do(ensemble->web, &call, &ensemble->reply);
}

void ensemble_wait_ready(struct ensemble *ensemble, uint32_t index)
{
    ENSEMBLE_WAIT(ensemble, ask_quickly(ensemble, index, "/readyz") == 200);
}

void ensemble_wait_all_ready(struct ensemble *ensemble)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        ensemble_wait_ready(ensemble, i);
    }
}

void ensemble_launch(struct ensemble *ensemble, uint32_t count, const char *keys)
{
    ensemble_open(ensemble, count, keys);
    for (uint32_t i = 0; i < count; i++) {
        ensemble_start(ensemble, i);
    }
    ensemble_wait_all_ready(ensemble);
}

bool ensemble_leads(struct ensemble *ensemble, uint32_t index)
{
    bool leads = false;

    if (ensemble->replicas[index].pid > 0 && ask_quickly(ensemble, index, "/status/v1") == 200) {
        json_t *status = web_json(&ensemble->reply);
        const char *role = json_string_value(json_object_get(status, "role"));

        leads = role && !strcmp(role, "leader");
        json_decref(status);
    }
    return leads;
}

static bool find_leader(struct ensemble *ensemble, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < ensemble->count; i++) {
        if (ensemble_leads(ensemble, i)) {
            *ret_index = i;
            return true;
        }
    }
    return false;
}

uint32_t ensemble_wait_leader(struct ensemble *ensemble)
{
    uint32_t index = 0;

    ENSEMBLE_WAIT(ensemble, find_leader(ensemble, &index));
    return index;
}

uint64_t ensemble_resident_bytes(pid_t pid)
{
    char path[64];
    char line[256];
    unsigned long long kib = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);

    FILE *file = fopen(path, "re");

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    (void)fclose(file);
    return kib * 1024;
}
