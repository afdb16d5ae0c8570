#include "tests/proc/fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* bob:pw */
#define BOB_ID "bob:ikIaKsbtGweaHnb/jKn7OHqbunM="

enum {
    BODY_MAX = 4096
};

static struct ensemble *ensemble;
static char prefix[64];
static uint32_t fixtures;

void fixture_open(struct ensemble *of)
{
    ensemble = of;
    assert_int_equal(setenv("TMPDIR", ensemble->dir, 1), 0);
    assert_int_equal(setenv("XDG_CONFIG_HOME", "/nowhere", 1), 0);
    assert_int_equal(unsetenv("VISUAL"), 0);
    assert_int_equal(setenv("EDITOR", "sed -i s/hello/edited/", 1), 0);
    assert_int_equal(shell("umask 077; echo pw >$D/pw; echo no >$D/wrong; echo text >$D/data"), 0);
}

void fixture_make(void)
{
    char body[BODY_MAX];

    (void)snprintf(prefix, sizeof(prefix), "/f%u", fixtures++);
    (void)snprintf(body, sizeof(body),
                   "{\"ops\":[{\"op\":\"create\",\"path\":\"%s\"},"
                   "{\"op\":\"create\",\"path\":\"%s/here\",\"dataUtf8\":\"hello\"},"
                   "{\"op\":\"create\",\"path\":\"%s/here/kid\"},"
                   "{\"op\":\"create\",\"path\":\"%s/num\",\"dataUtf8\":\"5\"},"
                   "{\"op\":\"create\",\"path\":\"%s/closed\",\"acl\":[{\"perms\":[\"all\"],"
                   "\"scheme\":\"digest\",\"id\":\"" BOB_ID "\"}]}]}",
                   prefix, prefix, prefix, prefix, prefix);

    long status = web_do(ensemble->web,
                         &(struct web_call){.method = "POST",
                                            .port = ensemble->replicas[0].client_port,
                                            .path = "/multi/v1",
                                            .body = body,
                                            .headers = "Content-Type: application/json"},
                         &ensemble->reply);

    ENSEMBLE_CHECK(ensemble, status == 200);
    assert_int_equal(setenv("P", prefix, 1), 0);
}
