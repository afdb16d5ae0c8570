/* Long polls: `Prefer: wait` is a preference (RFC 7240), and is answered at once. */
#include "base/check.h"
#include "http/http_int.h"

bool http_wait_begin(struct http_conn *conn, const struct op_result *result)
{
    ASSERT(conn->request.wait_ms > 0 && result->err == ERR_OK);

    return false;
}

enum MHD_Result http_wait_over(struct http_conn *conn)
{
    return http_run_read(conn);
}

void http_wait_free(struct http_wait *wait)
{
    ASSERT(!wait);
}
