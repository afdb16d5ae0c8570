#include "tests/proc/load.h"

#include "base/mem.h"
#include "base/os_clock.h"

#include <poll.h>
#include <stdio.h>

enum {
    PAGE = 5000,
    PAUSE_MS = 2 /* After each write: a load that depends little on the speed of the machine. */
};

static void note_wrong(struct load_writer *writer, struct web_reply *reply)
{
    if (atomic_fetch_add(&writer->wrong, 1) == 0) {
        (void)snprintf(writer->wrong_text, sizeof(writer->wrong_text), "%ld %.200s", reply->status,
                       reply->why ? reply->why : web_text(reply));
    }
}

/* Retries the same znode when the write was not executed; every other answer but a 201 is wrong. */
static void take_patient_answer(struct load_writer *writer, struct web_reply *reply)
{
    if (reply->refused || reply->status == 503) {
        atomic_fetch_add(&writer->retries, 1);
        return;
    }
    if (reply->status != 201) {
        note_wrong(writer, reply);
    }
    atomic_fetch_add(&writer->next, 1);
}

/* True when the writer should stay with this replica. */
static bool write_one(struct load_writer *writer, struct web *web, struct web_reply *reply,
                      uint16_t port)
{
    char path[128];
    uint32_t number = atomic_load(&writer->next);
    enum load_kind kind = writer->load->kind;
    struct web_call call = {.method = "POST",
                            .port = port,
                            .path = path,
                            .body = "some data",
                            .fresh = kind == LOAD_PATIENT_FRESH};

    (void)snprintf(path, sizeof(path), "/znodes/v1/load?op=create&name=w%u-%u", writer->number,
                   number);
    web_do(web, &call, reply);
    if (kind == LOAD_IMPATIENT) {
        atomic_fetch_add(&writer->next, 1);
    } else {
        take_patient_answer(writer, reply);
    }
    if (reply->status == 201) {
        writer->acked[number] = 1;
        atomic_fetch_add(&writer->count, 1);
        return true;
    }
    if (kind != LOAD_IMPATIENT) {
        return false;
    }
    if (reply->status == 0 || reply->status == 504) {
        atomic_fetch_add(&writer->unknown, 1);
    } else if (reply->status != 503 && reply->status != 429) {
        note_wrong(writer, reply);
    }
    return false;
}

static void run(void *arg)
{
    struct load_writer *writer = arg;
    struct load *load = writer->load;
    struct web *web = web_open();
    struct web_reply reply;
    uint32_t at = writer->number % load->port_count;

    web_reply_init(&reply);
    while (!atomic_load(&load->stopping) && atomic_load(&writer->next) < LOAD_WRITES_MAX) {
        if (write_one(writer, web, &reply, load->ports[at])) {
            (void)poll(NULL, 0, atomic_load(&load->pause_ms));
        } else {
            at = (at + 1) % load->port_count;
            ensemble_breathe();
        }
    }
    web_reply_release(&reply);
    web_close(web);
}

void load_start(struct load *load, struct ensemble *ensemble, uint32_t writer_count)
{
    load_start_kind(load, ensemble, writer_count, LOAD_IMPATIENT);
}

void load_start_kind(struct load *load, struct ensemble *ensemble, uint32_t writer_count,
                     enum load_kind kind)
{
    if (load->writers[0].acked) { /* The writers of a test that has failed. */
        load_release(load);
    }
    memset(load, 0, sizeof(*load));
    load->kind = kind;
    load->pause_ms = PAUSE_MS;
    load->port_count = ensemble->count;
    load->writer_count = writer_count;
    for (uint32_t i = 0; i < ensemble->count; i++) {
        load->ports[i] = ensemble->replicas[i].client_port;
    }
    ensemble_call_until(ensemble, 0, "PUT", "/znodes/v1/load?upsert=true", "", 201);
    for (uint32_t i = 0; i < writer_count; i++) {
        struct load_writer *writer = &load->writers[i];

        writer->load = load;
        writer->number = i;
        writer->acked = mem_zalloc(LOAD_WRITES_MAX, 1);
        thread_start(&writer->thread, "load", run, writer);
    }
}

void load_pace(struct load *load, int pause_ms)
{
    atomic_store(&load->pause_ms, pause_ms);
}

uint32_t load_acked(const struct load *load)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < load->writer_count; i++) {
        sum += atomic_load(&load->writers[i].count);
    }
    return sum;
}

void load_wait(struct load *load, struct ensemble *ensemble, uint32_t count)
{
    uint32_t target = load_acked(load) + count;

    ENSEMBLE_WAIT(ensemble, load_acked(load) >= target);
}

static void join(struct load *load)
{
    atomic_store(&load->stopping, true);
    for (uint32_t i = 0; i < load->writer_count && !load->joined; i++) {
        thread_join(&load->writers[i].thread);
    }
    load->joined = true;
}

void load_stop(struct load *load, struct ensemble *ensemble)
{
    join(load);
    for (uint32_t i = 0; i < load->writer_count; i++) {
        struct load_writer *writer = &load->writers[i];

        if (atomic_load(&writer->wrong)) {
            ensemble_print_logs(ensemble);
            fail_msg("wrong answer to a write: %s", writer->wrong_text);
        }
    }
}

/* Removes the names of one page from `missing`; returns the last name, "" at the end. */
static void strike_page(struct ensemble *ensemble, uint8_t **missing, char *last, size_t last_size)
{
    json_t *page = web_json(&ensemble->reply);
    json_t *names = json_object_get(page, "children");
    size_t count = json_array_size(names);

    last[0] = '\0';
    assert_true(json_is_array(names));
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        unsigned writer = 0;
        unsigned number = 0;

        if (sscanf(name, "w%u-%u", &writer, &number) == 2 && writer < LOAD_WRITERS_MAX &&
            number < LOAD_WRITES_MAX && missing[writer]) {
            missing[writer][number] = 0;
        }
        (void)snprintf(last, last_size, "%s", name);
    }
    json_decref(page);
}

static void strike_all(struct ensemble *ensemble, uint32_t index, uint8_t **missing)
{
    char last[64] = "";
    char path[256];

    do {
        (void)snprintf(path, sizeof(path),
                       "/znodes/v1/load?view=children&limit=%d&consistency=linearizable%s%s", PAGE,
                       last[0] ? "&after=" : "", last);
        ensemble_call_until(ensemble, index, "GET", path, NULL, 200);
        strike_page(ensemble, missing, last, sizeof(last));
    } while (last[0]);
}

void load_verify(struct load *load, struct ensemble *ensemble, uint32_t index)
{
    uint8_t *missing[LOAD_WRITERS_MAX] = {NULL};
    uint32_t lost = 0;

    for (uint32_t i = 0; i < load->writer_count; i++) {
        missing[i] = mem_dup(load->writers[i].acked, LOAD_WRITES_MAX);
    }
    strike_all(ensemble, index, missing);
    for (uint32_t i = 0; i < load->writer_count; i++) {
        for (uint32_t number = 0; number < LOAD_WRITES_MAX; number++) {
            lost += missing[i][number];
        }
        mem_free(missing[i]);
    }
    if (lost) {
        ensemble_print_logs(ensemble);
        fail_msg("%u of %u acknowledged writes are missing on replica %u", lost, load_acked(load),
                 index + 1);
    }
}

void load_release(struct load *load)
{
    join(load); /* A failed test has not stopped them. */
    for (uint32_t i = 0; i < load->writer_count; i++) {
        mem_free(load->writers[i].acked);
        load->writers[i].acked = NULL;
    }
}
