/* Rows of the table that are done here, on the library's thread, and not by the replica. */
#include "base/check.h"
#include "http/http_int.h"

enum MHD_Result http_answer_front(struct http_conn *conn)
{
    ASSERT(conn->request.def->kind == OP_KIND_FRONT);

    http_refuse(conn, ERR_UNIMPLEMENTED, "%s is not supported by this version",
                conn->request.route->name);
    return http_answer_fault(conn);
}
