/*
 * top.h - which prefixes of paths and which clients cause the most requests, of the last 10 to 20
 * seconds.
 *
 * Each thread of a front end counts in a part of its own (threads beyond TOP_PARTS share), and
 * never waits: when a part is just being read, the request is not counted, but skipped. A part has
 * two windows of TOP_WINDOW_MS; each has a sketch (sketch.h) of clients and one of prefixes for
 * each depth up to TOP_DEPTHS. Memory: about 350 KiB, whatever the clients send.
 */
#ifndef SERVER_TOP_H
#define SERVER_TOP_H

#include "base/metric.h"
#include "server/op/op.h"
#include "server/process/sketch.h"

enum {
    TOP_PARTS = 4,
    TOP_WINDOWS = 2, /* The present one and the one before. */
    TOP_WINDOW_MS = 10000,
    TOP_DEPTHS = 3,    /* "/a", "/a/b" and "/a/b/c". */
    TOP_MULTI_MAX = 16 /* Only so many operations of a multi are counted, the first ones. */
};

struct top;

struct top *top_new(uint64_t now_ms);
void top_free(struct top *top);

/* Counts a request of a client, with its path or those of its multi. A path that is deeper than
 * TOP_DEPTHS counts for its prefixes; a prefix of more than SKETCH_KEY_MAX bytes is not counted.
 * Any thread; never waits. */
void top_note(struct top *top, const struct op_args *args, const struct op_principal *who,
              uint64_t now_ms);

/* What was counted, as a copy. */
struct top_report;

/* Returns the report of the time up to now, which the caller frees. Any thread. */
struct top_report *top_report(struct top *top, uint64_t now_ms);
void top_report_free(struct top_report *report);

uint64_t top_report_ms(const struct top_report *report);       /* The time that it covers. */
uint64_t top_report_requests(const struct top_report *report); /* Counted requests. */
uint64_t top_report_skipped(const struct top_report *report);  /* Not counted, since the start. */

/* Fill the rows, the busiest first; their keys belong to the report. `depth` is from 1 to
 * TOP_DEPTHS; a path of less depth, "/" included, counts at the depth that it has, "/" at 1. The
 * key of a client is that of top_client_key. */
uint32_t top_prefixes(const struct top_report *report, uint32_t depth,
                      struct sketch_row rows[SKETCH_ENTRIES]);
uint32_t top_clients(const struct top_report *report, struct sketch_row rows[SKETCH_ENTRIES]);

/* Writes the text that stands for the client with the identity `index` (any index beyond its last:
 * without one) into `key`: address, and after a blank the identity as "scheme:name:hash". Returns
 * its length. */
uint32_t top_client_key(const struct op_principal *who, uint32_t index, char key[SKETCH_KEY_MAX]);

/* Return the parts of such a key: the address, and the identity without its hash (empty: none). */
struct slice top_key_address(struct slice key);
struct slice top_key_identity(struct slice key);

/* Whether the client is the one that the key stands for. */
bool top_key_is_of(struct slice key, const struct op_principal *who);

#endif
