/* Recognises the options of `zabra dev` that are keys of its replicas, so that a typing error is
 * one line and not a refused start of each replica. */
#include "cli/args.h"
#include "cli/dev.h"
#include "server/config/config.h"

#include <stdio.h>
#include <string.h>

enum {
    GUESS_WITHIN = 2, /* Letters that may be wrong in a name. */
    NAME_BYTES = 64
};

static const char *const own[] = {"nodes", "data", "port", "wait"};

bool dev_key_unknown(const char *arg)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);
    size_t len = strcspn(arg, "=");

    if (strncmp(arg, "--", 2) != 0 || strncmp(arg, "--server.", strlen("--server.")) == 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strlen(rows[i].key) == len - 2 && strncmp(rows[i].key, arg + 2, len - 2) == 0) {
            return false;
        }
    }
    return true;
}

static void compare(const char *name, const char *word, int *wrong, const char **ret_best)
{
    int distance = args_distance(name, word, GUESS_WITHIN);

    if (distance < *wrong) {
        *wrong = distance;
        *ret_best = word;
    }
}

const char *dev_key_meant(const char *arg)
{
    const struct config_row *rows = NULL;
    size_t count = config_rows(&rows);
    int wrong = GUESS_WITHIN + 1;
    const char *best = NULL;
    char name[NAME_BYTES];

    (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(arg + 2, "="), arg + 2);
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        compare(name, own[i], &wrong, &best);
    }
    for (size_t i = 0; i < count; i++) {
        compare(name, rows[i].key, &wrong, &best);
    }
    return best;
}
