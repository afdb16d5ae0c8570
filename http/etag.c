#include "http/etag.h"

#include "base/check.h"
#include "base/crypto.h"
#include "base/hash.h"
#include "http/head.h"
#include "server/op/change.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

/* Appends a text. snprintf is not used, because it costs a microsecond for each header, and each
 * raw read writes several. */
static char *put_text(char *at, const char *text)
{
    while (*text) {
        *at++ = *text++;
    }
    return at;
}

char *http_put_hex(char *at, uint64_t value)
{
    static const char digits[] = "0123456789abcdef";
    int shift = 0;

    while (shift < 60 && value >> (shift + 4) != 0) {
        shift += 4;
    }
    for (; shift >= 0; shift -= 4) {
        *at++ = digits[value >> shift & 15];
    }
    return at;
}

static char *put_decimal(char *at, int64_t value)
{
    char digits[24];
    size_t len = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;

    do {
        digits[len++] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0) {
        *at++ = '-';
    }
    while (len > 0) {
        *at++ = digits[--len];
    }
    return at;
}

static void data_tag(const struct stat_view *stat, char out[HTTP_ETAG_MAX])
{
    char *at = put_text(out, "\"d");

    at = http_put_hex(at, stat->czxid);
    *at++ = '.';
    at = put_decimal(at, stat->version);
    at = put_text(at, "\"");
    *at = '\0';
}

static void acl_tag(const struct stat_view *stat, char out[HTTP_ETAG_MAX])
{
    (void)snprintf(out, HTTP_ETAG_MAX, "\"a%" PRIx64 ".%" PRId32 "\"", stat->czxid, stat->aversion);
}

void http_etag_changed(enum op_id op, const struct stat_view *stat, char out[HTTP_ETAG_MAX])
{
    if (op == OP_SETACL) {
        acl_tag(stat, out);
    } else {
        data_tag(stat, out);
    }
}

void http_etag_config(zxid_t version, char out[HTTP_ETAG_MAX])
{
    (void)snprintf(out, HTTP_ETAG_MAX, "\"m%" PRIx64 "\"", version);
}

static zxid_t newest(const struct op_result *result)
{
    zxid_t zxid = 0;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        const struct stat_view *stat = &result->entries[i].stat;

        zxid = max_u64(zxid, max_u64(stat->czxid, max_u64(stat->mzxid, stat->pzxid)));
    }
    return zxid;
}

/* Returns a hash of the znodes that this reader is shown, and of their ACL versions, because a
 * change of an ACL changes no zxid in a stat. */
static uint64_t shown(const struct op_result *result)
{
    uint64_t hash = 0;

    for (uint32_t i = 0; i < result->entry_count; i++) {
        const struct op_entry *entry = &result->entries[i];

        hash = hash64_mix(hash, entry->hidden ? UINT64_MAX : entry->stat.czxid);
        hash = hash64_mix(hash, (uint32_t)entry->stat.aversion);
    }
    return hash;
}

void http_etag(const struct op_args *args, const struct op_result *result, char out[HTTP_ETAG_MAX])
{
    const struct op_def *def = ops_by_id(args->op);
    const struct stat_view *stat = &result->stat;

    out[0] = '\0';
    if (result->has_change) {
        http_etag_config(op_change_version(blob_slice(result->change)), out);
        return;
    }
    if (!result->has_stat || (result->computed && def->shape != OP_SHAPE_ACL)) {
        return;
    }
    if (def->shape == OP_SHAPE_ACL) {
        acl_tag(stat, out);
    } else if (def->shape == OP_SHAPE_STAT && def->kind == OP_KIND_READ) {
        (void)snprintf(out, HTTP_ETAG_MAX, "\"s%" PRIx64 ".%" PRIx64 ".%" PRIx64 ".%" PRId32 "\"",
                       stat->czxid, stat->mzxid, stat->pzxid, stat->aversion);
    } else if (def->shape == OP_SHAPE_CHILDREN) {
        /* Only names have a tag: a change of a child's data leaves no trace in the stat of the
         * parent. */
        if (args->with == OP_WITH_NAMES) {
            (void)snprintf(out, HTTP_ETAG_MAX, "\"c%" PRIx64 ".%" PRId32 "\"", stat->czxid,
                           stat->cversion);
        }
    } else if (def->shape == OP_SHAPE_TREE) {
        (void)snprintf(out, HTTP_ETAG_MAX, "\"t%" PRIx64 ".%" PRIx64 ".%" PRIx64 "\"", stat->czxid,
                       newest(result), shown(result));
    } else {
        http_etag_changed(args->op, stat, out);
    }
}

bool http_etag_matches(struct slice list, const char *etag)
{
    struct slice tag;

    if (slice_eq(list, slice_str("*"))) {
        return true;
    }
    while (http_list_next(&list, &tag)) {
        if (slice_starts_with(tag, slice_str("W/"))) {
            tag = slice_from(tag, 2);
        }
        if (slice_eq(tag, slice_str(etag))) {
            return true;
        }
    }
    return false;
}

void http_stat_text(const struct stat_view *stat, char out[HTTP_STAT_MAX])
{
    char *at = http_put_hex(put_text(out, "czxid=0x"), stat->czxid);

    at = http_put_hex(put_text(at, ", mzxid=0x"), stat->mzxid);
    at = put_decimal(put_text(at, ", ctime="), stat->ctime);
    at = put_decimal(put_text(at, ", mtime="), stat->mtime);
    at = put_decimal(put_text(at, ", version="), stat->version);
    at = put_decimal(put_text(at, ", cversion="), stat->cversion);
    at = put_decimal(put_text(at, ", aversion="), stat->aversion);
    at = http_put_hex(put_text(at, ", ephemeralOwner=0x"), stat->ephemeral_owner);
    at = put_decimal(put_text(at, ", dataLength="), stat->data_length);
    at = put_decimal(put_text(at, ", numChildren="), stat->num_children);
    at = http_put_hex(put_text(at, ", pzxid=0x"), stat->pzxid);
    *at = '\0';
    ASSERT(at < out + HTTP_STAT_MAX);
}

void http_etag_bytes(struct slice bytes, char out[HTTP_ETAG_MAX])
{
    uint8_t hash[CRYPTO_SHA256_LEN];
    uint64_t tag = 0; /* 64 bits are enough to tell versions apart. */

    crypto_sha256(bytes, hash);
    memcpy(&tag, hash, sizeof(tag));
    (void)snprintf(out, HTTP_ETAG_MAX, "\"%016" PRIx64 "\"", be64toh(tag));
}
