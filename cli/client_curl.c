/*
 * --curl: prints the shell line that sends a request with curl. No secret is in the line, nor on
 * the command line of a process that the line starts. The shell reads the password from its file
 * and the session from the environment, and passes both to curl as configuration through a pipe.
 */
#include "cli/client.h"
#include "cli/words.h"

enum {
    ARGUMENT_MAX = 32 << 10 /* Longer arguments do not fit a command line everywhere. */
};

/* Appends text for a quoted string of curl's configuration. The string is within a replacement of
 * sed, and this replacement is within single quotes. */
static void put_for_sed(struct buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("\\\"", *text)) {
            buf_append_str(out, *text == '"' ? "\\\\\"" : "\\\\\\\\");
        } else if (strchr("/&", *text)) {
            buf_printf(out, "\\%c", *text);
        } else if (*text == '\'') {
            buf_append_str(out, "'\\''");
        } else {
            buf_append_byte(out, (uint8_t)*text);
        }
    }
}

static bool has_secrets(const struct client *client)
{
    bool password = client->settings->user && client->settings->password_file;

    return password || client->session[0];
}

/* Appends commands that print the secrets as lines of curl's configuration. */
static void put_secrets(const struct client *client, struct buf *out)
{
    const struct settings *settings = client->settings;

    if (client->session[0]) {
        buf_append_str(out, "printf 'header = \"Zk-Session: %s\"\\n' \"$ZABRA_SESSION\"");
    }
    if (settings->user && settings->password_file) {
        buf_append_str(out, client->session[0] ? "; " : "");
        buf_append_str(out, "sed -n '1{s/[\"\\\\]/\\\\&/g;s/.*/user = \"");
        put_for_sed(out, settings->user);
        buf_append_str(out, ":&\"/p;}' ");
        words_quote(out, slice_str(settings->password_file));
    }
}

static void put_header(struct buf *out, const char *name, const char *value)
{
    BUF_AUTO(line, CLIENT_HEADER_MAX + strlen(name) + strlen(value));

    buf_printf(&line, "%s%s%s", name, *name ? ": " : "", value);
    buf_append_str(out, " -H ");
    words_quote(out, buf_slice(&line));
}

static void put_file(struct buf *out, const char *option, const char *file)
{
    if (file) {
        buf_printf(out, " --%s ", option);
        words_quote(out, slice_str(file));
    }
}

static void put_tls(const struct client *client, struct buf *out)
{
    const struct settings *settings = client->settings;

    if (url_is_secure(endpoints_url(&client->endpoints))) {
        buf_append_str(out, client->trusts_all ? " -k" : "");
        put_file(out, "cacert", settings->ca);
        put_file(out, "cert", settings->cert);
        put_file(out, "key", settings->key);
    }
}

static void put_headers(const struct client *client, const struct client_request *request,
                        struct buf *out)
{
    if (request->accept) {
        put_header(out, "Accept", request->accept);
    }
    if (request->has_body && request->type) { /* Plain bytes need no Content-Type. */
        put_header(out, "Content-Type", request->type);
    }
    if (client->settings->min_zxid) {
        put_header(out, "Zk-Min-Zxid", client->settings->min_zxid);
    }
    for (int i = 0; i < CLIENT_HEADERS_MAX && request->headers[i]; i++) {
        put_header(out, "", request->headers[i]);
    }
}

/* Whether the body contains a NUL byte, which cannot stand on a command line. */
static bool has_zero(const struct client_request *request)
{
    return request->body.len > 0 && memchr(request->body.data, 0, request->body.len);
}

/* Whether the body needs a pipe, because it is too long for an argument, or has a NUL byte. */
static bool is_long(const struct client_request *request)
{
    return request->has_body && !request->body_from &&
           (request->body.len > ARGUMENT_MAX || has_zero(request));
}

/* Appends a call of the shell's own printf that prints the body. */
static void put_printed(struct buf *out, const struct client_request *request)
{
    if (!has_zero(request)) {
        buf_append_str(out, "printf %s ");
        words_quote(out, request->body);
        return;
    }
    buf_append_str(out, "printf '");
    for (size_t i = 0; i < request->body.len; i++) {
        buf_printf(out, "\\%03o", request->body.data[i]);
    }
    buf_append_byte(out, '\'');
}

/* Appends the option for the body: literal text, a file, or standard input. When curl reads its
 * configuration from a pipe, standard input is descriptor 3. */
static void put_body(const struct client_request *request, bool piped, struct buf *out)
{
    bool input = is_long(request) || (request->body_from && strcmp(request->body_from, "@-") == 0);

    if (input) {
        buf_append_str(out, piped ? " --data-binary @/dev/fd/3" : " --data-binary @-");
    } else if (request->body_from) {
        buf_append_str(out, " --data-binary ");
        words_quote(out, slice_str(request->body_from));
    } else {
        buf_append_str(out, " --data-raw ");
        words_quote(out, request->body);
    }
}

static void put_command(const struct client *client, const struct client_request *request,
                        struct buf *out)
{
    const char *method = request->method ? request->method : "GET";
    bool piped = has_secrets(client);
    struct buf url;

    buf_append_str(out, piped ? "curl -K - -sS" : "curl -sS");
    if (strcmp(method, "HEAD") == 0) {
        buf_append_str(out, " -I");
    } else if (strcmp(method, "GET") != 0) {
        buf_printf(out, " -X %s", method);
    }
    if (client->settings->user && !client->settings->password_file) {
        buf_append_str(out, " -u ");
        words_quote(out, slice_str(client->settings->user));
    }
    put_tls(client, out);
    put_headers(client, request, out);
    if (request->has_body) {
        put_body(request, piped, out);
    }
    client_url(client, endpoints_url(&client->endpoints), request, &url);
    buf_append_byte(out, ' ');
    words_quote(out, buf_slice(&url));
    buf_release(&url);
}

void client_put_curl(const struct client *client, const struct client_request *request,
                     struct buf *out)
{
    bool piped = has_secrets(client);
    bool input = request->has_body && piped;

    if (is_long(request)) {
        put_printed(out, request);
        buf_append_str(out, " | ");
    }
    if (piped) {
        buf_append_str(out, input ? "{ { " : "{ ");
        put_secrets(client, out);
        buf_append_str(out, "; } | ");
    }
    put_command(client, request, out);
    buf_append_str(out, input ? "; } 3<&0\n" : "\n");
}
