/* Rows of the table that are done here, on the library's thread, and not by the replica. */
#include "base/check.h"
#include "http/http_int.h"

enum MHD_Result http_answer_front(struct http_conn *conn)
{
    if (conn->request.def->id == OP_EXPORT) {
        return http_export_begin(conn);
    }
    if (conn->request.def->id == OP_WATCHES) {
        return http_watches_begin(conn);
    }
    ASSERT(conn->request.def->id == OP_WATCH); /* The others have no route. */
    return http_stream_begin(conn);
}
