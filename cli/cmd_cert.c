/* cert: makes the certificates of an ensemble, shows one, and says what is wrong with one. */
#include "tls/inspect.h"
#include "tls/issue_files.h"

#include "cli/out.h"
#include "cli/words.h"

#include <sys/stat.h>

enum {
    ID_MAX = 65535, /* As of replicas. */
    URI_MAX = 256,
    NAME_MAX_LEN = 64,
    LINE_MAX_LEN = 2048
};

/* One run of the command. */
struct cert {
    struct out out;
    struct args args;
    const char *dir;
    int64_t now_s;
};

static int refuse(const struct cert *cert, int code, const char *message)
{
    if (code == CMD_USAGE) {
        return out_usage(&cert->out, "%s", message);
    }
    out_error(&cert->out, code, "File", message, NULL);
    return code;
}

#define CERT_USAGE(cert, ...) out_usage(&(cert)->out, __VA_ARGS__)

/* ---- Showing ---- */

static json_t *names_json(const struct inspect_cert *facts)
{
    struct slice rest = buf_slice(&facts->names);
    json_t *list = json_array();

    while (rest.len > 0) {
        struct slice line = slice_cut(&rest, '\n');

        (void)json_array_append_new(list, json_stringn((const char *)line.data, line.len));
    }
    return list;
}

static json_t *uses_json(const struct inspect_cert *facts)
{
    json_t *list = json_array();

    if (facts->is_ca) {
        (void)json_array_append_new(list, json_string("authority"));
    }
    if (facts->serves) {
        (void)json_array_append_new(list, json_string("server"));
    }
    if (facts->asks) {
        (void)json_array_append_new(list, json_string("client"));
    }
    return list;
}

static void put_list(const json_t *list, const char *none, char line[LINE_MAX_LEN])
{
    size_t at = 0;

    (void)snprintf(line, LINE_MAX_LEN, "%s", none);
    JSONR_EACH (item, list) {
        if (at < LINE_MAX_LEN) {
            at += (size_t)snprintf(line + at, LINE_MAX_LEN - at, "%s%s", at ? ", " : "",
                                   json_string_value(item));
        }
    }
}

static void say_facts(const struct cert *cert, const json_t *value)
{
    static const char *const texts[] = {"file", "subject", "issuer", "from", "until"};
    static const char *const more[] = {"key_type", "serial", "fingerprint"};
    int64_t days = jsonr_number(value, "days_left");
    char line[LINE_MAX_LEN];

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        out_say(&cert->out, "%-11s  %s\n", texts[i], jsonr_text(value, texts[i]));
    }
    out_say(&cert->out, "%-11s  %" PRId64 "%s\n", "days left", days,
            days < 0                                      ? " (expired)"
            : days < INSPECT_AHEAD_S / (int)INSPECT_DAY_S ? " (make a new one)"
                                                          : "");
    put_list(jsonr_at(value, "names"), "none", line);
    out_say(&cert->out, "%-11s  %s\n", "names", line);
    put_list(jsonr_at(value, "uses"), "nothing", line);
    out_say(&cert->out, "%-11s  %s\n", "use as", line);
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        out_say(&cert->out, "%-11s  %s\n", i == 0 ? "key" : more[i], jsonr_text(value, more[i]));
    }
}

/* Prints what is in the certificate at `path`. */
static int show(const struct cert *cert, const char *path)
{
    struct inspect_cert facts;
    char error[ISSUE_ERROR_MAX];
    BUF_AUTO(text, ISSUE_PEM_MAX);

    if (!issue_files_read(path, &text, error)) {
        return refuse(cert, CMD_FAILED, error);
    }
    if (!inspect_read(buf_slice(&text), &facts)) {
        inspect_release(&facts);
        (void)snprintf(error, sizeof(error), "%.300s has no certificate in PEM form", path);
        return refuse(cert, CMD_FAILED, error);
    }

    int64_t left_s = facts.until_s - cert->now_s;
    json_auto_t *value = json_pack(
        "{s:o,s:s,s:s,s:o,s:o,s:I,s:o,s:o,s:s,s:s,s:s}", "file", out_string(path), "subject",
        facts.subject, "issuer", facts.issuer, "from", out_time(facts.from_s * 1000), "until",
        out_time(facts.until_s * 1000), "days_left",
        (json_int_t)(left_s >= 0 ? left_s / INSPECT_DAY_S : -1 + left_s / INSPECT_DAY_S), "names",
        names_json(&facts), "uses", uses_json(&facts), "key_type", facts.key, "serial",
        facts.serial, "fingerprint", facts.fingerprint);

    ASSERT(value);
    inspect_release(&facts);
    if (out_is_json(&cert->out)) {
        out_json(&cert->out, value);
    } else {
        say_facts(cert, value);
    }
    return CMD_OK;
}

/* ---- Making ---- */

/* Whether a name can be that of a file in `dir`; the characters are checked by issue_check(). */
static bool is_file_name(const char *name)
{
    return *name && *name != '.' && *name != '-' && !strchr(name, '/') && !strchr(name, ' ') &&
           strcmp(name, ISSUE_FILES_CA) != 0;
}

/* The actions; those that make a certificate are in the order of enum issue_kind. */
enum {
    SHOW = ISSUE_PEER + 1,
    CHECK,
    ACTIONS
};

static const char action_names[] = "ca, server, client, peer, show, check";

/* Refuses an option that this action does not have. */
static int check_options(const struct cert *cert, int action)
{
    static const struct {
        const char *name;
        bool of[ACTIONS]; /* ca, server, client, peer, show, check. */
    } options[] = {{"san", {false, true, true, true, false, false}},
                   {"id", {false, false, false, true, false, true}},
                   {"cluster", {false, false, false, true, false, true}},
                   {"for", {[CHECK] = true}},
                   {"host", {[CHECK] = true}},
                   {"key", {[CHECK] = true}},
                   {"ca", {[CHECK] = true}}};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (args_has(&cert->args, options[i].name) && !options[i].of[action]) {
            return CERT_USAGE(cert, "'cert %s' has no option --%s", args_operand(&cert->args, 0),
                              options[i].name);
        }
    }
    return CMD_OK;
}

/* Takes --id, which must be a number, and --cluster, and makes their URI. Without --cluster there
 * is none. */
static int take_uri(const struct cert *cert, int64_t *ret_number, char uri[URI_MAX])
{
    const char *id = args_get(&cert->args, "id");
    const char *cluster = args_get(&cert->args, "cluster");

    uri[0] = '\0';
    if (!id || !args_number(id, (struct cmd_range){1, ID_MAX, 0}, ret_number)) {
        return CERT_USAGE(cert, "--id must be the number of the replica, from 1 to %d",
                          (int)ID_MAX);
    }
    if (cluster &&
        (!*cluster || strpbrk(cluster, "/:@") ||
         snprintf(uri, URI_MAX, "zabra://%s/%" PRId64, cluster, *ret_number) >= URI_MAX)) {
        return CERT_USAGE(cert, "--cluster: \"%.80s\" is not the name or id of a cluster", cluster);
    }
    return CMD_OK;
}

/* Takes --id and --cluster of a peer: the name of its files, unless that is given, and its URI. */
static int take_peer(const struct cert *cert, struct issue_request *request,
                     char name[NAME_MAX_LEN], char uri[URI_MAX])
{
    int64_t number = 0;
    int code = take_uri(cert, &number, uri);

    request->uri = uri[0] != '\0' ? uri : NULL;
    (void)snprintf(name, NAME_MAX_LEN, "peer-%" PRId64, number);
    request->common = request->common ? request->common : name;
    return code;
}

static int make(const struct cert *cert, enum issue_kind kind)
{
    const char *name = args_get(&cert->args, "name");
    int days = kind == ISSUE_CA ? ISSUE_CA_DAYS : ISSUE_DAYS;
    struct issue_request request = {.kind = kind,
                                    .common = name,
                                    .names = args_get(&cert->args, "san"),
                                    .from_s = cert->now_s - ISSUE_EARLY_S};
    char peer_name[NAME_MAX_LEN];
    char uri[URI_MAX];
    char path[ISSUE_PATH_MAX];
    char error[ISSUE_ERROR_MAX];
    int code = CMD_OK;

    request.until_s = request.from_s + (int64_t)days * INSPECT_DAY_S;
    if (kind == ISSUE_PEER) {
        code = take_peer(cert, &request, peer_name, uri);
    }
    if (code != CMD_OK) {
        return code;
    }
    if (kind == ISSUE_CA) {
        request.common = name ? name : "zabra CA";
    } else if (!request.common || !is_file_name(request.common)) {
        return CERT_USAGE(cert,
                          "--name must name the files to make, as in --name zk1 for %s/zk1.pem "
                          "(not \"ca\", no blank, no slash)",
                          cert->dir);
    } else if (kind == ISSUE_SERVER && !request.names) {
        request.names = request.common;
    }
    if (!issue_check(&request, error)) {
        return refuse(cert, CMD_USAGE, error);
    }
    name = kind == ISSUE_CA ? ISSUE_FILES_CA : request.common;
    if (!issue_files_make(cert->dir, name, &request, error)) {
        return refuse(cert, CMD_FAILED, error);
    }
    out_say(&cert->out, "made %s/%s.pem and its key, %s/%s.key\n", cert->dir, name, cert->dir,
            name);
    return show(cert, issue_files_path(cert->dir, name, ".pem", path));
}

/* ---- Checking ---- */

/* What to check. */
struct files {
    char cert[ISSUE_PATH_MAX];
    char key[ISSUE_PATH_MAX]; /* "": none. */
    char ca[ISSUE_PATH_MAX];  /* "": none. */
};

static bool exists(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0;
}

/* Finds the key beside the certificate, and the authority in its directory, if they are there. */
static void find_beside(struct files *files)
{
    char dir[ISSUE_PATH_MAX];
    const char *slash = strrchr(files->cert, '/');
    size_t len = strlen(files->cert);
    size_t stem = len > 4 && strcmp(files->cert + len - 4, ".pem") == 0 ? len - 4 : len;

    (void)snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - files->cert) : 1,
                   slash ? files->cert : ".");
    (void)issue_files_path(dir, ISSUE_FILES_CA, ".pem", files->ca);
    if (snprintf(files->key, ISSUE_PATH_MAX, "%.*s.key", (int)stem, files->cert) >=
            ISSUE_PATH_MAX ||
        !exists(files->key)) {
        files->key[0] = '\0';
    }
    if (!exists(files->ca)) {
        files->ca[0] = '\0';
    }
}

/* Copies a path. Returns false when it is empty or too long. */
static bool take_path(const char *from, char path[ISSUE_PATH_MAX])
{
    return *from && snprintf(path, ISSUE_PATH_MAX, "%s", from) < ISSUE_PATH_MAX;
}

/* Takes the certificate that the command line names, as a file or by its name in --dir. */
static int take_files(const struct cert *cert, struct files *files)
{
    const char *file = args_operand(&cert->args, 1);
    const char *name = args_get(&cert->args, "name");
    const char *key = args_get(&cert->args, "key");
    const char *ca = args_get(&cert->args, "ca");

    if (!file == !name) {
        return CERT_USAGE(cert, "name one certificate: a FILE, or --name NAME of one in --dir DIR");
    }
    if (name) {
        (void)issue_files_path(cert->dir, name, ".pem", files->cert);
    }
    if ((file && !take_path(file, files->cert)) || !*files->cert) {
        return CERT_USAGE(cert, "the path of the certificate is missing or too long");
    }
    find_beside(files);
    if ((key && !take_path(key, files->key)) || (ca && !take_path(ca, files->ca))) {
        return CERT_USAGE(cert, "--key and --ca must name files");
    }
    return CMD_OK;
}

/* Collects the sentences of a check. */
static void take_fault(void *ctx, bool error, const char *sentence)
{
    (void)json_array_append_new(ctx, json_pack("{s:s,s:o}", "severity", error ? "error" : "warning",
                                               "text", out_string(sentence)));
}

static int take_question(const struct cert *cert, struct slice text,
                         struct inspect_question *question, char uri[URI_MAX])
{
    const char *use = args_get(&cert->args, "for");
    const char *id = args_get(&cert->args, "id");
    const char *cluster = args_get(&cert->args, "cluster");
    int index = use ? words_find("server, client, peer", use) : -1;
    struct inspect_cert facts;

    if (use && index < 0) {
        return CERT_USAGE(cert, "--for: \"%s\" is not one of server, client and peer", use);
    }
    if (!id != !cluster) {
        return CERT_USAGE(cert, "--id and --cluster belong together: zabra://CLUSTER/ID");
    }
    if (id) {
        int64_t number = 0;
        int code = take_uri(cert, &number, uri);

        if (code != CMD_OK) {
            return code;
        }
        question->uri = uri;
    }
    (void)inspect_read(text, &facts);
    question->serves = use ? index != 1 : facts.serves;
    question->asks = use ? index != 0 : facts.asks;
    if (!use && !facts.is_ca && !facts.serves && !facts.asks) {
        question->serves = true; /* Of no use at all: an error says so. */
    }
    question->host = args_get(&cert->args, "host");
    question->now_s = cert->now_s;
    inspect_release(&facts);
    return CMD_OK;
}

static int tell_faults(const struct cert *cert, const char *path, json_t *faults, int errors)
{
    json_auto_t *value =
        json_pack("{s:o,s:b,s:O}", "file", out_string(path), "ok", errors == 0, "findings", faults);

    ASSERT(value);
    if (out_is_json(&cert->out)) {
        out_json(&cert->out, value);
        return errors == 0 ? CMD_OK : CMD_FAILED;
    }
    JSONR_EACH (fault, faults) {
        out_say(&cert->out, "%s: %s: %s\n", jsonr_text(fault, "severity"), path,
                jsonr_text(fault, "text"));
    }
    if (errors == 0) {
        out_say(&cert->out, "%s is in order\n", path);
    }
    return errors == 0 ? CMD_OK : CMD_FAILED;
}

static int check(const struct cert *cert)
{
    struct files *files = mem_zalloc(1, sizeof(*files));
    struct inspect_question question = {.now_s = cert->now_s};
    json_auto_t *faults = json_array();
    char error[ISSUE_ERROR_MAX];
    char uri[URI_MAX];
    int code = take_files(cert, files);
    BUF_AUTO(text, ISSUE_PEM_MAX);
    BUF_AUTO(key, ISSUE_PEM_MAX);
    BUF_AUTO(ca, ISSUE_PEM_MAX);

    if (code == CMD_OK && (!issue_files_read(files->cert, &text, error) ||
                           (*files->key && !issue_files_read(files->key, &key, error)) ||
                           (*files->ca && !issue_files_read(files->ca, &ca, error)))) {
        code = refuse(cert, CMD_FAILED, error);
    }
    code = code == CMD_OK ? take_question(cert, buf_slice(&text), &question, uri) : code;
    if (code == CMD_OK) {
        question.cert = buf_slice(&text);
        question.key = buf_slice(&key);
        question.ca = buf_slice(&ca);

        int errors = inspect_check(&question, take_fault, faults);

        if (!*files->ca) {
            take_fault(faults, false, "the chain was not checked; name the authority with --ca");
        }
        if (!*files->key) {
            take_fault(faults, false, "the key was not checked; name it with --key");
        }
        code = tell_faults(cert, files->cert, faults, errors);
    }
    if (key.data) {
        explicit_bzero(key.data, key.cap);
    }
    mem_free(files);
    return code;
}

/* ---- The command ---- */

static int run_action(struct cert *cert)
{
    const char *action = args_operand(&cert->args, 0);
    const char *dir = args_get(&cert->args, "dir");
    int index = words_find(action_names, action);
    struct files *files = NULL;
    int code = CMD_OK;

    cert->dir = dir && *dir ? dir : ".";
    cert->now_s = os_wall_ms() / 1000;
    if (index < 0) {
        return CERT_USAGE(cert, "\"%s\" is not one of %s", action, action_names);
    }
    code = check_options(cert, index);
    if (code != CMD_OK) {
        return code;
    }
    if (index <= ISSUE_PEER) {
        return args_operand(&cert->args, 1)
                   ? CERT_USAGE(cert, "unexpected argument \"%s\"; the name follows --name",
                                args_operand(&cert->args, 1))
                   : make(cert, (enum issue_kind)index);
    }
    if (index == CHECK) {
        return check(cert);
    }
    files = mem_zalloc(1, sizeof(*files));
    code = take_files(cert, files);
    code = code == CMD_OK ? show(cert, files->cert) : code;
    mem_free(files);
    return code;
}

static int run(int arg_count, char **args)
{
    struct cert *cert = mem_zalloc(1, sizeof(*cert));
    int code = CMD_USAGE;

    cert->out.cmd = "cert";
    cert->out.format = settings_format(&arg_count, args, true);
    if (!args_parse(&cert->args, &cmd_cert, NULL, arg_count, args)) {
        code = CERT_USAGE(cert, "%s", cert->args.error);
    } else {
        cert->out.format = args_has(&cert->args, "json") ? SETTINGS_JSON : cert->out.format;
        code = run_action(cert);
    }
    mem_free(cert);
    return code;
}

const struct cmd cmd_cert = {
    .name = "cert",
    .summary = "make, show and check the certificates of TLS",
    .usage = "ca|server|client|peer|show|check [OPTIONS] [FILE]",
    .text =
        "ca makes an authority in DIR, ca.pem and ca.key. server, client and peer make\n"
        "NAME.pem and NAME.key, which it signs: for a replica that clients reach by the\n"
        "names of --san, for a client (its name becomes its identity), and for replica N\n"
        "towards the others. Keys are ECDSA P-256, mode 0600; certificates last 825 days,\n"
        "an authority ten years. Nothing is overwritten: when a file exists, nothing\n"
        "changes. Clients and replicas need ca.pem. Keep ca.key apart: its owner can make\n"
        "any identity.\n"
        "show prints one certificate. check compares it with its key, with the authority,\n"
        "with the clock, and with its purpose and names, and prints a sentence for each\n"
        "thing that is wrong. Without --key and --ca it takes NAME.key and ca.pem beside the\n"
        "certificate. A certificate that ends within 14 days is a warning. Exit code 0: in\n"
        "order, or made; 1: not in order, or a file cannot be read or written; 2: wrong usage,\n"
        "or a wrong name.\n",
    .options = {CMD_VALUE("dir", 0, "DIR", "the directory (.)"),
                CMD_VALUE("name", 0, "NAME",
                          "files NAME.pem and NAME.key, and the common name; peer: peer-N"),
                CMD_VALUE("san", 0, "A,B,...",
                          "names and addresses of a server or peer (server: NAME); of a client "
                          "also mail addresses"),
                CMD_VALUE("id", 0, "N", "peer: the id of the replica"),
                CMD_VALUE("cluster", 0, "NAME",
                          "peer: adds the URI zabra://NAME/N; NAME is the key environment of the "
                          "ensemble, or its cluster in hexadecimal digits"),
                CMD_VALUE("for", 0, "server|client|peer", "check: the purpose (that which it has)"),
                CMD_VALUE("host", 0, "NAME", "check: a name or an address that must fit"),
                CMD_VALUE("key", 0, "FILE", "check: the key"),
                CMD_VALUE("ca", 0, "FILE", "check: the authority"),
                CMD_FLAG("json", 0, "print JSON, as -o json does")},
    .examples = {{"zabra cert ca --dir tls", "an authority"},
                 {"zabra cert server --dir tls --name zk1 --san zk1.example.org,10.0.0.1",
                  "a certificate of a replica"},
                 {"zabra cert client --dir tls --name bob", "a certificate of a client, CN=bob"},
                 {"zabra cert show tls/zk1.pem", "names, dates and fingerprint"},
                 {"zabra cert check tls/zk1.pem --host 10.0.0.1", "everything that is wrong"}},
    .operands = {1, 2, {CMD_OPERAND_TEXT, CMD_OPERAND_FILE}},
    .run_alone = run};
