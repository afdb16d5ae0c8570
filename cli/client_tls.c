/* https: the files of --ca, --cert and --key, and why a connection has failed because of TLS. */
#include "tls/inspect.h"
#include "tls/issue_files.h"

#include "cli/client.h"
#include "cli/words.h"

#include <sys/stat.h>

enum {
    OPEN_TO_ALL = 007 /* Mode bits that a key must not have; group access is fine. */
};

/* ---- Files ---- */

/* Keeps the first error of a check. */
static void take_fault(void *ctx, bool error, const char *sentence)
{
    char *first = ctx;

    if (error && !*first) {
        (void)snprintf(first, ISSUE_ERROR_MAX, "%s", sentence);
    }
}

static bool check_ca(struct settings *settings)
{
    char error[ISSUE_ERROR_MAX];
    struct inspect_cert facts;
    BUF_AUTO(text, CLIENT_CA_MAX);

    if (!issue_files_read(settings->ca, &text, error)) {
        return ARGS_REFUSE(settings, "--ca: %s", error);
    }

    bool found = inspect_read(buf_slice(&text), &facts);

    inspect_release(&facts);
    return found || ARGS_REFUSE(settings, "--ca: %s has no certificate in PEM form", settings->ca);
}

static bool check_pair(struct settings *settings)
{
    struct stat info;
    char error[ISSUE_ERROR_MAX] = "";
    BUF_AUTO(cert, ISSUE_PEM_MAX);
    BUF_AUTO(key, ISSUE_PEM_MAX);

    if (!issue_files_read(settings->cert, &cert, error)) {
        return ARGS_REFUSE(settings, "--cert: %s", error);
    }
    if (stat(settings->key, &info) == 0 && S_ISREG(info.st_mode) && (info.st_mode & OPEN_TO_ALL)) {
        return ARGS_REFUSE(settings, "--key: all users may read %s; run: chmod 600 %s",
                           settings->key, settings->key);
    }
    if (!issue_files_read(settings->key, &key, error)) {
        return ARGS_REFUSE(settings, "--key: %s", error);
    }

    struct inspect_question question = {.cert = buf_slice(&cert),
                                        .key = buf_slice(&key),
                                        .asks = true,
                                        .now_s = os_wall_ms() / 1000};
    int faults = key.len > 0 ? inspect_check(&question, take_fault, error) : 1;

    explicit_bzero(key.data, key.cap);
    return faults == 0 || ARGS_REFUSE(settings, "--cert: %s: %s", settings->cert,
                                      *error ? error : "the file of --key is empty");
}

bool client_tls_check(struct settings *settings, const struct endpoints *endpoints)
{
    bool secure = false;

    for (int i = 0; i < endpoints->count; i++) {
        secure = secure || url_is_secure(endpoints->urls[i]);
    }
    if (!secure) {
        return !settings->tls_given ||
               ARGS_REFUSE(settings,
                           "--%s is of use only with an endpoint that begins with https://, and "
                           "there is none in %s",
                           settings->tls_given, settings->endpoints);
    }
    if (!settings->cert != !settings->key) {
        return ARGS_REFUSE(settings, "--cert and --key belong together: --%s is missing",
                           settings->cert ? "key" : "cert");
    }
    return (!settings->ca || check_ca(settings)) && (!settings->cert || check_pair(settings));
}

void client_tls_prepare(const struct client *client, CURL *easy, const char *endpoint)
{
    const struct settings *settings = client->settings;

    if (!url_is_secure(endpoint)) {
        return;
    }
    /* OpenSSL writes to sockets without MSG_NOSIGNAL. So libcurl must ignore SIGPIPE while it
     * works, which this option forbids; the signal stays for a closed pipe behind stdout. */
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 0L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_CERTINFO, 1L); /* To name the names of a wrong certificate. */
    if (client->trusts_all) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (settings->ca) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* Not the authorities of the machine. */
    }
    if (settings->cert) {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, settings->cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, settings->key);
    }
}

/* ---- Failures ---- */

/* Writes the names of the server's certificate on one line. */
static void put_names(CURL *easy, char names[CLIENT_NAMES_MAX])
{
    static const char member[] = "Cert:";
    struct curl_certinfo *info = NULL;
    const char *pem = NULL;
    struct inspect_cert facts;
    size_t at = 0;

    (void)snprintf(names, CLIENT_NAMES_MAX, "no host");
    (void)curl_easy_getinfo(easy, CURLINFO_CERTINFO, &info);
    for (const struct curl_slist *line = info && info->num_of_certs > 0 ? info->certinfo[0] : NULL;
         line; line = line->next) {
        pem = strncmp(line->data, member, strlen(member)) == 0 ? line->data + strlen(member) : pem;
    }
    (void)inspect_read(slice_str(pem ? pem : ""), &facts);
    for (struct slice rest = buf_slice(&facts.names); rest.len > 0 && at < CLIENT_NAMES_MAX;) {
        struct slice name = slice_cut(&rest, '\n');

        name = slice_from(name, slice_find(name, ':') + 1);
        at += (size_t)snprintf(names + at, CLIENT_NAMES_MAX - at, "%s%.*s", at ? ", " : "",
                               (int)name.len, (const char *)name.data);
    }
    inspect_release(&facts);
}

/* Writes the host of a URL, without brackets. */
static void put_host(const char *url, char host[ENDPOINT_MAX])
{
    const char *at = strstr(url, "://") ? strstr(url, "://") + 3 : url;
    bool six = *at == '[';
    size_t len = six ? strcspn(at, "]") : strcspn(at, ":/");

    (void)snprintf(host, ENDPOINT_MAX, "%.*s", (int)(six ? len - 1 : len), six ? at + 1 : at);
}

/* The server's certificate is that of another host. */
static void put_other_host(CURL *easy, const char *url, char why[CLIENT_WHY_MAX])
{
    char names[CLIENT_NAMES_MAX];
    char host[ENDPOINT_MAX];

    put_names(easy, names);
    put_host(url, host);
    (void)snprintf(why, CLIENT_WHY_MAX,
                   "the certificate of the server is for %s, not for %s; use one of its names in "
                   "--endpoints, or give the replica a certificate with this one",
                   names, host);
}

static void put_unknown_ca(const char *ca, char why[CLIENT_WHY_MAX])
{
    if (ca) {
        (void)snprintf(why, CLIENT_WHY_MAX,
                       "the authority in %s did not sign the certificate of the server; name the "
                       "right one with --ca",
                       ca);
    } else {
        (void)snprintf(why, CLIENT_WHY_MAX,
                       "the authority that signed the certificate of the server is unknown here; "
                       "name its file with --ca");
    }
}

/* The server's certificate does not verify. */
static void put_distrust(const struct client *client, CURL *easy, char why[CLIENT_WHY_MAX])
{
    long code = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_SSL_VERIFYRESULT, &code);
    switch (inspect_reason((int)code)) {
    case INSPECT_UNKNOWN_CA:
        put_unknown_ca(client->settings->ca, why);
        break;
    case INSPECT_EXPIRED:
        (void)snprintf(why, CLIENT_WHY_MAX,
                       "the certificate of the server, or of its authority, has expired; give the "
                       "replica a new one, or check the clock of this machine");
        break;
    case INSPECT_EARLY:
        (void)snprintf(why, CLIENT_WHY_MAX,
                       "the certificate of the server, or of its authority, is not yet valid; "
                       "check the clocks of this machine and of the replica");
        break;
    case INSPECT_OTHER:
    default:
        (void)snprintf(why, CLIENT_WHY_MAX, "the certificate of the server does not verify: %s",
                       inspect_words((int)code));
        break;
    }
}

/* What libcurl and OpenSSL report as text alone, and what it means. */
static const struct {
    const char *detail;
    bool about_client; /* An alert about the certificate of this client; it may come late. */
    const char *why;
} alerts[] = {
    {"certificate required", true,
     "the server wants a certificate of the client; name one with --cert and --key"},
    {"alert unknown ca", true,
     "the server does not know the authority that signed the certificate of --cert"},
    {"alert certificate expired", true, "the server finds the certificate of --cert expired"},
    {"alert certificate revoked", true, "the certificate of --cert has been revoked"},
    {"alert bad certificate", true, "the server refuses the certificate of --cert"},
    {"alert certificate unknown", true, "the server refuses the certificate of --cert"},
    {"alert unsupported certificate", true,
     "the certificate of --cert may not be used by a client"},
    {"wrong version number", false,
     "this port does not speak TLS; write http:// in --endpoints, or give the replica clientTls"},
    {"packet length too long", false,
     "this port does not speak TLS; write http:// in --endpoints, or give the replica clientTls"},
    {"http request", false,
     "this port does not speak TLS; write http:// in --endpoints, or give the replica clientTls"},
    {"alert protocol version", false, "no version of TLS in common: zabra speaks 1.2 and 1.3"},
    {"unsupported protocol", false, "no version of TLS in common: zabra speaks 1.2 and 1.3"},
    {"alert no application protocol", false, "the server does not speak HTTP/1.1 on this port"},
    {"handshake failure", false,
     "the server refuses the handshake: it may want a certificate of the client (--cert and "
     "--key), or have no cipher in common"},
};

static bool put_alert(const char *detail, bool handshake, char why[CLIENT_WHY_MAX])
{
    for (size_t i = 0; i < sizeof(alerts) / sizeof(alerts[0]); i++) {
        if ((handshake || alerts[i].about_client) && strcasestr(detail, alerts[i].detail)) {
            (void)snprintf(why, CLIENT_WHY_MAX, "%s", alerts[i].why);
            return true;
        }
    }
    return false;
}

/* Whether a plain port has sent the client to https, which does not follow. */
static bool is_sent_away(CURL *easy)
{
    char *place = NULL;

    (void)curl_easy_getinfo(easy, CURLINFO_REDIRECT_URL, &place);
    return place && url_is_secure(place);
}

bool client_tls_fault(const struct client *client, CURL *easy, CURLcode result, const char *detail,
                      char why[CLIENT_WHY_MAX])
{
    char *url = NULL;

    (void)curl_easy_getinfo(easy, CURLINFO_EFFECTIVE_URL, &url);
    if (!url || !url_is_secure(url)) {
        bool away = result == CURLE_OK && is_sent_away(easy);
        bool binary = result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_WEIRD_SERVER_REPLY;

        (void)snprintf(why, CLIENT_WHY_MAX, "%s; write https:// in --endpoints",
                       away ? "this port wants TLS"
                            : "the answer is not HTTP, as from a port that speaks only TLS");
        return away || binary;
    }
    if (result == CURLE_PEER_FAILED_VERIFICATION) {
        if (strstr(detail, "subject name")) { /* Only this text of libcurl tells. */
            put_other_host(easy, url, why);
        } else {
            put_distrust(client, easy, why);
        }
        return true;
    }
    if (result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_CERTPROBLEM ||
        result == CURLE_SSL_CIPHER) {
        (void)snprintf(why, CLIENT_WHY_MAX, "%s", detail);
        return true;
    }

    bool handshake = result == CURLE_SSL_CONNECT_ERROR;

    return (handshake || result == CURLE_RECV_ERROR || result == CURLE_SEND_ERROR) &&
           put_alert(detail, handshake, why);
}
