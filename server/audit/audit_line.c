#include "server/audit/audit_line.h"

#include "base/check.h"
#include "base/minmax.h"
#include "server/op/ops.h"
#include "zab/config.h"

#include <stdio.h>
#include <time.h>

enum {
    TIME_SIZE = 96,
    WHY_MAX = 1024, /* Bytes of the reason of a refusal. */
    MS_PER_S = 1000
};

static const char event_key[] = "{\"event\":\"";
static const char zxid_key[] = "\",\"zxid\":\"0x";
static const char more_end[] = ",\"more\":true}";
static const char cluster_key[] = "\"cluster\":\"";

/* ---- Parts of lines. ---- */

static void put_time(struct jsonw *json, int64_t wall_ms)
{
    int64_t ms = wall_ms % MS_PER_S;
    time_t seconds = (time_t)(wall_ms / MS_PER_S);
    char text[TIME_SIZE];
    struct tm tm;

    if (ms < 0) {
        ms += MS_PER_S;
        seconds--;
    }
    ASSERT(gmtime_r(&seconds, &tm));
    (void)snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)ms);
    jsonw_kv_cstr(json, "time", text);
}

/* Begins a line. The event and the zxid (0: none) come first: audit_line_mark reads them. */
static void begin(struct jsonw *json, struct buf *out, const char *event, zxid_t zxid,
                  int64_t wall_ms)
{
    jsonw_init(json, out);
    jsonw_object(json);
    jsonw_kv_cstr(json, "event", event);
    if (zxid != 0) {
        jsonw_kv_hex(json, "zxid", zxid);
    }
    put_time(json, wall_ms);
}

static void end(struct jsonw *json)
{
    jsonw_object_end(json);
    buf_append_byte(json->out, '\n');
}

/* Writes a client: its address, and its identities beginning with that of the scheme "ip". */
static void put_client(struct jsonw *json, const struct txn_actor *actor)
{
    struct buf ip;

    buf_init(&ip, sizeof("ip:") + actor->address.len);
    buf_append_str(&ip, "ip:");
    buf_append_slice(&ip, actor->address);
    jsonw_kv_string(json, "address", actor->address);
    jsonw_kv_array(json, "identities");
    jsonw_string(json, buf_slice(&ip));
    buf_release(&ip);
    for (uint32_t i = 0; i < actor->count; i++) {
        jsonw_string(json, actor->ids[i]);
    }
    jsonw_array_end(json);
    if (actor->confirmed != 0) {
        jsonw_kv_array(json, "confirmed");
        for (uint32_t i = 0; i < actor->count; i++) {
            if ((actor->confirmed >> i & 1U) != 0) {
                jsonw_string(json, actor->ids[i]);
            }
        }
        jsonw_array_end(json);
    }
    if (actor->super) {
        jsonw_kv_bool(json, "super", true);
    }
}

/* ---- The changes of a transaction. ---- */

static int32_t version_before(int32_t version)
{
    return version == 0 ? -2 : version - 1; /* The version after -2 is 0. */
}

static void put_versions(struct jsonw *json, bool has_before, int32_t before, bool has_after,
                         int32_t after)
{
    jsonw_key(json, "before");
    if (has_before) {
        jsonw_i64(json, before);
    } else {
        jsonw_null(json);
    }
    jsonw_key(json, "after");
    if (has_after) {
        jsonw_i64(json, after);
    } else {
        jsonw_null(json);
    }
}

static void put_owner(struct jsonw *json, uint64_t owner)
{
    if (owner_is_container(owner)) {
        jsonw_kv_bool(json, "container", true);
    } else if (owner_is_ttl(owner)) {
        jsonw_kv_u64(json, "ttl", owner & OWNER_TTL_MASK);
    } else if (owner != 0) {
        jsonw_kv_hex(json, "ephemeral", owner);
    }
}

static void put_znode(struct jsonw *json, const struct txn_effect *effect)
{
    bool known = (effect->flags & TXN_VERSION_BEFORE) != 0;

    jsonw_kv_string(json, "path", effect->path);
    switch (effect->type) {
    case TXN_CREATE:
        put_versions(json, false, 0, true, 0);
        put_owner(json, effect->owner);
        break;
    case TXN_SET:
    case TXN_SET_ACL:
        put_versions(json, true, version_before(effect->version), true, effect->version);
        break;
    case TXN_DELETE:
        put_versions(json, known, effect->version, false, 0);
        break;
    case TXN_CHECK:
    case TXN_SESSION_OPEN:
    case TXN_SESSION_CLOSE:
    case TXN_SESSION_MOVE:
    case TXN_REMEMBER:
    case TXN_FORGET:
    case TXN_ANSWER:
        break;
    }
}

static void put_session(struct jsonw *json, const struct txn_effect *effect)
{
    if (effect->type == TXN_SESSION_OPEN) {
        jsonw_kv_hex(json, "session", effect->open.session);
        jsonw_kv_u64(json, "timeout", effect->open.timeout_ms);
    } else if (effect->type == TXN_SESSION_CLOSE) {
        jsonw_kv_hex(json, "session", effect->close.session);
        jsonw_kv_cstr(json, "cause",
                      effect->close.reason == TXN_CLOSED_EXPIRED ? "expired" : "closed");
    } else {
        jsonw_kv_hex(json, "session", effect->move.session);
        jsonw_kv_u64(json, "replica", effect->move.member);
    }
}

static void put_effect(struct jsonw *json, const struct txn_effect *effect)
{
    static const char *const names[] = {
        [TXN_CREATE] = "create",
        [TXN_SET] = "set",
        [TXN_DELETE] = "delete",
        [TXN_CHECK] = "check",
        [TXN_SET_ACL] = "setacl",
        [TXN_SESSION_OPEN] = "session-open",
        [TXN_SESSION_CLOSE] = "session-close",
        [TXN_SESSION_MOVE] = "session-attach",
    };

    jsonw_object(json);
    jsonw_kv_cstr(json, "change", names[effect->type]);
    if (effect->type < TXN_SESSION_OPEN) {
        put_znode(json, effect);
    } else {
        put_session(json, effect);
    }
    jsonw_object_end(json);
}

/* Moves to the next effect that a line shows. Remembered results are not shown: they belong to a
 * change that is, and hold its answer. */
static void advance(struct audit_record *record)
{
    enum err err = ERR_OK;

    do {
        err = txn_next(&record->reader, &record->next);
    } while (err == ERR_OK && (record->next.type == TXN_REMEMBER ||
                               record->next.type == TXN_FORGET || record->next.type == TXN_ANSWER));
    /* The state has applied the record, so its bytes are sound. */
    ASSERT(err == ERR_OK || err == ERR_MISSING);
    record->has_next = err == ERR_OK;
}

static void open_txn(struct audit_record *record, struct slice txn)
{
    enum err err = txn_open(&record->reader, txn, &record->header);

    ASSERT(err == ERR_OK); /* As in advance. */
    record->has_actor = txn_actor_decode(record->header.actor, &record->actor) == ERR_OK;
}

/* A configuration with a transaction was changed for a client. */
static void begin_config(struct audit_record *record)
{
    struct slice txn = zab_config_txn(logrec_payload(record->rec));

    record->has_next = true;
    if (txn.len > 0) {
        open_txn(record, txn);
    }
}

void audit_record_begin(struct audit_record *ret_record, const struct logrec *rec)
{
    *ret_record = (struct audit_record){.rec = rec};
    if (rec->type == LOGREC_CONFIG) {
        begin_config(ret_record);
    } else if (rec->type == LOGREC_TXN) {
        open_txn(ret_record, logrec_payload(rec));
        advance(ret_record);
    }
}

/* Writes which operation changed what, and for which client. */
static void put_cause(struct jsonw *json, const struct audit_record *record)
{
    const struct txn_actor *actor = &record->actor;
    const struct op_def *def = ops_by_id((enum op_id)actor->op);

    if (!record->has_actor) {
        jsonw_kv_cstr(json, "by", "unknown"); /* Written by an earlier build. */
        return;
    }
    jsonw_kv_cstr(json, "op", def ? def->name : "unknown");
    if (actor->address.len == 0) {
        jsonw_kv_cstr(json, "by", "server");
        return;
    }
    jsonw_kv_cstr(json, "by", "client");
    put_client(json, actor);
    if (actor->session != 0) {
        jsonw_kv_hex(json, "session", actor->session);
    }
    jsonw_kv_u64(json, "replica", record->header.origin_member);
}

static void put_ids(struct jsonw *json, const char *key, const struct zab_config *config,
                    bool voters)
{
    jsonw_kv_array(json, key);
    for_each_member (member, config) {
        if (member->voter == voters) {
            jsonw_u64(json, member->id);
        }
    }
    jsonw_array_end(json);
}

/* The record has no other trace of what was changed: the line before has the members before. */
static void put_members(struct jsonw *json, const struct logrec *rec)
{
    struct zab_config config;

    if (zab_config_decode(logrec_payload(rec), &config) != ERR_OK) {
        return;
    }
    jsonw_kv_u64(json, "level", config.level);
    put_ids(json, "voters", &config, true);
    put_ids(json, "observers", &config, false);
    jsonw_kv_array(json, "removed");
    for (uint32_t i = 0; i < config.removed_count; i++) {
        if (config.removed[i].zxid == rec->zxid) {
            jsonw_u64(json, config.removed[i].id);
        }
    }
    jsonw_array_end(json);
}

static void put_config(struct audit_record *record, int64_t wall_ms, struct buf *out)
{
    struct jsonw json;

    begin(&json, out, "change", record->rec->zxid,
          record->has_actor ? record->header.stamp_ms : wall_ms);
    if (record->has_actor) {
        put_cause(&json, record);
    } else {
        jsonw_kv_cstr(&json, "op", "configuration");
        jsonw_kv_cstr(&json, "by", "server");
    }
    jsonw_kv_array(&json, "changes");
    jsonw_object(&json);
    jsonw_kv_cstr(&json, "change", "set");
    jsonw_kv_cstr(&json, "path", STATE_CONFIG_PATH);
    put_members(&json, record->rec);
    jsonw_object_end(&json);
    jsonw_array_end(&json);
    end(&json);
    record->has_next = false;
}

bool audit_record_line(struct audit_record *record, int64_t wall_ms, struct buf *out)
{
    struct jsonw json;
    size_t start = out->len;

    if (!record->has_next) {
        return false;
    }
    if (record->rec->type == LOGREC_CONFIG) {
        put_config(record, wall_ms, out);
        return true;
    }
    begin(&json, out, "change", record->rec->zxid, record->header.stamp_ms);
    put_cause(&json, record);
    jsonw_kv_array(&json, "changes");
    do {
        put_effect(&json, &record->next);
        advance(record);
    } while (record->has_next && out->len - start < AUDIT_SPLIT);
    jsonw_array_end(&json);
    if (record->has_next) {
        jsonw_kv_bool(&json, "more", true);
    }
    end(&json);
    ASSERT(!out->overflow && out->len - start <= AUDIT_LINE_MAX);
    return true;
}

/* ---- Other lines. ---- */

void audit_put_open(struct buf *out, const struct audit_open *open)
{
    char hex[2 * AUDIT_CLUSTER_LEN + 1];
    struct jsonw json;

    for (size_t i = 0; i < AUDIT_CLUSTER_LEN; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", open->cluster[i]);
    }
    begin(&json, out, "open", open->zxid, open->wall_ms);
    jsonw_kv_u64(&json, "replica", open->member);
    jsonw_kv_cstr(&json, "cluster", hex);
    jsonw_kv_cstr(&json, "version", open->version);
    end(&json);
}

void audit_put_gap(struct buf *out, zxid_t after, zxid_t zxid, const char *why, int64_t wall_ms)
{
    struct jsonw json;

    begin(&json, out, "gap", zxid, wall_ms);
    jsonw_kv_hex(&json, "after", after);
    jsonw_kv_cstr(&json, "reason", why);
    end(&json);
}

void audit_put_dropped(struct buf *out, zxid_t after, zxid_t zxid, uint64_t lines, int64_t wall_ms)
{
    struct jsonw json;

    begin(&json, out, "dropped", zxid, wall_ms);
    jsonw_kv_hex(&json, "after", after);
    jsonw_kv_u64(&json, "lines", lines);
    end(&json);
}

void audit_put_omitted(struct buf *out, uint64_t refusals, int64_t wall_ms)
{
    struct jsonw json;

    begin(&json, out, "omitted", 0, wall_ms);
    jsonw_kv_u64(&json, "refusals", refusals);
    end(&json);
}

/* Appends "scheme:name" as the actor of a transaction has it. */
static void put_id(struct buf *out, const struct auth_id *id)
{
    struct slice name = auth_shown(id);

    buf_append_slice(out, id->scheme);
    buf_append_byte(out, ':');
    buf_append(out, name.data,
               min_size(name.len, TXN_ACTOR_ID_MAX - min_size(out->len, TXN_ACTOR_ID_MAX)));
}

/* Writes the client with its identities. */
static void put_principal(struct jsonw *json, const struct op_principal *client)
{
    const struct auth *auth = client->auth;
    struct txn_actor actor = {.address = slice_str(client->address)};
    struct buf ids[AUTH_IDS_MAX];

    if (auth) {
        actor.super = auth->super;
        actor.confirmed = atomic_load(&auth->right);
        actor.count = auth->count;
    }
    for (uint32_t i = 0; i < actor.count; i++) {
        buf_init(&ids[i], AUTH_CREDENTIAL_MAX);
        put_id(&ids[i], &auth->ids[i]);
        actor.ids[i] = buf_slice(&ids[i]);
    }
    put_client(json, &actor);
    for (uint32_t i = 0; i < actor.count; i++) {
        buf_release(&ids[i]);
    }
}

static struct slice beginning_of(struct slice text, size_t len)
{
    return slice_make(text.data, min_size(text.len, len));
}

void audit_put_refusal(struct buf *out, const struct audit_refusal *refusal, int64_t wall_ms)
{
    struct jsonw json;

    begin(&json, out, "refused", 0, wall_ms);
    jsonw_kv_cstr(&json, "op", refusal->op ? refusal->op : "unknown");
    if (refusal->part) {
        jsonw_kv_cstr(&json, "part", refusal->part);
    }
    if (refusal->path.len > 0) {
        jsonw_kv_string(&json, "path", beginning_of(refusal->path, STATE_PATH_MAX));
    }
    if (refusal->client) {
        put_principal(&json, refusal->client);
    }
    if (refusal->session != 0) {
        jsonw_kv_hex(&json, "session", refusal->session);
    }
    bool has_why = refusal->why && refusal->why[0] != '\0';
    struct slice why = slice_str(has_why ? refusal->why : err_text(refusal->err));

    uint64_t status = (uint64_t)err_http_status(refusal->err);

    jsonw_kv_u64(&json, "status", refusal->status != 0 ? refusal->status : status);
    jsonw_kv_cstr(&json, "error", err_name(refusal->err));
    jsonw_kv_string(&json, "reason", beginning_of(why, WHY_MAX));
    end(&json);
}

/* ---- Reading lines. ---- */

static bool starts_with(struct slice text, const char *start)
{
    size_t len = strlen(start);

    return text.len >= len && memcmp(text.data, start, len) == 0;
}

/* Reads hexadecimal digits up to a quote. */
static bool read_hex(struct slice text, uint64_t *ret_value)
{
    size_t quote = slice_find(text, '"');

    return quote > 0 && quote < text.len && op_hex_parse(slice_make(text.data, quote), ret_value);
}

struct audit_mark audit_line_mark(struct slice line)
{
    struct audit_mark mark = {0};
    size_t tail = sizeof(more_end) - 1;

    if (!starts_with(line, event_key)) {
        return mark;
    }
    struct slice name = slice_from(line, sizeof(event_key) - 1);
    size_t len = slice_find(name, '"');
    struct slice rest = slice_from(name, len);

    if (!starts_with(rest, zxid_key)) {
        /* A cluster that has no change yet begins with zxid 0, which is not written. */
        mark.has_zxid = slice_eq(slice_make(name.data, len), slice_str("open"));
        return mark;
    }
    mark.has_zxid = read_hex(slice_from(rest, sizeof(zxid_key) - 1), &mark.zxid);
    mark.is_change = slice_eq(slice_make(name.data, len), slice_str("change"));
    mark.more = mark.is_change && line.len >= tail &&
                memcmp(line.data + line.len - tail, more_end, tail) == 0;
    return mark;
}

bool audit_line_cluster(struct slice line, uint8_t ret_cluster[AUDIT_CLUSTER_LEN])
{
    const uint8_t *key = memmem(line.data, line.len, cluster_key, sizeof(cluster_key) - 1);

    if (!starts_with(line, event_key) || !key) {
        return false;
    }
    const char *hex = (const char *)key + sizeof(cluster_key) - 1;
    size_t left = line.len - (size_t)((const uint8_t *)hex - line.data);

    for (size_t i = 0; left >= (size_t)2 * AUDIT_CLUSTER_LEN && i < AUDIT_CLUSTER_LEN; i++) {
        uint64_t byte = 0;

        if (!op_hex_parse(slice_make(hex + 2 * i, 2), &byte)) {
            return false;
        }
        ret_cluster[i] = (uint8_t)byte;
    }
    return left >= (size_t)2 * AUDIT_CLUSTER_LEN;
}
