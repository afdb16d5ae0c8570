/* The body of a request: which forms are accepted, and decoding it to arguments. */
#include "http/http_int.h"

/* ---- Before the body ---- */

/* Returns the field that decides the form of the body: the field for data or, if there is none, the
 * first field of a JSON body. NULL: the operation has no field in the body. */
static const struct op_field *body_field(const struct op_def *def)
{
    const struct op_field *first = NULL;

    for (const struct op_field *field = def ? def->fields : NULL; field && field->name; field++) {
        if (field->source == OP_FROM_BODY && (!first || field->type == OP_FIELD_BYTES)) {
            first = field;
        }
    }
    return first;
}

/* True for a type that clients add by default. Such a type says nothing about the body: curl -d and
 * urllib call each body a form, fetch calls each string plain text. */
static bool is_default_type(struct slice type)
{
    return type.len == 0 || http_media_is(type, "application/x-www-form-urlencoded") ||
           http_media_is(type, "text/plain");
}

/* Accepts an unlimited number of lines, which are processed as they arrive. */
static void choose_lines(struct http_conn *conn)
{
    struct slice type = conn->request.head.content_type;

    conn->request.body.max = UINT64_MAX;
    if (type.len > 0 && !http_media_is(type, "application/x-ndjson") &&
        !http_media_is(type, "application/octet-stream")) {
        http_refuse(
            conn, ERR_UNSUPPORTED_MEDIA_TYPE,
            "the body must be application/x-ndjson, or have no Content-Type: with curl, use "
            "-T FILE -X POST, or --data-binary and -H 'Content-Type: application/x-ndjson'");
    }
}

/* Accepts JSON. Because JSON is the only form, the type may be missing. */
static void choose_json(struct http_conn *conn)
{
    struct slice type = conn->request.head.content_type;

    conn->request.body.json = true;
    if (!is_default_type(type) && !http_media_is(type, "application/json")) {
        http_refuse(conn, ERR_UNSUPPORTED_MEDIA_TYPE,
                    "the body must be JSON: send it as application/json, or without a "
                    "Content-Type");
    }
}

static void choose_form(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    const struct op_field *field = body_field(request->def);

    if (request->def && request->def->shape == OP_SHAPE_IMPORT) {
        choose_lines(conn);
    }
    if (!field) {
        return;
    }
    if (field->type == OP_FIELD_BYTES) {
        /* Data is stored byte for byte, whatever its type is. PUT accepts only data. POST also
         * accepts application/json: one object as in the list `ops` of a multi. */
        request->body.json = slice_eq(request->method, slice_str("POST")) &&
                             http_media_is(request->head.content_type, "application/json");
    } else {
        choose_json(conn);
    }
    request->body.max = request->body.json ? conn->http->limits->multi_bytes_max
                                           : conn->http->limits->data_bytes_max;
}

/* Refuses an encoded body. zabra decodes no encoding, so compressed data would be stored
 * compressed. */
static void check_encoding(struct http_conn *conn)
{
    struct slice list = conn->request.head.content_encoding;
    struct slice element;

    while (http_list_next(&list, &element)) {
        if (!slice_eq(element, slice_str("identity"))) {
            http_refuse(conn, ERR_UNSUPPORTED_MEDIA_TYPE,
                        "the body has the Content-Encoding %.*s; send it as it is, without one",
                        HTTP_QUOTE(element));
        }
    }
}

void http_check_body_len(struct http_conn *conn, uint64_t len)
{
    uint64_t max = conn->request.body.max;

    if (max == 0) {
        http_refuse(conn, ERR_BAD_ARGUMENTS, "this request takes no body");
    } else if (len != UINT64_MAX && len > max) {
        http_refuse(conn, ERR_TOO_LARGE, "the body is larger than %s, %llu bytes",
                    conn->request.body.json ? "maxMultiBytes" : "maxDataBytes",
                    (unsigned long long)max);
    }
}

void http_choose_body(struct http_conn *conn)
{
    uint64_t len = 0;

    choose_form(conn);
    if (http_head_body(&conn->request.head, &len)) {
        check_encoding(conn);
        http_check_body_len(conn, len);
    }
}

/* ---- After the body ---- */

/* Checks that the path in the body is a child of the znode in the URL. */
static void check_child(struct http_conn *conn, struct slice parent)
{
    struct slice path = conn->request.args.path;
    size_t prefix = parent.len == 1 ? 1 : parent.len + 1;
    bool below =
        path.len >= prefix && slice_starts_with(path, parent) && path.data[prefix - 1] == '/';

    if (!below || memchr(path.data + prefix, '/', path.len - prefix)) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the path in the body must be that of a child of the znode in the URL");
    }
}

/* Sets the path of the znode to create: its parent is in the URL, its name in a parameter or in the
 * body. */
static void place_created(struct http_conn *conn, struct slice parent)
{
    struct http_request *request = &conn->request;
    bool in_body = request->args.path.data != parent.data;

    if (in_body && request->body.name.data) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "both name and the path in the body name the new znode: give only one of them");
    } else if (in_body) {
        check_child(conn, parent);
    } else if (request->body.name.len == 0 && !request->args.sequence) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the new znode has no name: give name= in the URL, or path in a JSON body");
    } else {
        request->args.path = http_target_join(&conn->decoded, parent, request->body.name);
    }
}

static void parse_json(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct op_fault fault;

    enum err err = op_json_parse(request->def, buf_slice(&conn->body), &request->args,
                                 &conn->strings, &request->multi, &fault);

    if (err != ERR_OK && !request->refused) {
        request->refused = true;
        request->fault = fault;
    }
}

static void limit_page(struct http_conn *conn)
{
    struct op_args *args = &conn->request.args;
    uint32_t max = conn->http->limits->children_page_max;

    if (op_field_find(conn->request.def, slice_str("limit")) &&
        (args->limit == 0 || args->limit > max)) {
        args->limit = max;
    }
}

void http_decode_body(struct http_conn *conn)
{
    struct http_request *request = &conn->request;
    struct slice parent = request->args.path;
    uint32_t member = request->args.member;
    const char *why = NULL;

    if (request->refused || !request->def) {
        return;
    }

    const struct op_field *name = op_field_find(request->def, slice_str("name"));

    if (request->body.json) {
        parse_json(conn);
    } else if (request->body.max > 0) {
        request->args.data = buf_slice(&conn->body);
    }
    if (!request->refused && name && name->type == OP_FIELD_NAME) {
        place_created(conn, parent);
    } else if (request->body.json && request->args.path.data != parent.data) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the path in the body must be the same as the path in the URL");
    }
    if (request->member.data && request->args.member != member) {
        http_refuse(conn, ERR_BAD_ARGUMENTS,
                    "the id in the body must be the same as the id in the URL");
    }
    http_auth_apply_acl(conn);
    if (request->refused) {
        return;
    }
    limit_page(conn);

    enum err err = op_args_check(&request->args, &why);

    if (err != ERR_OK) {
        http_refuse(conn, err, "%s", why);
    }
}
