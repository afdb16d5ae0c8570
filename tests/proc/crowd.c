#include "tests/proc/crowd.h"

#include "base/check.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXPIRE_S = 20,
    POLL_MS = 20,
    RETRY_MS = 50
};

#define PARENT "/crowd-live"

static void note_wrong(struct crowd *crowd, const char *what, const char *text)
{
    if (atomic_fetch_add(&crowd->wrong, 1) == 0) {
        (void)snprintf(crowd->wrong_text, sizeof(crowd->wrong_text), "%s: %.400s", what, text);
    }
}

/* ---- What a stream sends ---- */

static uint64_t zxid_of(const json_t *object)
{
    const char *text = json_string_value(json_object_get(object, "zxid"));

    return text ? strtoull(text, NULL, 16) : 0;
}

static void take_watch(struct crowd_client *client, const json_t *object, const char *line)
{
    const char *resumed = json_string_value(json_object_get(object, "resumed"));

    if (!resumed || strcmp(resumed, "gap") == 0 ||
        (strcmp(resumed, "fresh") == 0) != (client->since == 0)) {
        note_wrong(client->crowd, "a stream began", line);
        return;
    }
    if (client->since == 0) {
        client->since = zxid_of(object);
    } else {
        atomic_fetch_add(&client->crowd->resumes, 1);
        atomic_fetch_add(&client->crowd->diffs, strcmp(resumed, "diffed") == 0);
    }
}

static void take_line(struct crowd_client *client, const char *line)
{
    json_t *object = json_loads(line, 0, NULL);
    const char *event = json_string_value(json_object_get(object, "event"));

    if (!event) {
        note_wrong(client->crowd, "no event", line);
    } else if (strcmp(event, "watch") == 0) {
        take_watch(client, object, line);
    } else if (strcmp(event, "NodeDataChanged") == 0) {
        if (zxid_of(object) <= client->since) {
            note_wrong(client->crowd, "an event came twice", line);
        }
        client->since = zxid_of(object);
        atomic_fetch_add(&client->crowd->events, 1);
    } else if (strcmp(event, "heartbeat") == 0) {
        client->since = zxid_of(object) > client->since ? zxid_of(object) : client->since;
    } else if (strcmp(event, "closing") != 0) {
        note_wrong(client->crowd, "a stream said", line);
    }
    json_decref(object);
}

static size_t take_bytes(char *data, size_t size, size_t count, void *arg)
{
    struct crowd_client *client = arg;
    long status = 0;

    (void)curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200) {
        client->refused = status == 503;
        if (!client->refused) {
            buf_clear(&client->line);
            buf_append(&client->line, data, size * count);
            note_wrong(client->crowd, "a stream was answered", buf_cstr(&client->line));
        }
        return size * count;
    }
    for (size_t i = 0; i < size * count; i++) {
        if (data[i] != '\n') {
            buf_append_byte(&client->line, (uint8_t)data[i]);
        } else {
            if (client->line.len > 0) {
                take_line(client, buf_cstr(&client->line));
            }
            buf_clear(&client->line);
        }
    }
    return size * count;
}

/* ---- The thread of the streams ---- */

static void open_stream(struct crowd_client *client, CURLM *multi)
{
    char url[256];
    char since[64] = "";

    if (client->since != 0) {
        (void)snprintf(since, sizeof(since), "&since=0x%" PRIx64, client->since);
    }
    (void)snprintf(url, sizeof(url),
                   "http://127.0.0.1:%u/watch/v1" CROWD_PATH "?mode=persistent&keepSession=true%s",
                   client->crowd->ports[client->at], since);
    client->refused = false;
    buf_clear(&client->line);
    client->easy = curl_easy_init();
    assert_non_null(client->easy);
    (void)curl_easy_setopt(client->easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(client->easy, CURLOPT_HTTPHEADER, client->headers);
    (void)curl_easy_setopt(client->easy, CURLOPT_WRITEFUNCTION, take_bytes);
    (void)curl_easy_setopt(client->easy, CURLOPT_WRITEDATA, client);
    (void)curl_easy_setopt(client->easy, CURLOPT_PRIVATE, client);
    (void)curl_easy_setopt(client->easy, CURLOPT_CONNECTTIMEOUT_MS, 2000L);
    (void)curl_multi_add_handle(multi, client->easy);
}

static void close_stream(struct crowd_client *client, CURLM *multi)
{
    if (client->easy) {
        (void)curl_multi_remove_handle(multi, client->easy);
        curl_easy_cleanup(client->easy);
        client->easy = NULL;
    }
}

/* A stream that has ended continues at the next replica. */
static void take_ends(CURLM *multi)
{
    CURLMsg *message = NULL;
    int left = 0;

    while ((message = curl_multi_info_read(multi, &left))) {
        struct crowd_client *client = NULL;

        if (message->msg == CURLMSG_DONE) {
            (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&client);
            close_stream(client, multi);
            client->at = (client->at + 1) % client->crowd->port_count;
            client->retry_ms = os_now_ms() + RETRY_MS;
        }
    }
}

static void run(void *arg)
{
    struct crowd *crowd = arg;
    CURLM *multi = curl_multi_init();

    assert_non_null(multi);
    while (!atomic_load(&crowd->stopping)) {
        uint64_t reached = UINT64_MAX;
        int running = 0;

        for (uint32_t i = 0; i < crowd->count; i++) {
            struct crowd_client *client = &crowd->clients[i];

            if (!client->easy && os_now_ms() >= client->retry_ms) {
                open_stream(client, multi);
            }
            reached = client->since < reached ? client->since : reached;
        }
        atomic_store(&crowd->reached, reached);
        (void)curl_multi_perform(multi, &running);
        take_ends(multi);
        (void)curl_multi_poll(multi, NULL, 0, POLL_MS, NULL);
    }
    for (uint32_t i = 0; i < crowd->count; i++) {
        close_stream(&crowd->clients[i], multi);
    }
    (void)curl_multi_cleanup(multi);
}

/* ---- Sessions ---- */

/* Repeats a call at each running replica in turn until the status is `status`. */
static void call_any(struct ensemble *ensemble, uint32_t first, struct web_call *call, long status)
{
    uint32_t turn = first;

    ENSEMBLE_WAIT(ensemble, (call->port = ensemble->replicas[turn++ % ensemble->count].client_port,
                             web_do(ensemble->web, call, &ensemble->reply) == status));
}

static void open_session(struct crowd_client *client, struct ensemble *ensemble, uint32_t number)
{
    char path[128];
    char header[64];
    char accept[] = "Accept: application/x-ndjson";
    json_t *answer = NULL;

    (void)snprintf(path, sizeof(path), "/sessions/v1/?op=create&expire=%d", EXPIRE_S);
    call_any(ensemble, number, &(struct web_call){.method = "POST", .path = path}, 201);
    answer = web_json(&ensemble->reply);
    (void)snprintf(client->secret, sizeof(client->secret), "%s",
                   json_string_value(json_object_get(answer, "id")));
    json_decref(answer);
    (void)snprintf(header, sizeof(header), "Zk-Session: %s", client->secret);
    (void)snprintf(path, sizeof(path), "/znodes/v1" PARENT "?op=create&name=c%04u&ephemeral=true",
                   number);
    call_any(ensemble, number,
             &(struct web_call){.method = "POST", .path = path, .headers = header}, 201);
    client->headers = curl_slist_append(curl_slist_append(NULL, header), accept);
    client->at = number % ensemble->count;
    buf_init(&client->line, CROWD_LINE_MAX);
}

void crowd_start(struct crowd *crowd, struct ensemble *ensemble, uint32_t count)
{
    ASSERT(count <= CROWD_MAX);
    memset(crowd, 0, sizeof(*crowd));
    crowd->port_count = ensemble->count;
    for (uint32_t i = 0; i < ensemble->count; i++) {
        crowd->ports[i] = ensemble->replicas[i].client_port;
    }
    call_any(ensemble, 0,
             &(struct web_call){
                 .method = "PUT", .path = "/znodes/v1" CROWD_PATH "?upsert=true", .body = "0"},
             201);
    call_any(
        ensemble, 0,
        &(struct web_call){.method = "PUT", .path = "/znodes/v1" PARENT "?upsert=true", .body = ""},
        201);
    crowd->count = count;
    for (uint32_t i = 0; i < count; i++) {
        crowd->clients[i].crowd = crowd;
        open_session(&crowd->clients[i], ensemble, i);
    }
    thread_start(&crowd->thread, "crowd", run, crowd);
    ENSEMBLE_WAIT(ensemble, atomic_load(&crowd->wrong) > 0 || atomic_load(&crowd->reached) > 0);
    crowd_check(crowd, ensemble);
}

void crowd_write(struct crowd *crowd, struct ensemble *ensemble, uint32_t count)
{
    uint64_t events = atomic_load(&crowd->events);
    uint64_t zxid = 0;

    for (uint32_t i = 0; i < count; i++) {
        call_any(ensemble, i,
                 &(struct web_call){.method = "PUT", .path = "/znodes/v1" CROWD_PATH, .body = "x"},
                 200);

        json_t *stat = web_json(&ensemble->reply);

        zxid = (uint64_t)json_integer_value(json_object_get(stat, "mzxid"));
        json_decref(stat);
    }
    ENSEMBLE_WAIT(ensemble, atomic_load(&crowd->wrong) > 0 || atomic_load(&crowd->reached) >= zxid);
    if (atomic_load(&crowd->diffs) == 0) { /* A difference may stand for several writes. */
        ENSEMBLE_CHECK(ensemble,
                       atomic_load(&crowd->events) - events >= (uint64_t)count * crowd->count);
    }
}

void crowd_check(struct crowd *crowd, struct ensemble *ensemble)
{
    json_t *answer = NULL;

    ensemble_check(ensemble, atomic_load(&crowd->wrong) == 0, crowd->wrong_text);
    call_any(ensemble, 0,
             &(struct web_call){.path = "/znodes/v1" PARENT "?view=stat&consistency=linearizable"},
             200);
    answer = web_json(&ensemble->reply);
    ENSEMBLE_CHECK(ensemble,
                   json_integer_value(json_object_get(answer, "numChildren")) == crowd->count);
    json_decref(answer);
}

void crowd_stop(struct crowd *crowd)
{
    atomic_store(&crowd->stopping, true);
    thread_join(&crowd->thread);
    for (uint32_t i = 0; i < crowd->count; i++) {
        curl_slist_free_all(crowd->clients[i].headers);
        buf_release(&crowd->clients[i].line);
    }
}
