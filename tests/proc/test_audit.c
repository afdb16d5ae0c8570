/* The audit log of real replicas: every replica has a line for each change, whichever took it;
 * refusals; rotation; a full disk; what no line may have. */
#include "tests/lib/unit.h"
#include "tests/proc/disk.h"
#include "tests/proc/talk.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define BOB "Authorization: Basic Ym9iOnB3" /* bob:pw */
#define EVE "Authorization: Basic ZXZlOnB3" /* eve:pw */
#define BAD "Authorization: Basic !!!"

enum {
    COUNT = 3,
    TEXT_MAX = 4 << 20,
    DISK_BYTES = 64 << 10
};

static const char bob_hash[] = "ikIaKsbtGweaHnb/jKn7OHqbunM=";

static struct ensemble ensemble;
static bool may_mount;
static char last_zxid[64];
static char text[TEXT_MAX];

/* The audit file of a replica is in a directory beside its data: a disk of its own. */
static const char *dir_of(uint32_t index)
{
    static char dirs[COUNT][ENSEMBLE_PATH_MAX + 16];

    (void)snprintf(dirs[index], sizeof(dirs[index]), "%s/audit%u", ensemble.dir, index + 1);
    return dirs[index];
}

static const char *path_of(uint32_t index, const char *name)
{
    static char path[ENSEMBLE_PATH_MAX + 64];

    (void)snprintf(path, sizeof(path), "%s/%s", dir_of(index), name);
    return path;
}

static void add_key(uint32_t index)
{
    FILE *file = fopen(ensemble.replicas[index].config, "a");

    assert_non_null(file);
    (void)fprintf(file, "auditFile=%s\n", path_of(index, "audit.log"));
    assert_int_equal(fclose(file), 0);
}

static void open_all(void)
{
    may_mount = disk_may_mount();
    ensemble_open(&ensemble, COUNT, NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(mkdir(dir_of(i), 0700), 0);
        if (may_mount) {
            char size[32];

            (void)snprintf(size, sizeof(size), "size=%d", DISK_BYTES);
            assert_int_equal(mount("tmpfs", dir_of(i), "tmpfs", 0, size), 0);
        }
        add_key(i);
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
}

static void close_all(void)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        ensemble_kill(&ensemble, i);
        if (may_mount) {
            (void)umount2(dir_of(i), MNT_DETACH);
        }
    }
    ensemble_close(&ensemble);
}

TEST_GROUP(open_all, close_all)

/* ---- The files. ---- */

/* The bytes of a file in the directory of the audit file, as a text. */
static const char *read_named(uint32_t index, const char *name)
{
    int fd = open(path_of(index, name), O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = 0;

    text[0] = '\0';
    if (fd < 0) {
        return text;
    }
    while (len < sizeof(text) - 1 && (got = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    close(fd);
    text[len] = '\0';
    return text;
}

static const char *read_file(uint32_t index)
{
    return read_named(index, "audit.log");
}

static size_t count_in(const char *from, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(from, part); at; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* The first line of the file that has both parts, as JSON; NULL: there is none. */
static json_t *find_line(uint32_t index, const char *one, const char *other)
{
    char *rest = NULL;

    (void)read_file(index);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strstr(line, one) && strstr(line, other)) {
            json_t *json = json_loads(line, 0, NULL);

            assert_non_null(json);
            return json;
        }
    }
    return NULL;
}

static json_t *wait_line(uint32_t index, const char *one, const char *other)
{
    json_t *line = NULL;

    ENSEMBLE_WAIT(&ensemble, (line = find_line(index, one, other)) != NULL);
    return line;
}

static const char *member(const json_t *line, const char *name)
{
    const char *value = json_string_value(json_object_get(line, name));

    return value ? value : "";
}

static bool has_identity(const json_t *line, const char *list, const char *identity)
{
    size_t i = 0;
    json_t *item = NULL;

    json_array_foreach(json_object_get(line, list), i, item)
    {
        if (strcmp(json_string_value(item), identity) == 0) {
            return true;
        }
    }
    return false;
}

static long call(uint32_t index, const char *method, const char *path, const char *headers,
                 const char *body)
{
    long status = web_do(ensemble.web,
                         &(struct web_call){.method = method,
                                            .port = ensemble.replicas[index].client_port,
                                            .path = path,
                                            .headers = headers,
                                            .body = body},
                         &ensemble.reply);
    const char *zxid = status / 100 == 2 ? web_header(&ensemble.reply, "Zk-Zxid") : NULL;

    if (zxid) {
        (void)snprintf(last_zxid, sizeof(last_zxid), "\"zxid\":\"%s\"", zxid);
    }
    return status;
}

/* ---- Changes. ---- */

TEST(every_replica_has_the_same_line)
{
    char zxid[64];

    assert_int_equal(call(1, "PUT", "/znodes/v1/same?upsert=true", BOB, "secret-data"), 201);
    (void)snprintf(zxid, sizeof(zxid), "%s", last_zxid);
    for (uint32_t i = 0; i < COUNT; i++) {
        json_t *line = wait_line(i, zxid, "\"path\":\"/same\"");
        const json_t *change = json_array_get(json_object_get(line, "changes"), 0);

        assert_string_equal(member(line, "event"), "change");
        assert_string_equal(member(line, "op"), "set");
        assert_string_equal(member(line, "by"), "client");
        assert_string_equal(member(line, "address"), "127.0.0.1");
        assert_true(has_identity(line, "identities", "digest:bob"));
        assert_false(has_identity(line, "confirmed", "digest:bob"));
        assert_int_equal(json_integer_value(json_object_get(line, "replica")), 2);
        assert_string_equal(member(change, "change"), "create");
        assert_true(json_is_null(json_object_get(change, "before")));
        assert_int_equal(json_integer_value(json_object_get(change, "after")), 0);
        json_decref(line);
    }
    assert_int_equal(call(2, "DELETE", "/znodes/v1/same", NULL, NULL), 204);
    (void)snprintf(zxid, sizeof(zxid), "%s", last_zxid);
    json_t *line = wait_line(0, zxid, "\"change\":\"delete\"");

    assert_int_equal(json_integer_value(json_object_get(
                         json_array_get(json_object_get(line, "changes"), 0), "before")),
                     0);
    json_decref(line);
}

TEST(the_others_have_the_line_of_a_dead_replica)
{
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t taker = (leader + 1) % COUNT;
    uint32_t other = (leader + 2) % COUNT;
    char zxid[64];
    char change[128];

    assert_int_equal(call(taker, "PUT", "/znodes/v1/dead?upsert=true", NULL, "x"), 201);
    (void)snprintf(zxid, sizeof(zxid), "%s", last_zxid);
    ensemble_kill(&ensemble, taker);
    json_decref(wait_line(leader, zxid, "\"path\":\"/dead\""));
    json_t *line = wait_line(other, zxid, "\"path\":\"/dead\"");

    assert_int_equal(json_integer_value(json_object_get(line, "replica")), taker + 1);
    json_decref(line);

    /* After its restart it has the line, and what it has missed, once. */
    assert_int_equal(call(other, "PUT", "/znodes/v1/dead", NULL, "y"), 200);
    ensemble_start(&ensemble, taker);
    ensemble_wait_ready(&ensemble, taker);
    json_decref(wait_line(taker, last_zxid, "\"path\":\"/dead\""));
    assert_int_equal(count_in(read_file(taker), "\"path\":\"/dead\""), 2);
    /* The line about the restart may name the same zxid. */
    (void)snprintf(change, sizeof(change), "\"event\":\"change\",%s", zxid);
    assert_int_equal(count_in(text, change), 1);
}

TEST(each_part_of_a_multi_is_named)
{
    static const char body[] = "{\"ops\":[{\"op\":\"create\",\"path\":\"/m1\"},"
                               "{\"op\":\"create\",\"path\":\"/m2\"},"
                               "{\"op\":\"check\",\"path\":\"/m1\",\"version\":0},"
                               "{\"op\":\"delete\",\"path\":\"/m2\"}]}";

    assert_int_equal(call(0, "POST", "/multi/v1", "Content-Type: application/json", body), 200);
    for (uint32_t i = 0; i < COUNT; i++) {
        json_t *line = wait_line(i, last_zxid, "\"op\":\"multi\"");
        static const char *const want[] = {"create", "create", "check", "delete"};
        static const char *const paths[] = {"/m1", "/m2", "/m1", "/m2"};

        assert_int_equal(json_array_size(json_object_get(line, "changes")), 4);
        for (size_t j = 0; j < 4; j++) {
            const json_t *change = json_array_get(json_object_get(line, "changes"), j);

            assert_string_equal(member(change, "change"), want[j]);
            assert_string_equal(member(change, "path"), paths[j]);
        }
        json_decref(line);
    }
}

TEST(websockets_and_their_sessions_are_named)
{
    struct socket *socket = talk_open(&ensemble, 2, NULL);
    char session[64] = "";

    talk_ok(&ensemble, socket, "\"op\":\"session\",\"timeout_ms\":10000");
    talk_ok(&ensemble, socket,
            "\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"carol:geheim\"");
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/ws\",\"ephemeral\":true");
    for (uint32_t i = 0; i < COUNT; i++) {
        json_t *line = wait_line(i, "\"path\":\"/ws\"", "\"ephemeral\":");
        const json_t *change = json_array_get(json_object_get(line, "changes"), 0);

        (void)snprintf(session, sizeof(session), "%s", member(line, "session"));
        assert_int_equal(strncmp(session, "0x", 2), 0);
        assert_string_equal(member(change, "ephemeral"), session);
        assert_true(has_identity(line, "identities", "digest:carol"));
        json_decref(line);
    }
    talk_ok(&ensemble, socket, "\"op\":\"create\",\"path\":\"/fixed\",\"acl\":\"read\"");
    assert_string_equal(talk_error(socket, "\"op\":\"set\",\"path\":\"/fixed\",\"dataUtf8\":\"x\""),
                        "NoAuth");
    json_t *line = wait_line(2, "\"event\":\"refused\"", "\"op\":\"set\",\"path\":\"/fixed\"");

    assert_string_equal(member(line, "session"), session);
    assert_string_equal(member(line, "error"), "NoAuth");
    assert_true(has_identity(line, "identities", "digest:carol"));
    json_decref(line);
    socket_close(socket);
}

TEST(an_expired_session_and_its_ephemerals_are_recorded)
{
    char session[64];
    char headers[128];

    assert_int_equal(call(0, "POST", "/sessions/v1?expire=2", NULL, NULL), 201);
    json_t *reply = web_json(&ensemble.reply);

    (void)snprintf(session, sizeof(session), "\"session\":\"%s\",\"cause\":\"expired\"",
                   member(reply, "session"));
    (void)snprintf(headers, sizeof(headers), "Zk-Session: %s", member(reply, "id"));
    assert_int_equal(call(0, "POST", "/znodes/v1/?name=gone&ephemeral=true", headers, "x"), 201);
    for (uint32_t i = 0; i < COUNT; i++) {
        json_t *line = wait_line(i, session, "\"change\":\"delete\",\"path\":\"/gone\"");

        assert_string_equal(member(line, "op"), "expire");
        assert_string_equal(member(line, "by"), "server");
        assert_null(json_object_get(line, "address"));
        json_decref(line);
        assert_null(strstr(read_file(i), member(reply, "id"))); /* The secret. */
    }
    json_decref(reply);
}

/* ---- Refusals. ---- */

TEST(refusals_are_recorded)
{
    static const char acl[] = "Zk-Acl: digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa";

    assert_int_equal(call(0, "PUT", "/znodes/v1/closed?upsert=true", acl, "x"), 201);
    ensemble_call_until(&ensemble, 1, "GET", "/znodes/v1/closed", NULL, 401);
    json_t *line = wait_line(1, "\"event\":\"refused\"", "\"op\":\"get\",\"path\":\"/closed\"");

    assert_int_equal(json_integer_value(json_object_get(line, "status")),
                     401); /* As the client got it: it had no credentials. */
    assert_string_equal(member(line, "error"), "NoAuth");
    assert_string_equal(member(line, "address"), "127.0.0.1");
    assert_true(member(line, "reason")[0] != '\0');
    json_decref(line);

    /* The leader refuses; the replica that the client has asked has the line. */
    uint32_t leader = ensemble_wait_leader(&ensemble);
    uint32_t asked = (leader + 1) % COUNT;

    assert_int_equal(call(asked, "DELETE", "/znodes/v1/closed?version=7", EVE, NULL), 412);
    assert_int_equal(call(asked, "PUT", "/znodes/v1/closed", EVE, "y"), 403);
    line = wait_line(asked, "\"event\":\"refused\"", "\"op\":\"set\",\"path\":\"/closed\"");
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 403);
    assert_true(has_identity(line, "identities", "digest:eve"));
    json_decref(line);
    static const char multi[] = "{\"ops\":[{\"op\":\"create\",\"path\":\"/never\"},"
                                "{\"op\":\"set\",\"path\":\"/closed\",\"dataUtf8\":\"x\"}]}";

    assert_int_equal(
        call(asked, "POST", "/multi/v1", "Content-Type: application/json\n" EVE, multi), 403);
    line = wait_line(asked, "\"op\":\"multi\",\"part\":\"set\"", "\"path\":\"/closed\"");
    json_decref(line);
    assert_int_equal(call(asked, "GET", "/znodes/v1/closed", BAD, NULL), 401);
    json_decref(wait_line(asked, "\"event\":\"refused\"", "\"error\":\"AuthFailed\""));
    assert_int_equal(call(asked, "POST", "/status/v1?op=reload", EVE, NULL), 403);
    line = wait_line(asked, "\"event\":\"refused\"", "\"op\":\"reload\"");
    assert_true(has_identity(line, "identities", "digest:eve"));
    json_decref(line);

    /* The right password is confirmed, and named so. */
    assert_int_equal(call(asked, "PUT", "/znodes/v1/closed", BOB, "z"), 200);
    line = wait_line(leader, last_zxid, "\"path\":\"/closed\"");
    assert_true(has_identity(line, "confirmed", "digest:bob"));
    json_decref(line);
}

/* Guesses are recorded when they are refused, and when they are not evaluated any more. */
TEST(slowed_guesses_are_recorded)
{
    static const char acl[] = "Zk-Acl: digest:dave:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:cdrwa";
    static const char guess[] = "Authorization: Basic ZGF2ZTpwdw=="; /* dave:pw */

    assert_int_equal(call(2, "PUT", "/znodes/v1/guess?upsert=true", acl, "x"), 201);
    ENSEMBLE_WAIT(&ensemble, call(2, "GET", "/znodes/v1/guess", guess, NULL) == 429);
    json_t *line = wait_line(2, "\"status\":429", "\"path\":\"/guess\"");

    assert_true(has_identity(line, "identities", "digest:dave"));
    assert_string_equal(member(line, "error"), "ThrottledOp");
    json_decref(line);
    json_decref(wait_line(2, "\"status\":403", "\"path\":\"/guess\""));
}

/* After the tests above, which have used passwords, hashes, data and secrets. */
TEST(no_secret_is_in_a_line)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        struct stat stat_of;

        assert_true(count_in(read_file(i), "\n") > 10);
        assert_null(strstr(text, bob_hash));
        assert_null(strstr(text, "Ym9iOnB3"));
        assert_null(strstr(text, "bob:"));
        assert_null(strstr(text, "geheim"));
        assert_null(strstr(text, "secret-data"));
        assert_int_equal(stat(path_of(i, "audit.log"), &stat_of), 0);
        assert_int_equal(stat_of.st_mode & 0777, 0600);
    }
}

/* ---- Rotation. ---- */

TEST(sighup_opens_a_renamed_file_again)
{
    char old[ENSEMBLE_PATH_MAX + 64];

    (void)snprintf(old, sizeof(old), "%s", path_of(1, "audit.log.1"));
    assert_int_equal(call(1, "PUT", "/znodes/v1/turn?upsert=true", NULL, "1"), 201);
    json_decref(wait_line(1, last_zxid, "\"path\":\"/turn\""));
    assert_int_equal(rename(path_of(1, "audit.log"), old), 0);
    assert_int_equal(call(1, "PUT", "/znodes/v1/turn", NULL, "2"), 200);
    ENSEMBLE_WAIT(&ensemble, strstr(read_named(1, "audit.log.1"), last_zxid) != NULL);
    ensemble_signal(&ensemble, 1, SIGHUP);
    ENSEMBLE_WAIT(&ensemble, access(path_of(1, "audit.log"), F_OK) == 0);
    assert_int_equal(call(1, "PUT", "/znodes/v1/turn", NULL, "3"), 200);
    json_decref(wait_line(1, last_zxid, "\"path\":\"/turn\""));
    assert_int_equal(count_in(read_file(1), "\"path\":\"/turn\""), 1);
    assert_int_equal(count_in(read_named(1, "audit.log.1"), "\"path\":\"/turn\""), 2);
    assert_int_equal(unlink(old), 0);
    ensemble_wait_ready(&ensemble, 1);
}

/* ---- A full disk. ---- */

static void fill(uint32_t index)
{
    static const char zeros[4096];
    int fd = open(path_of(index, "fill"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0) {
    }
    assert_int_equal(errno, ENOSPC);
    close(fd);
}

/* The last bytes of the last page of the file are still free after `fill`. */
static void use_up(uint32_t index)
{
    for (int i = 0; i < 1000 && ensemble_metric(&ensemble, index, "zabra_audit_failing") == 0;
         i++) {
        (void)call((index + 1) % COUNT, "PUT", "/znodes/v1/full?upsert=true", NULL, "x");
    }
    ENSEMBLE_CHECK(&ensemble, ensemble_metric(&ensemble, index, "zabra_audit_failing") == 1);
}

TEST(a_full_disk_refuses_writes_and_loses_no_line)
{
    uint32_t index = (ensemble_wait_leader(&ensemble) + 1) % COUNT;

    if (!may_mount) {
        skip();
    }
    fill(index);
    use_up(index);
    ENSEMBLE_WAIT(&ensemble, call(index, "PUT", "/znodes/v1/full", NULL, "refused") == 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "\"outcome\":\"not-applied\""));
    assert_non_null(strstr(web_text(&ensemble.reply), "auditFull=refuse"));
    assert_int_equal(call(index, "GET", "/readyz?verbose", NULL, NULL), 503);
    assert_non_null(strstr(web_text(&ensemble.reply), "auditFull=refuse"));
    assert_int_equal(call(index, "GET", "/znodes/v1/full", NULL, NULL), 200);

    /* The others take writes; the line follows once there is space. */
    assert_int_equal(call((index + 1) % COUNT, "PUT", "/znodes/v1/full", NULL, "y"), 200);
    char zxid[64];

    (void)snprintf(zxid, sizeof(zxid), "%s", last_zxid);
    assert_int_equal(unlink(path_of(index, "fill")), 0);
    json_decref(wait_line(index, zxid, "\"path\":\"/full\""));
    ensemble_wait_ready(&ensemble, index);
    assert_int_equal(call(index, "PUT", "/znodes/v1/full", NULL, "z"), 200);
    assert_int_equal(ensemble_metric(&ensemble, index, "zabra_audit_dropped_total"), 0);
    size_t lines = count_in(read_file(index), "{\"event\":\"change\"");

    assert_int_equal(count_in(text, "\n"), count_in(text, "{\"event\":\""));
    assert_true(lines > 10);
}

/* ---- Crashes. ---- */

/* Kills a replica again and again under load: each write has one line in the end. */
TEST(kills_lose_no_line_and_write_none_twice)
{
    uint32_t index = (ensemble_wait_leader(&ensemble) + 1) % COUNT;
    uint32_t other = (index + 1) % COUNT;
    char zxids[60][64];
    size_t count = 0;

    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 10; i++) {
            ensemble_call_until(&ensemble, other, "PUT", "/znodes/v1/kills?upsert=true", "x",
                                count == 0 ? 201 : 200);
            (void)snprintf(zxids[count++], sizeof(zxids[0]), "\"zxid\":\"%s\"",
                           web_header(&ensemble.reply, "Zk-Zxid"));
        }
        ensemble_kill(&ensemble, index);
        ensemble_start(&ensemble, index);
        if (round % 2 == 0) {
            ensemble_wait_ready(&ensemble, index);
        }
    }
    ensemble_wait_ready(&ensemble, index);
    json_decref(wait_line(index, zxids[count - 1], "change"));
    (void)read_file(index);
    for (size_t i = 0; i < count; i++) {
        char want[96];

        (void)snprintf(want, sizeof(want), "{\"event\":\"change\",%s", zxids[i]);
        assert_int_equal(count_in(text, want), 1);
    }
}

/* ---- A replica that takes no writes. ---- */

static void start_with(uint32_t index, const char *line)
{
    FILE *file = NULL;

    ensemble_kill(&ensemble, index);
    file = fopen(ensemble.replicas[index].config, "a");
    assert_non_null(file);
    (void)fprintf(file, "%s\n", line);
    assert_int_equal(fclose(file), 0);
    ensemble_start(&ensemble, index);
    ensemble_wait_ready(&ensemble, index);
}

TEST(writes_through_a_read_only_replica_are_recorded)
{
    start_with(0, "readOnly=true");
    assert_int_equal(call(0, "PUT", "/znodes/v1/readonly?upsert=true", NULL, "x"), 403);
    json_decref(wait_line(0, "\"error\":\"NotReadOnly\"", "\"path\":\"/readonly\""));
}

/* ---- Messages of a client without an identity. ---- */

/* The message is refused before it is looked at: its path is as long as a message may be. */
TEST(a_long_message_of_a_stranger_ends_no_replica)
{
    enum {
        MESSAGE_BYTES = 4 << 20
    };

    static char message[MESSAGE_BYTES + 1];
    static const char begin[] = "{\"id\":1,\"op\":\"get\",\"path\":\"/";
    json_t *line = NULL;

    start_with(0, "requireIdentity=true");
    memset(message, 'a', MESSAGE_BYTES);
    memcpy(message, begin, sizeof(begin) - 1);
    memcpy(message + MESSAGE_BYTES - 2, "\"}", 3);
    struct socket *socket = talk_open(&ensemble, 0, NULL);

    socket_send_text(socket, message, MESSAGE_BYTES);
    json_t *reply = socket_reply(socket, 1, SOCKET_TIMEOUT_MS);

    assert_string_equal(member(json_object_get(reply, "error"), "code"), "NoAuth");
    json_decref(reply);
    assert_true(socket_wait_end(socket, SOCKET_TIMEOUT_MS));
    socket_close(socket);
    line = wait_line(0, "\"event\":\"refused\"", "\"path\":\"/aaaa");
    assert_int_equal(strlen(member(line, "path")), 16384);
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 401);
    json_decref(line);
    assert_int_equal(call(0, "GET", "/livez", NULL, NULL), 200);
}

/* ---- The start. ---- */

TEST(a_directory_that_is_missing_is_refused_at_the_start)
{
    char command[2048];
    char output[4096];

    (void)snprintf(command, sizeof(command),
                   "%s serve --id 1 --dataDir %s/never --auditFile %s/none/audit.log 2>&1",
                   ZABRA_BINARY, ensemble.dir, ensemble.dir);
    FILE *pipe = popen(command, "r");

    assert_non_null(pipe);
    size_t len = fread(output, 1, sizeof(output) - 1, pipe);

    output[len] = '\0';
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 2);
    assert_non_null(strstr(output, "auditFile: there is no directory "));
    (void)snprintf(command, sizeof(command), "%s/never", ensemble.dir);
    assert_int_equal(access(command, F_OK), -1); /* Nothing was written. */
}
