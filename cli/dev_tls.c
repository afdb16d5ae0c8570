/* dev --tls: an authority, a certificate of the replicas and one of a client, in DIR/tls. */
#include "tls/inspect.h"

#include "cli/cmd.h"
#include "cli/dev.h"
#include "cli/jsonr.h"
#include "cli/words.h"

#define SERVER "server"
#define CLIENT "client"

static int fail(const char *dir, const char *why)
{
    (void)fprintf(stderr, "zabra dev: --tls: %s: %s\n", dir, why);
    return CMD_FAILED;
}

/* Makes a certificate, unless it is there from an earlier start. */
static int make(const char *dir, const char *name, enum issue_kind kind, const char *names)
{
    int64_t now_s = os_wall_ms() / 1000;
    int64_t days = kind == ISSUE_CA ? ISSUE_CA_DAYS : ISSUE_DAYS;
    struct issue_request request = {.kind = kind,
                                    .common = kind == ISSUE_CA ? "zabra dev CA" : name,
                                    .names = names,
                                    .from_s = now_s - ISSUE_EARLY_S,
                                    .until_s = now_s - ISSUE_EARLY_S + days * INSPECT_DAY_S};
    char error[ISSUE_ERROR_MAX];

    return issue_files_exist(dir, name) || issue_files_make(dir, name, &request, error)
               ? CMD_OK
               : fail(dir, error);
}

static void take_fault(void *ctx, bool error, const char *sentence)
{
    char *first = ctx;

    if (error && !*first) {
        (void)snprintf(first, ISSUE_ERROR_MAX, "%s", sentence);
    }
}

/* Checks the certificate of the replicas, which may be from an earlier start. */
static int check(const char *dir)
{
    char path[ISSUE_PATH_MAX];
    char why[2 * ISSUE_ERROR_MAX];
    char error[ISSUE_ERROR_MAX] = "";
    BUF_AUTO(cert, ISSUE_PEM_MAX);
    BUF_AUTO(key, ISSUE_PEM_MAX);
    BUF_AUTO(ca, ISSUE_PEM_MAX);

    if (!issue_files_read(issue_files_path(dir, SERVER, ".pem", path), &cert, error) ||
        !issue_files_read(issue_files_path(dir, SERVER, ".key", path), &key, error) ||
        !issue_files_read(issue_files_path(dir, ISSUE_FILES_CA, ".pem", path), &ca, error)) {
        return fail(dir, error);
    }

    struct inspect_question question = {.cert = buf_slice(&cert),
                                        .key = buf_slice(&key),
                                        .ca = buf_slice(&ca),
                                        .serves = true,
                                        .host = "127.0.0.1",
                                        .now_s = os_wall_ms() / 1000};
    int faults = inspect_check(&question, take_fault, error);

    if (key.data) {
        explicit_bzero(key.data, key.cap);
    }
    if (faults == 0) {
        return CMD_OK;
    }
    (void)snprintf(why, sizeof(why), SERVER ".pem: %s; remove the directory, and all is made again",
                   error);
    return fail(dir, why);
}

int dev_tls_prepare(const char *data_path, struct dev_tls *tls)
{
    int code = CMD_OK;

    if (snprintf(tls->dir, sizeof(tls->dir), "%s/tls", data_path) >= (int)sizeof(tls->dir) ||
        snprintf(tls->ca, sizeof(tls->ca), "%s/" ISSUE_FILES_CA ".pem", tls->dir) >=
            (int)sizeof(tls->ca)) {
        return fail(data_path, "the path is too long");
    }
    code = make(tls->dir, ISSUE_FILES_CA, ISSUE_CA, NULL);
    code = code == CMD_OK ? make(tls->dir, SERVER, ISSUE_SERVER, "localhost,127.0.0.1,::1") : code;
    code = code == CMD_OK ? make(tls->dir, CLIENT, ISSUE_CLIENT, NULL) : code;
    return code == CMD_OK ? check(tls->dir) : code;
}

void dev_tls_config(const struct dev_tls *tls, struct buf *out)
{
    buf_printf(out,
               "clientTls=required\ntlsCertFile=%s/" SERVER ".pem\ntlsKeyFile=%s/" SERVER
               ".key\nclientCaFile=%s\nclientCertificates=ask\n",
               tls->dir, tls->dir, tls->ca);
}

void dev_tls_welcome(const struct dev_tls *tls, const char *endpoints)
{
    BUF_AUTO(names, DEV_LINE_MAX);
    static const char *const variables[][2] = {{"ZABRA_CA", "/" ISSUE_FILES_CA ".pem"},
                                               {"ZABRA_CERT", "/" CLIENT ".pem"},
                                               {"ZABRA_KEY", "/" CLIENT ".key"}};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        BUF_AUTO(path, DEV_LINE_MAX);

        buf_printf(&path, "%s%s", tls->dir, variables[i][1]);
        buf_printf(&names, " %s=", variables[i][0]);
        words_quote_path(&names, buf_cstr(&path));
    }
    (void)printf("\nTo use these replicas from the command line, with the identity of a client:\n"
                 "\n"
                 "  export ZABRA_ENDPOINTS=%s\n"
                 "  export%s\n"
                 "  zabra whoami\n",
                 endpoints, buf_cstr(&names));
}
