#include "cli/stream.h"

#include "cli/curl_handles.h"
#include "cli/words.h"

enum {
    BEAT_DEFAULT_MS = 10000,
    BEATS_SILENT = 2, /* A connection silent for so many heartbeat intervals is dead. */
    GREETING_MIN_MS = 1000,
    PAUSE_MIN_MS = 100,  /* First pause between two connections. */
    PAUSE_MAX_MS = 2000, /* Longest pause; the pause doubles until a connection has an event. */
    CONNECT_MS = 3000
};

struct stream *stream_open(struct client *client, CURLM *multi,
                           const struct stream_request *request)
{
    struct stream *stream = mem_zalloc(1, sizeof(*stream));

    stream->client = client;
    stream->multi = multi;
    stream->easy = curl_handles_easy();
    stream->endpoint = client->endpoints.current;
    stream->path = mem_strdup(request->path);
    stream->kind = mem_strdup(request->kind);
    stream->values = request->values;
    stream->once = words_find("data, exists, children", request->kind) >= 0;
    (void)snprintf(stream->bookmark, sizeof(stream->bookmark), "%s",
                   request->since ? request->since : "");
    buf_init(&stream->line, STREAM_LINE_MAX);
    stream->pending = json_array();
    stream->ready = json_array();
    stream->pause_ms = PAUSE_MIN_MS;
    stream->beat_ms = BEAT_DEFAULT_MS;
    stream->down_ms = os_now_ms();
    return stream;
}

static void stop(struct stream *stream)
{
    if (stream->running) {
        (void)curl_multi_remove_handle(stream->multi, stream->easy);
        stream->running = false;
    }
    curl_slist_free_all(stream->headers);
    stream->headers = NULL;
    buf_clear(&stream->line);
    (void)json_array_clear(stream->pending);
}

void stream_close(struct stream *stream)
{
    if (!stream) {
        return;
    }
    stop(stream);
    curl_easy_cleanup(stream->easy);
    json_decref(stream->pending);
    json_decref(stream->ready);
    buf_release(&stream->line);
    mem_free(stream->path);
    mem_free(stream->kind);
    mem_free(stream);
}

/* ---- Events ---- */

static void remember(struct stream *stream, const json_t *event)
{
    const char *history = jsonr_text(event, "history");
    const char *zxid = jsonr_text(event, "zxid");

    if (*history) {
        (void)snprintf(stream->history, sizeof(stream->history), "%s", history);
    }
    if (*zxid && stream->history[0]) {
        (void)snprintf(stream->bookmark, sizeof(stream->bookmark), "%s:%s", stream->history, zxid);
    }
}

/* Whether the stream can resume after the zxid of this event. The zxid of a greeting ("watch") does
 * not count when older events are still to come ("replayed"). */
static bool is_bookmark(const json_t *event, const char *name)
{
    const char *resumed = jsonr_text(event, "resumed");

    if (strcmp(name, "watch") == 0) {
        return words_find("fresh, gap", resumed) >= 0;
    }
    return words_find("heartbeat, gap", name) >= 0 || json_is_true(jsonr_at(event, "end"));
}

static void take_watch(struct stream *stream, const json_t *event)
{
    const char *history = jsonr_text(event, "history");
    int64_t beat_ms = jsonr_number(event, "heartbeat_ms");

    (void)snprintf(stream->history, sizeof(stream->history), "%s", history);
    stream->beat_ms = beat_ms > 0 ? (uint64_t)beat_ms : BEAT_DEFAULT_MS;
    stream->greeted = true;
    stream->down_ms = 0;
    stream->pause_ms = PAUSE_MIN_MS;
}

/* Takes an event, which then belongs to the stream. */
static void take_event(struct stream *stream, json_t *event)
{
    const char *name = jsonr_text(event, "event");
    bool change = strncmp(name, "Node", 4) == 0;
    bool bookmark = is_bookmark(event, name);

    if (strcmp(name, "watch") == 0) {
        take_watch(stream, event);
    }
    if (bookmark) {
        remember(stream, event);
    }
    if (!change) {
        (void)json_array_append_new(stream->ready, event);
        return;
    }
    (void)json_array_append_new(stream->pending, event);
    if (stream->once || bookmark) { /* The pending transaction is complete. */
        (void)json_array_extend(stream->ready, stream->pending);
        (void)json_array_clear(stream->pending);
    }
    stream->over = stream->over || stream->once;
}

static bool is_full(const struct stream *stream)
{
    return json_array_size(stream->pending) + json_array_size(stream->ready) >= STREAM_PENDING_MAX;
}

/* Takes the complete lines. Returns false when one of them is not an event. */
static bool take_lines(struct stream *stream)
{
    struct slice rest = buf_slice(&stream->line);

    while (slice_find(rest, '\n') < rest.len) {
        struct slice line = slice_cut(&rest, '\n');
        json_t *event = line.len > 0 ? jsonr_parse(line, NULL) : NULL;

        if (line.len > 0 && (!event || is_full(stream))) {
            json_decref(event);
            return false;
        }
        if (event) {
            take_event(stream, event);
        }
    }
    buf_consume(&stream->line, stream->line.len - rest.len);
    return true;
}

static size_t take_body(char *data, size_t size, size_t count, void *ctx)
{
    struct stream *stream = ctx;
    long status = 0;

    (void)curl_easy_getinfo(stream->easy, CURLINFO_RESPONSE_CODE, &status);
    stream->heard_ms = os_now_ms();
    bool fits = buf_append(&stream->line, data, size * count);

    /* Data that is no event ends the connection. */
    return fits && (status != 200 || take_lines(stream)) ? size * count : 0;
}

/* ---- Connections ---- */

static void connect_to(struct stream *stream, uint64_t now_ms)
{
    const char *endpoint = stream->client->endpoints.urls[stream->endpoint];
    struct client_request request = {
        .target = "/watch/v1",
        .path = stream->path,
        .params = {{"kind", stream->kind},
                   {"values", url_flag(stream->values)},
                   {"since", stream->bookmark[0] ? stream->bookmark : NULL}},
        .accept = "application/x-ndjson"};

    if (client_prepare(stream->client, stream->easy, endpoint, &request, &stream->headers) !=
        CMD_OK) {
        stream->over = true;
        return;
    }
    curl_easy_setopt(stream->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(stream->easy, CURLOPT_WRITEDATA, (void *)stream);
    stream->detail[0] = '\0';
    curl_easy_setopt(stream->easy, CURLOPT_ERRORBUFFER, stream->detail);
    curl_easy_setopt(stream->easy, CURLOPT_FRESH_CONNECT, 1L); /* A stream owns its connection. */
    stream->greeted = false;
    stream->heard_ms = now_ms;
    stream->running = true;
    (void)curl_multi_add_handle(stream->multi, stream->easy);
}

/* Connects to the next replica after a pause. */
static void try_next(struct stream *stream, uint64_t now_ms)
{
    stream->endpoint = (stream->endpoint + 1) % stream->client->endpoints.count;
    stream->connect_ms = now_ms + stream->pause_ms;
    stream->pause_ms = min_u32(stream->pause_ms * 2, PAUSE_MAX_MS);
    stream->down_ms = stream->down_ms ? stream->down_ms : now_ms;
}

/* Returns how long a connection may be silent. A connection that has not begun gets a share of a
 * request's timeout: while its replica hangs, another one may serve. */
static uint64_t silence_ms(const struct stream *stream)
{
    uint64_t share_ms =
        (uint64_t)stream->client->settings->timeout_ms / (uint64_t)stream->client->endpoints.count;

    return stream->greeted ? BEATS_SILENT * stream->beat_ms : max_u64(share_ms, GREETING_MIN_MS);
}

uint64_t stream_turn(struct stream *stream, uint64_t now_ms)
{
    if (stream->running && now_ms >= stream->heard_ms + silence_ms(stream)) {
        stop(stream);
        stream->tls = 0;
        try_next(stream, now_ms);
    }
    if (!stream->running && !stream->over && now_ms >= stream->connect_ms) {
        connect_to(stream, now_ms);
    }
    if (stream->over) {
        return UINT64_MAX;
    }
    return stream->running ? stream->heard_ms + silence_ms(stream) : stream->connect_ms;
}

/* Handles a refusal. A refusal that every replica would repeat ends the stream. */
static void take_refusal(struct stream *stream, long status, uint64_t now_ms)
{
    int code = client_judge(stream->client, status, buf_slice(&stream->line));

    if (strcmp(stream->client->error.code, "HistoryChanged") == 0) {
        /* The ensemble has another history now: start again, and report that events may be missing.
         */
        stream->bookmark[0] = '\0';
        (void)json_array_append_new(
            stream->ready, json_pack("{s:s,s:s}", "event", "gap", "reason", "HistoryChanged"));
    } else if (status != 503 && status != 504 && status != 429 && code != CMD_OK) {
        stream->over = true;
    }
    try_next(stream, now_ms);
}

/* Handles an answer of another server than a replica. A replica may be at another endpoint; without
 * another endpoint the stream ends. */
static void take_foreign(struct stream *stream, long status, uint64_t now_ms)
{
    const struct endpoints *endpoints = &stream->client->endpoints;

    (void)client_foreign(stream->client, endpoints->urls[stream->endpoint], status);
    stream->over = endpoints->count == 1;
    try_next(stream, now_ms);
}

/* Handles a connection that TLS has ended. Another replica may have another certificate; the stream
 * ends when all have failed so. */
static void take_tls(struct stream *stream, const char *why, uint64_t now_ms)
{
    const struct endpoints *endpoints = &stream->client->endpoints;

    (void)client_fail(stream->client, CMD_NO_ENSEMBLE, CLIENT_TLS, "%s: %s",
                      endpoints->urls[stream->endpoint], why);
    stream->tls++;
    stream->over = stream->tls >= endpoints->count;
    try_next(stream, now_ms);
}

void stream_take_end(struct stream *stream, CURLcode result, uint64_t now_ms)
{
    char why[CLIENT_WHY_MAX];
    long status = 0;

    (void)curl_easy_getinfo(stream->easy, CURLINFO_RESPONSE_CODE, &status);
    if (!stream->over &&
        client_tls_fault(stream->client, stream->easy, result, stream->detail, why)) {
        take_tls(stream, why, now_ms);
        stop(stream);
        return;
    }
    stream->tls = 0;
    if (status > 0 && !stream->over && !client_is_replica(stream->easy)) {
        take_foreign(stream, status, now_ms);
    } else if (stream->over || status == 0 || status == 200) {
        try_next(stream, now_ms);
    } else {
        take_refusal(stream, status, now_ms);
    }
    stop(stream);
}

/* ---- Reading ---- */

json_t *stream_next(struct stream *stream)
{
    json_t *event = NULL;

    if (stream->ready_at < json_array_size(stream->ready)) {
        event = json_incref(json_array_get(stream->ready, stream->ready_at++));
    }
    if (stream->ready_at == json_array_size(stream->ready)) {
        (void)json_array_clear(stream->ready);
        stream->ready_at = 0;
    }
    return event;
}

bool stream_is_over(const struct stream *stream)
{
    return stream->over && stream->ready_at == json_array_size(stream->ready);
}
