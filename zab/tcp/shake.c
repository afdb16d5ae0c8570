#include "base/os_rng.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

#include <stdio.h>

static uint8_t *own_greeting(struct conn *conn)
{
    return conn->dialed ? conn->transcript.dialer : conn->transcript.acceptor;
}

static uint8_t *their_greeting(struct conn *conn)
{
    return conn->dialed ? conn->transcript.acceptor : conn->transcript.dialer;
}

/* Notes that `len` bytes were appended to the queue, and writes the queue at once. An error shows
 * up when the socket is read next. */
static void write_now(struct conn *conn, size_t len)
{
    conn->queued += len;
    (void)conn_write(conn);
}

static void send_greeting(struct conn *conn)
{
    ASSERT((conn->peer != 0 || conn->target) && conn->state == CONN_GREETING);

    struct greeting greeting = {
        .version = PROTOCOL_VERSION, .from = conn->tcp->options.id, .to = conn->peer};

    os_random(greeting.nonce, sizeof(greeting.nonce));
    greeting_encode(&greeting, own_greeting(conn));
    buf_append(conn_out(conn), own_greeting(conn), GREETING_LEN);
    write_now(conn, GREETING_LEN);
}

/* Returns the secret of the proofs. A certificate needs none: a replica may have certificates only,
 * and the proof still covers the connection. */
static struct slice secret_of(const struct conn *conn)
{
    return seal_kind(conn->seal) == KEYS_SEAL_CERTIFICATE ? slice_make(NULL, 0)
                                                          : keys_secret(conn->keys, conn->secret);
}

void shake_hello(struct conn *conn, const char *refusal, enum hello_reason reason)
{
    ASSERT(conn->state == CONN_HELLO || conn->state == CONN_CLAIM);

    const struct tcp *tcp = conn->tcp;
    struct hello hello = {.incarnation = tcp->options.incarnation,
                          .bootstrapping = tcp->options.bootstrapping,
                          .history = tcp->options.history,
                          .start = tcp->options.start,
                          .tls = (uint8_t)(tcp->options.tls + 1),
                          .level = tcp->options.level,
                          .ensemble_level = tcp->ensemble_level,
                          .reason = (uint8_t)reason};

    memcpy(hello.cluster, tcp->options.cluster, ZAB_CLUSTER_LEN);
    (void)snprintf(hello.advertise, sizeof(hello.advertise), "%s", tcp->advertise);
    (void)snprintf(hello.refusal, sizeof(hello.refusal), "%s", refusal);

    struct buf *out = conn_out(conn);
    size_t before = out->len;

    hello_encode(&hello, &conn->transcript, secret_of(conn), conn->dialed, out);
    write_now(conn, out->len - before);
}

/* ---- TLS. ---- */

/* Continues TLS; once it is done, the greetings follow. */
static enum err continue_tls(struct conn *conn)
{
    enum err err = conn_shake(conn);

    if (err == ERR_FORMAT && !conn->dialed) {
        const struct link *link = tcp_link(conn->tcp, seal_caller(conn->seal));

        conn->peer = link && !link->is_outsider ? link->peer.id : 0;
    }
    if (err) {
        return err;
    }
    conn->secret = seal_kind(conn->seal) == KEYS_SEAL_PSK ? seal_secret(conn->seal) : 0;
    conn->transcript.sealed = true;
    seal_channel(conn->seal, conn->transcript.channel);
    conn->state = CONN_GREETING;
    if (conn->dialed) {
        send_greeting(conn);
    }
    return ERR_OK;
}

enum err shake_seal(struct conn *conn)
{
    ASSERT(conn->state == CONN_SEALING);

    struct slice input = conn_input(conn);

    if (conn->seal) {
        return continue_tls(conn);
    }
    ASSERT(!conn->dialed && input.data && input.len > 0);
    if (input.data[0] != SEAL_FIRST_BYTE) {
        conn->state = CONN_GREETING;
        return ERR_OK;
    }
    if (conn->tcp->options.tls == KEYS_OFF) {
        (void)tcp_refuse(conn, "a replica connects with TLS, and this replica has peerTls=off: set "
                               "peerTls=accept here first");
        return ERR_BUSY;
    }

    if (!callers_admit(&conn->tcp->callers, &conn->caller,
                       tcp_knows_caller(conn->tcp, &conn->caller), os_now_ms())) {
        (void)tcp_refuse(conn, "too many handshakes come from one address, or from unknown ones: "
                               "limit which hosts reach the peer port");
        return ERR_BUSY;
    }

    enum err err = conn_seal(conn);

    return err ? err : continue_tls(conn);
}

enum err shake_begin(struct conn *conn)
{
    ASSERT(conn->state == CONN_CONNECTING);

    enum err err = ERR_OK;

    if (conn->tcp->options.tls < KEYS_DIAL) {
        conn->state = CONN_GREETING;
        send_greeting(conn);
        return ERR_OK;
    }
    conn->state = CONN_SEALING;
    err = conn_seal(conn);
    err = err ? err : conn_shake(conn);
    ASSERT(err); /* The dialer begins, so that TLS cannot be done before the peer has answered. */
    return err == ERR_BUSY ? ERR_OK : err;
}

/* ---- Greeting and HELLO. ---- */

bool shake_names(const struct conn *conn, const char *const hosts[2], char why[SEAL_WHY_MAX])
{
    const struct tcp *tcp = conn->tcp;
    bool is_known = !slice_is_zero(slice_make(tcp->options.cluster, ZAB_CLUSTER_LEN));
    char cluster[2 * ZAB_CLUSTER_LEN + 1];
    const char *const ensembles[2] = {tcp->ensemble, is_known ? cluster : ""};

    for (size_t i = 0; i < ZAB_CLUSTER_LEN; i++) {
        (void)snprintf(cluster + 2 * i, 3, "%02x", tcp->options.cluster[i]);
    }
    return !conn->seal || seal_is_of(conn->seal, conn->peer, hosts, ensembles, why);
}

/* Checks that the connection is sealed as peerTls demands, and that the certificate of the peer is
 * that of the replica that it says it is. Of a replica that is not in the list no host is known but
 * the one that was dialed. Returns false after a refusal. */
static bool check_seal(struct conn *conn)
{
    ASSERT(conn->peer != 0);

    struct tcp *tcp = conn->tcp;
    const struct link *link = tcp_link(tcp, conn->peer);
    const char *const dialed[2] = {conn->target ? conn->target->host : "", ""};
    char why[SEAL_WHY_MAX];

    if (!conn->seal) {
        return tcp->options.tls != KEYS_REQUIRED ||
               tcp_refuse(conn, "the peer connects without TLS, and this replica has "
                                "peerTls=required: set peerTls=dial or required on the peer");
    }
    return shake_names(conn, link && !link->is_outsider ? link->hosts : dialed, why) ||
           tcp_refuse(conn, "%s", why);
}

/* Takes the id of the replica that has answered at an address of tcp_set_join. Returns false if the
 * connection is not needed, or after a refusal. */
static bool meet(struct conn *conn, uint32_t from)
{
    struct tcp *tcp = conn->tcp;
    uint32_t own = tcp->options.id;
    struct link *link = tcp_link(tcp, from);

    if (from == own && !conn->is_own) {
        return tcp_refuse(conn,
                          "another process with the id of this replica answers there: give each "
                          "replica an id of its own (id=%u here)",
                          own);
    }
    met_note(tcp, &conn->dialed_at, from);
    conn->peer = from;

    struct conn *other = tcp_other_dialed(conn);

    if (other && other->state == CONN_CONNECTING) {
        (void)tcp_part(other); /* No one has answered there yet. */
        other = NULL;
    }
    if (from == own || other || (link && link->dialing)) {
        return tcp_part(conn);
    }
    if (link) {
        link->dialing = conn;
    }
    return true;
}

/* Checks the greeting of the replica that was dialed. */
static bool check_answer(struct conn *conn, const struct greeting *greeting)
{
    ASSERT(conn->dialed);

    const struct link *link = tcp_link(conn->tcp, greeting->from);

    if (greeting->from == 0 || greeting->from > ZAB_ID_MAX) {
        return tcp_refuse(conn, "the greeting of the peer is malformed");
    }
    if (conn->peer != 0 && greeting->from != conn->peer) {
        return tcp_refuse(conn,
                          "at the address of this peer replica %u answers: check the server list",
                          greeting->from);
    }
    if (conn->peer == 0 && !meet(conn, greeting->from)) {
        return false;
    }
    /* The peer may have called meanwhile. Then it is connected already. */
    return link && link_is_up(link) ? tcp_part(conn) : check_seal(conn);
}

/* Answers a caller with the id of this replica: most likely it is this very process, which has
 * dialed its own address without knowing that. */
static bool meet_self(struct conn *conn)
{
    struct tcp *tcp = conn->tcp;
    bool is_own = false;

    list_for_each_entry (struct conn, other, node, &tcp->shaking) {
        if (other->target && other->state == CONN_GREETING &&
            memcmp(other->transcript.dialer, conn->transcript.dialer, GREETING_LEN) == 0) {
            other->is_own = true;
            is_own = true;
        }
    }
    conn->peer = tcp->options.id;
    send_greeting(conn);
    conn->peer = 0;
    return is_own ? tcp_part(conn)
                  : tcp_refuse(conn,
                               "another process with the id of this replica (%u) connects: give "
                               "each replica an id of its own",
                               tcp->options.id);
}

/* Checks the greeting of a caller. One that is not in the list is spoken with, too, if it has asked
 * for any replica, or for this one; whether there is a place for it is decided once it has
 * proven itself. */
static bool check_caller(struct conn *conn, const struct greeting *greeting)
{
    ASSERT(!conn->dialed && conn->peer == 0);

    struct tcp *tcp = conn->tcp;
    uint32_t own = tcp->options.id;
    const struct link *link = tcp_link(tcp, greeting->from);
    bool is_listed = link && !link->is_outsider;
    bool may_call = is_listed ? greeting->from > own || greeting->to == 0
                              : tcp->options.outsiders_max > 0 &&
                                    greeting->version >= PROTOCOL_VERSION_OUTSIDERS;

    if (greeting->from == own && greeting->to == 0) {
        return meet_self(conn);
    }
    if (!may_call || greeting->from == own || greeting->from == 0 || greeting->from > ZAB_ID_MAX) {
        return tcp_refuse(
            conn,
            "replica %u connects, but is not in the server list as a replica with a higher id "
            "than this replica: check id and the server list",
            greeting->from);
    }
    conn->peer = greeting->from;
    return check_seal(conn);
}

/* Checks that the greeting is meant for this replica. Returns false after a refusal, or if the
 * connection is not needed. */
static bool check_greeting(struct conn *conn, const struct greeting *greeting)
{
    uint32_t own = conn->tcp->options.id;
    bool is_for_all = greeting->to == 0 && !conn->dialed;

    if (greeting->to != own && !is_for_all) {
        return tcp_refuse(
            conn,
            "the other replica expects replica %u, but has reached replica %u: check the server "
            "list",
            greeting->to, own);
    }
    return conn->dialed ? check_answer(conn, greeting) : check_caller(conn, greeting);
}

/* Checks that both replicas support the feature level of the ensemble that either of them knows.
 * Returns false after a refusal. */
static bool check_level(struct conn *conn)
{
    const struct tcp *tcp = conn->tcp;
    const struct hello *theirs = &conn->identity;

    if (theirs->level >= tcp->ensemble_level && tcp->options.level >= theirs->ensemble_level) {
        return true;
    }
    if (!conn->dialed) {
        shake_hello(conn, "", HELLO_DUPLICATE); /* The dialer finds the same reason in it. */
    }
    if (theirs->level < tcp->ensemble_level) {
        return tcp_refuse(conn,
                          "replica %u supports feature levels up to %u, and this ensemble uses "
                          "level %u: start replica %u with a later release",
                          conn->peer, theirs->level, tcp->ensemble_level, conn->peer);
    }
    return tcp_refuse(conn,
                      "this replica supports feature levels up to %u, and the ensemble of replica "
                      "%u uses level %u: start this replica with a later release",
                      tcp->options.level, conn->peer, theirs->ensemble_level);
}

/* Makes both sides use the older of their two versions. Returns false, after a refusal, when the
 * versions are too far apart. */
static bool agree_on_version(struct conn *conn, const struct greeting *greeting)
{
    uint32_t theirs = greeting->version;

    if (theirs < PROTOCOL_VERSION_OLDEST || theirs > PROTOCOL_VERSION + 1) {
        return tcp_refuse(
            conn,
            "the peer speaks version %u of the protocol, this replica versions %u and %u: their "
            "releases are too far apart; upgrade one release at a time",
            theirs, (unsigned)PROTOCOL_VERSION_OLDEST, (unsigned)PROTOCOL_VERSION);
    }
    conn->is_newer = theirs > PROTOCOL_VERSION;
    conn->version = (uint16_t)(conn->is_newer ? PROTOCOL_VERSION : theirs);
    return true;
}

/* Takes the greeting. Returns true when the handshake continues with the HELLO. */
static bool take_greeting(struct conn *conn)
{
    struct slice input = conn_input(conn);
    struct greeting greeting;

    if (input.len < GREETING_LEN) {
        return false;
    }
    ASSERT(input.data);
    memcpy(their_greeting(conn), input.data, GREETING_LEN);
    conn->in_used += GREETING_LEN;
    if (greeting_decode(their_greeting(conn), &greeting)) {
        return tcp_refuse(
            conn, conn->dialed
                      ? "the process that answers at the address of this peer is no zabra replica"
                      : "the process that has connected is no zabra replica");
    }
    if (!check_greeting(conn, &greeting)) {
        return false;
    }
    if (!conn->dialed) {
        send_greeting(conn); /* The greeting is sent even if the version is refused next: the peer
                                then knows why. */
    }
    if (!agree_on_version(conn, &greeting)) {
        return false;
    }
    conn->state = CONN_HELLO;
    if (conn->dialed) {
        conn->nonce = hello_connection_nonce(&conn->transcript, secret_of(conn));
        shake_hello(conn, "", HELLO_DUPLICATE);
        conn->claimed_ms = os_now_ms();
        /* The acceptor may first ask whether another process with this replica's id lives. */
        conn->deadline_ms = os_now_ms() + conn->tcp->options.connect_timeout_ms +
                            2ULL * conn->tcp->options.probe_ms;
    }
    return true;
}

static bool check_identity(struct conn *conn)
{
    struct slice own = slice_make(conn->tcp->options.cluster, ZAB_CLUSTER_LEN);
    struct slice theirs = slice_make(conn->identity.cluster, ZAB_CLUSTER_LEN);

    if (!slice_is_zero(own) && !slice_is_zero(theirs) && !slice_eq(own, theirs)) {
        return tcp_refuse(
            conn, "the peer belongs to another cluster: check the data directory of the peer");
    }
    /* After 'zabra recover' the survivor's data has a new history. Data of the old history may
     * contradict it. */
    if (conn->tcp->options.history != 0 && conn->identity.history != 0 &&
        conn->tcp->options.history != conn->identity.history) {
        return tcp_refuse(
            conn,
            "the data of the peer is of another history: after 'zabra recover' empty the data "
            "directory of each replica but the survivor");
    }
    return true;
}

/* Handles the peer's refusal: another process has this replica's id, or the peer has no place for
 * one more replica that is not in its list. Both replicas report it. */
static void refused_by_peer(struct conn *conn)
{
    ASSERT(conn->dialed && conn->state == CONN_HELLO);

    const struct tcp_handler *handler = &conn->tcp->handler;
    struct link *link = tcp_link(conn->tcp, conn->peer);
    uint32_t own = conn->tcp->options.id;
    bool is_duplicate = conn->identity.reason == HELLO_DUPLICATE;
    char why[TCP_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s", conn->identity.refusal);
    if (conn->target) {
        conn->target->backoff_ms = conn->tcp->options.retry_max_ms;
    }
    if (link) {
        link->backoff_ms = conn->tcp->options.retry_max_ms;
    }
    (void)tcp_refuse(conn, "%s", why);
    if (is_duplicate && handler->on_duplicate) {
        handler->on_duplicate(handler->ctx, own, why);
    }
}

/* Decodes the HELLO. A caller without TLS does not say which secret it uses, so the acceptor tries
 * all. */
static enum err decode_hello(struct conn *conn, size_t *ret_len)
{
    bool any = !conn->dialed && !conn->seal;
    uint32_t end = any ? keys_secret_count(conn->keys) : conn->secret + 1;
    enum err err = ERR_AUTH_FAILED;

    for (uint32_t i = conn->secret; i < end && err == ERR_AUTH_FAILED; i++) {
        conn->secret = i;
        err = hello_decode(conn_input(conn), &conn->transcript, secret_of(conn), !conn->dialed,
                           &conn->identity, ret_len);
    }
    conn->secret = any && (err || *ret_len == 0) ? 0 : conn->secret;
    return err;
}

/* Takes the HELLO. Returns true when the peer has proven itself. */
static bool take_hello(struct conn *conn)
{
    ASSERT(conn->peer != 0 && conn->peer != conn->tcp->options.id);

    size_t len = 0;
    enum err err = decode_hello(conn, &len);

    if (err == ERR_AUTH_FAILED) {
        return tcp_refuse(conn,
                          "the secret of the peer differs: check peerSecretFile on both replicas");
    }
    if (err) {
        return tcp_refuse(conn, "the handshake of the peer is malformed");
    }
    if (len == 0) {
        return false;
    }
    conn->in_used += len;
    conn->nonce = hello_connection_nonce(&conn->transcript, secret_of(conn));
    if (conn->dialed && conn->identity.refusal[0]) {
        refused_by_peer(conn);
        return false;
    }
    return check_identity(conn) && check_level(conn);
}

bool shake_input(struct conn *conn)
{
    ASSERT(conn->state == CONN_GREETING || conn->state == CONN_HELLO);

    if (conn->state == CONN_GREETING && !take_greeting(conn)) {
        return false;
    }
    return conn->state == CONN_HELLO && take_hello(conn);
}
