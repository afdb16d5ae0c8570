/* Permissions on real replicas: one znode for each single permission, every operation on each of
 * them, through each replica in turn. */
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"

#include <stdio.h>
#include <string.h>

#define JSON "Content-Type: application/json"
#define BOB  "Authorization: Basic Ym9iOnB3"         /* bob:pw */
#define EVE  "Authorization: Basic ZXZlOnB3"         /* eve:pw */
#define ROOT "Authorization: Basic c3VwZXI6cm9vdA==" /* super:root */

static const char bob_id[] = "digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=";

enum {
    PATH_MAX_BYTES = 300,
    HEADERS_MAX_BYTES = 600
};

static struct ensemble ensemble;
static uint32_t turn;
static char last_zxid[64];

static void open_three(void)
{
    ensemble_launch(&ensemble, 3, ENSEMBLE_SUPER);
}

static void close_three(void)
{
    ensemble_close(&ensemble);
}

/* Sends a call to the next replica; it waits for the state after the last write. */
static long call(const char *method, const char *path, const char *headers, const char *body)
{
    char all[HEADERS_MAX_BYTES];

    (void)snprintf(all, sizeof(all), "%s%s%s%s", headers, headers[0] && last_zxid[0] ? "\n" : "",
                   last_zxid[0] ? "Zk-Min-Zxid: " : "", last_zxid);

    long status = web_do(ensemble.web,
                         &(struct web_call){.method = method,
                                            .port = ensemble.replicas[turn++ % 3].client_port,
                                            .path = path,
                                            .headers = all,
                                            .body = body},
                         &ensemble.reply);

    if (status / 100 == 2 && strcmp(method, "GET") != 0) {
        (void)snprintf(last_zxid, sizeof(last_zxid), "%s", web_header(&ensemble.reply, "Zk-Zxid"));
    }
    return status;
}

static void expect(const char *method, const char *path, const char *headers, const char *body,
                   long status)
{
    if (call(method, path, headers, body) != status) {
        ensemble_print_logs(&ensemble);
        fail_msg("%s %s (%s): %ld, not %ld: %s", method, path, headers, ensemble.reply.status,
                 status, web_text(&ensemble.reply));
    }
}

static bool says(const char *text)
{
    return strstr(web_text(&ensemble.reply), text) != NULL;
}

/* ---- One permission, one operation ---- */

/* `%c` stands for the letter of the znode's permission. Changes of the list come last. */
struct row {
    const char *needs; /* One of these permissions. */
    const char *method;
    const char *path;
    const char *body; /* JSON if it begins with a brace. */
    long status;      /* Status of success. */
};

static const struct row rows[] = {
    {"r", "GET", "/znodes/v1/p-%c", NULL, 200},
    {"r", "GET", "/znodes/v1/p-%c?view=stat", NULL, 200},
    {"r", "GET", "/znodes/v1/p-%c?view=children", NULL, 200},
    {"r", "GET", "/znodes/v1/p-%c?view=tree", NULL, 200},
    {"ra", "GET", "/znodes/v1/p-%c?view=acl", NULL, 200},
    {"r", "GET", "/znodes/v1/p-%c?consistency=linearizable", NULL, 200},
    {"w", "PUT", "/znodes/v1/p-%c", "x", 200},
    {"w", "PUT", "/znodes/v1/p-%c?upsert=true", "x", 200},
    {"c", "POST", "/znodes/v1/p-%c?name=n&sequence=true", "x", 201},
    {"c", "PUT", "/znodes/v1/p-%c/put?upsert=true", "x", 201},
    {"d", "DELETE", "/znodes/v1/p-%c/gone", NULL, 204},
    {"r", "POST", "/multi/v1", "{\"ops\":[{\"op\":\"check\",\"path\":\"/p-%c\"}]}", 200},
    {"w", "POST", "/multi/v1", "{\"ops\":[{\"op\":\"set\",\"path\":\"/p-%c\",\"dataUtf8\":\"y\"}]}",
     200},
    {"c", "POST", "/multi/v1", "{\"ops\":[{\"op\":\"create\",\"path\":\"/p-%c/m\"}]}", 200},
    {"d", "POST", "/multi/v1", "{\"ops\":[{\"op\":\"delete\",\"path\":\"/p-%c/left\"}]}", 200},
    {"a", "PATCH", "/znodes/v1/p-%c",
     "{\"acl\":[{\"perms\":[\"admin\"],\"scheme\":\"world\",\"id\":\"anyone\"}]}", 200},
};

static const char letters[] = "rwcda";

static const char *put_letter(const char *text, char letter, char out[PATH_MAX_BYTES])
{
    const char *place = text ? strstr(text, "%c") : NULL;

    if (!place) {
        return text;
    }
    (void)snprintf(out, PATH_MAX_BYTES, "%.*s%c%s", (int)(place - text), text, letter, place + 2);
    return out;
}

static void run_row(const struct row *row, char letter, const char *credentials, bool allowed)
{
    char path[PATH_MAX_BYTES];
    char body[PATH_MAX_BYTES];
    char headers[HEADERS_MAX_BYTES];
    const char *sent = put_letter(row->body, letter, body);
    bool json = sent && sent[0] == '{';
    long refused = credentials[0] ? 403 : 401;

    (void)snprintf(headers, sizeof(headers), "%s%s%s", credentials,
                   credentials[0] && json ? "\n" : "", json ? JSON : "");
    expect(row->method, put_letter(row->path, letter, path), headers, sent,
           allowed ? row->status : refused);
    assert_true(allowed || says("\"code\":\"NoAuth\""));
}

static void make_znodes(void)
{
    for (const char *letter = letters; *letter; letter++) {
        char path[PATH_MAX_BYTES];
        char headers[HEADERS_MAX_BYTES];

        (void)snprintf(path, sizeof(path), "/znodes/v1/?name=p-%c", *letter);
        (void)snprintf(headers, sizeof(headers), "Zk-Acl: world:anyone:%c, %s:cdrwa", *letter,
                       bob_id);
        expect("POST", path, headers, "x", 201);
        for (const char *child = "gone\0left\0"; *child; child += strlen(child) + 1) {
            (void)snprintf(path, sizeof(path), "/znodes/v1/p-%c?name=%s", *letter, child);
            expect("POST", path, BOB, "x", 201);
        }
    }
}

TEST_GROUP(open_three, close_three)

/* Requests without credentials and with those of another user are refused and change nothing, so
 * that each operation then succeeds with the right credentials. */
TEST(each_operation_needs_its_permission)
{
    make_znodes();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (const char *letter = letters; *letter; letter++) {
            bool allowed = strchr(rows[i].needs, *letter) != NULL;

            if (!allowed) {
                run_row(&rows[i], *letter, EVE, false);
            }
            run_row(&rows[i], *letter, "", allowed);
        }
    }
}

/* The same operations on znodes that only the owner and the super user may use. */
TEST(owner_and_super_user_may_do_everything)
{
    static const char *const credentials[] = {BOB, ROOT};

    for (size_t i = 0; i < sizeof(credentials) / sizeof(credentials[0]); i++) {
        char letter = (char)('A' + (int)i);
        char path[PATH_MAX_BYTES];

        (void)snprintf(path, sizeof(path), "/znodes/v1/?name=p-%c", letter);
        expect("POST", path, BOB "\nZk-Acl: creator", "x", 201);
        for (const char *child = "gone\0left\0"; *child; child += strlen(child) + 1) {
            (void)snprintf(path, sizeof(path), "/znodes/v1/p-%c?name=%s", letter, child);
            expect("POST", path, BOB, "x", 201);
        }
        for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
            run_row(&rows[row], letter, EVE, false);
            run_row(&rows[row], letter, "", false);
            run_row(&rows[row], letter, credentials[i], true);
            if (strcmp(rows[row].method, "PATCH") == 0) {
                break; /* The new list gives every client the admin permission only. */
            }
        }
    }
}

/* ---- What lists mean ---- */

TEST(lists_are_not_inherited)
{
    static const char *const lists[] = {"/znodes/v1/?view=tree&with=data&dataformat=auto",
                                        "/znodes/v1/?view=children&with=data&dataformat=auto"};

    expect("POST", "/znodes/v1/?name=closed", BOB "\nZk-Acl: creator", "confidential", 201);
    expect("POST", "/znodes/v1/closed?name=open", BOB, "x", 201);
    expect("GET", "/znodes/v1/closed", "", NULL, 401);
    expect("GET", "/znodes/v1/closed/open", "", NULL, 200);
    expect("POST", "/znodes/v1/closed/open?name=below", "", "x", 201);
    /* A listing of several znodes shows no more than single reads. */
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        expect("GET", lists[i], "", NULL, 200);
        ENSEMBLE_CHECK(&ensemble, !says("confidential") && says("\"hidden\":true"));
        expect("GET", lists[i], BOB, NULL, 200);
        ENSEMBLE_CHECK(&ensemble, says("confidential"));
    }
}

TEST(schemes)
{
    expect("POST", "/znodes/v1/?name=here", "Zk-Acl: ip:127.0.0.0/8:r", "x", 201);
    expect("GET", "/znodes/v1/here", "", NULL, 200);
    expect("PUT", "/znodes/v1/here", "", "y", 401);
    expect("POST", "/znodes/v1/?name=there", "Zk-Acl: ip:10.0.0.0/8:cdrwa", "x", 201);
    expect("GET", "/znodes/v1/there", "", NULL, 401);
    expect("POST", "/znodes/v1/?name=auth", BOB "\nZk-Acl: auth::rw", "x", 201);
    expect("GET", "/znodes/v1/auth", BOB, NULL, 200);
    expect("GET", "/znodes/v1/auth", EVE, NULL, 403);
    expect("POST", "/znodes/v1/?name=no", "Zk-Acl: creator", "x", 400);
    ENSEMBLE_CHECK(&ensemble, says("InvalidACL"));
    expect("POST", "/znodes/v1/?name=no", "Zk-Acl: ip:300.1.1.1:r", "x", 400);
    expect("POST", "/znodes/v1/?name=no", "Zk-Acl: sasl:bob:r", "x", 400);
    expect("GET", "/znodes/v1/no", "", NULL, 404);
}

TEST(hashes_are_for_administrators)
{
    char headers[HEADERS_MAX_BYTES];

    (void)snprintf(headers, sizeof(headers), "Zk-Acl: world:anyone:r, %s:cdrwa", bob_id);
    expect("POST", "/znodes/v1/?name=shown", headers, "x", 201);
    expect("GET", "/znodes/v1/shown?view=acl", "", NULL, 200);
    ENSEMBLE_CHECK(&ensemble, says("\"bob:x\"") && !says(bob_id + strlen("digest:")));
    expect("GET", "/znodes/v1/shown?view=acl", BOB, NULL, 200);
    ENSEMBLE_CHECK(&ensemble, says(bob_id + strlen("digest:")));
}

TEST(the_version_of_a_list_is_checked)
{
    static const char open[] = "{\"acl\":\"open\"}";
    char headers[HEADERS_MAX_BYTES];

    expect("POST", "/znodes/v1/?name=tag", "", "x", 201);
    expect("PATCH", "/znodes/v1/tag", JSON, "{\"acl\":\"read\",\"aversion\":1}", 412);
    expect("GET", "/znodes/v1/tag?view=acl", "", NULL, 200);
    (void)snprintf(headers, sizeof(headers), JSON "\nIf-Match: %s",
                   web_header(&ensemble.reply, "ETag"));
    expect("PATCH", "/znodes/v1/tag", headers, open, 200);
    expect("PATCH", "/znodes/v1/tag", headers, open, 412);
    expect("DELETE", "/znodes/v1/tag", "", NULL, 204);
    expect("PATCH", "/znodes/v1/tag", headers, open, 412);
    expect("PATCH", "/znodes/v1/tag", JSON, open, 404);
    expect("POST", "/znodes/v1/?name=tag", "", "x", 201);
    expect("PATCH", "/znodes/v1/tag", headers, open, 412);
}

/* Lists survive in the log and in snapshots. */
TEST(lists_outlive_all_replicas)
{
    expect("POST", "/znodes/v1/?name=kept", BOB "\nZk-Acl: creator", "x", 201);
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_kill(&ensemble, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ensemble_start(&ensemble, i);
    }
    ensemble_wait_all_ready(&ensemble);
    for (uint32_t i = 0; i < 3; i++) {
        expect("GET", "/znodes/v1/kept", "", NULL, 401);
        expect("GET", "/znodes/v1/kept", EVE, NULL, 403);
        expect("PUT", "/znodes/v1/kept", BOB, "y", 200);
    }
}

/* ---- Files that are read again ---- */

TEST(only_the_super_user_reloads)
{
    expect("POST", "/status/v1?op=reload", "", NULL, 401);
    expect("POST", "/status/v1?op=reload", BOB, NULL, 403);
    assert_true(says("\"code\":\"NoAuth\""));
    expect("POST", "/status/v1?op=reload", ROOT, NULL, 200);
    assert_true(says("{\"reloaded\":["));
    expect("POST", "/status/v1", ROOT, NULL, 400);
}
