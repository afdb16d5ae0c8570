/* Parses arguments from text, and checks the rules across them. */
#include "base/buf.h"
#include "base/check.h"
#include "server/op/change.h"
#include "server/op/ops.h"
#include "server/op/trend_request.h"
#include "server/state/path.h"
#include "server/state/state.h"

#include <errno.h>
#include <stdlib.h>

enum {
    NUMBER_TEXT_MAX = 24,
    HEX_TEXT_MAX = 16
};

struct word {
    const char *text;
    uint32_t value;
};

static const struct word bool_words[] = {
    {"true", 1}, {"false", 0}, {"1", 1}, {"0", 0}, {NULL, 0},
};
static const struct word with_words[] = {
    {"names", OP_WITH_NAMES},
    {"stat", OP_WITH_STAT},
    {"data", OP_WITH_DATA},
    {NULL, 0},
};
static const struct word dataformat_words[] = {
    {"base64", OP_BASE64}, {"utf8", OP_UTF8}, {"auto", OP_AUTO},
    {"json", OP_JSON},     {"none", OP_NONE}, {NULL, 0},
};

static const struct word conflict_words[] = {
    {"fail", OP_CONFLICT_FAIL},
    {"skip", OP_CONFLICT_SKIP},
    {"overwrite", OP_CONFLICT_OVERWRITE},
    {NULL, 0},
};

static const struct word kind_words[] = {
    {"data", WATCH_DATA},           {"exists", WATCH_EXISTS},
    {"children", WATCH_CHILDREN},   {"persistent", WATCH_PERSISTENT},
    {"recursive", WATCH_RECURSIVE}, {NULL, 0},
};

static const struct word role_words[] = {
    {"voter", OP_ROLE_VOTER},
    {"observer", OP_ROLE_OBSERVER},
    {NULL, 0},
};

_Static_assert(sizeof(kind_words) / sizeof(kind_words[0]) == WATCH_KINDS, "each kind has a name");

const char *watch_kind_name(enum watch_kind kind)
{
    const struct word *word = &kind_words[kind - WATCH_DATA];

    ASSERT(kind >= WATCH_DATA && kind < WATCH_KINDS && word->value == kind);
    return word->text;
}

static bool word_find(const struct word *words, struct slice text, uint32_t *ret_value)
{
    for (const struct word *word = words; word->text; word++) {
        if (slice_eq(slice_str(word->text), text)) {
            *ret_value = word->value;
            return true;
        }
    }
    return false;
}

static void *field_at(const struct op_field *field, struct op_args *args)
{
    return (uint8_t *)args + field->offset;
}

static enum err refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENTS;
}

/* Parses plain decimal with an optional minus sign: no blanks, no plus, no other base. */
static bool number_parse(struct slice text, int64_t *ret_number)
{
    char digits[NUMBER_TEXT_MAX];
    char *end = NULL;

    if (text.len == 0 || text.len >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, text.data, text.len);
    digits[text.len] = '\0';

    const char *first = digits[0] == '-' ? digits + 1 : digits;

    if (*first < '0' || *first > '9') {
        return false;
    }
    errno = 0;
    *ret_number = strtoll(digits, &end, 10);
    return errno == 0 && end == digits + text.len;
}

bool op_hex_parse(struct slice text, uint64_t *ret_value)
{
    uint64_t value = 0;

    if (text.len == 0 || text.len > HEX_TEXT_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        int digit = hex_digit(text.data[i]);

        if (digit < 0) {
            return false;
        }
        value = value << 4 | (uint64_t)digit;
    }
    *ret_value = value;
    return true;
}

bool op_zxid_parse(struct slice text, zxid_t *ret_zxid)
{
    int64_t number = 0;

    if (slice_starts_with(text, slice_str("0x"))) {
        return op_hex_parse(slice_from(text, 2), ret_zxid);
    }
    if (!number_parse(text, &number) || number < 0) {
        return false;
    }
    *ret_zxid = (zxid_t)number;
    return true;
}

/* Parses 0x and hexadecimal digits, as in answers, or a decimal number. */
static enum err parse_wide(const struct op_field *field, struct slice text, struct op_args *args,
                           const char **ret_why)
{
    uint64_t value = 0;

    if (!op_zxid_parse(text, &value)) {
        return refuse(ret_why, "must be a number: decimal, or 0x and hexadecimal digits");
    }
    if (value < (uint64_t)field->min || value > (uint64_t)field->max) {
        return refuse(ret_why, "is out of range");
    }
    *(uint64_t *)field_at(field, args) = value;
    return ERR_OK;
}

static enum err parse_number(const struct op_field *field, struct slice text, struct op_args *args,
                             const char **ret_why)
{
    int64_t number = 0;

    if (!number_parse(text, &number)) {
        return refuse(ret_why, "must be a decimal number");
    }
    if (number < field->min || number > field->max) {
        return refuse(ret_why, "is out of range");
    }
    if (field->type == OP_FIELD_I32) {
        *(int32_t *)field_at(field, args) = (int32_t)number;
    } else if (field->type == OP_FIELD_U32 || field->type == OP_FIELD_BOUND) {
        *(uint32_t *)field_at(field, args) = (uint32_t)number;
    } else {
        *(int64_t *)field_at(field, args) = number;
    }
    return ERR_OK;
}

static enum err parse_member(const struct op_field *field, struct slice text, struct op_args *args,
                             const char **ret_why)
{
    int64_t number = 0;

    if (!number_parse(text, &number) || number < field->min || number > field->max) {
        return refuse(ret_why, "must be the id of a member: a number from 1 to 65535");
    }
    *(uint32_t *)field_at(field, args) = (uint32_t)number;
    return ERR_OK;
}

static enum err parse_bound(const struct op_field *field, struct slice text, struct op_args *args,
                            const char **ret_why)
{
    if (slice_eq(text, slice_str("null"))) {
        *(uint32_t *)field_at(field, args) = 0;
        return ERR_OK;
    }
    return parse_number(field, text, args, ret_why);
}

static enum err parse_bool(const struct op_field *field, struct slice text, struct op_args *args,
                           const char **ret_why)
{
    uint32_t value = 0;

    if (!word_find(bool_words, text, &value)) {
        return refuse(ret_why, "must be true or false");
    }
    *(bool *)field_at(field, args) = value != 0;
    return ERR_OK;
}

/* Parses an ETag with its quotes: "d<czxid hex>.<version>" for data, "a<czxid hex>.<aversion>" for
 * an ACL. `start` is the quote and the letter. */
static bool etag_parse(struct slice text, const char *start, struct op_args *args)
{
    uint64_t czxid = 0;
    size_t pos = 2;
    int64_t version = 0;

    if (text.len < 6 || !slice_starts_with(text, slice_str(start)) ||
        text.data[text.len - 1] != '"') {
        return false;
    }
    for (; pos < text.len && text.data[pos] != '.'; pos++) {
        const char *hex = text.data[pos] ? strchr("0123456789abcdef", text.data[pos]) : NULL;

        if (!hex || czxid >> 60 != 0) {
            return false;
        }
        czxid = czxid << 4 | (uint64_t)(*hex <= '9' ? *hex - '0' : *hex - 'a' + 10);
    }
    if (pos == 2 || pos + 1 >= text.len ||
        !number_parse(slice_make(text.data + pos + 1, text.len - pos - 2), &version) ||
        version < INT32_MIN || version > INT32_MAX) {
        return false;
    }
    args->has_etag = true;
    args->etag_czxid = czxid;
    args->etag_version = (int32_t)version;
    return true;
}

static enum err parse_match(const struct op_field *field, struct slice text, struct op_args *args,
                            const char **ret_why)
{
    bool acl = field->type == OP_FIELD_ACL_MATCH;

    if (slice_eq(text, slice_str("*"))) {
        args->must_exist = true;
        return ERR_OK;
    }
    if (!etag_parse(text, acl ? "\"a" : "\"d", args)) {
        return refuse(ret_why, acl ? "must be * or the ETag of the znode's ACL"
                                   : "must be * or the ETag of the znode's data");
    }
    return ERR_OK;
}

/* Parses "m<version hex>" with its quotes. Each configuration has a version, so * always holds. */
static enum err parse_config_match(const struct op_field *field, struct slice text,
                                   struct op_args *args, const char **ret_why)
{
    (void)field;
    if (slice_eq(text, slice_str("*"))) {
        return ERR_OK;
    }
    if (text.len < 4 || !slice_starts_with(text, slice_str("\"m")) ||
        text.data[text.len - 1] != '"' ||
        !op_hex_parse(slice_make(text.data + 2, text.len - 3), &args->etag_czxid)) {
        return refuse(ret_why, "must be * or the ETag of GET /ensemble/v1");
    }
    args->has_etag = true;
    return ERR_OK;
}

_Static_assert(sizeof(enum op_with) == sizeof(uint32_t), "parse_word writes any of these enums");

static enum err parse_word(const struct op_field *field, struct slice text, struct op_args *args,
                           const char **ret_why)
{
    static const struct {
        const struct word *words;
        const char *why;
    } types[] = {
        [OP_FIELD_WITH] = {with_words, "must be names, stat or data"},
        [OP_FIELD_DATAFORMAT] = {dataformat_words, "must be base64, utf8, auto, json or none"},
        [OP_FIELD_CONFLICT] = {conflict_words, "must be fail, skip or overwrite"},
        [OP_FIELD_KIND] = {kind_words, "must be data, exists, children, persistent or recursive"},
        [OP_FIELD_ROLE] = {role_words, "must be voter or observer"},
    };

    uint32_t value = 0;

    ASSERT(types[field->type].words);
    if (!word_find(types[field->type].words, text, &value)) {
        return refuse(ret_why, types[field->type].why);
    }
    *(uint32_t *)field_at(field, args) = value;
    return ERR_OK;
}

static enum err parse_none_match(const struct op_field *field, struct slice text,
                                 struct op_args *args, const char **ret_why)
{
    (void)field;
    if (!slice_eq(text, slice_str("*"))) {
        return refuse(ret_why, "must be * on a write");
    }
    args->must_be_new = true;
    return ERR_OK;
}

static enum err parse_secret(const struct op_field *field, struct slice text, struct op_args *args,
                             const char **ret_why)
{
    (void)field;
    if (!op_is_uuid(text)) {
        return refuse(ret_why, "must be the id of a session: a UUID of 36 characters");
    }
    args->secret = text;
    return ERR_OK;
}

/* Parses "<history>:<zxid>", the id of a stream's event: both in hex, with or without 0x. */
static bool event_id_parse(struct slice text, size_t colon, struct op_args *args)
{
    struct slice zxid = slice_from(text, colon + 1);

    if (slice_starts_with(zxid, slice_str("0x"))) {
        zxid = slice_from(zxid, 2);
    }
    args->has_since_history = op_hex_parse(slice_make(text.data, colon), &args->since_history);
    return args->has_since_history && op_hex_parse(zxid, &args->since);
}

static enum err parse_since(const struct op_field *field, struct slice text, struct op_args *args,
                            const char **ret_why)
{
    (void)field;
    size_t colon = slice_find(text, ':');
    bool sound =
        colon < text.len ? event_id_parse(text, colon, args) : op_zxid_parse(text, &args->since);

    return sound ? ERR_OK
                 : refuse(ret_why, "must be a zxid, or <history>:<zxid> as in the id of an event");
}

static enum err parse_text(const struct op_field *field, struct slice text, struct op_args *args,
                           const char **ret_why)
{
    (void)ret_why;
    *(struct slice *)field_at(field, args) = text;
    return ERR_OK;
}

static enum err (*const parsers[OP_FIELD_TYPES])(const struct op_field *field, struct slice text,
                                                 struct op_args *args, const char **ret_why) = {
    [OP_FIELD_PATH] = parse_text,       [OP_FIELD_TEXT] = parse_text,
    [OP_FIELD_BOOL] = parse_bool,       [OP_FIELD_I32] = parse_number,
    [OP_FIELD_U32] = parse_number,      [OP_FIELD_I64] = parse_number,
    [OP_FIELD_U64] = parse_wide,        [OP_FIELD_WITH] = parse_word,
    [OP_FIELD_DATAFORMAT] = parse_word, [OP_FIELD_CONFLICT] = parse_word,
    [OP_FIELD_KIND] = parse_word,       [OP_FIELD_MATCH] = parse_match,
    [OP_FIELD_ACL_MATCH] = parse_match, [OP_FIELD_NONE_MATCH] = parse_none_match,
    [OP_FIELD_SECRET] = parse_secret,   [OP_FIELD_SINCE] = parse_since,
    [OP_FIELD_BOUND] = parse_bound,     [OP_FIELD_MEMBER] = parse_member,
    [OP_FIELD_ROLE] = parse_word,       [OP_FIELD_CONFIG_MATCH] = parse_config_match,
};

enum err op_field_parse(const struct op_field *field, struct slice text, struct op_args *args,
                        const char **ret_why)
{
    ASSERT(parsers[field->type]);
    enum err err = parsers[field->type](field, text, args, ret_why);

    if (err == ERR_OK && field->has_offset != 0) {
        *((bool *)((uint8_t *)args + field->has_offset)) = true;
    }
    return err;
}

/* Checks the path. To a sequential name ten digits are added first: its prefix may be empty, and
 * path_check refuses a path that ends with a slash. */
static enum err check_path(const struct op_args *args, const char **ret_why)
{
    struct buf full;
    enum err err = ERR_OK;

    if (!args->sequence) {
        return path_check(args->path, ret_why);
    }
    buf_init(&full, STATE_PATH_MAX + 1);
    buf_append_slice(&full, args->path);
    buf_append_str(&full, "0000000000");
    err = full.overflow
              ? refuse(ret_why,
                       "the path with the ten digits of the sequence is longer than 16384 bytes")
              : path_check(buf_slice(&full), ret_why);
    buf_release(&full);
    return err;
}

/* ---- Rules across arguments. ---- */

struct rule {
    bool broken;
    const char *why;
};

static enum err first_broken(const struct rule *rules, size_t count, const char **ret_why)
{
    for (size_t i = 0; i < count; i++) {
        if (rules[i].broken) {
            return refuse(ret_why, rules[i].why);
        }
    }
    return ERR_OK;
}

#define CHECK(rules, ret_why) first_broken(rules, sizeof(rules) / sizeof((rules)[0]), ret_why)

/* Whether this version is given and differs from the version in the ETag. */
static bool contradicts(const struct op_args *args, bool given, int32_t version)
{
    return args->has_etag && given && version != -1 && version != args->etag_version;
}

/* Checks the rules across the arguments of an operation on a znode. */
static enum err check_combination(const struct op_args *args, const char **ret_why)
{
    bool if_match = args->has_etag || args->must_exist;
    bool set = args->op == OP_SET;
    bool makes = args->upsert || args->must_be_new;
    bool create = args->op == OP_CREATE;
    bool search = args->op == OP_SEARCH;
    const struct rule rules[] = {
        {contradicts(args, args->has_version, args->version),
         "version and If-Match contradict each other"},
        {args->must_be_new && (if_match || args->upsert || args->has_version),
         "If-None-Match excludes If-Match, version and upsert"},
        {args->upsert && if_match, "upsert and If-Match exclude each other"},
        {args->upsert && (args->has_czxid || args->has_aversion),
         "upsert excludes czxid and aversion"},
        {args->max != 0 && !args->recursive, "max= needs recursive=true"},
        {args->op == OP_SETACL && contradicts(args, args->has_aversion, args->aversion),
         "aversion and If-Match contradict each other"},
        /* Arguments about the creation of a znode have no meaning for one that exists. */
        {set && args->parents && !makes, "parents needs upsert=true or If-None-Match: *"},
        {set && args->ephemeral && !makes, "ephemeral needs upsert=true or If-None-Match: *"},
        {set && args->has_acl && !makes,
         "an ACL needs upsert=true or If-None-Match: *; PATCH sets the ACL of a znode that exists"},
        {create && args->ephemeral + args->container + (args->ttl_ms != 0) > 1,
         "ephemeral, container and ttl exclude each other"},
        {create && args->container && args->sequence, "a container cannot be sequential"},
        {args->data_null && args->data.len > 0, "null=true excludes data"},
        /* A client may have made up the cursor, so it must be a path at or below the top. */
        {search && args->after.len > 0 &&
             (path_check(args->after, NULL) != ERR_OK || !path_is_within(args->after, args->path)),
         "after= must be the value of after in an earlier answer to this search"},
        {search && args->pattern.len > OPS_PATTERN_MAX, "name= is longer than 256 bytes"},
        /* Other formats cannot show all data, so an export could fail in the middle. */
        {args->op == OP_EXPORT && args->dataformat != OP_BASE64 && args->dataformat != OP_AUTO,
         "dataformat= of an export must be base64 or auto"},
    };

    return CHECK(rules, ret_why);
}

/* Checks that the request has all required arguments of its operation. */
static enum err check_needs(const struct op_args *args, const char **ret_why)
{
    const struct rule rules[] = {
        {args->op == OP_SETACL && !args->has_acl, "acl must be given"},
        {args->op == OP_ATTACH && args->secret.len == 0 && args->secret_hash.len == 0,
         "session= must be given: the id of the session"},
        {args->op == OP_UNWATCH && args->watch_id == 0,
         "watch= must be given: the number in the reply to the operation watch"},
        {args->op == OP_AUTH && (args->scheme.len == 0 || args->credential.len == 0),
         "scheme and credential must be given"},
        {(args->op == OP_KILL || args->op == OP_EPHEMERALS) && args->session == 0,
         "public= must be given: the public id of a session"},
        {args->op == OP_LEVEL && args->has_hold == (args->raise != 0),
         "one of hold and raise must be given"},
        {args->op == OP_LEVEL && args->force && args->raise == 0, "force needs raise"},
        {args->expire_s != 0 && args->timeout_ms != 0, "expire and timeout_ms exclude each other"},
    };

    return CHECK(rules, ret_why);
}

static enum err check_one(const struct op_args *args, const char **ret_why)
{
    const struct op_def *def = ops_by_id(args->op);
    enum err err = check_needs(args, ret_why);

    if (err == ERR_OK && op_changes_members(args->op)) {
        err = op_change_check(args, ret_why);
    }
    if (err == ERR_OK && args->op == OP_TREND) {
        err = trend_check(&(struct trend_request){.step_s = args->step_s, .series = args->series},
                          ret_why);
    }
    if (err == ERR_OK && args->after.len > 0 &&
        (args->op == OP_EPHEMERALS || args->op == OP_WATCHES)) {
        err = path_check(args->after, ret_why);
    }
    if (err != ERR_OK || !def->fields->name || def->fields->type != OP_FIELD_PATH) {
        return err;
    }
    err = check_path(args, ret_why);
    return err == ERR_OK ? check_combination(args, ret_why) : err;
}

bool op_may_be_in_multi(enum op_id op)
{
    return op == OP_GET || op == OP_EXISTS || op == OP_STAT || op == OP_CHILDREN || op == OP_SET ||
           op == OP_CREATE || op == OP_DELETE || op == OP_CHECK;
}

bool op_multi_may_hold(enum op_id op)
{
    return op_may_be_in_multi(op) || op == OP_SETACL || op == OP_RAISE;
}

static enum err check_multi(const struct op_args *args, const char **ret_why)
{
    if (args->op_count == 0) {
        return refuse(ret_why, "ops is empty");
    }
    for (uint32_t i = 0; i < args->op_count; i++) {
        const struct op_args *item = &args->ops[i];

        if (!op_multi_may_hold(item->op)) {
            return refuse(ret_why, "a multi holds create, set, delete and check, or only reads");
        }
        if (ops_by_id(item->op)->kind != ops_by_id(args->ops[0].op)->kind) {
            return refuse(ret_why, "a multi holds either reads or writes");
        }
        if (item->watch) {
            return refuse(ret_why,
                          "a multi registers no watches: send each read with a watch by itself");
        }

        enum err err = check_one(item, ret_why);

        if (err != ERR_OK) {
            return err;
        }
    }
    return ERR_OK;
}

enum err op_args_check(const struct op_args *args, const char **ret_why)
{
    *ret_why = NULL;
    if (args->op == OP_CHECK) {
        return refuse(ret_why, "the operation check exists only inside a multi");
    }
    return args->op == OP_MULTI ? check_multi(args, ret_why) : check_one(args, ret_why);
}
