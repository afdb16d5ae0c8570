/* The C client (libzookeeper-mt) on the servers of SERVERS; CONTROL kills one (servers.py). */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum {
    WAIT_MS = 30000,
    POLL_MS = 10,
    SESSION_MS = 15000,
    PATH_MAX_BYTES = 200,
    EVENTS_MAX = 64,
    PIPELINE = 500
};

#define CHECK(held) check((held), #held, __LINE__)

static volatile int event_count;
static int event_types[EVENTS_MAX];
static char event_paths[EVENTS_MAX][PATH_MAX_BYTES];
static volatile int answered;
static volatile int answered_in_order = 1;

static void check(int held, const char *what, int line)
{
    if (!held) {
        (void)printf("FAILED line %d: %s\n", line, what);
        abort();
    }
}

static void on_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)state;
    (void)context;
    if (type != ZOO_SESSION_EVENT && event_count < EVENTS_MAX) {
        event_types[event_count] = type;
        (void)snprintf(event_paths[event_count], PATH_MAX_BYTES, "%s", path);
        event_count++;
    }
}

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms); /* Between two looks at a condition, which has a deadline. */
}

static void wait_state(zhandle_t *handle, int connected)
{
    for (int i = 0; i < WAIT_MS / POLL_MS; i++) {
        if ((zoo_state(handle) == ZOO_CONNECTED_STATE) == connected) {
            return;
        }
        pause_ms(POLL_MS);
    }
    CHECK(!"the state of the connection");
}

static void wait_events(int count)
{
    for (int i = 0; i < WAIT_MS / POLL_MS && event_count < count; i++) {
        pause_ms(POLL_MS);
    }
    CHECK(event_count >= count);
}

static zhandle_t *opened(const clientid_t *id)
{
    zhandle_t *handle = zookeeper_init(getenv("SERVERS"), on_event, SESSION_MS, id, NULL, 0);

    CHECK(handle != NULL);
    wait_state(handle, 1);
    return handle;
}

static void operations(zhandle_t *zk)
{
    char path[PATH_MAX_BYTES];
    char data[16];
    int length = sizeof(data);
    struct Stat stat;
    struct String_vector names;
    struct ACL_vector acl;

    CHECK(zoo_create(zk, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof(path)) == ZOK);
    CHECK(zoo_create(zk, "/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZNODEEXISTS);
    CHECK(zoo_create(zk, "/c/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZOK);
    CHECK(zoo_create(zk, "/c/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE | ZOO_EPHEMERAL, path,
                     sizeof(path)) == ZOK);
    CHECK(strcmp(path, "/c/s-0000000001") == 0);
    CHECK(zoo_create2(zk, "/c/two", "2", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof(path), &stat) ==
          ZOK);
    CHECK(stat.version == 0 && stat.dataLength == 1);
    CHECK(zoo_create2_ttl(zk, "/c/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL,
                          100000, path, sizeof(path), &stat) == ZOK);
    CHECK(zoo_create(zk, "/c/box", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0) == ZOK);
    CHECK(zoo_get(zk, "/c", 0, data, &length, &stat) == ZOK && length == 3 &&
          stat.numChildren == 5);
    length = sizeof(data);
    CHECK(zoo_get(zk, "/c/null", 0, data, &length, &stat) == ZOK && length == -1);
    CHECK(zoo_set2(zk, "/c", "x", 1, 0, &stat) == ZOK && stat.version == 1);
    CHECK(zoo_set(zk, "/c", "x", 1, 0) == ZBADVERSION);
    CHECK(zoo_exists(zk, "/c/none", 0, &stat) == ZNONODE);
    CHECK(zoo_get_children2(zk, "/c", 0, &names, &stat) == ZOK && names.count == 5);
    deallocate_String_vector(&names);
    CHECK(zoo_get_acl(zk, "/c", &acl, &stat) == ZOK && acl.count == 1 && acl.data[0].perms == 31);
    deallocate_ACL_vector(&acl);
    CHECK(zoo_delete(zk, "/c", -1) == ZNOTEMPTY);
    CHECK(zoo_delete(zk, "/c/two", -1) == ZOK);
}

static void multis(zhandle_t *zk)
{
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    char path[PATH_MAX_BYTES];
    struct Stat stat;

    zoo_create_op_init(&ops[0], "/c/m", "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof(path));
    zoo_set_op_init(&ops[1], "/c/m", "22", 2, 0, &stat);
    zoo_check_op_init(&ops[2], "/c/m", 1);
    zoo_delete_op_init(&ops[3], "/c/m", -1);
    CHECK(zoo_multi(zk, 4, ops, results) == ZOK);
    CHECK(strcmp(path, "/c/m") == 0 && stat.version == 1 && results[3].err == ZOK);
    zoo_check_op_init(&ops[2], "/c/m", 7);
    CHECK(zoo_multi(zk, 4, ops, results) == ZBADVERSION);
    CHECK(results[0].err == ZOK && results[2].err == ZBADVERSION &&
          results[3].err == ZRUNTIMEINCONSISTENCY);
    CHECK(zoo_exists(zk, "/c/m", 0, &stat) == ZNONODE);
}

static void on_auth(int rc, const void *data)
{
    (void)data;
    answered = rc == ZOK ? 1 : -1;
}

static void wait_answers(int count)
{
    for (int i = 0; i < WAIT_MS / POLL_MS && answered != count; i++) {
        pause_ms(POLL_MS);
    }
    CHECK(answered == count);
}

static void rights(zhandle_t *zk)
{
    zhandle_t *other = opened(NULL);
    char data[16];
    int length = sizeof(data);
    struct Stat stat;

    answered = 0;
    CHECK(zoo_add_auth(zk, "digest", "u:p", 3, on_auth, NULL) == ZOK);
    wait_answers(1);
    CHECK(zoo_create(zk, "/c/mine", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0) == ZOK);
    CHECK(zoo_create(other, "/c/x", "x", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0) == ZOK);
    CHECK(zoo_get(other, "/c/mine", 0, data, &length, &stat) == ZNOAUTH);
    CHECK(zoo_get(zk, "/c/mine", 0, data, &length, &stat) == ZOK);
    CHECK(zookeeper_close(other) == ZOK);
}

static void watches(zhandle_t *zk)
{
    struct Stat stat;
    struct String_vector names;

    event_count = 0;
    CHECK(zoo_exists(zk, "/c/w", 1, &stat) == ZNONODE);
    CHECK(zoo_get_children(zk, "/c", 1, &names) == ZOK);
    deallocate_String_vector(&names);
    CHECK(zoo_create(zk, "/c/w", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZOK);
    wait_events(2);
    CHECK(event_types[0] + event_types[1] == ZOO_CREATED_EVENT + ZOO_CHILD_EVENT);
    CHECK(zoo_wexists(zk, "/c/w", on_event, NULL, &stat) == ZOK);
    CHECK(zoo_set(zk, "/c/w", "2", 1, -1) == ZOK);
    wait_events(3);
    CHECK(event_types[2] == ZOO_CHANGED_EVENT && strcmp(event_paths[2], "/c/w") == 0);
    CHECK(zoo_wexists(zk, "/c/w", on_event, NULL, &stat) == ZOK);
    CHECK(zoo_remove_watches(zk, "/c/w", ZWATCHTYPE_DATA, on_event, NULL, 0) == ZOK);
    CHECK(zoo_remove_watches(zk, "/c/w", ZWATCHTYPE_DATA, on_event, NULL, 0) == ZNOWATCHER);
}

static void on_set(int rc, const struct Stat *stat, const void *data)
{
    long number = (long)data;

    answered_in_order = answered_in_order && rc == ZOK && stat->version == (int)number &&
                        answered == (int)number - 1;
    answered++;
}

static void pipeline(zhandle_t *zk)
{
    CHECK(zoo_create(zk, "/c/p", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0) == ZOK);
    answered = 0;
    for (long i = 1; i <= PIPELINE; i++) {
        CHECK(zoo_aset(zk, "/c/p", "x", 1, -1, on_set, (const void *)i) == ZOK);
    }
    wait_answers(PIPELINE);
    CHECK(answered_in_order);
}

static void kill_server(uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char line[32];
    int length = snprintf(line, sizeof(line), "kill %u\n", port);

    at.sin_port = htons((uint16_t)strtoul(getenv("CONTROL"), NULL, 10));
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0);
    CHECK(write(fd, line, (size_t)length) == length);
    CHECK(read(fd, line, sizeof(line)) == 3);
    (void)close(fd);
}

static void kills(zhandle_t *zk)
{
    int64_t session = zoo_client_id(zk)->client_id;
    struct Stat stat;

    for (int i = 0; i < 3; i++) {
        struct sockaddr_storage at;
        socklen_t length = sizeof(at);
        char name[PATH_MAX_BYTES];
        int rc = ZCONNECTIONLOSS;

        event_count = 0;
        CHECK(zoo_exists(zk, "/c/w", 1, &stat) == ZOK); /* Sent again after the reconnect. */
        CHECK(zookeeper_get_connected_host(zk, (struct sockaddr *)&at, &length) != NULL);
        kill_server(ntohs(((struct sockaddr_in *)&at)->sin_port));
        wait_state(zk, 0);
        wait_state(zk, 1);
        (void)snprintf(name, sizeof(name), "/c/after%d", i);
        for (int tries = 0; tries < 1000 && rc != ZOK && rc != ZNODEEXISTS; tries++) {
            rc = zoo_create(zk, name, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
            pause_ms(rc == ZOK ? 0 : POLL_MS);
        }
        CHECK(rc == ZOK || rc == ZNODEEXISTS);
        CHECK(zoo_client_id(zk)->client_id == session);
        CHECK(zoo_exists(zk, "/c/s-0000000001", 0, &stat) == ZOK && stat.ephemeralOwner == session);
        CHECK(zoo_set(zk, "/c/w", "3", 1, -1) == ZOK);
        wait_events(1);
    }
}

int main(void)
{
    zhandle_t *zk;

    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)freopen("/dev/null", "w", stderr); /* Its log. */
    zk = opened(NULL);
    operations(zk);
    multis(zk);
    rights(zk);
    watches(zk);
    pipeline(zk);
    (void)printf("ok operations, multis, rights, watches, pipeline\n");
    kills(zk);
    CHECK(zookeeper_close(zk) == ZOK);
    (void)printf("ok kills; C client: all passed\n");
    return 0;
}
