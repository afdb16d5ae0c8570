#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

enum {
    UNKNOWN_BYTES_MAX = ZAB_RECORD_BYTES_MAX, /* Maximum of a message whose type is not known. */
};

/* Whether the message has a type that only a later version knows. */
static bool is_unknown(const struct conn *conn, const struct frame_header *header)
{
    return conn->is_newer && !control_is(header->type) &&
           zab_msg_size_max((enum zab_msg_type)header->type) == 0;
}

static size_t size_max(const struct conn *conn, const struct frame_header *header)
{
    if (control_is(header->type)) {
        return CONTROL_BYTES_MAX;
    }
    return is_unknown(conn, header) ? UNKNOWN_BYTES_MAX
                                    : zab_msg_size_max((enum zab_msg_type)header->type);
}

/* Returns NULL when the header fits this connection, else what is wrong. */
static const char *judge(const struct conn *conn, const struct frame_header *header)
{
    if (header->from != conn->peer || header->to != conn->tcp->options.id ||
        header->nonce != conn->nonce) {
        return "the peer sent a frame of another connection";
    }
    if (header->version != conn->version) {
        return "the peer sent a frame of another version of the protocol";
    }
    if (memcmp(header->cluster, conn->identity.cluster, ZAB_CLUSTER_LEN) != 0) {
        return "the peer sent a frame of another cluster";
    }
    if (size_max(conn, header) == 0) {
        return "the peer sent a frame of unknown type";
    }
    if (conn->is_outsider && header->len > TCP_OUTSIDER_FRAME_MAX) {
        return "the peer is no member, and sent a message for members only";
    }
    return header->len > size_max(conn, header) ? "the peer sent a frame that is too long" : NULL;
}

static void on_refused(struct conn *conn, const struct control *control)
{
    struct tcp *tcp = conn->tcp;

    conn->doomed = "the peer has refused this replica: two processes claim the id of this replica";
    if (tcp->handler.on_duplicate && control->text[0] && !conn->is_outsider) {
        tcp->handler.on_duplicate(tcp->handler.ctx, tcp->options.id, control->text);
    }
}

/* Takes a control frame, which is for the transport and not for the protocol. */
static void take_control(struct conn *conn, uint16_t type, struct slice payload)
{
    struct tcp *tcp = conn->tcp;
    struct link *from = tcp_link(tcp, conn->peer);
    struct control control;

    ASSERT(from && from->up == conn);
    if (control_decode((enum control_type)type, payload, &control)) {
        tcp_drop(conn, "the peer sent a malformed control frame");
        return;
    }

    struct link *link = tcp_link(tcp, control.id);

    switch (control.type) {
    case CONTROL_SEEN:
        rival_on_seen(tcp, from, &control);
        break;
    case CONTROL_PROBE:
        probe_on_probe(tcp, from, &control);
        break;
    case CONTROL_ALIVE:
        if (link == from) {
            probe_on_alive(tcp, from, &control);
        } else if (link && !conn->is_outsider) {
            probe_on_vouched(tcp, from, link, &control);
        }
        break;
    case CONTROL_REFUSED:
        on_refused(conn, &control);
        break;
    }
}

static void take_message(struct conn *conn, const struct frame_header *header, struct slice payload)
{
    const struct tcp_handler *handler = &conn->tcp->handler;
    struct zab_msg msg = {0};

    if (zab_msg_decode((enum zab_msg_type)header->type, payload, conn->is_newer, &msg)) {
        tcp_drop(conn, "the peer sent a malformed message");
        return;
    }
    handler->on_message(handler->ctx, conn->peer, &msg);
    zab_msg_release(&msg);
}

static void deliver(struct conn *conn, const struct frame_header *header, struct slice payload)
{
    ASSERT(conn->state == CONN_UP && !conn->doomed);
    ASSERT(payload.len == header->len);

    if (frame_payload_crc(payload, conn->number_in) != header->payload_crc) {
        tcp_drop(conn, "the peer sent a damaged frame");
        return;
    }
    conn->number_in++;
    conn->heard_ms = conn->read_ms;
    conn->in_used += FRAME_HEADER_LEN + payload.len;
    if (is_unknown(conn, header)) {
        conn->tcp->skipped++;
    } else if (control_is(header->type)) {
        take_control(conn, header->type, payload);
    } else {
        take_message(conn, header, payload);
    }
}

size_t flow_input(struct conn *conn)
{
    while (conn->state == CONN_UP && !conn->doomed) {
        struct slice input = conn_input(conn);
        struct frame_header header;

        if (input.len < FRAME_HEADER_LEN) {
            return FRAME_HEADER_LEN - input.len;
        }
        if (frame_decode(input.data, conn->number_in, &header)) {
            tcp_drop(conn, "the peer sent a damaged frame header");
            break;
        }

        const char *wrong = judge(conn, &header);

        if (wrong) {
            tcp_drop(conn, wrong);
            break;
        }
        if (input.len < FRAME_HEADER_LEN + (size_t)header.len) {
            return FRAME_HEADER_LEN + header.len - input.len;
        }
        deliver(conn, &header, slice_make(input.data + FRAME_HEADER_LEN, header.len));
    }
    return 1;
}
