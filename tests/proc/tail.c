#include "tests/proc/tail.h"

#include "base/check.h"
#include "base/mem.h"
#include "tests/lib/exchange.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 4 << 20
};

static void keep(struct tail *tail, const json_t *object)
{
    const char *path = json_string_value(json_object_get(object, "path"));
    const char *zxid = json_string_value(json_object_get(object, "zxid"));

    (void)pthread_mutex_lock(&tail->mutex);
    ASSERT(tail->count < TAIL_EVENTS_MAX);

    struct tail_event *event = &tail->events[tail->count++];

    *event = (struct tail_event){.zxid = zxid ? strtoull(zxid, NULL, 16) : 0,
                                 .diff = json_is_true(json_object_get(object, "diff"))};
    (void)snprintf(event->type, sizeof(event->type), "%.23s", tail->type);
    (void)snprintf(event->path, sizeof(event->path), "%.127s", path ? path : "");
    (void)pthread_mutex_unlock(&tail->mutex);
}

static void note_resumed(struct tail *tail, const json_t *object)
{
    const char *resumed = json_string_value(json_object_get(object, "resumed"));

    atomic_fetch_add(&tail->opened, 1);
    if (resumed && strcmp(resumed, "fresh") != 0) {
        atomic_fetch_add(&tail->resumed, 1);
        atomic_fetch_add(&tail->diffed, strcmp(resumed, "diffed") == 0);
        atomic_fetch_add(&tail->gaps, strcmp(resumed, "gap") == 0);
    }
}

/* An empty line ends an event. */
static void take_event(struct tail *tail)
{
    json_t *object = json_loads(buf_cstr(&tail->data), 0, NULL);

    exchange_event(tail->type, tail->next_id[0] ? tail->next_id : NULL, buf_cstr(&tail->data));
    if (strncmp(tail->type, "Node", 4) == 0) {
        keep(tail, object);
    } else if (strcmp(tail->type, "watch") == 0) {
        note_resumed(tail, object);
    } else if (strcmp(tail->type, "gap") == 0) {
        atomic_fetch_add(&tail->gaps, 1);
    }
    if (tail->next_id[0]) {
        memcpy(tail->id, tail->next_id, sizeof(tail->id));
        tail->safe = tail->count;
    }
    json_decref(object);
    buf_clear(&tail->data);
    tail->type[0] = '\0';
    tail->next_id[0] = '\0';
}

static const char *after(const char *line, const char *name)
{
    size_t len = strlen(name);

    return strncmp(line, name, len) == 0 ? line + len : NULL;
}

static void take_line(struct tail *tail, const char *line)
{
    const char *value = after(line, "event: ");

    if (value) {
        (void)snprintf(tail->type, sizeof(tail->type), "%s", value);
        return;
    }
    value = after(line, "id: ");
    if (value) {
        (void)snprintf(tail->next_id, sizeof(tail->next_id), "%s", value);
        return;
    }
    value = after(line, "data: ");
    if (value) {
        buf_append_str(&tail->data, value);
    } else if (line[0] == '\0') {
        take_event(tail);
    }
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
    struct tail *tail = ctx;

    for (size_t i = 0; i < size * count; i++) {
        if (bytes[i] == '\n') {
            take_line(tail, buf_cstr(&tail->line));
            buf_clear(&tail->line);
        } else if (bytes[i] != '\r') {
            buf_append(&tail->line, &bytes[i], 1);
        }
    }
    return size * count;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
                       curl_off_t up_now)
{
    struct tail *tail = ctx;

    (void)total;
    (void)now;
    (void)up_total;
    (void)up_now;
    return atomic_load(&tail->stopping);
}

/* Reads one stream to its end. The server sends an incomplete event again. */
static void read_stream(struct tail *tail, CURL *curl)
{
    char url[512];
    char header[128];
    struct curl_slist *headers = curl_slist_append(NULL, "Accept: text/event-stream");

    if (tail->id[0]) {
        (void)snprintf(header, sizeof(header), "Last-Event-ID: %s", tail->id);
        headers = curl_slist_append(headers, header);
    }
    (void)pthread_mutex_lock(&tail->mutex);
    tail->count = tail->safe;
    (void)pthread_mutex_unlock(&tail->mutex);
    buf_clear(&tail->line);
    buf_clear(&tail->data);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", tail->ports[tail->at],
                   tail->url_path);
    curl_easy_reset(curl);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, (void *)tail);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)tail);
    (void)curl_easy_perform(curl);
    curl_slist_free_all(headers);
}

static void run(void *arg)
{
    struct tail *tail = arg;
    CURL *curl = curl_easy_init();

    ASSERT(curl);
    while (!atomic_load(&tail->stopping)) {
        read_stream(tail, curl);
        tail->at = (tail->at + 1) % tail->port_count;
        ensemble_breathe();
    }
    curl_easy_cleanup(curl);
}

void tail_start(struct tail *tail, struct ensemble *ensemble, uint32_t first, const char *path)
{
    memset(tail, 0, sizeof(*tail));
    tail->port_count = ensemble->count;
    for (uint32_t i = 0; i < ensemble->count; i++) {
        tail->ports[i] = ensemble->replicas[i].client_port;
    }
    tail->at = first;
    (void)snprintf(tail->url_path, sizeof(tail->url_path), "%s", path);
    buf_init(&tail->line, LINE_MAX_BYTES);
    buf_init(&tail->data, LINE_MAX_BYTES);
    (void)pthread_mutex_init(&tail->mutex, NULL);
    tail->events = mem_zalloc(TAIL_EVENTS_MAX, sizeof(*tail->events));
    thread_start(&tail->thread, "tail", run, tail);
    ENSEMBLE_WAIT(ensemble, atomic_load(&tail->opened) > 0);
}

void tail_stop(struct tail *tail)
{
    atomic_store(&tail->stopping, true);
    thread_join(&tail->thread);
}

void tail_release(struct tail *tail)
{
    (void)pthread_mutex_destroy(&tail->mutex);
    mem_free(tail->events);
    buf_release(&tail->line);
    buf_release(&tail->data);
}

size_t tail_count(struct tail *tail, const char *type, const char *prefix)
{
    size_t count = 0;

    (void)pthread_mutex_lock(&tail->mutex);
    for (size_t i = 0; i < tail->count; i++) {
        const struct tail_event *event = &tail->events[i];

        count += strncmp(event->type, type, strlen(type)) == 0 &&
                 strncmp(event->path, prefix, strlen(prefix)) == 0;
    }
    (void)pthread_mutex_unlock(&tail->mutex);
    return count;
}
