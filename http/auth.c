/*
 * Request authentication: credentials, the session of the request, its idempotency key, and the ACL
 * of the znode that it creates. In http/, only this file creates, reads and hashes the secret of a
 * session; only the client that opens the session receives the secret.
 */
#include "http/http_int.h"
#include "server/op/acl_list.h"

/* ---- Credentials ---- */

const char http_identity_missing[] =
    "this replica answers only clients with an identity (requireIdentity): send a user and a "
    "password in Authorization: Basic, or use a client certificate";

struct http_refusal http_take_credentials(const struct http *http, struct slice authorization,
                                          struct op_principal *principal, uint32_t *ret_wait_ms)
{
    *ret_wait_ms = 0;
    if (!authorization.data) {
        return (struct http_refusal){.err = ERR_OK};
    }

    struct auth *auth = NULL;
    uint32_t first = principal->auth ? principal->auth->count : 0;

    if (auth_basic(principal->auth, authorization, http->limits->super_digest, &auth) != ERR_OK) {
        gate_credentials_failed(http->gate, principal, GATE_FAILED_MALFORMED);
        return http_refusal_make(ERR_AUTH_FAILED,
                                 "Authorization must be Basic and the base64 of user:password");
    }
    auth_unref(principal->auth);
    principal->auth = auth;
    *ret_wait_ms = gate_credentials_wait(http->gate, principal, first);
    return http_refusal_make(*ret_wait_ms > 0 ? ERR_THROTTLED : ERR_OK, gate_credentials_slowed);
}

static void take_credentials(struct http_conn *conn)
{
    uint32_t wait_ms = 0;
    struct http_refusal refusal = http_take_credentials(
        conn->http, conn->request.head.authorization, &conn->principal, &wait_ms);

    if (refusal.err != ERR_OK) {
        http_refuse(conn, refusal.err, "%s", refusal.detail);
        conn->request.fault.retry_after_ms = wait_ms;
    }
}

bool http_identify(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    take_credentials(conn);
    if (!request->refused && !principal_has_identity(&conn->principal)) {
        http_refuse(conn, ERR_NO_AUTH, "%s", http_identity_missing);
        request->auth.is_anonymous = true;
    }
    return !request->refused;
}

/* ---- Sessions ---- */

/* Takes the secret of a session. A request may name its session several times, but not two
 * different sessions. */
static void take_secret(struct http_conn *conn, struct slice text)
{
    struct http_request *request = &conn->request;
    struct op_session *session = &request->auth.session;
    struct op_args named = {.secret = text};
    uint8_t hash[sizeof(session->hash)];

    if (!text.data) {
        return;
    }
    if (!op_is_uuid(text)) {
        http_refuse(conn, ERR_UNKNOWN_SESSION,
                    "the secret of the session is malformed: send the 36 characters of the id in "
                    "the answer that opened the session");
        return;
    }
    op_args_hash_secret(&named, hash);
    if (session->shown && memcmp(session->hash, hash, sizeof(hash)) != 0) {
        http_refuse(
            conn, ERR_BAD_ARGUMENTS,
            "the request names two different sessions in the URL, in session= or in Zk-Session: "
            "name only one");
        return;
    }
    session->shown = true;
    memcpy(session->hash, hash, sizeof(hash));
}

/* For an operation on a session, makes the hash of the session's secret an argument. */
static void put_session_argument(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct op_field *field =
        request->def ? op_field_find(request->def, slice_str("session")) : NULL;

    if (!field || field->type != OP_FIELD_SECRET) {
        return;
    }
    if (!request->auth.session.shown) {
        http_refuse(
            conn, ERR_BAD_ARGUMENTS,
            "the request names no session: give the id of the session in the URL or as Zk-Session");
    }
    request->args.secret_hash =
        slice_make(request->auth.session.hash, sizeof(request->auth.session.hash));
}

/* ---- Idempotency keys ---- */

/* Parses a key: a quoted string of structured fields (RFC 9651), whose quotes are no part of the
 * key, or bare bytes. */
static bool parse_key(struct slice text, struct slice *ret_key)
{
    bool quoted = text.len >= 2 && text.data[0] == '"' && text.data[text.len - 1] == '"';

    *ret_key = quoted ? slice_make(text.data + 1, text.len - 2) : text;
    for (size_t i = 0; i < ret_key->len; i++) {
        uint8_t byte = ret_key->data[i];
        bool escaped = i > 0 && ret_key->data[i - 1] == '\\';

        if (byte < ' ' || byte > '~' || (!quoted && byte == ' ') || (byte == '"' && !escaped)) {
            return false;
        }
    }
    return ret_key->len > 0 && ret_key->len <= TXN_KEY_MAX;
}

static void take_key(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice header = request->head.idempotency_key;

    if (!header.data || !request->def || request->def->kind != OP_KIND_WRITE) {
        return; /* A request that changes nothing may be repeated without a key. */
    }
    if (request->def->id == OP_SESSION) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "opening a session does not accept an Idempotency-Key: if the answer is lost, "
                    "open another session; the first one expires");
    } else if (!parse_key(header, &request->auth.key)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "Idempotency-Key must be 1 to %d visible characters, quoted or not",
                    (int)TXN_KEY_MAX);
    } else if (!request->auth.session.shown && !conn->principal.auth &&
               !op_is_uuid(request->auth.key)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "without a session or credentials an Idempotency-Key must be a UUID, so that "
                    "no other client has the same key");
    }
}

/* ---- ACLs ---- */

static bool parse_entries(struct slice list, struct buf *out)
{
    struct slice element;
    struct acl_entry entry;
    struct buf memory;
    bool good = true;

    buf_init(&memory, ACL_BYTES_MAX);
    while (good && acl_list_cut(&list, &element)) {
        good = acl_list_parse(element, &memory, &entry);
        if (good) {
            acl_put(out, &entry);
        }
    }
    buf_release(&memory);
    return good && out->len > 0 && !out->overflow && acl_is_sound(buf_slice(out));
}

/* Takes the ACL of Zk-Acl. Here it only has to be well-formed; the leader makes it canonical. */
static void take_acl(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice header = request->head.acl;
    bool creates = request->def && (request->def->id == OP_CREATE || request->def->id == OP_SET);

    if (!header.data) {
        return;
    }
    if (!creates) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "Zk-Acl is valid only for a request that creates a znode");
    } else if (!acl_standard(header, &request->auth.acl)) {
        if (!parse_entries(header, &conn->acl)) {
            http_refuse(conn, ERR_INVALID_ACL,
                        "Zk-Acl must be open, read, creator, or a list of scheme:id:perms; perms "
                        "are letters of cdrwa");
        }
        request->auth.acl = buf_slice(&conn->acl);
    }
}

void http_auth_apply_acl(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (!request->head.acl.data || request->refused) {
        return;
    }
    if (request->args.has_acl) {
        http_refuse(
            conn, ERR_BAD_ARGUMENTS,
            "the request has an ACL in Zk-Acl and another one in the body: give only one of them");
    }
    request->args.has_acl = true;
    request->args.acl = request->auth.acl;
}

void http_authenticate(struct http_conn *conn)
{
    struct http_request *request = &conn->request;

    if (request->route->kind != HTTP_ROUTE_OPS) {
        return; /* Probes and other fixed resources have no permissions to check. */
    }
    if (!conn->http->limits->require_identity) { /* Otherwise http_identify has taken them. */
        take_credentials(conn);
    }
    take_secret(conn, request->head.session);
    take_secret(conn, request->auth.session_param);
    take_secret(conn, request->auth.url_secret);
    put_session_argument(conn);
    take_key(conn);
    take_acl(conn);
    if (request->def && request->def->id == OP_SESSION) {
        /* The request opens a new session. It may also name an old one: that one is not checked. */
        op_secret_make(request->auth.secret);
        request->args.secret = slice_make(request->auth.secret, OP_SECRET_LEN);
        op_args_hash_secret(&request->args, request->auth.secret_hash);
    }
}
