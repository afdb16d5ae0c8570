/* ask.h - asks one replica once, with libcurl: what dev wants to know of its children. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "base/buf.h"

/* Once per process, before the first request and after the last one. */
void ask_init(void);
void ask_release(void);

/* GET; the body goes to `body` as far as it fits (NULL: away). Returns the status, 0 when there was
 * no answer within `timeout_ms`. */
long ask_get(const char *url, long timeout_ms, struct buf *body);

#endif
