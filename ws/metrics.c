/* Counters of WebSocket connections, for /metrics. */
#include "ws/ws_int.h"

#include <stdio.h>

/* The codes that the server closes sockets with; 0: closed by its client, or a broken connection.
 */
static const enum ws_code codes[] = {
    WS_CODE_NONE,   WS_CODE_GOING_AWAY, WS_CODE_NOT_TEXT,      WS_CODE_NOT_UTF8,
    WS_CODE_POLICY, WS_CODE_TOO_LARGE,  WS_CODE_SESSION_ENDED, WS_CODE_SESSION_MOVED,
    WS_CODE_UNFIT,  WS_CODE_SLOW,       WS_CODE_NO_ROOM,       WS_CODE_PROTOCOL,
};

enum {
    CODES = sizeof(codes) / sizeof(codes[0])
};

_Static_assert((int)CODES == (int)WS_CODES, "a counter for each code");

void ws_metrics_closed(struct ws *ws, enum ws_code code)
{
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i] == code) {
            metric_add(&ws->metrics.closes[i], 1);
        }
    }
}

static void put(struct buf *out, const char *name, const char *type, const char *help,
                const struct metric_counter *counter)
{
    metric_head(out, name, type, help);
    metric_put(out, name, NULL, metric_get(counter));
}

void ws_metrics_write(void *ctx, struct buf *out)
{
    struct ws *ws = ctx;
    const struct ws_metrics *metrics = &ws->metrics;
    char label[sizeof("code=\"client\"") + 8];

    put(out, "zabra_ws_sockets", "gauge", "Open WebSocket connections.", &metrics->sockets);
    put(out, "zabra_ws_sockets_total", "counter", "WebSocket connections accepted.",
        &metrics->sockets_ever);
    put(out, "zabra_ws_messages_total", "counter", "Messages received from clients.",
        &metrics->messages);
    put(out, "zabra_ws_events_total", "counter", "Events sent.", &metrics->events);
    put(out, "zabra_ws_watches", "gauge", "Watches of all WebSocket connections.",
        &metrics->watches);
    put(out, "zabra_ws_unfinished_bytes", "gauge", "Bytes of incomplete messages.",
        &metrics->pieces);
    put(out, "zabra_ws_overruns_total", "counter",
        "Watches whose events were discarded because their client was slow.", &metrics->overruns);
    put(out, "zabra_ws_gaps_total", "counter", "Gaps reported to clients.", &metrics->gaps);
    put(out, "zabra_ws_unsent_refused_total", "counter",
        "Reads refused because their reply did not fit into maxUnsentBytes.",
        &metrics->refused_unsent);
    put(out, "zabra_ws_sent_bytes_total", "counter", "Bytes sent.", &metrics->sent_bytes);
    metric_head(out, "zabra_ws_closed_total", "counter",
                "WebSocket connections closed, by the close code of the server.");
    for (size_t i = 0; i < CODES; i++) {
        if (codes[i] == WS_CODE_NONE) {
            (void)snprintf(label, sizeof(label), "code=\"client\"");
        } else {
            (void)snprintf(label, sizeof(label), "code=\"%d\"", (int)codes[i]);
        }
        metric_put(out, "zabra_ws_closed_total", label, metric_get(&metrics->closes[i]));
    }
}

void ws_metrics_add(void *ctx, struct gate_front_figures *figures)
{
    const struct ws *ws = ctx;

    figures->sockets += metric_get(&ws->metrics.sockets);
    figures->watches += metric_get(&ws->metrics.watches);
    figures->events += metric_get(&ws->metrics.events);
}
