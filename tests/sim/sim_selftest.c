#include "base/check.h"
#include "tests/sim/sim_run.h"
#include "tests/sim/sim_watch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * A checker proves nothing until it has caught a fault. This test corrupts the history of a correct
 * run in one place, and the history check must fail.
 */

struct corruption {
    const char *name;
    bool (*apply)(struct sim *sim); /* False: this run has nothing to corrupt like that. */
};

/* The newest operation that fits; late operations have the longest history before them. */
static struct sim_op *find(struct sim *sim, bool (*fits)(const struct sim_op *op))
{
    for (size_t i = sim->op_count; i-- > 0;) {
        if (fits(sim->ops[i])) {
            return sim->ops[i];
        }
    }
    return NULL;
}

static bool fits_read(const struct sim_op *op)
{
    return op->id == OP_GET && op->outcome == SIM_OK;
}

static bool fits_children(const struct sim_op *op)
{
    return op->id == OP_CHILDREN && op->outcome == SIM_OK;
}

static bool fits_missing(const struct sim_op *op)
{
    return op->id == OP_GET && op->outcome == SIM_ERROR;
}

static bool fits_touch(const struct sim_op *op)
{
    return op->id == OP_TOUCH && op->outcome == SIM_OK;
}

static bool fits_replayed(const struct sim_op *op)
{
    return op->outcome == SIM_OK && op->replayed && op->has_stat && op->sub_count == 1;
}

static bool fits_keyed(const struct sim_op *op)
{
    return op->outcome == SIM_OK && op->key != 0 && !op->replayed;
}

static bool fits_ephemeral(const struct sim_op *op)
{
    return op->id == OP_CREATE && op->outcome == SIM_OK && op->subs[0].ephemeral && !op->replayed;
}

static bool fits_linearizable(const struct sim_op *op)
{
    return !sim_op_is_write(op) && op->id != OP_SYNC && op->id != OP_TOUCH && op->linearizable &&
           op->outcome == SIM_OK && op->floor > 1;
}

static bool fits_sync(const struct sim_op *op)
{
    return op->id == OP_SYNC && op->outcome == SIM_OK && op->floor > 1;
}

static bool fits_create(const struct sim_op *op)
{
    return op->id == OP_CREATE && op->outcome == SIM_OK && !op->replayed;
}

static bool fits_set(const struct sim_op *op)
{
    return op->id == OP_SET && op->outcome == SIM_OK && op->has_stat && !op->replayed;
}

static bool fits_write(const struct sim_op *op)
{
    return sim_op_is_write(op) && op->outcome == SIM_OK && !op->replayed;
}

static bool fits_error(const struct sim_op *op)
{
    return sim_op_is_write(op) && op->outcome == SIM_ERROR && op->err == ERR_NO_NODE;
}

static bool wrong_data(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_read);

    if (op) {
        (void)snprintf(op->data, sizeof(op->data), "foreign");
    }
    return op != NULL;
}

static bool wrong_names(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_children);

    if (op) {
        (void)snprintf(op->data, sizeof(op->data), "1");
    }
    return op != NULL;
}

static bool read_finds_nothing(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_read);

    if (op) {
        op->outcome = SIM_ERROR;
        op->err = ERR_NO_NODE;
    }
    return op != NULL;
}

static bool read_finds_something(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_missing);

    if (op) {
        op->outcome = SIM_OK;
        op->err = ERR_OK;
    }
    return op != NULL;
}

static bool stale_read(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_linearizable);

    if (op) {
        op->floor = op->zxid + 1;
    }
    return op != NULL;
}

static bool stale_sync(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_sync);

    if (op) {
        op->zxid = op->floor - 1;
    }
    return op != NULL;
}

static bool write_before_its_time(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_write);

    if (op) {
        op->floor = op->zxid;
    }
    return op != NULL;
}

static bool wrong_zxid(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_write);

    if (op) {
        op->zxid++;
    }
    return op != NULL;
}

static bool wrong_stat(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_set);

    if (op) {
        op->stat.version++;
    }
    return op != NULL;
}

static bool wrong_path(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_create);

    if (op) {
        (void)snprintf(op->path, sizeof(op->path), "/elsewhere");
    }
    return op != NULL;
}

static bool wrong_error(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_error);

    if (op) {
        op->err = ERR_NODE_EXISTS;
    }
    return op != NULL;
}

static bool refused_and_done(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_write);

    if (op) {
        op->outcome = SIM_REFUSED;
        op->err = ERR_NOT_READY;
    }
    return op != NULL;
}

static bool unrequested(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_write);

    if (op) {
        op->request += 1000000;
    }
    return op != NULL;
}

/* Index of an acknowledged write in the log. */
static size_t place_of(const struct sim *sim, const struct sim_op *op)
{
    for (size_t i = 0; op && i < sim->log_count; i++) {
        if (sim->log[i]->rec->zxid == op->zxid) {
            return i;
        }
    }
    return 0;
}

static bool lost_write(struct sim *sim)
{
    size_t at = place_of(sim, find(sim, fits_write));

    if (at == 0) {
        return false;
    }
    memmove(&sim->log[at], &sim->log[at + 1], (sim->log_count - at - 1) * sizeof(struct sim_rec *));
    sim->log_count--;
    return true;
}

static bool doubled_write(struct sim *sim)
{
    size_t at = place_of(sim, find(sim, fits_write));

    if (at + 1 >= sim->log_count) {
        return false;
    }
    sim->log[at + 1] = sim->log[at];
    return at != 0;
}

static bool swapped_writes(struct sim *sim)
{
    size_t at = place_of(sim, find(sim, fits_create));

    if (at == 0 || sim->log[at - 1]->rec->type != LOGREC_TXN) {
        return false;
    }

    struct sim_rec *rec = sim->log[at];

    sim->log[at] = sim->log[at - 1];
    sim->log[at - 1] = rec;
    return true;
}

/* ---- Sessions and keys. ---- */

static bool touched_after_its_end(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_touch);

    if (op) {
        op->outcome = SIM_ERROR;
        op->err = ERR_UNKNOWN_SESSION;
    }
    return op != NULL;
}

static bool foreign_replay(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_replayed);

    if (op) {
        op->stat.mzxid++;
    }
    return op != NULL;
}

static bool replay_of_nothing(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_replayed);

    if (op) {
        op->key = UINT32_MAX;
    }
    return op != NULL;
}

/* Two writes get one key, as if the second were a retry of the first. */
static bool done_twice(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_keyed);

    for (size_t i = 0; op && i < op->number; i++) {
        struct sim_op *other = sim->ops[i];

        if (fits_keyed(other) && other->session == op->session &&
            zxid_epoch(other->zxid) == zxid_epoch(op->zxid)) {
            other->key = op->key;
            return true;
        }
    }
    return false;
}

static bool wrong_owner(struct sim *sim)
{
    struct sim_op *op = find(sim, fits_ephemeral);

    if (op) {
        op->subs[0].ephemeral = false;
    }
    return op != NULL;
}

/* ---- Streams. ---- */

/* The last event of the longest stream without a difference. */
static struct sim_stream *long_stream(struct sim *sim)
{
    struct sim_stream *best = NULL;

    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        struct sim_stream *stream = sim->sockets->streams[i];
        bool plain = true;

        for (size_t at = 0; at < stream->item_count; at++) {
            plain = plain && stream->items[at].what == SIM_ITEM_EVENT;
        }
        if (plain && stream->item_count > 3 && (!best || stream->item_count > best->item_count)) {
            best = stream;
        }
    }
    return best;
}

static bool event_missing(struct sim *sim)
{
    struct sim_stream *stream = long_stream(sim);

    if (stream) {
        stream->items[1] = stream->items[0];
        stream->items[0].what = SIM_ITEM_FROM;
        stream->items[0].zxid = stream->begin;
    }
    return stream != NULL;
}

static bool event_twice(struct sim *sim)
{
    struct sim_stream *stream = long_stream(sim);

    if (stream) {
        stream->items[1] = stream->items[0];
    }
    return stream != NULL;
}

static bool last_event_missing(struct sim *sim)
{
    struct sim_stream *stream = long_stream(sim);

    if (stream) {
        stream->item_count--;
    }
    return stream != NULL;
}

static bool events_swapped(struct sim *sim)
{
    struct sim_stream *stream = long_stream(sim);

    if (stream) {
        struct sim_item first = stream->items[0];

        stream->items[0] = stream->items[1];
        stream->items[1] = first;
    }
    return stream != NULL;
}

static bool wrong_event(struct sim *sim)
{
    struct sim_stream *stream = long_stream(sim);

    if (stream) {
        stream->items[0].type =
            stream->items[0].type == WATCH_CREATED ? WATCH_DELETED : WATCH_CREATED;
    }
    return stream != NULL;
}

/* An event of a difference; `there`: no deletion, which a shorter difference may contain, too. */
static struct sim_item *event_of_diff(struct sim *sim, bool there)
{
    for (size_t i = 0; sim->sockets && i < sim->sockets->count; i++) {
        struct sim_stream *stream = sim->sockets->streams[i];

        for (size_t at = 0; at + 1 < stream->item_count; at++) {
            struct sim_item *item = &stream->items[at + 1];

            if (stream->items[at].what == SIM_ITEM_DIFF && item->diff &&
                (!there || item->type != WATCH_DELETED)) {
                return item;
            }
        }
    }
    return NULL;
}

static bool wrong_diff(struct sim *sim)
{
    struct sim_item *item = event_of_diff(sim, false);

    if (item) {
        (void)snprintf(item->path, sizeof(item->path), "/elsewhere");
    }
    return item != NULL;
}

static bool longer_diff(struct sim *sim)
{
    struct sim_item *item = event_of_diff(sim, true);

    if (item) {
        item[-1].since++;
        item[-1].zxid = item[-1].since;
    }
    return item != NULL;
}

static const struct corruption corruptions[] = {
    {"a read returns wrong data", wrong_data},
    {"a listing returns wrong names", wrong_names},
    {"a read does not find a znode that exists", read_finds_nothing},
    {"a read finds a znode that does not exist", read_finds_something},
    {"a linearizable read is stale", stale_read},
    {"a sync is stale", stale_sync},
    {"a write is older than an answer before it began", write_before_its_time},
    {"a write names another zxid", wrong_zxid},
    {"an answer carries a wrong stat", wrong_stat},
    {"a create names another path", wrong_path},
    {"an operation fails with the wrong error", wrong_error},
    {"a refused write is in the log", refused_and_done},
    {"no client requested a transaction", unrequested},
    {"an acknowledged write is lost", lost_write},
    {"a write is in the log twice", doubled_write},
    {"two writes are swapped", swapped_writes},
    {"an open session is not found", touched_after_its_end},
    {"a repeated answer differs from the first", foreign_replay},
    {"a repeated answer has no first answer", replay_of_nothing},
    {"a write with a key is executed twice", done_twice},
    {"an ephemeral has no owner", wrong_owner},
    {"a watcher misses a change", event_missing},
    {"a watcher receives an event twice", event_twice},
    {"a watcher misses the last change", last_event_missing},
    {"two events are swapped", events_swapped},
    {"an event has the wrong type", wrong_event},
    {"a difference names a wrong znode", wrong_diff},
    {"a difference covers less than it claims", longer_diff},
};

/* Runs in its own process. Exit code 0: not noticed, 2: nothing to corrupt. When the checker
 * notices the corruption, the process aborts. */
static void attempt(const struct corruption *corruption, uint64_t seed)
{
    struct sim_options options = {.seed = seed, .safety_ms = 20000, .ops_min = 300};
    struct sim *sim = sim_new(&options);
    char text[SIM_REASON_MAX];
    int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    sim_watch(sim);
    sim_seed(sim);
    for (size_t i = 0; i < sim->op_count; i++) {
        sim->ops[i]->logged = 0;
    }
    if (!corruption->apply(sim)) {
        _exit(2);
    }
    if (null_fd >= 0) {
        (void)dup2(null_fd, STDERR_FILENO);
    }
    sim_fail_to(text, sizeof(text)); /* The check is expected to fail. */
    sim_history_check(sim);
    _exit(0);
}

static bool is_noticed(const struct corruption *corruption)
{
    for (uint64_t seed = 1; seed < 20; seed++) {
        int status = 0;
        pid_t pid;

        (void)fflush(NULL);
        pid = fork();
        if (pid == 0) {
            attempt(corruption, seed);
        }
        ASSERT(pid > 0);
        (void)waitpid(pid, &status, 0);
        if (!WIFEXITED(status)) {
            return true;
        }
        if (WEXITSTATUS(status) != 2) {
            return false;
        }
    }
    return false;
}

int selftest_run(void)
{
    int missed = 0;

    for (size_t i = 0; i < sizeof(corruptions) / sizeof(corruptions[0]); i++) {
        bool noticed = is_noticed(&corruptions[i]);

        (void)printf("%-55s %s\n", corruptions[i].name, noticed ? "noticed" : "NOT NOTICED");
        missed += !noticed;
    }
    return missed;
}
