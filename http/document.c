/* The contract in writing: documents that never change while the process lives. */
#include "base/check.h"
#include "http/etag.h"
#include "http/http_int.h"
#include "openapi/documents.h"

enum MHD_Result http_answer_document(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice asked = request->head.if_none_match;
    struct MHD_Response *response = NULL;
    struct slice text = slice_make(NULL, 0);
    char etag[HTTP_ETAG_MAX];
    bool found = document_find(request->route->name, &text);

    ASSERT(found);
    http_etag_bytes(text, etag);
    if (asked.data && http_etag_matches(asked, etag)) {
        response = http_response_empty();
        request->http_status = MHD_HTTP_NOT_MODIFIED;
    } else {
        response = http_response_lasting(text);
        request->answer_bytes = text.len;
        request->http_status = MHD_HTTP_OK;
        http_header(response, "Content-Type", "application/json");
        http_header(response, "X-Content-Type-Options", "nosniff");
    }
    http_header(response, "ETag", etag);
    http_header(response, "Cache-Control", "no-cache");
    http_header_common(conn, response, true);
    return http_send(conn, request->http_status, response);
}
