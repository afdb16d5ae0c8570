/* Frames before they are whole, and the first one. */
#include "zk/decode.h"

enum {
    HEADER_BYTES = 8,           /* xid and type. */
    HELLO_BYTES_MIN = 28,       /* Without readOnly, and with an empty passwd. */
    HELLO_BYTES_MAX = 1024,     /* 45 as a rule. */
    OTHER_BYTES = 64 << 10,     /* What a request may have beside its data. */
    WATCHES_BYTES_MAX = 4 << 20 /* The C client sends all its watches in one frame. */
};

static size_t max_of(const struct zk_limits *limits, int32_t type)
{
    switch (type) {
    case ZK_MULTI:
    case ZK_MULTI_READ:
        return limits->multi_bytes_max;
    case ZK_SET_WATCHES:
    case ZK_SET_WATCHES2:
        return WATCHES_BYTES_MAX;
    default:
        return limits->data_bytes_max + OTHER_BYTES;
    }
}

/* Returns the most that a request of any type may have. */
static size_t max_of_all(const struct zk_limits *limits)
{
    size_t max = max_size(max_of(limits, ZK_MULTI), max_of(limits, ZK_SET_WATCHES));

    return max_size(max, max_of(limits, ZK_CREATE));
}

static bool is_within(int32_t len, size_t min, size_t max)
{
    return len >= 0 && (size_t)len >= min && (size_t)len <= max;
}

enum zk_frame zk_frame_judge(const struct zk_limits *limits, struct slice head, bool hello,
                             size_t *ret_bytes)
{
    bool good = false;

    *ret_bytes = 0;
    if (head.len < ZK_INT_BYTES) {
        return ZK_FRAME_SHORT;
    }

    int32_t len = zk_load_int(head.data);

    if (hello) {
        good = is_within(len, HELLO_BYTES_MIN, HELLO_BYTES_MAX);
    } else if (!is_within(len, HEADER_BYTES, max_of_all(limits))) {
        return ZK_FRAME_BAD;
    } else if (head.len < ZK_HEAD_BYTES) {
        return ZK_FRAME_SHORT;
    } else {
        int32_t type = zk_load_int(head.data + ZK_HEAD_BYTES - ZK_INT_BYTES);

        good = is_within(len, HEADER_BYTES, max_of(limits, type));
    }
    if (!good) {
        return ZK_FRAME_BAD;
    }
    *ret_bytes = ZK_INT_BYTES + (size_t)len;
    return ZK_FRAME_GOOD;
}

bool zk_decode_connect(struct slice body, struct zk_connect *ret_connect)
{
    struct wire_reader reader;

    *ret_connect = (struct zk_connect){.session = 0};
    wire_reader_init(&reader, body);
    (void)zk_get_int(&reader); /* protocolVersion, which ZooKeeper ignores as well. */
    ret_connect->last_zxid = (zxid_t)max_i64(zk_get_long(&reader), 0);
    ret_connect->timeout_ms = zk_get_int(&reader);
    ret_connect->session = (uint64_t)zk_get_long(&reader);
    ret_connect->passwd = zk_get_bytes(&reader);
    ret_connect->has_read_only = wire_reader_ok(&reader) && reader.pos < reader.end;
    ret_connect->read_only = ret_connect->has_read_only && zk_get_bool(&reader);
    return wire_reader_ok(&reader);
}
