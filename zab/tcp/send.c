/* Frames out. */
#include "base/check.h"
#include "zab/tcp/frame.h"
#include "zab/tcp/tcp_int.h"

/* Makes room for a header; returns where the frame starts. */
static size_t begin_frame(struct buf *out)
{
    size_t start = out->len;
    uint8_t *place = buf_reserve(out, FRAME_HEADER_LEN);

    ASSERT(place);
    out->len += FRAME_HEADER_LEN;
    return start;
}

/* The payload has been appended. */
static void end_frame(struct conn *conn, struct buf *out, size_t start, uint16_t type,
                      uint32_t epoch)
{
    ASSERT(!out->overflow && conn->nonce != 0);

    struct slice payload =
        slice_make(out->data + start + FRAME_HEADER_LEN, out->len - start - FRAME_HEADER_LEN);
    struct frame_header header = {.version = conn->version,
                                  .type = type,
                                  .from = conn->tcp->options.id,
                                  .to = conn->peer,
                                  .epoch = epoch,
                                  .nonce = conn->nonce,
                                  .len = (uint32_t)payload.len};

    memcpy(header.cluster, conn->tcp->options.cluster, ZAB_CLUSTER_LEN);
    header.payload_crc = frame_payload_crc(payload, conn->number_out);
    frame_encode(&header, conn->number_out, out->data + start);
    conn->number_out++;
    conn_queued(conn, out->len - start);
}

void flow_output(struct conn *conn, const struct zab_msg *msg)
{
    ASSERT(conn->state == CONN_UP && !conn->doomed);

    struct buf *out = conn_out(conn);
    size_t start = begin_frame(out);

    zab_msg_encode(msg, out);
    ASSERT(out->len - start - FRAME_HEADER_LEN <= zab_msg_size_max(msg->type));
    end_frame(conn, out, start, (uint16_t)msg->type, msg->epoch);
}

void flow_control(struct conn *conn, const struct control *control)
{
    ASSERT(conn->state == CONN_UP || (conn->state == CONN_CLAIM && conn->dialed));

    struct buf *out = conn_out(conn);
    size_t start = begin_frame(out);

    control_encode(control, out);
    ASSERT(out->len - start - FRAME_HEADER_LEN <= CONTROL_BYTES_MAX);
    end_frame(conn, out, start, (uint16_t)control->type, 0);
}
