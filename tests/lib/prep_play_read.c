/* Requests out of bytes. Paths are few, so that requests interfere. */
#include "tests/lib/prep_play_int.h"
#include "tests/lib/state_kit.h"

#include <stdio.h>
#include <string.h>

enum {
    PATHS_PER_DEPTH = 84
};

static const char *next_path(struct play_request *request, const char *path)
{
    char *to = request->paths[request->path_count++];

    (void)snprintf(to, MODEL_PATH_MAX, "%s", path);
    return to;
}

static void append_name(char path[MODEL_PATH_MAX], const char *name)
{
    size_t len = strlen(path);

    (void)snprintf(path + len, MODEL_PATH_MAX - len, "/%s", name);
}

static const char *read_path(struct wire_reader *reader, struct play_request *request)
{
    static const char *const names[] = {"a", "b", "b-", "q0000000000", "q0000000001"};
    static const char *const builtin[] = {"/", "/zookeeper", STATE_CONFIG_PATH,
                                          "/zookeeper/config/x"};
    char path[MODEL_PATH_MAX] = "";
    uint8_t choice = wire_get_u8(reader);
    int depth = choice / PATHS_PER_DEPTH;
    int rest = choice % PATHS_PER_DEPTH;

    if (choice >= 3 * PATHS_PER_DEPTH) {
        return next_path(request, builtin[choice & 3U]);
    }
    for (int i = 0; i <= depth; i++) {
        append_name(path, names[rest % 5]);
        rest /= 5;
    }
    return next_path(request, path);
}

static void read_list(struct prep_play *play, struct wire_reader *reader, struct op_args *args,
                      enum model_list *ret_list)
{
    *ret_list = (enum model_list)(wire_get_u8(reader) % (MODEL_EMPTY + 1));
    args->has_acl = true;
    args->acl = buf_slice(&play->lists[*ret_list]);
}

static void read_create(struct prep_play *play, struct wire_reader *reader,
                        struct play_request *request, struct op_args *args)
{
    uint8_t flags = wire_get_u8(reader);
    char *path = request->paths[request->path_count - 1];
    char *name = strrchr(path, '/') + 1;

    args->op = OP_CREATE;
    args->parents = (flags & 1U) != 0;
    args->container = (flags & 0x8eU) == 0x82;
    args->ephemeral = (flags & 4U) != 0;
    args->ttl_ms = (flags & 0x36U) == 0x32 ? (int64_t)wire_get_u8(reader) - 1 : 0;
    if ((flags & 0x40U) != 0) {
        (void)snprintf(name, 2, "%s", (flags & 0x20U) != 0 ? "q" : "");
        args->path = slice_str(path);
        args->sequence = (flags & 8U) == 0;
    }
    if ((flags & 0x80U) != 0) {
        read_list(play, reader, args, &request->lists[request->path_count - 1]);
    }
}

static void read_conditions(struct prep_play *play, struct wire_reader *reader,
                            struct play_request *request, struct op_args *args)
{
    uint8_t flags = wire_get_u8(reader);
    const struct model_node *node =
        model_find(&play->model, request->paths[request->path_count - 1]);

    if ((flags & 1U) != 0) {
        args->has_version = true;
        args->version = (int32_t)(flags >> 4 & 3U) - 1;
    }
    if (args->op != OP_CHECK && (flags & 6U) == 6) {
        args->has_etag = true;
        args->etag_czxid = node != NULL ? node->stat.czxid + (flags >> 6 & 1U) : 3;
        args->etag_version = node != NULL ? node->stat.version : 0;
    }
    args->must_exist = args->op != OP_CHECK && (flags & 8U) != 0;
}

static void read_data(struct wire_reader *reader, uint8_t kind, struct op_args *args)
{
    static const char data[] = "0123456789abcdefghij";

    args->data_null = (kind & 0xc0U) == 0xc0;
    args->data = slice_make(data, args->data_null ? 0 : wire_get_u8(reader) % PLAY_DATA_MAX);
}

/* A create, set, delete or check: what a multi may contain. */
static void read_op(struct prep_play *play, struct wire_reader *reader,
                    struct play_request *request, struct op_args *args)
{
    uint8_t kind = wire_get_u8(reader);

    *args = (struct op_args){.op = OP_CHECK};
    args->path = slice_str(read_path(reader, request));
    switch (kind & 7U) {
    case 0:
    case 1:
    case 2:
    case 3:
        read_create(play, reader, request, args);
        break;
    case 4:
        args->op = OP_SET;
        args->upsert = (kind & 8U) != 0;
        args->must_be_new = (kind & 0x30U) == 0x30;
        args->parents = (kind & 0x40U) != 0;
        args->ephemeral = (kind & 0x88U) == 0x88;
        if ((kind & 0x18U) == 0x18) {
            read_list(play, reader, args, &request->lists[request->path_count - 1]);
        }
        break;
    case 5:
    case 6:
        args->op = OP_DELETE;
        args->recursive = (kind & 0x18U) == 0x18;
        args->max = kind >> 5;
        break;
    default:
        break;
    }
    if (args->op != OP_CREATE) {
        read_conditions(play, reader, request, args);
    }
    if (args->op == OP_CREATE || args->op == OP_SET) {
        read_data(reader, kind, args);
    }
}

static void read_session_op(struct prep_play *play, struct wire_reader *reader,
                            struct play_request *request)
{
    static const enum op_id ops[] = {OP_SESSION, OP_OPEN, OP_ATTACH, OP_CLOSE};

    uint8_t kind = wire_get_u8(reader);

    request->named = 1 + (kind >> 2) % PLAY_SECRETS;
    request->args = (struct op_args){.op = ops[kind & 3U]};
    kit_hash(request->named, request->hash);
    request->args.secret_hash = slice_make(request->hash, TXN_SECRET_HASH_LEN);
    if (request->args.op == OP_SESSION || request->args.op == OP_OPEN) {
        request->args.timeout_ms = (uint32_t)(kind >> 4) * 1000;
    } else if (request->args.op == OP_CLOSE && (kind & 0xc0U) == 0xc0) {
        const struct model_session *session = model_session_by_secret(&play->model, request->named);

        request->args =
            (struct op_args){.op = OP_EXPIRE, .session = session != NULL ? session->id : 1};
    }
}

static void read_quota(struct wire_reader *reader, struct play_request *request)
{
    static const char *const tops[] = {"/a", "/a/b", "/b-", "/b"};
    static const char *const texts[] = {"countHardLimit=3", "countHardLimit=6", "byteHardLimit=15",
                                        "countHardLimit"};
    uint8_t kind = wire_get_u8(reader);
    char path[MODEL_PATH_MAX];

    (void)snprintf(path, sizeof(path), "%s%s/%s", STATE_QUOTA_PATH, tops[kind & 3U],
                   STATE_LIMITS_NAME);
    request->args = (struct op_args){.op = OP_SET, .upsert = true, .parents = true};
    request->args.path = slice_str(next_path(request, path));
    request->args.data = slice_str(texts[kind >> 2 & 3U]);
    if ((kind & 0x30U) == 0x30) {
        request->args.op = OP_DELETE;
    }
    /* Otherwise a quota would stay that only few callers may change, and block most requests. */
    request->by_operator = (kind & 0xc0U) != 0;
}

static void read_set_acl(struct prep_play *play, struct wire_reader *reader,
                         struct play_request *request)
{
    uint8_t flags = wire_get_u8(reader);

    request->args = (struct op_args){.op = OP_SETACL};
    request->args.path = slice_str(read_path(reader, request));
    request->args.has_aversion = (flags & 1U) != 0;
    request->args.aversion = (int32_t)(flags >> 1 & 3U) - 1;
    if ((flags & 0x18U) == 0x18) {
        const struct model_node *node = model_find(&play->model, request->paths[0]);

        request->args.has_etag = true;
        request->args.etag_czxid = node != NULL ? node->stat.czxid + (flags >> 6 & 1U) : 3;
        request->args.etag_version = node != NULL ? node->stat.aversion : 0;
    }
    request->args.must_exist = (flags & 0xa0U) == 0xa0;
    read_list(play, reader, &request->args, &request->lists[0]);
}

static void read_multi(struct prep_play *play, struct wire_reader *reader,
                       struct play_request *request, uint32_t count)
{
    request->args = (struct op_args){.op = OP_MULTI, .ops = request->ops, .op_count = count};
    for (uint32_t i = 0; i < count; i++) {
        read_op(play, reader, request, &request->ops[i]);
    }
}

void play_read_request(struct prep_play *play, struct wire_reader *reader,
                       struct play_request *request)
{
    uint8_t kind = wire_get_u8(reader);

    *request = (struct play_request){0};
    switch (kind & 7U) {
    case 4:
        read_multi(play, reader, request, (kind >> 3) % (PLAY_OPS_MAX + 1));
        break;
    case 5:
        read_session_op(play, reader, request);
        break;
    case 6:
        read_set_acl(play, reader, request);
        break;
    case 7:
        if ((kind & 8U) != 0) {
            read_quota(reader, request);
            break;
        }
        request->args = (struct op_args){.op = OP_REAP};
        request->args.path = slice_str(read_path(reader, request));
        break;
    default:
        read_op(play, reader, request, &request->args);
        break;
    }
}
