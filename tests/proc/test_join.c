/*
 * Replicas that join: without a list of the members they find the ensemble, say how they are added,
 * and are. Founders that only know how many they are. What keeps a replica out, it says.
 */
#include "base/mem.h"
#include "tests/lib/unit.h"
#include "tests/proc/disk.h"
#include "tests/proc/membership.h"
#include "tests/proc/shell.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    FOUNDERS = 3,
    JOINER = 3, /* Index of replica 4. */
    LAST = 4,   /* Index of replica 5. */
    COMMAND_MAX = 512,
    WRITES = 300
};

/* Before a shell line: the super user runs it. */
#define AS_SUPER "export ZABRA_USER=super ZABRA_PASSWORD_FILE=$D/pw; "

#define KEYS ENSEMBLE_SUPER "tickTime=200\n"

static struct ensemble ensemble;

/* ---- Configurations. ---- */

/* Writes the configuration of a replica that has this list, or other lines in its place. */
static void configure(uint32_t at, const char *lines)
{
    const struct replica *replica = &ensemble.replicas[at];
    FILE *file = fopen(replica->config, "w");

    assert_non_null(file);
    assert_true(fprintf(file,
                        "id=%u\ndataDir=%s\nclientPort=%u\nadvertiseClient=127.0.0.1:%u\n%s%s",
                        replica->id, replica->data, replica->client_port, replica->client_port,
                        KEYS, lines) > 0);
    assert_int_equal(fclose(file), 0);
}

static void put_list(char *lines, size_t size)
{
    size_t len = 0;

    for (uint32_t i = 0; i < FOUNDERS; i++) {
        len += (size_t)snprintf(lines + len, size - len, "server.%u=127.0.0.1:%u\n", i + 1,
                                ensemble.replicas[i].peer_port);
    }
}

/* A replica with this value of join, and more lines. */
static void configure_joiner(uint32_t at, const char *join, const char *more)
{
    char lines[1024];

    (void)snprintf(lines, sizeof lines, "join=%s\nadvertisePeer=127.0.0.1:%u\n%s", join,
                   ensemble.replicas[at].peer_port, more);
    configure(at, lines);
}

static void first_address(const char *host, char address[64])
{
    (void)snprintf(address, 64, "%s:%u", host, ensemble.replicas[0].peer_port);
}

static void wait_founders(void)
{
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ensemble_wait_ready(&ensemble, i);
    }
}

/* Three founders with a list, and these further lines. */
static void found(const char *more)
{
    char lines[1024];

    put_list(lines, sizeof lines);
    (void)snprintf(lines + strlen(lines), sizeof lines - strlen(lines), "%s", more);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        configure(i, lines);
        ensemble_start(&ensemble, i);
    }
    wait_founders();
}

static void open_shell(void)
{
    shell_open(&ensemble);
    assert_int_equal(shell("printf root >$D/pw && chmod 600 $D/pw"), 0);
}

static void open_plain(void)
{
    ensemble_open(&ensemble, ENSEMBLE_MAX, NULL);
    open_shell();
}

static void open_all(void)
{
    open_plain();
    found("");
}

static void close_all(void)
{
    ensemble_close(&ensemble);
}

/* ---- What a replica says. ---- */

static const char *body(uint32_t at, const char *path)
{
    (void)ensemble_call(&ensemble, at, "GET", path, NULL);
    return web_text(&ensemble.reply);
}

static bool says(uint32_t at, const char *path, const char *text)
{
    return strstr(body(at, path), text) != NULL;
}

static bool is_unready(uint32_t at, const char *text)
{
    return says(at, "/readyz?verbose", "[-] member: ") && says(at, "/readyz?verbose", text);
}

static bool has_logged(uint32_t at, const char *text)
{
    return shell("grep -q '%s' '%s'", text, ensemble.replicas[at].log) == 0;
}

/* Waits until the replica waits to be added; takes the command from /readyz. */
static void take_command(uint32_t at, char command[COMMAND_MAX])
{
    static const char mark[] = "super user adds it: ";

    ENSEMBLE_WAIT(&ensemble, is_unready(at, mark));
    const char *from = strstr(web_text(&ensemble.reply), mark) + sizeof mark - 1;

    (void)snprintf(command, COMMAND_MAX, "%.*s", (int)strcspn(from, "\n"), from);
}

static void wait_member(uint32_t at)
{
    ensemble_wait_ready(&ensemble, at);
    ENSEMBLE_CHECK(&ensemble, says(at, "/readyz?verbose", "[+] member: this disk is a member"));
}

static void write_some(const char *path, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char target[64];

        (void)snprintf(target, sizeof target, "/znodes/v1/%s%u?upsert=true", path, i);
        ensemble_call_until(&ensemble, 0, "PUT", target, "x", 201);
    }
}

/* ---- Tests. ---- */

TEST(a_replica_waits_and_says_how_it_is_added, open_all, close_all)
{
    char address[64];
    char command[COMMAND_MAX];
    char expected[COMMAND_MAX];

    first_address("127.0.0.1", address);
    configure_joiner(JOINER, address, "zone=rack-4\n");
    ensemble_start(&ensemble, JOINER);
    take_command(JOINER, command);
    (void)snprintf(expected, sizeof expected,
                   "zabra members add 4 127.0.0.1:%u --zone rack-4 --endpoints http://127.0.0.1:",
                   ensemble.replicas[JOINER].peer_port);
    assert_memory_equal(command, expected, strlen(expected));
    ENSEMBLE_CHECK(&ensemble, has_logged(JOINER, command));
    /* The members show it, too, with their own address. */
    (void)snprintf(expected, sizeof expected,
                   "\"command\":\"zabra members add 4 127.0.0.1:%u --zone rack-4 --endpoints "
                   "http://127.0.0.1:%u\"",
                   ensemble.replicas[JOINER].peer_port, ensemble.replicas[0].client_port);
    ENSEMBLE_WAIT(&ensemble, says(0, "/ensemble/v1", expected));
    shell_expect("zabra members", 0, "replica 4 waits to be added: zabra members add 4");
    shell_expect("zabra doctor", 1, "replica-waits: replica 4");
    ENSEMBLE_CHECK(&ensemble, has_logged(0, "is no member and waits to be added"));
    ENSEMBLE_CHECK(&ensemble, ensemble_metric(&ensemble, 0, "zabra_waiting_replicas") == 1);

    assert_int_equal(shell(AS_SUPER "%s --wait", command), 0);
    wait_member(JOINER);
    ENSEMBLE_WAIT(&ensemble, says(0, "/ensemble/v1", "\"waiting\":[]"));
    ENSEMBLE_CHECK(&ensemble, says(0, "/ensemble/v1", "\"zone\":\"rack-4\""));
    assert_int_equal(shell(AS_SUPER "zabra members promote 4 --wait"), 0);

    /* Its next start needs no list either, also while the replica at `join` is gone. */
    assert_int_equal(ensemble_stop(&ensemble, JOINER), 0);
    ensemble_kill(&ensemble, 0);
    ensemble_start(&ensemble, JOINER);
    wait_member(JOINER);
}

/* One of the addresses is dead, and a name may lead to several, of which some are dead. */
TEST(one_address_that_answers_is_enough, open_all, close_all)
{
    char addresses[128];
    char command[COMMAND_MAX];

    (void)snprintf(addresses, sizeof addresses, "127.0.0.1:%u,localhost:%u",
                   ensemble.replicas[LAST].peer_port, ensemble.replicas[1].peer_port);
    configure_joiner(JOINER, addresses, "");
    ensemble_start(&ensemble, JOINER);
    take_command(JOINER, command);
    assert_int_equal(shell(AS_SUPER "%s --wait", command), 0);
    wait_member(JOINER);
}

/* Nothing else happens while the others are missing, so the log has to say it. */
TEST(a_founder_that_waits_logs_what_is_missing, open_plain, close_all)
{
    char lines[1024];
    char absent[128];

    put_list(lines, sizeof lines);
    configure(0, lines);
    (void)snprintf(absent, sizeof absent, "not connected: 2 .127.0.0.1 port %u., 3 .127.0.0.1",
                   ensemble.replicas[1].peer_port);
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, shell("grep -q 'waits to found the ensemble: new data directory.*%s' "
                                   "%s",
                                   absent, ensemble.replicas[0].log) == 0);
}

TEST(founders_only_know_how_many_they_are, open_plain, close_all)
{
    char addresses[256];
    char cluster[128];

    (void)snprintf(addresses, sizeof addresses, "127.0.0.1:%u,localhost:%u,127.0.0.1:%u",
                   ensemble.replicas[0].peer_port, ensemble.replicas[1].peer_port,
                   ensemble.replicas[2].peer_port);
    for (uint32_t i = 0; i <= JOINER; i++) {
        configure_joiner(i, addresses, "bootstrap=3\n");
    }
    ensemble_start(&ensemble, JOINER);
    ensemble_start(&ensemble, 0);
    ensemble_start(&ensemble, 1);
    ENSEMBLE_WAIT(&ensemble, is_unready(0, "no ensemble is founded yet: replicas 1 to 3"));
    ENSEMBLE_WAIT(&ensemble, is_unready(JOINER, "no process listens there"));
    ensemble_start(&ensemble, 2);
    wait_founders();
    ENSEMBLE_WAIT(&ensemble, is_unready(JOINER, "zabra members add 4 127.0.0.1:"));
    const char *from = strstr(body(0, "/ensemble/v1"), "\"cluster\":\"");

    (void)snprintf(cluster, sizeof cluster, "%.60s", from);

    /* All stop and start: they know each other's addresses. */
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ensemble_kill(&ensemble, i);
    }
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        ensemble_start(&ensemble, i);
    }
    wait_founders();
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        char peer[64];

        (void)snprintf(peer, sizeof peer, "\"peer\":\"127.0.0.1:%u\"",
                       ensemble.replicas[i].peer_port);
        ENSEMBLE_WAIT(&ensemble, says(0, "/ensemble/v1", peer));
    }

    /* A founder with an empty directory founds nothing: it meets its ensemble and learns. */
    ensemble_kill(&ensemble, 1);
    ensemble_empty(&ensemble, 1);
    ensemble_start(&ensemble, 1);
    wait_member(1);
    ENSEMBLE_CHECK(&ensemble, says(1, "/ensemble/v1", cluster));
}

/* The leader adds replicas by itself, but not more than it may. */
TEST(a_leader_may_add_observers_by_itself, open_plain, close_all)
{
    char address[64];

    found("autoJoin=observer\nmaxObservers=1\n");
    first_address("127.0.0.1", address);
    configure_joiner(JOINER, address, "");
    ensemble_start(&ensemble, JOINER);
    wait_member(JOINER);
    ENSEMBLE_CHECK(&ensemble, has_logged(ensemble_wait_leader(&ensemble),
                                         "replica 4 waits to be added: .autoJoin."));
    configure_joiner(LAST, address, "");
    ensemble_start(&ensemble, LAST);
    ENSEMBLE_WAIT(&ensemble, is_unready(LAST, "zabra members add 5 127.0.0.1:"));
    uint32_t leader = ensemble_wait_leader(&ensemble);

    ENSEMBLE_WAIT(&ensemble, says(leader, "/ensemble/v1", "\"reason\":\"MaxObservers\""));
    assert_int_equal(shell(AS_SUPER "zabra members remove 4"), 0);
    wait_member(LAST);
}

/* Up to maxVoters, it promotes them as well; each further one observes. */
TEST(a_leader_may_add_voters_by_itself, open_plain, close_all)
{
    char address[64];

    found("autoJoin=voter\nmaxVoters=4\nmaxObservers=1\n");
    first_address("127.0.0.1", address);
    configure_joiner(JOINER, address, "");
    ensemble_start(&ensemble, JOINER);
    wait_member(JOINER);
    configure_joiner(LAST, address, "");
    ensemble_start(&ensemble, LAST);
    wait_member(LAST);
    ENSEMBLE_WAIT(&ensemble, shell("zabra members -o json >$D/members; "
                                   "grep -Eq '\"id\":4,[^}]*\"role\":\"voter\"' $D/members") == 0);
    assert_int_equal(shell("grep -Eq '\"id\":5,[^}]*\"role\":\"observer\"' $D/members"), 0);
    assert_int_equal(shell("! grep -Eq '\"id\":5,[^}]*\"joining\":true' $D/members"), 0);
}

static void expect_why(const char *join, const char *more, const char *why)
{
    configure_joiner(JOINER, join, more);
    ensemble_start(&ensemble, JOINER);
    ENSEMBLE_WAIT(&ensemble, is_unready(JOINER, why));
    ENSEMBLE_WAIT(&ensemble, has_logged(JOINER, why));
    assert_int_equal(ensemble_stop(&ensemble, JOINER), 0);
}

TEST(what_keeps_a_replica_out_is_said, open_all, close_all)
{
    char text[128];
    char lines[256];

    (void)snprintf(text, sizeof text, "127.0.0.1:%u", ensemble.replicas[LAST].peer_port);
    expect_why(text, "", "no process listens there");
    (void)snprintf(text, sizeof text, "localhost:%u", ensemble.replicas[0].client_port);
    expect_why(text, "", "is no zabra replica");
    assert_int_equal(shell("printf 'another secret of the replicas' >$D/other && "
                           "chmod 600 $D/other"),
                     0);
    first_address("127.0.0.1", text);
    (void)snprintf(lines, sizeof lines, "peerSecretFile=%s/other\n", ensemble.dir);
    expect_why(text, lines, "for example another secret");
    ENSEMBLE_CHECK(&ensemble, has_logged(0, "the secret of the peer differs"));
    (void)snprintf(lines, sizeof lines, "peerSecretFile=%s/other\ninsecure=true\n", ensemble.dir);
    expect_why("no-such-name.invalid:10998", lines, "the name has no address");
}

TEST(a_replica_of_another_ensemble_stays_what_it_is, open_all, close_all)
{
    char text[64];

    configure(LAST, "");
    ensemble_start(&ensemble, LAST);
    ensemble_wait_ready(&ensemble, LAST);
    assert_int_equal(ensemble_call(&ensemble, LAST, "PUT", "/znodes/v1/kept?upsert=true", "x"),
                     201);
    assert_int_equal(ensemble_stop(&ensemble, LAST), 0);
    first_address("127.0.0.1", text);
    configure_joiner(LAST, text, "");
    ensemble_start(&ensemble, LAST);
    ensemble_wait_ready(&ensemble, LAST);
    ENSEMBLE_WAIT(&ensemble, says(LAST, "/readyz?verbose", "another secret or ensemble"));
    ENSEMBLE_WAIT(&ensemble, has_logged(0, "the peer belongs to another cluster"));
    assert_int_equal(ensemble_call(&ensemble, LAST, "GET", "/znodes/v1/kept", NULL), 200);
    ENSEMBLE_CHECK(&ensemble, says(0, "/ensemble/v1", "\"waiting\":[]"));
}

/* A joiner is added, and in step. */
static void add_joiner(uint32_t at)
{
    char address[64];
    char command[COMMAND_MAX];

    first_address("127.0.0.1", address);
    configure_joiner(at, address, "");
    ensemble_start(&ensemble, at);
    take_command(at, command);
    assert_int_equal(shell(AS_SUPER "%s --wait", command), 0);
}

TEST(an_old_copy_of_its_directory_is_brought_in_step, open_plain, close_all)
{
    char text[64];

    found("snapCount=20\nsnapRetainCount=1\n");
    add_joiner(JOINER);
    write_some("old", 3);
    assert_int_equal(ensemble_stop(&ensemble, JOINER), 0);
    assert_int_equal(shell("cp -r '%s' $D/copy", ensemble.replicas[JOINER].data), 0);
    ensemble_start(&ensemble, JOINER);
    write_some("new", WRITES);
    wait_member(JOINER);
    assert_int_equal(ensemble_stop(&ensemble, JOINER), 0);
    assert_int_equal(shell("rm -r '%s' && mv $D/copy '%s'", ensemble.replicas[JOINER].data,
                           ensemble.replicas[JOINER].data),
                     0);
    ensemble_start(&ensemble, JOINER);
    wait_member(JOINER);
    (void)snprintf(text, sizeof text, "/znodes/v1/new%d", WRITES - 1);
    ENSEMBLE_WAIT(&ensemble, ensemble_call(&ensemble, JOINER, "GET", text, NULL) == 200);
}

/* Its disk stays out; an empty one may be added again. */
TEST(a_removed_disk_does_not_join_again, open_all, close_all)
{
    add_joiner(JOINER);
    assert_int_equal(ensemble_stop(&ensemble, JOINER), 0);
    assert_int_equal(shell(AS_SUPER "zabra members remove 4"), 0);
    ensemble_start(&ensemble, JOINER);
    assert_int_equal(ensemble_wait_end(&ensemble, JOINER), MEMBERSHIP_EXIT);
    ENSEMBLE_CHECK(&ensemble, has_logged(JOINER, "has removed this replica"));
    ensemble_start(&ensemble, JOINER);
    assert_int_equal(ensemble_wait_end(&ensemble, JOINER), MEMBERSHIP_EXIT);
    ensemble_empty(&ensemble, JOINER);
    add_joiner(JOINER);
    wait_member(JOINER);
}

/* A damaged disk knows the members of its first start only. When the others of them have left, it
 * is the present ones that find it. */
TEST(a_damaged_disk_whose_first_members_have_left_is_refilled, open_all, close_all)
{
    static const struct membership_call change = {.method = "PATCH",
                                                  .path = "/ensemble/v1/members",
                                                  .body = "{\"remove\":[2,3],\"promote\":[4,5]}"};

    add_joiner(JOINER);
    add_joiner(LAST);
    membership_change(&ensemble, 0, &change);
    assert_int_equal(ensemble_wait_end(&ensemble, 1), MEMBERSHIP_EXIT);
    assert_int_equal(ensemble_wait_end(&ensemble, 2), MEMBERSHIP_EXIT);
    write_some("before", WRITES);
    ensemble_kill(&ensemble, 0);
    assert_true(disk_flip_bit(&ensemble, 0, 500));
    ensemble_start(&ensemble, 0);
    ENSEMBLE_WAIT(&ensemble, has_logged(0, "quarantine"));
    wait_member(0);
}
