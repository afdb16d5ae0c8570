/* client.h - asks a replica over HTTP, with libcurl. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/buf.h"

/* Once per process, before the first request and after the last one. */
void client_init(void);
void client_release(void);

/* GET; the body goes to `body` as far as it fits (NULL: away). Returns the status, 0 when there was
 * no answer within `timeout_ms`. */
long client_get(const char *url, long timeout_ms, struct buf *body);

#endif
