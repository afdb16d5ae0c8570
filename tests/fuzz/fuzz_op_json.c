/*
 * Bodies of requests, messages and ACLs in JSON, and data shown in JSON. The first byte chooses:
 * the number of an operation whose body it is, a message, an ACL, or a format for data. What is
 * accepted fits the form between replicas; the output is JSON.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/json/op_json.h"
#include "server/op/acl.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>

enum {
    BODY_MAX = 64 * 1024,
    OUT_MAX = 1 << 20,
    SHOW = 0x80,    /* Data in the format of the low bits. */
    MESSAGE = 0x40, /* Otherwise. */
    ACL = 0x20      /* Otherwise. */
};

static void check_is_json(const struct buf *out)
{
    json_t *value = json_loadb((const char *)out->data, out->len,
                               JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);

    ASSERT(!out->overflow && value && utf8_valid(buf_slice(out)));
    json_decref(value);
}

static void check_fault(const struct op_fault *fault, enum err err, bool message)
{
    struct op_message_id id = {.known = fault->has_index, .number = fault->index};
    struct op_problem problem = op_problem_make(OP_KIND_WRITE, fault->err);
    struct jsonw json;
    struct buf out;

    ASSERT(err != ERR_OK && fault->err == err);
    ASSERT(fault->detail[0] != '\0' && memchr(fault->detail, 0, OP_DETAIL_MAX));
    problem.detail = fault->detail;
    problem.message = message;
    buf_init(&out, OUT_MAX);
    jsonw_init(&json, &out);
    if (message) {
        op_json_reply_error(&json, &id, &problem);
    } else {
        op_json_problem(&json, &problem);
    }
    check_is_json(&out);
    buf_release(&out);
}

/* Data may be a piece of the body. */
static void check_data(const struct op_args *args, struct slice body)
{
    if (args->data.len > 0 && args->data.data >= body.data &&
        args->data.data < body.data + body.len) {
        ASSERT(args->data.data + args->data.len <= body.data + body.len);
    }
    ASSERT(args->path.len <= body.len && args->data.len <= body.len);
}

static json_t *load(struct slice text, size_t more_flags)
{
    return json_loadb((const char *)text.data, text.len,
                      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | more_flags, NULL);
}

static bool is_string(const json_t *value, struct slice text)
{
    return slice_eq(slice_make(json_string_value(value), json_string_length(value)), text);
}

static void check_meant(const json_t *object, const struct op_args *args)
{
    const json_t *base64 = json_object_get(object, "data64");
    const json_t *text = json_object_get(object, "dataUtf8");
    json_t *raw = json_object_get(object, "dataJson");
    struct buf bytes;

    buf_init(&bytes, BODY_MAX);
    if (base64) {
        const char *letters = json_string_value(base64);
        bool sound =
            letters && base64_decode(&bytes, slice_make(letters, json_string_length(base64))) == 0;

        ASSERT(sound && slice_eq(args->data, buf_slice(&bytes)));
    } else if (text) {
        ASSERT(is_string(text, args->data));
    } else if (raw) {
        json_t *value = load(args->data, JSON_DECODE_ANY);

        ASSERT(json_equal(value, raw));
        json_decref(value);
    }
    buf_release(&bytes);
}

static bool has_data(const struct op_args *args)
{
    return args->op == OP_SET || args->op == OP_CREATE;
}

/* Long strings bypass the parser: the data equals what the parser gives for the whole text. */
static void check_all_meant(const struct op_args *args, struct slice body)
{
    json_t *root = load(body, 0);
    const json_t *list = json_object_get(root, "ops");

    ASSERT(root);
    if (has_data(args)) {
        check_meant(root, args);
    }
    for (uint32_t i = 0; i < args->op_count; i++) {
        if (has_data(&args->ops[i])) {
            check_meant(json_array_get(list, i), &args->ops[i]);
        }
    }
    json_decref(root);
}

static bool begins_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The detail of another fault may begin with a name from the client. */
static bool is_about_form(const struct op_fault *fault)
{
    const char *place = strrchr(fault->detail, '(');

    return !fault->has_index && place && begins_with(place, "(line ") &&
           (begins_with(fault->detail, "the body is not valid JSON: ") ||
            begins_with(fault->detail, "the message is not valid JSON: "));
}

/* A text that it refuses as invalid JSON is invalid. */
static void check_refused(const struct op_fault *fault, struct slice body)
{
    if (is_about_form(fault)) {
        json_t *root = load(body, 0);

        ASSERT(!root);
        json_decref(root);
    }
}

static void check_forwarded(struct op_args *args)
{
    uint8_t hash[TXN_SECRET_HASH_LEN];
    struct op_args back;
    struct op_args *multi = NULL;
    struct buf first;
    struct buf second;

    buf_init(&first, OUT_MAX);
    buf_init(&second, OUT_MAX);
    op_args_hash_secret(args, hash);
    op_args_encode(args, &first);

    enum err err = op_args_decode(buf_slice(&first), &back, &multi);

    ASSERT(err == ERR_OK);
    op_args_encode(&back, &second);
    ASSERT(!first.overflow && slice_eq(buf_slice(&first), buf_slice(&second)));
    mem_free(multi);
    buf_release(&first);
    buf_release(&second);
}

static bool try_body(const struct op_def *def, struct slice body)
{
    struct op_args args;
    struct op_args *multi = NULL;
    struct op_fault fault;
    struct buf memory;
    const char *why = NULL;

    op_args_init(&args, def->id);
    buf_init(&memory, BODY_MAX);

    enum err err = op_json_parse(def, body, &args, &memory, &multi, &fault);

    if (err != ERR_OK) {
        ASSERT(!multi);
        check_fault(&fault, err, false);
        check_refused(&fault, body);
    } else {
        check_all_meant(&args, body);
        ASSERT(args.ops == multi && args.op_count <= OPS_MULTI_MAX && op_json_valid(body));
        check_data(&args, body);
        for (uint32_t i = 0; i < args.op_count; i++) {
            check_data(&args.ops[i], body);
        }
        if (op_args_check(&args, &why) == ERR_OK) {
            check_forwarded(&args);
        } else {
            ASSERT(!multi && why);
        }
    }
    mem_free(multi);
    buf_release(&memory);
    return err == ERR_OK;
}

static bool is_within(struct slice part, const struct buf *memory)
{
    return part.len == 0 ||
           (part.data >= memory->data && part.data + part.len <= memory->data + memory->len);
}

/* Nothing refers to the message any more. */
static void check_kept(const struct op_args *args, const struct buf *memory)
{
    struct slice unused;

    ASSERT(is_within(args->path, memory) && is_within(args->data, memory));
    ASSERT(is_within(args->after, memory) && is_within(args->secret, memory));
    ASSERT(is_within(args->scheme, memory) && is_within(args->credential, memory));
    ASSERT(is_within(args->acl, memory) || args->acl.data == NULL ||
           (acl_standard(slice_str("open"), &unused) && args->acl.len <= unused.len));
    ASSERT(acl_is_sound(args->acl));
}

static bool try_message(struct slice text)
{
    struct op_request *request = op_request_new();
    struct op_message_id id;
    struct op_fault fault;
    enum err err = op_json_parse_message(text, request, &id, &fault);

    if (err != ERR_OK) {
        ASSERT(!request->multi);
        check_fault(&fault, err, true);
        check_refused(&fault, text);
    } else {
        check_all_meant(&request->args, text);
        ASSERT(id.known && id.number <= OP_JSON_NUMBER_MAX);
        ASSERT(request->def && !op_is_internal(request->def->id));
        ASSERT(request->args.ops == request->multi && request->memory.len <= text.len);
        ASSERT(is_within(request->key, &request->memory));
        check_kept(&request->args, &request->memory);
        for (uint32_t i = 0; i < request->args.op_count; i++) {
            check_kept(&request->args.ops[i], &request->memory);
        }
        check_forwarded(&request->args);
    }
    op_request_free(request);
    return err == ERR_OK;
}

/* The text as the ACL of a message. */
static enum err read_acl(struct slice text, struct op_request *request, struct op_fault *ret_fault)
{
    struct op_message_id id;
    struct buf message;

    buf_init(&message, (size_t)2 * OUT_MAX);
    buf_append_str(&message, "{\"id\":1,\"op\":\"setacl\",\"path\":\"/a\",\"acl\":");
    buf_append_slice(&message, text);
    buf_append_byte(&message, '}');
    ASSERT(!message.overflow);
    enum err err = op_json_parse_message(buf_slice(&message), request, &id, ret_fault);

    buf_release(&message);
    return err;
}

/* What is read is written, and reads as the same again. */
static bool try_acl(struct slice text)
{
    struct op_request *request = op_request_new();
    struct op_request *second = op_request_new();
    struct op_fault fault;
    enum err err = read_acl(text, request, &fault);

    if (err != ERR_OK) {
        check_fault(&fault, err, true);
    } else {
        struct slice acl = request->args.acl;
        struct jsonw json;
        struct buf out;

        ASSERT(acl.len > 0 && acl_is_sound(acl));
        buf_init(&out, OUT_MAX);
        jsonw_init(&json, &out);
        op_json_acl(&json, acl);
        check_is_json(&out);
        ASSERT(read_acl(buf_slice(&out), second, &fault) == ERR_OK);
        ASSERT(slice_eq(acl, second->args.acl));
        buf_release(&out);
    }
    op_request_free(second);
    op_request_free(request);
    return err == ERR_OK;
}

static bool try_show(enum op_dataformat format, struct slice data)
{
    struct op_args args;
    struct op_result result;
    struct op_json_style style = {.uri = slice_str("/znodes/v1/a")};
    struct jsonw json;
    struct buf out;

    op_args_init(&args, OP_GET);
    op_result_init(&result);
    args.path = slice_str("/a");
    args.dataformat = format;
    result.path = args.path;
    result.has_stat = true;
    result.data = blob_new(data);
    buf_init(&out, OUT_MAX);
    jsonw_init(&json, &out);

    enum err err = op_json_result(&json, &args, &result, &style);

    ASSERT(err == ERR_OK || (err == ERR_NOT_ACCEPTABLE && format != OP_BASE64));
    ASSERT(err == ERR_OK || format != OP_UTF8 || !utf8_valid(data));
    ASSERT(err == ERR_OK || format != OP_JSON || !op_json_valid(data));
    if (err == ERR_OK) {
        check_is_json(&out);
    }
    op_result_release(&result);
    buf_release(&out);
    return err == ERR_OK;
}

static bool fuzz_one(struct slice input)
{
    struct wire_reader reader;

    wire_reader_init(&reader, input);

    uint8_t choice = wire_get_u8(&reader);
    struct slice text = fuzz_rest(&reader);

    if (choice & SHOW) {
        return try_show((enum op_dataformat)(choice % (OP_NONE + 1)), text);
    }

    if (choice & MESSAGE) {
        return try_message(text);
    }
    if (choice & ACL) {
        return try_acl(text);
    }
    return try_body(ops_by_id((enum op_id)(1 + choice % OP_IMPORT)), text);
}

static void seed_body(struct fuzz_sink *sink, const char *name, uint8_t choice, const char *text)
{
    struct buf bytes;

    buf_init(&bytes, FUZZ_INPUT_MAX);
    wire_put_u8(&bytes, choice);
    wire_put_raw(&bytes, slice_str(text));
    fuzz_seed(sink, name, buf_slice(&bytes));
    buf_release(&bytes);
}

/* One of each kind of members. */
static void seed_messages(struct fuzz_sink *sink)
{
    seed_body(sink, "message-set", MESSAGE,
              "{\"id\":3,\"op\":\"set\",\"path\":\"/svc/a\",\"dataUtf8\":\"y\",\"version\":3,"
              "\"key\":\"5b\",\"min_zxid\":\"0x500000012\"}");
    seed_body(sink, "message-watch", MESSAGE,
              "{\"id\":2,\"op\":\"watch\",\"path\":\"/svc\",\"kind\":\"recursive\","
              "\"since\":\"7f:500000001\",\"values\":true}");
    seed_body(sink, "message-get", MESSAGE,
              "{\"op\":\"get\",\"path\":\"/a\",\"watch\":true,\"id\":9007199254740992,"
              "\"consistency\":\"linearizable\",\"unknown\":{\"dataJson\":[1]}}");
    seed_body(sink, "message-attach", MESSAGE,
              "{\"id\":1,\"op\":\"attach\",\"session\":\"0189abcd-1234-4abc-89ab-0123456789ab\"}");
    seed_body(sink, "message-auth", MESSAGE,
              "{\"id\":1,\"op\":\"auth\",\"scheme\":\"digest\",\"credential\":\"me:pw\"}");
    seed_body(sink, "message-multi", MESSAGE,
              "{\"id\":1,\"op\":\"multi\",\"dataJson\":0,\"ops\":[{\"op\":\"create\","
              "\"path\":\"/e\",\"ephemeral\":true,\"acl\":[{\"perms\":[\"all\"],\"scheme\":"
              "\"auth\"}],\"dataJson\":{}},{\"op\":\"delete\",\"path\":\"/f\",\"dataJson\":1}]}");
    seed_body(sink, "message-long", MESSAGE,
              "{\"id\":1,\"op\":\"multi\",\"ops\":[{\"op\":\"set\",\"path\":\"/e\","
              "\"dataUtf8\":\"a string of so many characters that the parser does not see it\"},"
              "{\"op\":\"create\",\"path\":\"/f\",\"data\\u0036\\u0034\":"
              "\"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3\"}]}");
    seed_body(sink, "acl", ACL,
              "[{\"perms\":[\"read\",\"admin\"],\"scheme\":\"digest\",\"id\":\"me:h\\u00e9\"},"
              "{\"perms\":[\"write\"],\"scheme\":\"ip\",\"id\":\"10.0.0.0/8\"}]");
    seed_body(sink, "acl-name", ACL, "\"creator\"");
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    static const char multi[] =
        "{\"ops\":[{\"op\":\"create\",\"path\":\"/a\",\"data64\":\"Zm9v\",\"ttl\":5},"
        "{\"op\":\"create\",\"path\":\"/q/\",\"sequence\":true,\"dataJson\": {\"k\":[1.50,null]} },"
        "{\"op\":\"set\",\"path\":\"/a\",\"dataUtf8\":\"z\\u00fc\\ud83c\\udf40\",\"version\":-1},"
        "{\"op\":\"delete\",\"path\":\"/b\",\"recursive\":true,\"max\":3},"
        "{\"op\":\"check\",\"path\":\"/c\",\"version\":2}]}";

    seed_body(sink, "multi", OP_MULTI - 1, multi);
    seed_body(sink, "multi-long", OP_MULTI - 1,
              "{\"ops\":[{\"op\":\"set\",\"path\":\"/e\",\"dataUtf8\":"
              "\"a string of so many characters that the parser does not see it: z\xc3\xbc\"},"
              "{\"op\":\"create\",\"path\":\"/f\",\"dat\\u0061Utf8\":"
              "\"another one, which the parser has to see because of its end: }],{[\\n\"}]}");
    seed_body(sink, "create-long", OP_CREATE - 1,
              "{\"path\":\"/a/b\",\"data64\":"
              "\"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3\"}");
    seed_body(sink, "multi-reads", OP_MULTI - 1,
              "{\"ops\":[{\"op\":\"get\",\"path\":\"/a\",\"dataformat\":\"auto\"},"
              "{\"op\":\"children\",\"path\":\"/\",\"limit\":5,\"after\":\"x\",\"with\":\"stat\"},"
              "{\"op\":\"exists\",\"path\":\"/b\"}]}");
    seed_body(sink, "create", OP_CREATE - 1,
              "{\"op\":\"create\",\"path\":\"/a/b\",\"null\":true,\"container\":true}");
    seed_body(sink, "set", OP_SET - 1,
              "{\"path\":\"/a\",\"dataJson\":[{\"deep\":{\"er\":\"\\\"}\"}},-1e5,true],"
              "\"upsert\":true,\"parents\":true}");
    seed_body(sink, "setacl", OP_SETACL - 1, "{\"acl\":\"read\",\"aversion\":2}");
    seed_messages(sink);
    seed_body(sink, "show-base64", SHOW + OP_BASE64 + 2, "any bytes");
    seed_body(sink, "show-utf8", SHOW + OP_UTF8 + 2, "z\xc3\xbc \x01\"\\");
    seed_body(sink, "show-auto", SHOW + OP_AUTO + 2, "not utf-8: \xff");
    seed_body(sink, "show-json", SHOW + OP_JSON + 2, " {\"a\":[1,2.50,{}]} ");
    seed_body(sink, "show-none", SHOW + OP_NONE + 2, "unseen");
}

FUZZ_TARGET(op_json)
