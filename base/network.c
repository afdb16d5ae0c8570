#include "base/network.h"

#include "base/check.h"

#include <stdio.h>

enum {
    V6_GROUPS = 8,
    V6_NETWORK_GROUPS = 4, /* Four groups of 16 bits are a /64. */
    GROUP_DIGITS_MAX = 4
};

struct groups {
    uint32_t values[V6_GROUPS];
    uint32_t count;
    uint32_t gap; /* Groups ahead of "::"; V6_GROUPS: there is no gap. */
};

/* Takes one group of hexadecimal digits at `*at`; false when there is none. */
static bool take_group(struct slice text, size_t *at, uint32_t *ret_value)
{
    size_t start = *at;

    *ret_value = 0;
    while (*at < text.len && *at - start < GROUP_DIGITS_MAX && hex_digit(text.data[*at]) >= 0) {
        *ret_value = *ret_value << 4 | (uint32_t)hex_digit(text.data[*at]);
        (*at)++;
    }
    return *at > start;
}

/* Takes the colon behind a group, or the gap "::". False for anything else, and for a second
 * gap. */
static bool take_colon(struct slice text, size_t *at, struct groups *groups)
{
    bool gap = *at + 1 < text.len && text.data[*at + 1] == ':';

    if (text.data[*at] != ':' || (gap && groups->gap != V6_GROUPS)) {
        return false;
    }
    if (gap) {
        groups->gap = groups->count;
    }
    *at += gap ? 2 : 1;
    return true;
}

static bool parse(struct slice text, struct groups *groups)
{
    size_t at = 0;

    *groups = (struct groups){.gap = V6_GROUPS};
    if (text.len >= 2 && text.data[0] == ':' && !take_colon(text, &at, groups)) {
        return false;
    }
    while (at < text.len && groups->count < V6_GROUPS) {
        if (!take_group(text, &at, &groups->values[groups->count])) {
            return false;
        }
        groups->count++;
        if (at < text.len && !take_colon(text, &at, groups)) {
            return false;
        }
    }
    return at == text.len && (groups->count == V6_GROUPS || groups->gap < V6_GROUPS);
}

static uint32_t group_at(const struct groups *groups, uint32_t index)
{
    uint32_t zeros = V6_GROUPS - groups->count;

    if (index < groups->gap) {
        return groups->values[index];
    }
    return index < groups->gap + zeros ? 0 : groups->values[index - zeros];
}

struct slice network_of(struct slice address, char out[NETWORK_TEXT_MAX])
{
    struct groups groups;
    int len = 0;

    if (!parse(address, &groups)) {
        return address;
    }
    for (uint32_t i = 0; i < V6_NETWORK_GROUPS; i++) {
        len += snprintf(out + len, NETWORK_TEXT_MAX - (size_t)len, "%x:", group_at(&groups, i));
    }
    len += snprintf(out + len, NETWORK_TEXT_MAX - (size_t)len, ":/64");
    ASSERT(len > 0 && len < NETWORK_TEXT_MAX);
    return slice_make(out, (size_t)len);
}
