/* Rows of the table that are done here, on the library's thread, and not by the replica. */
#include "base/check.h"
#include "http/http_int.h"

enum MHD_Result http_answer_front(struct http_conn *conn)
{
    ASSERT(conn->request.def->id == OP_WATCH); /* The one of them that has a route. */

    return http_stream_begin(conn);
}
