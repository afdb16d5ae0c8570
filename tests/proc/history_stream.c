/* Watchers by HTTP: streams that are closed now and then, and resumed at another replica. */
#include "base/check.h"
#include "base/os_clock.h"
#include "tests/proc/history_run.h"
#include "tests/proc/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAIT_MS = 50,
    ID_MAX = 64,
    LEAVE_ONE_IN = 400,  /* In so many events. */
    AWAY_ANSWERS = 4000, /* At most until other clients have so many answers. */
    AWAY_MS_MAX = 3000
};

struct stream {
    struct history_client *client;
    struct plain *plain;
    zxid_t since;
    char id[ID_MAX]; /* Id of the last event that has one. */
};

static void connect_somewhere(struct stream *stream)
{
    struct history_client *client = stream->client;
    bool sse = client->kind == HISTORY_SSE;
    char target[HISTORY_PATH_MAX] = "/watch/v1/h?mode=recursive&values=true";
    char headers[HISTORY_PATH_MAX];
    struct plain_answer answer;

    history_new_connection(client);
    stream->plain = plain_open(client->run->ports[client->server], HISTORY_CALL_MS);
    if (!stream->plain) {
        ensemble_breathe();
        return;
    }
    (void)snprintf(headers, sizeof(headers), "Accept: %s\r\n",
                   sse ? "text/event-stream" : "application/x-ndjson");
    stream->since = client->at;
    if (sse && stream->id[0]) {
        const char *colon = strchr(stream->id, ':');

        stream->since = colon ? strtoull(colon + 1, NULL, 16) : 0;
        (void)snprintf(headers, sizeof(headers),
                       "Accept: text/event-stream\r\nLast-Event-ID: %s\r\n", stream->id);
    } else if (client->at != 0) {
        (void)snprintf(target, sizeof(target),
                       "/watch/v1/h?mode=recursive&values=true&since=0x%" PRIx64, client->at);
    }
    plain_answer_init(&answer);
    if (plain_stream(stream->plain, target, headers, HISTORY_CALL_MS, &answer) != 200) {
        plain_close(stream->plain);
        stream->plain = NULL;
        ensemble_breathe();
    }
    plain_answer_release(&answer);
}

static void lose(struct stream *stream)
{
    plain_close(stream->plain);
    stream->plain = NULL;
    history_take_loss(stream->client);
}

/* Waits while other clients write, so that the missed events sometimes exceed the window. */
static void stay_away(struct stream *stream)
{
    struct history_run *run = stream->client->run;
    uint64_t target = atomic_load(&run->answers) + rng_below(&stream->client->rng, AWAY_ANSWERS);
    uint64_t end_ms = os_now_ms() + AWAY_MS_MAX;

    while (atomic_load(&run->answers) < target && os_now_ms() < end_ms &&
           !atomic_load(&run->stopping)) {
        ensemble_breathe();
    }
}

static void take_object(struct stream *stream, const char *text)
{
    json_t *event = json_loads(text, 0, NULL);
    const char *name = json_string_value(json_object_get(event, "event"));

    if (!name) {
        history_wrong(stream->client, "a line of a stream that is no event: %.200s", text);
    } else if (strcmp(name, "watch") == 0) {
        const char *resumed = json_string_value(json_object_get(event, "resumed"));

        history_take_watch(stream->client, resumed, stream->since,
                           history_zxid(json_object_get(event, "zxid")));
    } else {
        history_take_event(stream->client, event);
    }
    json_decref(event);
}

static void take_line(struct stream *stream, const char *line)
{
    if (stream->client->kind == HISTORY_NDJSON) {
        if (line[0] != '\0') {
            take_object(stream, line);
        }
    } else if (strncmp(line, "data: ", 6) == 0) {
        take_object(stream, line + 6);
    } else if (strncmp(line, "id: ", 4) == 0) {
        (void)snprintf(stream->id, sizeof(stream->id), "%s", line + 4);
    }
}

static void pass_time(struct stream *stream)
{
    const char *line = plain_line(stream->plain, WAIT_MS);
    bool leave = rng_below(&stream->client->rng, LEAVE_ONE_IN) == 0 &&
                 !atomic_load(&stream->client->run->stopping);

    if (line) {
        take_line(stream, line);
    }
    /* Reads everything that has already arrived. */
    if (leave || (!line && !plain_is_open(stream->plain))) {
        lose(stream);
        if (leave) {
            stay_away(stream);
        }
    }
}

void history_run_stream(struct history_client *client)
{
    struct stream stream = {.client = client};

    while (!history_watcher_done(client)) {
        if (!stream.plain) {
            connect_somewhere(&stream);
        } else {
            pass_time(&stream);
        }
    }
    plain_close(stream.plain);
}
