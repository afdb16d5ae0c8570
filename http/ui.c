/*
 * The dashboard: the files of one page, from the binary or, for development, from a directory. The
 * page has many URLs, so each path that is neither below assets/ nor below docs/ is the page, even
 * if the path has a dot: znodes have names like `v1.2`. Each file is embedded twice, plain and
 * compressed: plain copies cost less than a library that inflates files for the few clients without
 * gzip.
 */
#include "web/assets.h"

#include "base/os_files.h"
#include "http/etag.h"
#include "http/http_int.h"

#include <ctype.h>

enum {
    POLICY_MAX = 2 * HTTP_CLIENTS_MAX
};

struct ui_file {
    struct slice bytes;
    const char *type;
    char etag[HTTP_ETAG_MAX];
    bool gzip;  /* The bytes are compressed. */
    bool fixed; /* The name contains a hash of the bytes, so they never change. */
};

static bool is_asset(struct slice path)
{
    return slice_starts_with(path, slice_str(ASSET_DIR));
}

/* Finds a file in the binary. The tag identifies the bytes that are sent, so compressed bytes have
 * another tag. */
static bool find_inside(const struct http_request *request, struct slice path,
                        struct ui_file *ret_file)
{
    const struct asset *asset = asset_find(path);

    if (!asset) {
        return false;
    }
    ret_file->gzip = http_head_takes_gzip(request->head.accept_encoding);
    ret_file->bytes = ret_file->gzip ? slice_make(asset->gzip, asset->gzip_len)
                                     : slice_make(asset->plain, asset->plain_len);
    ret_file->type = asset->type;
    ret_file->fixed = is_asset(path);
    (void)snprintf(ret_file->etag, sizeof(ret_file->etag), "\"%s%s\"", asset->tag,
                   ret_file->gzip ? "-gzip" : "");
    return true;
}

static const char *type_of(struct slice path)
{
    static const struct {
        const char *end;
        const char *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
        {".json", "application/json"},         {".map", "application/json"},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct slice end = slice_str(types[i].end);

        if (path.len >= end.len && slice_eq(slice_from(path, path.len - end.len), end)) {
            return types[i].type;
        }
    }
    return "application/octet-stream";
}

static bool find_on_disk(struct http_conn *conn, struct slice path, struct ui_file *ret_file)
{
    const char *dir = conn->http->limits->web_dir;

    buf_clear(&conn->out.own);
    if (os_file_read_below(dir, slice_from(path, 1), &conn->out.own) != ERR_OK) {
        return false;
    }
    ret_file->bytes = buf_slice(&conn->out.own);
    ret_file->type = type_of(path);
    http_etag_bytes(ret_file->bytes, ret_file->etag);
    return true;
}

/* Whether the address may be copied into a header. */
static bool is_plain_address(struct slice address)
{
    for (size_t i = 0; i < address.len; i++) {
        uint8_t byte = address.data[i];

        if (!isalnum(byte) && !(byte && strchr(".-_:[]", byte))) {
            return false;
        }
    }
    return address.len > 0;
}

/* Appends the addresses of all replicas, with the scheme of the page: when this replica fails, the
 * page continues with another replica. */
static void append_replicas(struct http *http, bool https, struct buf *policy)
{
    const char *tls = https ? "s" : "";
    struct buf clients;

    buf_init(&clients, HTTP_CLIENTS_MAX);
    gate_append_clients(http->gate, &clients);

    struct slice rest = buf_slice(&clients);

    while (rest.len > 0) {
        struct slice address = slice_cut(&rest, ' ');

        if (is_plain_address(address)) {
            buf_printf(policy, " http%s://%.*s ws%s://%.*s", tls, (int)address.len,
                       (const char *)address.data, tls, (int)address.len,
                       (const char *)address.data);
        }
    }
    buf_release(&clients);
}

/* Adds the policy of the page: only zabra's own files run, nothing is sent to hosts other than
 * replicas, and no page may frame this one. */
static void page_headers(struct http_conn *conn, struct MHD_Response *response)
{
    struct buf policy;

    buf_init(&policy, POLICY_MAX);
    buf_append_str(&policy, "default-src 'none'; script-src 'self'; style-src 'self'; "
                            "img-src 'self'; connect-src 'self'");
    append_replicas(conn->http, http_is_https(conn), &policy);
    buf_append_str(&policy, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                            "require-trusted-types-for 'script'");
    http_header(response, "Content-Security-Policy", buf_cstr(&policy));
    http_header(response, "Cross-Origin-Opener-Policy", "same-origin");
    buf_release(&policy);
}

static enum MHD_Result send_file(struct http_conn *conn, const struct ui_file *file, bool page)
{
    struct MHD_Response *response =
        http_response_lasting(conn, file->bytes, file->type, file->etag);

    if (file->gzip && conn->request.answer.status == MHD_HTTP_OK) {
        http_header(response, "Content-Encoding", "gzip");
    }
    http_header(response, "Cache-Control",
                file->fixed ? "public, max-age=31536000, immutable" : "no-cache");
    http_header(response, "X-Content-Type-Options", "nosniff");
    http_header(response, "Referrer-Policy", "no-referrer");
    http_header(response, "Vary", "Accept-Encoding, Origin");
    if (page) {
        page_headers(conn, response);
    }
    http_header_date(response);
    http_header_common(conn, response, false);
    return http_send(conn, conn->request.answer.status, response);
}

/* Returns the file for a path. The directory of the documentation stands for its first page. */
static struct slice file_of(struct slice asked, bool page)
{
    if (page) {
        return slice_str(ASSET_PAGE);
    }
    return slice_eq(asked, slice_str(ASSET_DOCS)) ? slice_str(ASSET_DOCS "README.html") : asked;
}

enum MHD_Result http_answer_ui(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    bool asset = is_asset(request->args.path);
    bool page = !asset && !slice_starts_with(request->args.path, slice_str(ASSET_DOCS));
    struct slice path = file_of(request->args.path, page);
    bool disk = conn->http->limits->web_dir[0] != '\0';
    struct ui_file file = {.type = NULL};
    bool found = disk ? find_on_disk(conn, path, &file) : find_inside(request, path, &file);

    request->args.path = slice_make(NULL, 0); /* The URL's path names no znode. */
    if (found) {
        return send_file(conn, &file, !asset);
    }
    http_refuse(conn, ERR_NOT_FOUND, "%s",
                !page ? "the dashboard has no such file"
                : disk
                    ? "there is no index.html in webDir: run node web/build.mjs"
                    : "this zabra was built without the dashboard: build it with -DZABRA_WEB=ON");
    return http_answer_fault(conn);
}
