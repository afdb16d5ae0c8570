/* Messages that the server sends by itself, besides events. */
#include "ws/ws_int.h"

void ws_notice_heartbeat(struct ws_socket *socket, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_heartbeat(&json, zxid);
    (void)ws_out_end(socket, PIECE_BEAT);
}

void ws_notice_session(struct ws_socket *socket, const char *state, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_session_event(&json, state, socket->session.attached.id, zxid);
    (void)ws_out_end(socket, PIECE_FIXED);
}

void ws_notice_closing(struct ws_socket *socket)
{
    struct ws *ws = socket->ws;
    struct buf servers;
    struct jsonw json;

    buf_init(&servers, WS_REPLY_MAX);
    jsonw_init(&json, &servers);
    gate_write_servers(ws->gate, &json);
    json = ws_out_begin(ws);
    op_json_closing(&json, socket->closing.reason, buf_slice(&servers));
    (void)ws_out_end(socket, PIECE_FIXED);
    buf_release(&servers);
}

void ws_notice_gap(struct ws_socket *socket, uint32_t watch, zxid_t zxid)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_gap(&json, &watch, 1, zxid);
    (void)ws_out_end(socket, PIECE_FIXED);
    metric_add(&socket->ws->metrics.gaps, 1);
}

void ws_notice_overrun(struct ws_socket *socket, const uint32_t *watches, size_t count, zxid_t from)
{
    struct jsonw json = ws_out_begin(socket->ws);

    op_json_overrun(&json, watches, count, from);
    (void)ws_out_end(socket, PIECE_NOTICE);
    metric_add(&socket->ws->metrics.overruns, count);
}
