/* migrate: copies a tree from a running ZooKeeper. */
#include "tls/dial.h"

#include "cli/cmd.h"
#include "cli/inherited.h"
#include "cli/migrate.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum {
    PASSES_MAX = 4,
    AUTH_FILE_MAX = 64 << 10,
    IDLE_MAX_MS = 86400000,
    TTL_BITS = 40
};

/* ---- The command line ---- */

static bool take_auths(struct migrate *migrate)
{
    const struct cli *cli = migrate->cli;
    const char *env = settings_env("ZABRA_MIGRATE_AUTH");
    const char *value = args_nth(&cli->args, "auth", 0);

    value = value ? value : env;
    for (int i = 0; value; value = args_nth(&cli->args, "auth", ++i)) {
        BUF_AUTO(file, AUTH_FILE_MAX);
        struct slice rest = slice_str(value);

        if (*value == '@') {
            if (!cli_read_file(cli, value + 1, &file)) {
                return false;
            }
            rest = buf_slice(&file);
        }
        while (rest.len > 0) {
            struct slice line = slice_cut(&rest, '\n');

            if (line.len > 0 && !zk_client_auth(&migrate->source, line)) {
                return CLI_REFUSE(cli,
                                  "--auth: an identity is scheme:credential, for example "
                                  "digest:user:password, and there are at most %d",
                                  (int)ZK_CLIENT_AUTHS_MAX);
            }
        }
        if (file.len > 0) {
            explicit_bzero(file.data, file.len);
        }
    }
    return true;
}

static bool add_glob(struct migrate *migrate, const char *option, struct slice glob, int64_t ttl_ms)
{
    if (migrate->glob_count == MIGRATE_GLOBS_MAX || glob.len == 0 || glob.data[0] != '/') {
        return CLI_REFUSE(migrate->cli,
                          "%s: a pattern begins with a slash, and there are at most %d", option,
                          (int)MIGRATE_GLOBS_MAX);
    }
    migrate->globs[migrate->glob_count++] = (struct migrate_glob){.glob = glob, .ttl_ms = ttl_ms};
    return true;
}

static bool take_globs(struct migrate *migrate)
{
    const struct args *args = &migrate->cli->args;
    const struct cmd_range range = {.min = 1, .max = (INT64_C(1) << TTL_BITS) - 1};
    const char *value = NULL;

    for (int i = 0; (value = args_nth(args, "container", i)); i++) {
        if (!add_glob(migrate, "--container", slice_str(value), 0)) {
            return false;
        }
    }
    for (int i = 0; (value = args_nth(args, "ttl", i)); i++) {
        const char *equals = strrchr(value, '=');
        int64_t ttl_ms = 0;

        if (!equals || !args_number(equals + 1, range, &ttl_ms)) {
            return CLI_REFUSE(migrate->cli,
                              "--ttl: \"%s\" is not GLOB=MS, for example /jobs/*=60000", value);
        }
        if (!add_glob(migrate, "--ttl", slice_make(value, (size_t)(equals - value)), ttl_ms)) {
            return false;
        }
    }
    return true;
}

/* Sets top and target from --prefix. */
static bool take_prefix(struct migrate *migrate, const char *prefix)
{
    size_t len = prefix ? strlen(prefix) : 0;

    while (len > 0 && prefix[len - 1] == '/') {
        len--;
    }
    if (prefix && (*prefix != '/' || strstr(prefix, "//"))) {
        return CLI_REFUSE(migrate->cli, "--prefix: \"%s\" is not a path", prefix);
    }
    buf_append_str(&migrate->top, migrate->source.chroot);
    buf_append(&migrate->top, prefix ? prefix : "", len);
    migrate->target.top = len > 0 ? buf_cstr(&migrate->top) + strlen(migrate->source.chroot) : "/";
    return true;
}

static bool take_tls(struct migrate *migrate)
{
    const struct args *args = &migrate->cli->args;
    const char *ca = args_get(args, "from-ca");
    const char *cert = args_get(args, "from-cert");
    const char *key = args_get(args, "from-key");
    char error[TLS_DIAL_ERROR_MAX];

    if (!cert != !key || (cert && !ca)) {
        return CLI_REFUSE(migrate->cli,
                          "--from-cert and --from-key belong together, and need --from-ca");
    }
    if (ca) {
        migrate->source.tls = tls_dial_new(ca, cert, key, error);
    }
    return !ca || migrate->source.tls || CLI_REFUSE(migrate->cli, "TLS to the source: %s", error);
}

static bool take_args(struct migrate *migrate)
{
    const struct cli *cli = migrate->cli;
    const char *from = args_get(&cli->args, "from");

    if (cli->settings.curl) {
        return CLI_REFUSE(cli, "--curl cannot show a migration: it is many requests");
    }
    if (!from) {
        return CLI_REFUSE(cli, "--from is missing: the address of a ZooKeeper, host:2181");
    }
    if (args_has(&cli->args, "into") && args_has(&cli->args, "replace")) {
        return CLI_REFUSE(cli, "--into and --replace exclude each other");
    }
    if (args_has(&cli->args, "until-idle") && !args_has(&cli->args, "watch")) {
        return CLI_REFUSE(cli, "--until-idle needs --watch");
    }
    if (args_has(&cli->args, "watch") && args_has(&cli->args, "dry-run")) {
        return CLI_REFUSE(cli, "--watch and --dry-run exclude each other");
    }
    if (!zk_client_init(&migrate->source, from, cli->settings.timeout_ms)) {
        return CLI_REFUSE(cli, "--from: %s", migrate->source.error);
    }
    return take_tls(migrate) && take_auths(migrate) && take_globs(migrate) &&
           take_prefix(migrate, args_get(&cli->args, "prefix"));
}

/* ---- Before the first pass ---- */

/* Counts of creates, and ACLs of other users, need the super user. */
static int check_super(struct migrate *migrate)
{
    json_t *json = NULL;
    int code = CMD_OK;

    if (!migrate->counters) {
        return CMD_OK;
    }
    code = cli_ask_json(migrate->cli, &(struct client_request){.target = "/whoami/v1"}, &json);
    if (migrate_ended_request(migrate->cli, code)) {
        return migrate_interrupted(migrate->cli);
    }
    if (code != CMD_OK || json_is_true(jsonr_at(json, "super"))) {
        return code;
    }
    return cli_fail(migrate->cli, CMD_DENIED, "NoAuth",
                    "only the super user can set sequence counters, and znodes with any ACL: use "
                    "--user (superDigest), or --no-counters to leave the counters out");
}

/* Whether the target has a top without data and with the ACL that allows all: nothing is lost when
 * it is overwritten. */
static bool has_bare_top(const struct migrate *migrate)
{
    const struct slice none = slice_make("", 0);
    const struct migrate_entry *top = migrate_index_get(&migrate->target.index, none);
    uint64_t open = migrate_acl_done(0);

    return top && (top->digest == migrate_digest(none, true, open) ||
                   top->digest == migrate_digest(none, false, open));
}

/* Whether the top is an ephemeral of a client: an export has no line of it, but it would be
 * overwritten. */
static bool has_ephemeral_top(const struct migrate *migrate)
{
    return migrate->target.exists && migrate->target.unreadable == 0 &&
           !migrate_index_get(&migrate->target.index, slice_make("", 0));
}

/* Refuses a target that has znodes, unless this was asked for. */
static int check_target(struct migrate *migrate)
{
    const struct args *args = &migrate->cli->args;
    bool is_bare = migrate_target_load(&migrate->target) && has_bare_top(migrate);
    uint64_t others = migrate->target.index.count - is_bare + migrate->target.unreadable +
                      has_ephemeral_top(migrate);

    if (migrate->target.code != CMD_OK) {
        return migrate->target.code;
    }
    migrate->replaces = args_has(args, "replace");
    if (migrate->replaces || args_has(args, "into") || others == 0) {
        return CMD_OK;
    }
    return cli_fail(migrate->cli, CMD_CONFLICT, "NotEmpty",
                    "%s of zabra has %" PRIu64
                    " znodes already: --into copies into it (also to continue "
                    "an interrupted migration), --replace also deletes what the source does not "
                    "have",
                    migrate->target.top, others);
}

/* ---- The report ---- */

/* Znodes that only zabra has after the last pass. */
static uint64_t kept(const struct migrate *migrate)
{
    return migrate->pass.extra - migrate->pass.surplus;
}

static json_t *report_of(const struct migrate *migrate, json_t *extra)
{
    const struct migrate_figures *pass = &migrate->pass;
    const uint64_t *done = migrate->target.done;
    bool verified = migrate->writes && migrate_is_equal(migrate) && pass->extra == 0 &&
                    migrate->target.refused_count == 0 && migrate->target.unreadable == 0;
    json_t *report = json_pack(
        "{s:b,s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "dryRun", !migrate->writes,
        "verified", verified, "znodes", (json_int_t)pass->znodes, "bytes", (json_int_t)pass->bytes,
        "created", (json_int_t)done[MIGRATE_CREATE], "changed", (json_int_t)done[MIGRATE_CHANGE],
        "deleted", (json_int_t)migrate->deleted, "counters", (json_int_t)done[MIGRATE_RAISE],
        "ephemerals", (json_int_t)pass->ephemerals, "containers", (json_int_t)migrate->containers,
        "ttls", (json_int_t)migrate->ttls, "countersAhead", (json_int_t)pass->ahead, "onlyInTarget",
        (json_int_t)kept(migrate), "refused", (json_int_t)migrate->target.refused_count);

    (void)json_object_set_new(report, "unreadable",
                              json_integer((json_int_t)migrate->target.unreadable));
    (void)json_object_set_new(report, "events", json_integer((json_int_t)migrate->events));
    (void)json_object_set(report, "notCopied", migrate->target.refused);
    (void)json_object_set(report, "differing", migrate->differing);
    (void)json_object_set(report, "extra", extra);
    return report;
}

static void say_report(const struct migrate *migrate, json_t *report)
{
    const struct out *out = &migrate->cli->out;

    out_facts(out, report,
              "znodes:znodes, bytes:bytes, created:created, overwritten:changed, deleted:deleted, "
              "counters set:counters, containers:containers, ttls:ttls, changes followed:events, "
              "ephemerals left out:ephemerals, only in zabra:onlyInTarget, not readable in "
              "zabra:unreadable, counters ahead:countersAhead, not copied:refused, "
              "verified:verified");
    if (!migrate->writes || !migrate_is_settled(migrate)) {
        JSONR_EACH (path, migrate->differing) {
            out_say(out, "differs: %s\n", json_string_value(path));
        }
    }
    JSONR_EACH (path, jsonr_at(report, "extra")) {
        out_say(out, "only in zabra: %s\n", json_string_value(path));
    }
    if (kept(migrate) > 0 && !migrate->replaces) {
        out_note(out, "znodes that only zabra has stay without --replace, and both sides are not "
                      "equal");
    }
    if (migrate->target.unreadable > 0) {
        out_note(out,
                 "zabra does not show %" PRIu64 " znodes to this user, nor what is below them, so "
                 "the migration could not compare them: run it as the super user",
                 migrate->target.unreadable);
    }
    out_note(out,
             "left out, because ZooKeeper's protocol does not show them or they "
             "belong to one ensemble: sessions and their ephemerals, watches, zxids, versions and "
             "times of znodes, /zookeeper with its quotas; containers and TTLs, except those that "
             "--container and --ttl name");
}

static int report(struct migrate *migrate)
{
    json_auto_t *extra = json_array();

    if (kept(migrate) > 0 && !migrate_name_kept(migrate, extra)) {
        return migrate->target.code;
    }
    json_auto_t *facts = report_of(migrate, extra);

    say_report(migrate, facts);
    if (migrate->target.refused_count > 0) {
        return cli_fail(migrate->cli, CMD_PARTLY, "NotCopied",
                        "%" PRIu64 " znodes were not copied; the first ones are named above",
                        migrate->target.refused_count);
    }
    if (migrate->writes && !migrate_is_equal(migrate) && migrate->target.unreadable > 0) {
        return cli_fail(migrate->cli, CMD_PARTLY, "Differs",
                        "the last pass still found differences: znodes of zabra are overwritten by "
                        "each pass, because this user may not read them, or clients write to the "
                        "source, or to zabra; migrate again with --into, as the super user");
    }
    if (migrate->writes && !migrate_is_equal(migrate)) {
        return cli_fail(migrate->cli, CMD_PARTLY, "Differs",
                        "the last pass still found differences: clients write to the source, or "
                        "to zabra; use --watch, stop the writers, and migrate again with --into");
    }
    return CMD_OK;
}

/* ---- The passes ---- */

/* Copies until a pass has nothing to copy, or nothing that the target does not refuse. */
static int copy(struct migrate *migrate)
{
    int code = CMD_OK;

    migrate->writes = true;
    for (int i = 0; i < PASSES_MAX && code == CMD_OK; i++) {
        code = migrate_pass(migrate);
        if (code == CMD_OK && migrate_is_settled(migrate)) {
            break;
        }
    }
    return code;
}

static int watch_and_copy(struct migrate *migrate)
{
    int64_t idle_ms = cli_number(migrate->cli, "until-idle");
    int code = migrate_watch(migrate);

    migrate->writes = true;
    code = code == CMD_OK ? migrate_pass(migrate) : code;
    if (code != CMD_OK) {
        return code;
    }
    out_note(&migrate->cli->out,
             "%" PRIu64 " znodes copied; following changes%s. To cut over, stop the "
             "writers, then press Ctrl-C (SIGINT)",
             migrate->pass.znodes, migrate->recursive ? "" : " with one-shot watches");
    code = migrate_follow(migrate, idle_ms);
    return code == CMD_OK ? copy(migrate) : code;
}

static int migrate_all(struct migrate *migrate)
{
    int code = check_super(migrate);

    code = code == CMD_OK ? migrate_connect(migrate) : code;
    code = code == CMD_OK ? check_target(migrate) : code;
    if (code != CMD_OK) {
        return code;
    }
    if (args_has(&migrate->cli->args, "dry-run")) {
        code = migrate_pass(migrate);
        out_say(&migrate->cli->out, "%s", code == CMD_OK ? "dry run, nothing was changed\n" : "");
        migrate->target.done[MIGRATE_CREATE] = migrate->pass.created;
        migrate->target.done[MIGRATE_CHANGE] = migrate->pass.changed;
        migrate->target.done[MIGRATE_RAISE] = migrate->pass.behind;
        migrate->deleted = migrate->pass.surplus;
    } else {
        code = migrate->signal_fd >= 0 ? watch_and_copy(migrate) : copy(migrate);
    }
    return code == CMD_OK ? report(migrate) : code;
}

/* A signal that comes meanwhile would end the process when the mask is restored: by then the report
 * is written, and the session at the source closed. */
static void end_signals(struct migrate *migrate, const sigset_t *old_mask)
{
    (void)fflush(stdout);
    migrate->cli->client->interrupt_fd = -1;
    migrate_drain_signals(migrate);
    close(migrate->signal_fd);
    (void)pthread_sigmask(SIG_SETMASK, old_mask, NULL);
}

static int run(struct cli *cli)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, 0};
    struct migrate *migrate = mem_zalloc(1, sizeof(*migrate));
    sigset_t old_mask;
    int code = CMD_USAGE;

    migrate->cli = cli;
    migrate->signal_fd = -1;
    migrate->source.fd = -1;
    migrate->counters = !args_has(&cli->args, "no-counters");
    migrate->differing = json_array();
    migrate->missing = json_array();
    map_init(&migrate->dirty);
    buf_init(&migrate->top, SETTINGS_PATH_MAX);
    migrate_target_init(&migrate->target, cli, "/");
    if (take_args(migrate)) {
        if (args_has(&cli->args, "watch")) {
            migrate->signal_fd = inherited_take_signals(signals, &old_mask);
            migrate->source.stop_fd = migrate->signal_fd;
            cli->client->interrupt_fd = migrate->signal_fd;
        }
        migrate_visit(migrate);
        cli->client->meanwhile = migrate_keep;
        cli->client->meanwhile_ctx = migrate;
        code = migrate_all(migrate);
        cli->client->meanwhile = NULL;
        progress_clear(&migrate->target.progress);
        migrate_walk_release(&migrate->walk);
    }
    zk_client_close(&migrate->source);
    if (migrate->signal_fd >= 0) {
        end_signals(migrate, &old_mask);
    }
    migrate_target_release(&migrate->target);
    migrate_forget_dirty(migrate);
    json_decref(migrate->differing);
    json_decref(migrate->missing);
    buf_release(&migrate->top);
    mem_free(migrate);
    return code;
}

const struct cmd cmd_migrate = {
    .name = "migrate",
    .summary = "copy a tree from a running ZooKeeper",
    .usage = "",
    .text = "Copies data, ACLs and sequence counters with ZooKeeper's own protocol, in passes\n"
            "until one finds no difference: this pass is the verification. An interrupted\n"
            "migration is run again with --into. Without --replace it deletes in zabra only\n"
            "what this run has seen in the source. Ephemerals are left out, because they belong\n"
            "to sessions. With --watch it then follows the changes until Ctrl-C, when the\n"
            "writers have been stopped, and verifies. Run it as the super user (--user): other\n"
            "users cannot set counters and foreign ACLs. Exit code 9: some znodes were not\n"
            "copied, or differ; 0 but not verified: zabra has other znodes besides, or\n"
            "some that this user may not read. All other commands work with zabra only.\n",
    .options = {CMD_VALUE("from", 0, "HOST:PORT,...[/CHROOT]",
                          "the ZooKeeper; the port may be left out (2181)"),
                {.name = "auth",
                 .value = "SCHEME:CREDENTIAL",
                 .help = "identity for ZooKeeper, digest:user:password; @FILE has one on each "
                         "line and hides it from other users; may be repeated",
                 .env = "ZABRA_MIGRATE_AUTH"},
                CMD_VALUE("from-ca", 0, "FILE",
                          "TLS to the ZooKeeper (its secureClientPort), whose certificate this CA "
                          "has signed"),
                CMD_VALUE("from-cert", 0, "FILE", "with --from-ca: the certificate of this client"),
                CMD_VALUE("from-key", 0, "FILE", "with --from-cert: its key"),
                CMD_VALUE("prefix", 0, "PATH", "copy only this subtree, to the same path"),
                CMD_VALUE("container", 0, "GLOB", "new znodes that match are containers"),
                CMD_VALUE("ttl", 0, "GLOB=MS", "new znodes that match have this time to live"),
                CMD_FLAG("watch", 0, "follow changes until Ctrl-C, then verify"),
                CMD_TIME("until-idle", 0, "with --watch: end after this time without a change", 100,
                         IDLE_MAX_MS, 0),
                CMD_FLAG("into", 0, "copy into a tree that has znodes; overwrites equal paths"),
                CMD_FLAG("replace", 0, "also delete what the source does not have"),
                CMD_FLAG("no-counters", 0, "leave sequence counters out; needs no super user"),
                CMD_FLAG("dry-run", 0, "change nothing, report what would change")},
    .examples = {{"zabra migrate --from zk1:2181,zk2:2181 --user super --dry-run",
                  "what a migration of everything would do"},
                 {"zabra migrate --from zk1:2181 --watch --user super",
                  "copies, follows, and verifies after Ctrl-C"},
                 {"zabra migrate --from zk1 --prefix /app --auth @zk.auth --user super",
                  "only /app, with the identities of a file"},
                 {"zabra migrate --from zk1 --container '/locks/*' --ttl '/jobs/*=60000' --user "
                  "super",
                  "znodes that were containers or had a time to live"}},
    .run = run,
};
