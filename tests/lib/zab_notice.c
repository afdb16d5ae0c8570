#include "tests/lib/zab_notice.h"

#include "base/buf.h"
#include "base/check.h"

static void append_piece(void *ctx, struct slice name, struct slice piece)
{
    (void)name;
    buf_append_slice(ctx, piece);
}

void zab_notice_text(const struct zab_notice *notice, char text[ZAB_TEXT_MAX])
{
    struct buf out;

    buf_init(&out, ZAB_TEXT_MAX - 1);
    zab_notice_pieces(notice, append_piece, &out);
    ASSERT(out.len > 0 && !out.overflow);
    memcpy(text, out.data, out.len);
    text[out.len] = '\0';
    buf_release(&out);
}
