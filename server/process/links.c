#include "server/process/links.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* Returns the index of the first entry whose id is not below `id`. */
static uint32_t index_of(const struct links *links, uint32_t id)
{
    uint32_t from = 0;
    uint32_t to = links->count;

    ASSERT(links->count <= LINKS_MAX);
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;

        if (links->items[middle].id < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

struct core_peer *links_find(struct links *links, uint32_t id)
{
    uint32_t at = index_of(links, id);

    return at < links->count && links->items[at].id == id ? &links->items[at] : NULL;
}

const struct core_peer *links_see(const struct links *links, uint32_t id)
{
    static const struct core_peer none;
    uint32_t at = index_of(links, id);

    return at < links->count && links->items[at].id == id ? &links->items[at] : &none;
}

struct core_peer *links_place(struct links *links, uint32_t id)
{
    struct core_peer *link = links_find(links, id);
    uint32_t at = index_of(links, id);

    ASSERT(id != 0);
    if (link || links->count == LINKS_MAX) {
        return link;
    }
    link = &links->items[at];
    memmove(link + 1, link, (links->count - at) * sizeof *link);
    *link = (struct core_peer){.id = id};
    links->count++;
    return link;
}

void links_keep(struct links *links, const uint32_t *ids, size_t count)
{
    uint32_t kept = 0;

    ASSERT(count <= LINKS_MAX);
    for_each_link (link, links) {
        if (zab_id_is_among(ids, count, link->id)) {
            if (link != &links->items[kept]) {
                links->items[kept] = *link;
            }
            kept++;
        }
    }
    links->count = kept;
    for (size_t i = 0; i < count; i++) {
        struct core_peer *link = links_place(links, ids[i]);

        ASSERT(link);
    }
}

void links_address(const struct zab_texts *texts, char ret_address[LINK_ADDRESS_MAX])
{
    bool v6 = slice_find(texts->host, ':') < texts->host.len;

    ret_address[0] = '\0';
    if (texts->port != 0) {
        (void)snprintf(ret_address, LINK_ADDRESS_MAX, v6 ? "[%.*s]:%u" : "%.*s:%u",
                       (int)texts->host.len, (const char *)texts->host.data, texts->port);
    }
}
