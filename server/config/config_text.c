#include "server/config/config_text.h"

#include "base/check.h"

#include <inttypes.h>

static const char *role_of(const struct zab_member *member)
{
    if (member->voter) {
        return "participant";
    }
    return member->empty_seat ? "vacant" : "observer";
}

void config_text(const struct zab_config *config, struct buf *out)
{
    ASSERT(config->count > 0);

    for (uint32_t i = 0; i < config->count; i++) {
        const struct zab_member *member = &config->members[i];

        buf_printf(out, "server.%" PRIu32 "=%s:%016" PRIx64 "\n", member->id, role_of(member),
                   member->incarnation);
    }
    buf_printf(out, "version=%" PRIx64, config->version);
}
