/* tls_log.h - which failures of TLS were logged lately, so that no client fills the log: shake.c.
 * Any thread. */
#ifndef HTTP_TLS_LOG_H
#define HTTP_TLS_LOG_H

#include <pthread.h>
#include <stdint.h>

enum {
    HTTP_TLS_FIRST_BYTE = 0x16, /* Of a handshake record; no request begins with it. */
    HTTP_TLS_ROWS = 256
};

struct http_tls_row {
    uint64_t key; /* Of an address and a reason; 0: free. */
    uint64_t logged_ms;
};

struct http_tls_log {
    pthread_mutex_t mutex;
    struct http_tls_row rows[HTTP_TLS_ROWS];
    uint64_t period_ms; /* When counting of `lines` began. */
    uint32_t lines;
};

#endif
