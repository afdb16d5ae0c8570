/* `zabra migrate` where the source refuses to show znodes. The source is a replica, which speaks
 * ZooKeeper's protocol, too. */
#include "tests/proc/shell.h"

#include <stdlib.h>

static struct ensemble source;
static struct ensemble target;

#define MIGRATE "zabra migrate --user super --password-file $D/pw --from $FROM"
#define EVE     "--user eve --password-file $D/pw" /* She alone may read what she has closed. */

static void address(const struct ensemble *ensemble, const char *name)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", ensemble->replicas[0].client_port);
    assert_int_equal(setenv(name, text, 1), 0);
}

/* The target has all that the source has, and one znode more. */
static void set_up(void)
{
    ensemble_launch(&source, 1, NULL);
    ensemble_launch(&target, 1, ENSEMBLE_SUPER);
    shell_open(&target);
    address(&source, "FROM");
    shell_expect("umask 077; printf root >$D/pw; "
                 "for to in $FROM $ZABRA_ENDPOINTS; do export ZABRA_ENDPOINTS=$to; "
                 "zabra create -p /app/secret/key value && zabra create /app/open x || exit 1; "
                 "done; zabra create /app/mine y",
                 0, "/app/mine");
}

static void tear_down(void)
{
    ensemble_close(&target);
    ensemble_close(&source);
}

static void close_in_source(const char *path)
{
    assert_int_equal(shell("ZABRA_ENDPOINTS=$FROM zabra acl %s creator " EVE, path), 0);
}

TEST(what_is_below_an_unreadable_znode_is_not_deleted, set_up, tear_down)
{
    close_in_source("/app/secret");
    shell_expect(MIGRATE " --replace 2>&1", 9, "zabra migrate: not copied: /app/secret: ");
    shell_expect(MIGRATE " --replace -o json", 9, "\"verified\":false");
    shell_expect("zabra get /app/secret/key && zabra get /app/mine", 0, "value");
}

TEST(an_unreadable_top_ends_the_migration, set_up, tear_down)
{
    close_in_source("/app");
    shell_expect(MIGRATE " --prefix /app --replace 2>&1", 5, "nothing below it was");
    shell_expect("zabra get /app/secret/key && zabra get /app/mine", 0, "value");
}

TEST(extra_znodes_are_deleted_when_all_was_read, set_up, tear_down)
{
    shell_expect(MIGRATE " --replace 2>&1", 0, "verified");
    shell_expect("zabra get /app/secret/key", 0, "value");
    shell_expect("zabra get /app/mine 2>&1", 3, "NoNode");
}
