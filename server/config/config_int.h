/* config_int.h - shared between the files of the configuration only. */
#ifndef SERVER_CONFIG_INT_H
#define SERVER_CONFIG_INT_H

#include "base/check.h"
#include "server/config/config.h"

enum config_source {
    CONFIG_FROM_DEFAULT,
    CONFIG_FROM_FILE,
    CONFIG_FROM_ENV,
    CONFIG_FROM_FLAG,
};

enum {
    CONFIG_ROWS_MAX = 128,
    CONFIG_VALUE_MAX = 4096, /* Longest value text. */
    CONFIG_WHERE_MAX = 320,
};

struct config_loader {
    struct config *config;
    struct config_report *report;
    uint8_t set_by[CONFIG_ROWS_MAX]; /* enum config_source, per row. */
    enum config_source source;       /* The source being read. */
    const char *host_name;           /* For id=auto:hostname; NULL: not known. */
    char where[CONFIG_WHERE_MAX];    /* For messages: "zabra.cfg line 3", "flag --id". */
};

/* Writes the error into the report; returns ERR_CONFIG. */
enum err config_fail(struct config_loader *loader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void config_warn(struct config_loader *loader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Returns the row of a key and its index in the table; NULL: there is no such key. */
const struct config_row *config_find(const char *key, size_t *ret_index);

/* Whether the file, the environment or a flag gives the value; false: it is the default. */
bool config_is_given(const struct config_loader *loader, const char *key);

/* Parses `text` (a C string) into the row's field. */
enum err config_set_value(struct config_loader *loader, const struct config_row *row,
                          const char *text);

/* Reads the defaults and all sources into the loader's configuration; checks each value, but no
 * rule across keys, and not that the required keys are there. */
enum err config_take_sources(struct config_loader *loader, const struct config_sources *sources);

/* Splits "127.0.0.1:9990" or "[::1]:9990", the value of `key`; the host is numeric. */
enum err config_split_listen(struct config_loader *loader, const char *key, const char *text,
                             char ret_address[CONFIG_HOST_MAX], uint16_t *ret_port);

/* Parses the value of `server.<suffix>`. */
enum err config_set_server(struct config_loader *loader, const char *suffix, const char *text);

/* Splits "host:rest" or "[v6]:rest"; returns the text after the colon, or NULL. */
const char *config_split_host(const char *text, char ret_host[CONFIG_HOST_MAX]);

/* Returns the text without blanks at its ends. */
struct slice config_trim(struct slice text);

/* Parses decimal digits; false when the text is not a number or is above UINT64_MAX. */
bool config_parse_number(const char *text, uint64_t *ret_number);

/* Returns the bytes of each pool that clients share, on a machine with `machine` bytes of memory
 * (0: not known). The largest request needs `request` bytes, and two of them fit into a pool. */
uint64_t config_pool_bytes(uint64_t machine, uint64_t request);

/* Checks the rules that hold across keys, and reads the secret file. */
enum err config_check(struct config_loader *loader);
enum err config_check_join(struct config_loader *loader);

/* Sets where others reach this replica, and where it listens unless peerListen says so. Called once
 * the list of servers and peerListen are parsed. */
enum err config_set_own(struct config_loader *loader);
enum err config_check_peers(struct config_loader *loader);

#endif
