/* Checks that the ephemerals of a session end with it. Called when the changes of all keys are
 * known and checked. */
#include "base/check.h"
#include "tests/lib/history_int.h"

#include <inttypes.h>

/* The close of a session that has certainly ended; NULL: none. */
static const struct history_op *close_of(const struct history_case *the_case, zxid_t session)
{
    for (size_t i = 0; i < the_case->open_count; i++) {
        const struct history_op *op = the_case->open[i]->op;

        if (history_may_close(op) && op->outcome == HISTORY_OK && op->session == session) {
            return op;
        }
    }
    return NULL;
}

/* Checks that the ephemeral was created before the zxid of `close`, the end of its session, and
 * does not exist at that zxid. */
static bool check_life(struct history_case *the_case, const struct history_fact *birth,
                       const struct history_op *close)
{
    const struct history_fact *last = history_at(the_case, birth->key, close->zxid);

    the_case->report->lives++;
    if (birth->zxid > close->zxid) {
        return history_complain(the_case, "session",
                                "key %u was created at zxid %" PRIx64 " in session %" PRIx64
                                ", which had ended at %" PRIx64,
                                birth->key, birth->zxid, close->session, close->zxid);
    }
    if (history_life_at(the_case, birth->key, close->zxid) != birth ||
        history_hidden(the_case, birth->key, HISTORY_DELETE, last->zxid, close->zxid) > 0) {
        return true;
    }
    return history_complain(the_case, "session",
                            "key %u of session %" PRIx64 " exists at zxid %" PRIx64
                            ", after the end of the session; it was created at %" PRIx64,
                            birth->key, close->session, close->zxid, birth->zxid);
}

bool history_check_sessions(struct history_case *the_case)
{
    for (size_t i = 0; i < the_case->use_count; i++) {
        the_case->report->closed += history_may_close(the_case->uses[i].op);
    }
    for (size_t i = 0; i < the_case->fact_count; i++) {
        const struct history_fact *fact = &the_case->facts[i];
        const struct history_op *close =
            fact->what == HISTORY_CREATE && fact->owner ? close_of(the_case, fact->owner) : NULL;

        if (close && !check_life(the_case, fact, close)) {
            return false;
        }
    }
    return true;
}
