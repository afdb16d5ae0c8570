#include "server/op/trace.h"

enum {
    VERSION_LEN = 2,
    TRACE_AT = VERSION_LEN + 1,
    PARENT_AT = TRACE_AT + OP_TRACE_LEN + 1,
    PARENT_LEN = 16,
    FLAGS_AT = PARENT_AT + PARENT_LEN + 1,
    FLAGS_LEN = 2,
    WHOLE_LEN = FLAGS_AT + FLAGS_LEN /* Of version 00; later versions may be longer. */
};

/* Whether these are lower-case hexadecimal digits; `ret_zero`: all of them are 0. */
static bool is_hex(struct slice text, bool *ret_zero)
{
    *ret_zero = true;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.data[i];

        if ((byte < '0' || byte > '9') && (byte < 'a' || byte > 'f')) {
            return false;
        }
        *ret_zero = *ret_zero && byte == '0';
    }
    return true;
}

static bool has_dash(struct slice text, size_t pos)
{
    return text.data[pos] == '-';
}

struct slice op_trace_id(struct slice traceparent)
{
    struct slice nothing = slice_make(NULL, 0);
    bool zero_version = false;
    bool zero_trace = false;
    bool zero_parent = false;
    bool zero_flags = false;

    if (traceparent.len < WHOLE_LEN || !has_dash(traceparent, VERSION_LEN) ||
        !has_dash(traceparent, PARENT_AT - 1) || !has_dash(traceparent, FLAGS_AT - 1)) {
        return nothing;
    }
    struct slice version = slice_make(traceparent.data, VERSION_LEN);
    struct slice trace = slice_make(traceparent.data + TRACE_AT, OP_TRACE_LEN);
    struct slice parent = slice_make(traceparent.data + PARENT_AT, PARENT_LEN);
    struct slice flags = slice_make(traceparent.data + FLAGS_AT, FLAGS_LEN);

    if (!is_hex(version, &zero_version) || !is_hex(trace, &zero_trace) ||
        !is_hex(parent, &zero_parent) || !is_hex(flags, &zero_flags) || zero_trace || zero_parent ||
        slice_eq(version, slice_str("ff"))) {
        return nothing;
    }
    if (traceparent.len > WHOLE_LEN && (zero_version || !has_dash(traceparent, WHOLE_LEN))) {
        return nothing;
    }
    return trace;
}
