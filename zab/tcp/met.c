/* Which replica has answered at which address, so that it is not dialed twice. */
#include "zab/tcp/tcp_int.h"

enum {
    OWN_FRESH_MS = 60000
};

static bool is_at(const struct join_met *met, const struct resolve_address *address)
{
    return met->id != 0 && met->address.len == address->len &&
           memcmp(&met->address.addr, &address->addr, address->len) == 0;
}

void met_note(struct tcp *tcp, const struct resolve_address *address, uint32_t id)
{
    struct join_met *place = &tcp->met[0];

    ASSERT(id != 0);
    for (size_t i = 0; i < TCP_MET_MAX; i++) {
        if (is_at(&tcp->met[i], address)) {
            place = &tcp->met[i];
            break;
        }
        place = tcp->met[i].at_ms < place->at_ms ? &tcp->met[i] : place;
    }
    *place = (struct join_met){.address = *address, .id = id, .at_ms = os_now_ms()};
}

uint32_t met_at(const struct tcp *tcp, const struct resolve_address *address)
{
    for (size_t i = 0; i < TCP_MET_MAX; i++) {
        const struct join_met *met = &tcp->met[i];

        if (is_at(met, address)) {
            bool is_stale = met->id == tcp->options.id && os_now_ms() >= met->at_ms + OWN_FRESH_MS;

            return is_stale ? 0 : met->id;
        }
    }
    return 0;
}
