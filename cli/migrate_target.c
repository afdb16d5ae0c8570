#include "cli/migrate_target.h"

#include "base/base64.h"
#include "base/jsonw.h"
#include "cli/cmd.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
    LINES_BUF_MAX = 256 << 20,
    PATH_BYTES_MAX = 64 << 10
};

void migrate_target_init(struct migrate_target *target, struct cli *cli, const char *top)
{
    *target = (struct migrate_target){.cli = cli,
                                      .top = top,
                                      .refused = json_array(),
                                      .progress = {.verb = "read"},
                                      .shows = isatty(STDERR_FILENO) && !cli->settings.verbose};
    buf_init(&target->lines, LINES_BUF_MAX);
}

void migrate_target_forget(struct migrate_target *target)
{
    target->line_count = 0;
    buf_clear(&target->lines);
    if (target->counters) {
        (void)fclose(target->counters);
        target->counters = NULL;
    }
}

void migrate_target_release(struct migrate_target *target)
{
    migrate_index_clear(&target->index);
    migrate_target_forget(target);
    buf_release(&target->lines);
    json_decref(target->refused);
}

void migrate_target_path(const struct migrate_target *target, struct slice path, struct buf *out)
{
    bool is_root = strcmp(target->top, "/") == 0;

    buf_append_str(out, is_root ? "" : target->top);
    if (path.len > 0 || is_root) {
        buf_append_byte(out, '/');
        buf_append_slice(out, path);
    }
}

void migrate_target_refuse(struct migrate_target *target, struct slice path, const char *why)
{
    BUF_AUTO(full, PATH_BYTES_MAX);

    migrate_target_path(target, path, &full);
    target->refused_count++;
    if (json_array_size(target->refused) >= MIGRATE_NAMED_MAX) {
        return;
    }
    json_t *name = out_string(buf_cstr(&full));

    progress_clear(&target->progress);
    out_note(&target->cli->out, "not copied: %s: %s", json_string_value(name), why);
    (void)json_array_append_new(target->refused,
                                json_pack("{s:o,s:o}", "path", name, "reason", out_string(why)));
}

int migrate_interrupted(const struct cli *cli)
{
    struct signalfd_siginfo info;
    ssize_t got = read(cli->client->interrupt_fd, &info, sizeof(info));
    int number = got == (ssize_t)sizeof(info) ? (int)info.ssi_signo : SIGINT;

    return cli_fail(cli, CMD_SIGNAL + number, "Interrupted",
                    "interrupted; run the command again with --into to continue");
}

bool migrate_ended_request(const struct cli *cli, int code)
{
    return code != CMD_OK && strcmp(cli->client->error.code, CLIENT_INTERRUPTED) == 0;
}

/* Whether the failure of the last request, with this exit code, ends the command and is no refusal.
 * It is then reported. */
static bool is_end(struct migrate_target *target, int code)
{
    bool stopped = migrate_ended_request(target->cli, code);

    if (!stopped && !client_unserved(code)) {
        return false;
    }
    progress_clear(&target->progress);
    target->code = stopped ? migrate_interrupted(target->cli) : cli_tell(target->cli);
    return true;
}

/* ---- What the target has ---- */

struct loading {
    struct migrate_target *target;
    struct buf line;
    json_t *names; /* NULL: fill the index. */
    size_t names_max;
    size_t listed; /* Names that were to be listed; with `last` they form a ring. */
    bool known;    /* Only names of znodes that the source had. */
    bool last;
    json_t *end; /* The line that ends the export, or reports what failed; NULL: not yet. */
    bool faulty; /* A line is malformed, or too long. */
};

static uint32_t perm_bit(const char *name)
{
    static const char *const names[] = {"read", "write", "create", "delete", "admin"};

    for (uint32_t bit = 0; bit < sizeof(names) / sizeof(names[0]); bit++) {
        if (strcmp(name, names[bit]) == 0) {
            return 1U << bit;
        }
    }
    return strcmp(name, "all") == 0 ? (1U << sizeof(names) / sizeof(names[0])) - 1 : 0;
}

static uint64_t acl_sum(const json_t *acl)
{
    uint64_t sum = 0;

    JSONR_EACH (entry, acl) {
        uint32_t perms = 0;

        JSONR_EACH (perm, jsonr_at(entry, "perms")) {
            perms |= perm_bit(json_is_string(perm) ? json_string_value(perm) : "");
        }
        sum = migrate_acl_add(sum, perms, slice_str(jsonr_text(entry, "scheme")),
                              slice_str(jsonr_text(entry, "id")));
    }
    return migrate_acl_done(sum);
}

static bool index_line(struct loading *loading, const json_t *json, struct slice path)
{
    const char *text = jsonr_text(json, "data64");
    uint32_t cversion = (uint32_t)jsonr_number(json, "stat.cversion");
    uint32_t children = (uint32_t)jsonr_number(json, "stat.numChildren");
    BUF_AUTO(data, TRANSFER_LINE_MAX);

    if (base64_decode(&data, slice_str(text)) != ERR_OK) {
        return false;
    }
    migrate_index_put(&loading->target->index, path,
                      migrate_digest(buf_slice(&data), json_is_true(jsonr_at(json, "null")),
                                     acl_sum(jsonr_at(json, "acl"))),
                      (cversion + children) / 2, false);
    return true;
}

static bool load_line(struct loading *loading, struct slice line)
{
    json_auto_t *json = jsonr_parse(line, NULL);
    const json_t *path = jsonr_at(json, "path");

    if (jsonr_at(json, "end") || jsonr_at(json, "error")) {
        json_decref(loading->end);
        loading->end = json_incref(json);
        return true;
    }
    if (jsonr_at(json, "export")) {
        return true;
    }
    if (!json_is_string(path)) {
        return false;
    }
    struct slice name = slice_make(json_string_value(path), json_string_length(path));

    if (!loading->names) {
        return index_line(loading, json, name);
    }
    const struct migrate_index *index = &loading->target->index;
    const struct migrate_entry *entry = migrate_index_get(index, name);
    bool wanted =
        !migrate_index_is_seen(index, name) && (!loading->known || (entry && entry->known));

    if (wanted && loading->listed < loading->names_max) {
        (void)json_array_append(loading->names, jsonr_at(json, "path"));
    } else if (wanted && loading->last) {
        (void)json_array_set(loading->names, loading->listed % loading->names_max,
                             jsonr_at(json, "path"));
    }
    loading->listed += wanted;
    return true;
}

static bool load_bytes(void *ctx, struct slice bytes)
{
    struct loading *loading = ctx;
    bool goes = buf_append_slice(&loading->line, bytes);
    struct slice rest = buf_slice(&loading->line);

    while (goes && slice_find(rest, '\n') < rest.len) {
        goes = load_line(loading, slice_cut(&rest, '\n'));
    }
    buf_consume(&loading->line, loading->line.len - rest.len);
    loading->faulty = !goes;
    return goes;
}

/* Takes the result of an export. Returns CMD_OK, or the code of a reported error. */
static int judge(const struct migrate_target *target, const struct loading *loading, int code)
{
    if (loading->faulty) {
        return cli_fail(target->cli, CMD_FAILED, "BadAnswer",
                        "zabra sends what is not a line of an export, or longer than %d bytes",
                        (int)TRANSFER_LINE_MAX);
    }
    return code == CMD_OK ? transfer_judge_end(target->cli, loading->end) : cli_tell(target->cli);
}

static bool export(struct migrate_target *target, struct loading *loading)
{
    struct transfer transfer = {
        .input = -1,
        .take = load_bytes,
        .ctx = loading,
        .progress = {.verb = "read from zabra"},
        .has_lines = true,
        .request = {.target = "/export/v1",
                    .path = target->top,
                    .params = {{"dataformat", "base64"}, {"consistency", "linearizable"}},
                    .accept = "application/x-ndjson"}};
    int code = CMD_OK;

    progress_clear(&target->progress);
    buf_init(&loading->line, TRANSFER_LINE_MAX);
    code = transfer_run(target->cli, &transfer);
    buf_release(&loading->line);
    buf_release(&transfer.answer);
    target->exists = code == CMD_OK;
    target->unreadable = (uint64_t)jsonr_number(loading->end, "skippedUnreadable");
    if (code != CMD_NO_NODE) {
        target->code = judge(target, loading, code);
    }
    json_decref(loading->end);
    return target->code == CMD_OK;
}

bool migrate_target_load(struct migrate_target *target)
{
    struct loading loading = {.target = target};

    migrate_index_begin(&target->index);
    bool loaded = export(target, &loading);

    migrate_index_end(&target->index);
    return loaded;
}

/* Moves the oldest name of a ring to the front. */
static void rotate(json_t *names, size_t first)
{
    json_auto_t *copy = json_copy(names);
    size_t count = json_array_size(names);

    for (size_t i = 0; i < count; i++) {
        (void)json_array_set(names, i, json_array_get(copy, (first + i) % count));
    }
}

bool migrate_target_extra(struct migrate_target *target, enum migrate_list list, json_t *names,
                          size_t max)
{
    struct loading loading = {.target = target,
                              .names = names,
                              .names_max = max,
                              .known = list == MIGRATE_FIRST_KNOWN || list == MIGRATE_LAST_KNOWN,
                              .last = list == MIGRATE_LAST || list == MIGRATE_LAST_KNOWN};

    bool done = export(target, &loading);

    if (loading.last && loading.listed > max) {
        rotate(names, loading.listed % max);
    }
    return done;
}

/* ---- Changes ---- */

/* Removes the lines before `done` and the line `bad`, which was refused. */
static void drop_lines(struct migrate_target *target, size_t done, size_t bad)
{
    struct buf *lines = &target->lines;
    struct buf kept;
    size_t count = target->line_count;

    buf_init(&kept, LINES_BUF_MAX);
    target->line_count = 0;
    for (size_t i = done; i < count; i++) {
        size_t end = i + 1 < count ? target->starts[i + 1] : lines->len;
        size_t start = target->starts[i];

        if (i != bad) {
            target->kinds[target->line_count] = target->kinds[i];
            target->starts[target->line_count++] = kept.len;
            buf_append(&kept, lines->data + start, end - start);
        }
    }
    buf_release(lines);
    *lines = kept;
}

/* Counts the first `count` lines as accepted. */
static void count_done(struct migrate_target *target, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        target->done[target->kinds[i]]++;
    }
}

/* The target lacks what the refused line would have made. */
static void take_back(struct migrate_index *index, enum migrate_kind kind, struct slice path)
{
    struct migrate_entry *entry = migrate_index_get(index, path);

    if (kind == MIGRATE_CREATE) {
        (void)migrate_index_drop(index, path);
    } else if (kind == MIGRATE_CHANGE && entry) {
        entry->digest = 0; /* It exists, and differs. */
    }
}

/* Takes the answer of a failed import. Returns false when it is not about one line. */
static bool take_refusal(struct migrate_target *target)
{
    const struct client_error *error = &target->cli->client->error;
    const json_t *import = jsonr_at(error->problem, "import");
    size_t bad = (size_t)jsonr_number(import, "line");
    size_t done = (size_t)jsonr_number(import, "lines");

    if (!import || bad == 0 || bad > target->line_count || done >= bad) {
        return false;
    }
    size_t start = target->starts[bad - 1];
    size_t end = bad < target->line_count ? target->starts[bad] : target->lines.len;
    json_auto_t *line = jsonr_parse(slice_make(target->lines.data + start, end - start), NULL);
    struct slice path = slice_str(jsonr_text(line, "path"));

    /* A count of a znode that was refused itself follows from that. */
    if (target->kinds[bad - 1] != MIGRATE_RAISE || migrate_index_get(&target->index, path)) {
        migrate_target_refuse(target, path, error->message);
    }
    take_back(&target->index, target->kinds[bad - 1], path);
    target->undone++;
    count_done(target, done);
    drop_lines(target, done, bad - 1);
    return true;
}

bool migrate_target_flush(struct migrate_target *target)
{
    while (target->line_count > 0) {
        struct client_request request = {
            .method = "POST",
            .target = "/import/v1",
            .path = target->top,
            .params = {{"conflict", "overwrite"}, {"parents", target->exists ? NULL : "true"}},
            .body = buf_slice(&target->lines),
            .has_body = true,
            .keyless = true,
            .type = "application/x-ndjson"};
        int code = client_ask(target->cli->client, &request);

        if (code == CMD_OK) {
            target->exists = true;
            count_done(target, target->line_count);
            break;
        }
        if (is_end(target, code)) {
            return false;
        }
        if (!take_refusal(target)) {
            progress_clear(&target->progress);
            target->code = cli_tell(target->cli);
            return false;
        }
    }
    target->line_count = 0;
    buf_clear(&target->lines);
    return true;
}

bool migrate_target_put(struct migrate_target *target, enum migrate_kind kind, struct slice line)
{
    bool alone = !target->exists; /* The top is created first, with its parents. */

    if ((target->line_count == MIGRATE_LINES_MAX ||
         (target->line_count > 0 && target->lines.len + line.len > MIGRATE_LINES_BYTES)) &&
        !migrate_target_flush(target)) {
        return false;
    }
    target->kinds[target->line_count] = kind;
    target->starts[target->line_count++] = target->lines.len;
    buf_append_slice(&target->lines, line);
    buf_append_byte(&target->lines, '\n');
    return !alone || migrate_target_flush(target);
}

bool migrate_target_raise(struct migrate_target *target, struct slice path, uint32_t creates)
{
    struct jsonw json;
    BUF_AUTO(line, PATH_BYTES_MAX);

    if (!target->counters) {
        target->counters = tmpfile();
    }
    jsonw_init(&json, &line);
    jsonw_object(&json);
    jsonw_kv_string(&json, "path", path);
    jsonw_kv_u64(&json, "creates", creates);
    jsonw_object_end(&json);
    buf_append_byte(&line, '\n');
    if (!target->counters || fwrite(line.data, 1, line.len, target->counters) != line.len) {
        target->code = cli_fail(target->cli, CMD_FAILED, "File",
                                "cannot write a temporary file in /tmp: the disk may be full");
        return false;
    }
    return true;
}

bool migrate_target_raise_all(struct migrate_target *target)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t len = 0;
    bool goes = migrate_target_flush(target);

    if (!target->counters) {
        return goes;
    }
    rewind(target->counters);
    while (goes && (len = getline(&line, &cap, target->counters)) > 1) {
        goes = migrate_target_put(target, MIGRATE_RAISE, slice_make(line, (size_t)len - 1));
    }
    goes = goes && migrate_target_flush(target);
    mem_free(line);
    (void)fclose(target->counters);
    target->counters = NULL;
    return goes;
}

enum migrate_deletion migrate_target_delete(struct migrate_target *target, struct slice path,
                                            bool recursive)
{
    const struct client_error *error = &target->cli->client->error;
    BUF_AUTO(full, PATH_BYTES_MAX);
    int code = CMD_OK;

    migrate_target_path(target, path, &full);
    if (!migrate_target_flush(target)) {
        return MIGRATE_FAILED;
    }
    code =
        client_ask(target->cli->client,
                   &(struct client_request){.method = "DELETE",
                                            .path = buf_cstr(&full),
                                            .params = {{"recursive", recursive ? "true" : NULL}}});
    if (is_end(target, code)) {
        return MIGRATE_FAILED;
    }
    if (code == CMD_OK || code == CMD_NO_NODE) {
        return MIGRATE_DELETED;
    }
    if (!recursive && strcmp(error->code, err_name(ERR_NOT_EMPTY)) == 0) {
        return MIGRATE_NOT_EMPTY;
    }
    migrate_target_refuse(target, path, error->message);
    return MIGRATE_KEPT;
}

bool migrate_target_root_acl(struct migrate_target *target, struct slice acl)
{
    BUF_AUTO(body, TRANSFER_PROBLEM_MAX);
    uint64_t undone = target->undone;
    int code = CMD_OK;

    buf_append_str(&body, "{\"acl\":");
    buf_append_slice(&body, acl);
    buf_append_byte(&body, '}');
    if (!migrate_target_flush(target)) {
        return false;
    }
    if (target->undone != undone) {
        return true; /* The line of the root was refused; another pass would try both again. */
    }
    code = client_ask(target->cli->client, &(struct client_request){.method = "PATCH",
                                                                    .path = "/",
                                                                    .body = buf_slice(&body),
                                                                    .has_body = true,
                                                                    .type = "application/json"});
    if (is_end(target, code)) {
        return false;
    }
    if (code != CMD_OK) {
        target->undone++;
        migrate_target_refuse(target, slice_make(NULL, 0), target->cli->client->error.message);
    }
    return true;
}
