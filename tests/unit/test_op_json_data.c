/* Data within JSON: dataUtf8, data64 and dataJson, short and long, written plainly and with
 * escapes. */
#include "base/base64.h"
#include "base/mem.h"
#include "server/json/op_json.h"
#include "tests/lib/draw.h"
#include "tests/lib/unit.h"

enum {
    ROUNDS = 2000,
    ELEMENTS_MAX = 6,
    PIECES_MAX = 40,
    TEXT_MAX = 1 << 20,
    BODY_MAX = 64 << 20
};

/* A body or a message, and the data that its elements must receive. */
struct sample {
    struct rng rng;
    struct buf text;
    struct buf want[ELEMENTS_MAX];
};

/* A key, with some of its letters as escapes. */
static void put_key(struct sample *sample, const char *key)
{
    buf_append_byte(&sample->text, '"');
    for (; *key != '\0'; key++) {
        if (rng_chance(&sample->rng, 20000)) {
            buf_printf(&sample->text, "\\u00%02X", (unsigned)*key);
        } else {
            buf_append_byte(&sample->text, (uint8_t)*key);
        }
    }
    buf_append_str(&sample->text, rng_chance(&sample->rng, 300000) ? "\" : " : "\":");
}

/* Text with and without escapes, and what it means. */
static void put_text(struct sample *sample, struct buf *want, bool escapes)
{
    static const struct {
        const char *written;
        const char *meant;
    } pieces[] = {
        {"plain words ", "plain words "},
        {"}],{[:,", "}],{[:,"},
        {"z\xc3\xbc\xf0\x9f\x8c\x90", "z\xc3\xbc\xf0\x9f\x8c\x90"},
        {"0123456789012345678901234567890123456789", "0123456789012345678901234567890123456789"},
        {"\\\"dataUtf8\\\":", "\"dataUtf8\":"},
        {"\\\\", "\\"},
        {"\\u00e9\\n", "\xc3\xa9\n"},
    };

    size_t kinds = sizeof(pieces) / sizeof(pieces[0]);

    buf_append_byte(&sample->text, '"');
    for (uint64_t n = rng_below(&sample->rng, PIECES_MAX); n > 0; n--) {
        uint64_t piece = rng_below(&sample->rng, escapes ? kinds : 4);

        buf_append_str(&sample->text, pieces[piece].written);
        buf_append_str(want, pieces[piece].meant);
    }
    buf_append_byte(&sample->text, '"');
}

static void put_base64(struct sample *sample, struct buf *want)
{
    for (uint64_t n = rng_below(&sample->rng, 300); n > 0; n--) {
        buf_append_byte(want, (uint8_t)rng_below(&sample->rng, 256));
    }
    buf_append_byte(&sample->text, '"');
    base64_encode(&sample->text, buf_slice(want));
    buf_append_byte(&sample->text, '"');
}

/* The text as it is; quotes and brackets inside its strings have no meaning. */
static void put_json(struct sample *sample, struct buf *want)
{
    size_t start = sample->text.len;
    struct buf unused;

    buf_init(&unused, TEXT_MAX);
    buf_append_str(&sample->text, "{\"dataUtf8\":");
    put_text(sample, &unused, true);
    buf_append_str(&sample->text, ",\"ops\":[{\"data64\": 1.50}]}");
    buf_append(want, sample->text.data + start, sample->text.len - start);
    buf_release(&unused);
}

/* The members of one operation: op, path and data in any order, with unknown members where they may
 * be. */
static void put_members(struct sample *sample, struct buf *want, const char *op, bool strangers)
{
    struct buf unused;
    bool data_first = rng_chance(&sample->rng, 500000);

    buf_init(&unused, TEXT_MAX);
    for (int part = 0; part < 2; part++) {
        if ((part == 0) == data_first) {
            switch (rng_below(&sample->rng, 4)) {
            case 0:
                put_key(sample, "data64");
                put_base64(sample, want);
                break;
            case 1:
                put_key(sample, "dataJson");
                put_json(sample, want);
                break;
            default:
                put_key(sample, "dataUtf8");
                put_text(sample, want, rng_chance(&sample->rng, 500000));
                break;
            }
        } else {
            buf_printf(&sample->text, "\"op\":\"%s\",\"path\":\"/a\"", op);
            if (strangers && rng_chance(&sample->rng, 500000)) {
                buf_append_str(&sample->text, ",\"note\":{\"dataUtf8\":");
                put_text(sample, &unused, true);
                buf_append_str(&sample->text, "}");
            }
        }
        buf_append_str(&sample->text, part == 0 ? ", " : "");
    }
    buf_release(&unused);
}

static void sample_begin(struct sample *sample)
{
    buf_clear(&sample->text);
    for (int i = 0; i < ELEMENTS_MAX; i++) {
        buf_clear(&sample->want[i]);
    }
}

/* {"ops":[...]}; returns the number of elements. */
static uint32_t put_multi(struct sample *sample, bool message)
{
    uint32_t count = (uint32_t)rng_range(&sample->rng, 1, ELEMENTS_MAX);

    buf_append_str(&sample->text, message ? "{\"id\":1,\"op\":\"multi\"," : "{");
    put_key(sample, "ops");
    buf_append_byte(&sample->text, '[');
    for (uint32_t i = 0; i < count; i++) {
        buf_append_str(&sample->text, i == 0 ? "{" : ",{");
        put_members(sample, &sample->want[i], i % 2 ? "create" : "set", message);
        buf_append_byte(&sample->text, '}');
    }
    buf_append_str(&sample->text, "]}");
    return count;
}

static void assert_data(struct sample *sample, enum err err, const struct op_fault *fault,
                        const struct op_args *items, uint32_t count)
{
    if (err != ERR_OK) {
        print_message("%s: %s\n", buf_cstr(&sample->text), fault->detail);
    }
    assert_int_equal(err, ERR_OK);
    for (uint32_t i = 0; i < count; i++) {
        if (!slice_eq(items[i].data, buf_slice(&sample->want[i]))) {
            print_message("element %u of %s\n", i, buf_cstr(&sample->text));
        }
        assert_true(slice_eq(items[i].data, buf_slice(&sample->want[i])));
    }
}

static void check_body(struct sample *sample)
{
    struct op_args args;
    struct op_args *multi = NULL;
    struct op_fault fault;
    struct buf memory;
    uint32_t count = 0;

    sample_begin(sample);
    count = put_multi(sample, false);
    buf_init(&memory, TEXT_MAX);
    op_args_init(&args, OP_MULTI);

    enum err err = op_json_parse(ops_by_id(OP_MULTI), buf_slice(&sample->text), &args, &memory,
                                 &multi, &fault);

    assert_int_equal(err == ERR_OK ? args.op_count : count, count);
    assert_data(sample, err, &fault, multi, count);
    mem_free(multi);
    buf_release(&memory);
}

static void check_message(struct sample *sample, bool multi)
{
    struct op_request *request = op_request_new();
    struct op_message_id id;
    struct op_fault fault;
    uint32_t count = 1;

    sample_begin(sample);
    if (multi) {
        count = put_multi(sample, true);
    } else {
        buf_append_str(&sample->text, "{\"id\":1,");
        put_members(sample, &sample->want[0], "set", true);
        buf_append_byte(&sample->text, '}');
    }

    enum err err = op_json_parse_message(buf_slice(&sample->text), request, &id, &fault);

    assert_data(sample, err, &fault, multi ? request->multi : &request->args, count);
    op_request_free(request);
}

TEST(data_means_the_same_in_every_spelling)
{
    struct sample sample;

    rng_init(&sample.rng, 5);
    buf_init(&sample.text, TEXT_MAX);
    for (int i = 0; i < ELEMENTS_MAX; i++) {
        buf_init(&sample.want[i], TEXT_MAX);
    }
    for (int round = 0; round < ROUNDS; round++) {
        check_body(&sample);
        check_message(&sample, true);
        check_message(&sample, false);
    }
    for (int i = 0; i < ELEMENTS_MAX; i++) {
        buf_release(&sample.want[i]);
    }
    buf_release(&sample.text);
}

static void assert_refused(const char *text, const char *word)
{
    struct op_args args;
    struct op_args *multi = NULL;
    struct op_fault fault;
    struct buf memory;

    buf_init(&memory, BODY_MAX);
    op_args_init(&args, OP_SET);

    enum err err =
        op_json_parse(ops_by_id(OP_SET), slice_str(text), &args, &memory, &multi, &fault);

    if (err == ERR_OK || !strstr(fault.detail, word)) {
        print_message("%.200s: %s\n", text, err == ERR_OK ? "accepted" : fault.detail);
    }
    assert_int_equal(err, ERR_BAD_ARGUMENTS);
    assert_non_null(strstr(fault.detail, word));
    buf_release(&memory);
}

#define LONG "0123456789012345678901234567890123456789012345678901234567890123456789"

TEST(long_strings_follow_the_same_rules)
{
    assert_refused("{\"dataUtf8\":\"" LONG "\n\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\x01\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\xff\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\xed\xa0\x80\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\\x\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG, "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\\", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\\\"", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\",}", "column 86");
    assert_refused("{\"dataUtf8\":\"" LONG "\",\"dataUtf8\":\"" LONG "\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\",\"data\\u0055tf8\":\"\"}", "not valid JSON");
    assert_refused("{\"dataUtf8\":\"" LONG "\",\"data64\":\"\"}", "exclude");
    assert_refused("{\"data64\":\"" LONG "*\"}", "base64");
    assert_refused("{\"dataUtf8\":[\"" LONG "\"]}", "must be a string");
    assert_refused("{\"dataUtf8\":{\"dataUtf8\":\"" LONG "\"}}", "must be a string");
    assert_refused("{\"data\":\"" LONG "\"}", "not a member");
}

/* The time it takes follows its length: a backslash must not start another search for the end. */
TEST(many_escapes_are_read_in_one_pass)
{
    struct buf text;

    buf_init(&text, BODY_MAX);
    buf_append_str(&text, "{\"x\":\"");
    for (int i = 0; i < 1 << 20; i++) {
        buf_append_str(&text, "\\n");
    }
    assert_refused(buf_cstr(&text), "not valid JSON");
    buf_release(&text);
}
