/*
 * Answers probes on a thread of its own: on the socket of probeListen, and on connections over a
 * cap that the acceptor hands over. Each connection gets one answer and ends. Each of these two
 * kinds has its own seats. When all seats of a kind are taken, one connection of this kind is
 * evicted (seats.h), so that silent connections cannot block probes.
 */
#include "base/log.h"
#include "base/mailbox.h"
#include "base/os_files.h"
#include "http/http_int.h"

#include <errno.h>
#include <unistd.h>

enum {
    SEATS_MAX = 256, /* Seats of each kind. */
    ACCEPTS_PER_TURN = 16,
    HEAD_MS = 2000, /* Time for a head to arrive. */
    SEND_MS = 5000, /* Time for the client to take the answer. */
    TURN_MS = 250,
    ACCEPT_PAUSE_MS = 100, /* Pause of accepting when no descriptor is left. */
    ANSWER_MAX = 8 << 20
};

enum kind {
    KIND_OWN,   /* Accepted on probeListen. */
    KIND_GIVEN, /* Handed over by the acceptor. */
    KINDS
};

struct seat {
    struct loop_watch watch;
    struct seats_entry place;
    struct http_probe *probe;
    enum kind kind;
    bool is_proxy; /* The peer is one of trustedProxies. */
    uint64_t deadline_ms;
    struct buf in;  /* The bytes of the head that have arrived. */
    struct buf out; /* The unsent rest of the answer. */
};

struct http_probe {
    struct http *http;
    struct loop loop;
    struct loop_watch listen; /* `fd` -1: probeListen is not set. */
    uint64_t paused_ms;       /* When accepting resumes; 0: no pause. */
    struct mailbox given;     /* Seats that were handed over; closed: the thread stops. */
    struct loop_watch given_watch;
    struct seats seats[KINDS];
    struct thread thread;
};

/* ---- Answers ---- */

static bool is_path(struct slice target, const char *path)
{
    return slice_eq(slice_cut(&target, '?'), slice_str(path));
}

static bool is_health_path(struct slice target)
{
    return is_path(target, "/livez") || is_path(target, "/readyz");
}

static bool is_probe_path(struct slice target)
{
    return is_health_path(target) || is_path(target, "/metrics");
}

static bool reads(struct slice method)
{
    return slice_eq(method, slice_str("GET")) || slice_eq(method, slice_str("HEAD"));
}

bool http_probe_asks(const struct http_line *line)
{
    return reads(line->method) && is_probe_path(line->target);
}

static void write_body(struct http *http, const struct http_line *line,
                       const struct http_head *head, struct buf *out)
{
    static const enum http_media media[] = {HTTP_MEDIA_TEXT, HTTP_MEDIA_JSON, HTTP_MEDIA_NONE};
    struct slice query = slice_from(line->target, slice_find(line->target, '?'));
    struct http_probe_ask ask = {
        .live = is_path(line->target, "/livez"),
        .json = http_head_media(head->accept, media) == HTTP_MEDIA_JSON,
        .verbose = slice_starts_with(query, slice_str("?verbose")),
    };
    struct http_raw raw = {.status = MHD_HTTP_OK,
                           .content_type = "text/plain; charset=utf-8",
                           .headers = "Vary: Accept, Authorization, Origin\r\n",
                           .is_head = slice_eq(line->method, slice_str("HEAD"))};
    struct buf body;

    buf_init(&body, ANSWER_MAX);
    if (is_path(line->target, "/metrics")) {
        http_write_metrics(http, &body);
        raw.content_type = "text/plain; version=0.0.4; charset=utf-8";
    } else {
        raw.status =
            http_write_probe(http, &ask, &body) ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
        raw.content_type = ask.json ? "application/json" : raw.content_type;
    }
    raw.body = buf_slice(&body);
    http_raw_answer(http, out, &raw);
    buf_release(&body);
}

/* Whether the client port, with requireIdentity, answers this request. On probeListen /metrics
 * needs no identity, because the operator chooses which clients reach that address. */
static bool is_identified(const struct seat *seat, const struct http_line *line,
                          const struct http_head *head)
{
    const struct http *http = seat->probe->http;
    struct http_forwarded by;
    struct http_refusal refusal = http_forwarded_take(http->limits, seat->is_proxy, head, &by);
    struct auth *old = NULL;
    struct auth *auth = NULL;
    bool identified = !http->limits->require_identity || !is_path(line->target, "/metrics");

    if (!identified && refusal.err == ERR_OK && !by.is_present) {
        old = http_certificate(http->limits, seat->watch.fd);
    }
    if (!identified && head->authorization.data) {
        identified =
            auth_basic(old, head->authorization, http->limits->super_digest, &auth) == ERR_OK;
    } else {
        identified = identified || old;
    }
    auth_unref(old);
    auth_unref(auth);
    return identified;
}

/* Why this socket does not serve the path; NULL: it does. */
static const char *why_not_here(const struct seat *seat, struct slice target)
{
    if (!is_probe_path(target)) {
        return "this port serves /livez, /readyz and /metrics only";
    }
    return seat->kind == KIND_OWN && !seat->probe->http->limits->probe_metrics &&
                   !is_health_path(target)
               ? "probeListen is beyond loopback and has no TLS, so /metrics is there only with "
                 "insecure=true; ask the port for clients"
               : NULL;
}

static void write_answer(struct seat *seat, struct slice bytes)
{
    struct http *http = seat->probe->http;
    struct buf *out = &seat->out;
    struct http_refusal refusal = {.err = ERR_OK};
    struct http_line line;
    struct http_head head;
    struct http_forwarded_head forwarded = {.host = {.count = 0}};
    const char *fault = http_head_read(bytes, &line, &head, &forwarded);

    if (fault) {
        refusal = http_refusal_make(ERR_BAD_ARGUMENTS, fault);
    } else if (head.host.data && !http_host_allowed(&http->names, head.host)) {
        refusal = http_refusal_make(ERR_MISDIRECTED, "the Host is not in allowedHosts");
    } else if (why_not_here(seat, line.target)) {
        refusal = http_refusal_make(ERR_NOT_FOUND, why_not_here(seat, line.target));
    } else if (!reads(line.method)) {
        refusal = http_refusal_make(ERR_METHOD_NOT_ALLOWED, "probes accept only GET and HEAD");
    } else if (seat->kind == KIND_GIVEN && !is_identified(seat, &line, &head)) {
        refusal = http_refusal_make(ERR_NO_AUTH, http_identity_missing);
        refusal.status = MHD_HTTP_UNAUTHORIZED;
    }
    if (refusal.err != ERR_OK) {
        http_raw_problem(http, out, refusal);
    } else {
        write_body(http, &line, &head, out);
    }
}

/* ---- Seats ---- */

static void seat_free(struct seat *seat)
{
    struct http_probe *probe = seat->probe;

    loop_remove(&probe->loop, &seat->watch);
    seats_leave(&probe->seats[seat->kind], &seat->place);
    close(seat->watch.fd);
    buf_release(&seat->in);
    buf_release(&seat->out);
    mem_free(seat);
}

static void seat_send(struct seat *seat)
{
    ssize_t sent = loop_send(seat->watch.fd, seat->out.data, seat->out.len);

    if (sent < 0 && sent != -EAGAIN && sent != -EINTR) {
        seat_free(seat);
        return;
    }
    buf_consume(&seat->out, sent > 0 ? (size_t)sent : 0);
    if (seat->out.len == 0) {
        loop_shutdown_write(seat->watch.fd);
        seat->deadline_ms = os_now_ms() + HTTP_LINGER_MS;
    }
    loop_modify(&seat->probe->loop, &seat->watch, seat->out.len > 0 ? LOOP_WRITE : LOOP_READ);
}

static void seat_answer(struct seat *seat, struct http_refusal refusal, size_t head_len)
{
    struct http *http = seat->probe->http;

    if (refusal.err != ERR_OK) {
        http_raw_problem(http, &seat->out, refusal);
    } else {
        write_answer(seat, slice_make(seat->in.data, head_len));
    }
    seat->place.stage = SEATS_ANSWERED;
    seat->deadline_ms = os_now_ms() + SEND_MS;
    seat_send(seat);
}

static void seat_read(struct seat *seat)
{
    size_t max = seat->probe->http->limits->head_bytes_max;
    struct http_framing framing;
    uint8_t *to = buf_reserve(&seat->in, max + 1 - seat->in.len);
    ssize_t got = recv(seat->watch.fd, to, max + 1 - seat->in.len, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (got <= 0) {
        seat_free(seat);
        return;
    }
    seat->in.len += (size_t)got;
    seat->place.stage = SEATS_BEGUN;

    struct http_refusal refusal = http_head_check_framing(buf_slice(&seat->in), max, &framing);

    if (refusal.err != ERR_OK || framing.head_len > 0) {
        seat_answer(seat, refusal, framing.head_len);
    }
}

static void on_seat(struct loop_watch *watch, uint32_t ready)
{
    struct seat *seat = watch->ctx;

    if (seat->place.stage != SEATS_ANSWERED) {
        seat_read(seat);
    } else if (seat->out.len > 0) {
        seat_send(seat);
    } else if ((ready & LOOP_HANGUP) || !loop_swallow(watch->fd)) {
        seat_free(seat);
    }
}

/* Returns the maximum of seats of each kind: half as many as the acceptor has. */
static uint32_t seats_max(const struct http_probe *probe)
{
    return seats_limit(probe->http->limits->seats_max / 2, SEATS_MAX);
}

static void free_weakest(struct http_probe *probe, enum kind kind)
{
    seat_free(list_entry(seats_weakest(&probe->seats[kind]), struct seat, place));
}

static struct seat *seat_new(struct http_probe *probe, int fd, uint64_t address_key, enum kind kind)
{
    struct seat *seat = mem_zalloc(1, sizeof(*seat));

    seat->probe = probe;
    seat->kind = kind;
    seat->place.address_key = address_key;
    buf_init(&seat->in, (size_t)probe->http->limits->head_bytes_max + 1);
    buf_init(&seat->out, ANSWER_MAX + HTTP_KEEP_BYTES);
    seat->watch.fd = fd;
    return seat;
}

static void take_seat(struct http_probe *probe, struct seat *seat)
{
    if (probe->seats[seat->kind].count >= seats_max(probe)) {
        free_weakest(probe, seat->kind);
    }
    seat->deadline_ms = os_now_ms() + HEAD_MS;
    seats_take(&probe->seats[seat->kind], &seat->place, seat->place.address_key);
    loop_add_reader(&probe->loop, &seat->watch, seat->watch.fd, on_seat, seat);
    seat_read(seat);
}

static void end_late(struct http_probe *probe, enum kind kind, uint64_t now_ms)
{
    list_for_each_entry_safe (struct seat, seat, next, place.node, &probe->seats[kind].order) {
        if (now_ms < seat->deadline_ms) {
            continue;
        }
        if (seat->place.stage == SEATS_BEGUN) {
            seat_answer(seat,
                        http_refusal_late("the request head did not arrive within headTimeout"), 0);
        } else {
            seat_free(seat);
        }
    }
}

/* ---- The thread ---- */

static void on_listen(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct http_probe *probe = watch->ctx;
    struct sockaddr_storage address;

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = loop_accept(watch->fd, &address);

        if (fd >= 0) {
            uint64_t key = http_address_key((const struct sockaddr *)&address);

            take_seat(probe, seat_new(probe, fd, key, KIND_OWN));
        } else if (os_files_is_lack(-fd)) {
            /* The next connection gets the descriptor of the evicted one. */
            if (probe->seats[KIND_OWN].count > 0) {
                free_weakest(probe, KIND_OWN);
            } else {
                probe->paused_ms = os_now_ms() + ACCEPT_PAUSE_MS;
                loop_modify(&probe->loop, watch, 0); /* Otherwise the loop would spin. */
            }
            return;
        } else if (fd != -ECONNABORTED && fd != -EINTR) {
            return;
        }
    }
}

static void on_given(struct loop_watch *watch, uint32_t ready UNUSED)
{
    struct http_probe *probe = watch->ctx;
    struct list batch;

    (void)mailbox_drain(&probe->given, &batch);
    list_take_each (struct seat, seat, place.node, &batch) {
        take_seat(probe, seat);
    }
}

static void run(void *arg)
{
    struct http_probe *probe = arg;

    while (!mailbox_is_closed(&probe->given)) {
        loop_run_once(&probe->loop, TURN_MS);

        uint64_t now_ms = os_now_ms();

        if (probe->paused_ms != 0 && now_ms >= probe->paused_ms) {
            probe->paused_ms = 0;
            loop_modify(&probe->loop, &probe->listen, LOOP_READ);
        }
        for (enum kind kind = 0; kind < KINDS; kind++) {
            end_late(probe, kind, now_ms);
        }
    }
    on_given(&probe->given_watch, LOOP_READ);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        while (probe->seats[kind].count > 0) {
            free_weakest(probe, kind);
        }
    }
}

bool http_probe_give(struct http_probe *probe, int fd, uint64_t address_key, bool is_proxy)
{
    struct seat *seat = seat_new(probe, fd, address_key, KIND_GIVEN);

    seat->is_proxy = is_proxy;
    if (mailbox_post(&probe->given, &seat->place.node) == ERR_OK) {
        return true;
    }
    mem_free(seat);
    return false;
}

enum err http_probe_start(struct http *http, struct http_probe **ret_probe)
{
    const struct config_clients *limits = http->limits;
    bool own = limits->probe_address[0] != '\0';
    int listen_fd = -1;
    struct http_probe *probe = NULL;
    enum err err =
        own ? http_listen(limits->probe_address, limits->probe_port, HTTP_BACKLOG, &listen_fd)
            : ERR_OK;

    if (err != ERR_OK) {
        return err;
    }
    probe = mem_zalloc(1, sizeof(*probe));
    probe->http = http;
    loop_init(&probe->loop);
    for (enum kind kind = 0; kind < KINDS; kind++) {
        seats_init(&probe->seats[kind]);
    }
    mailbox_init(&probe->given, seats_max(probe));
    loop_add_reader(&probe->loop, &probe->given_watch, probe->given.event_fd, on_given, probe);
    probe->listen.fd = listen_fd;
    if (own) {
        loop_add_reader(&probe->loop, &probe->listen, listen_fd, on_listen, probe);
        log_info("http", "probes are also answered on http://{address}%s:{port}%u",
                 limits->probe_address, limits->probe_port);
    }
    thread_start(&probe->thread, "probes", run, probe);
    *ret_probe = probe;
    return ERR_OK;
}

void http_probe_stop(struct http_probe *probe)
{
    if (!probe) {
        return;
    }
    mailbox_close(&probe->given);
    thread_join(&probe->thread);
    if (probe->listen.fd >= 0) {
        close(probe->listen.fd);
    }
    for (enum kind kind = 0; kind < KINDS; kind++) {
        seats_release(&probe->seats[kind]);
    }
    loop_release(&probe->loop);
    mailbox_release(&probe->given);
    mem_free(probe);
}
