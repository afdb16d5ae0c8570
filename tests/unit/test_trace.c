/* traceparent: the id of a valid value, nothing of any other. */
#include "server/op/trace.h"
#include "tests/lib/unit.h"

#define ID      "0af7651916cd43dd8448eb211c80319c"
#define ZEROS   "00000000000000000000000000000000"
#define PARENT  "b7ad6b7169203331"
#define VALID   "00-" ID "-" PARENT "-01"
#define UPPER   "0AF7651916cd43dd8448eb211c80319c"
#define NO_HEX  "0ag7651916cd43dd8448eb211c80319c"
#define NO_ZERO "0000000000000000"

static void expect(const char *traceparent, const char *id)
{
    struct slice found = op_trace_id(slice_str(traceparent));

    if (!slice_eq(found, slice_str(id))) {
        print_error("%s\n", traceparent);
    }
    assert_true(slice_eq(found, slice_str(id)));
}

TEST(a_valid_value_has_its_id)
{
    expect(VALID, ID);
    expect("00-" ID "-" PARENT "-00", ID);
    expect("00-" ID "-" PARENT "-ff", ID);
    /* A later version may have more behind a dash. */
    expect("01-" ID "-" PARENT "-01", ID);
    expect("cc-" ID "-" PARENT "-01-what the future will be like", ID);
}

TEST(a_malformed_value_has_none)
{
    static const char *const texts[] = {
        "",
        "00",
        "00-" ID "-" PARENT,
        "00-" ID "-" PARENT "-1",
        VALID "-",
        VALID "-more",
        "01-" ID "-" PARENT "-01.more",
        "ff-" ID "-" PARENT "-01",
        "0g-" ID "-" PARENT "-01",
        "00-" ZEROS "-" PARENT "-01",
        "00-" ID "-" NO_ZERO "-01",
        "00-" UPPER "-" PARENT "-01",
        "00-" NO_HEX "-" PARENT "-01",
        "00-" ID "-b7ad6b716920333x-01",
        "00-" ID "-" PARENT "-0x",
        "00_" ID "-" PARENT "-01",
        "00-" ID "_" PARENT "-01",
        "00-" ID "-" PARENT "_01",
        " " VALID,
        "00-" ID "\n-" PARENT "-01",
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect(texts[i], "");
    }
    assert_int_equal(op_trace_id(slice_make(NULL, 0)).len, 0);
}

/* No byte of a valid value may be replaced by a byte that could forge a line. */
TEST(an_id_has_only_digits)
{
    char text[] = VALID;

    for (size_t i = 0; i < sizeof text - 1; i++) {
        char kept = text[i];

        for (int byte = 0; byte < 256; byte++) {
            text[i] = (char)byte;

            struct slice id = op_trace_id(slice_make(text, sizeof text - 1));

            assert_true(id.len == 0 || id.len == OP_TRACE_LEN);
            for (size_t at = 0; at < id.len; at++) {
                assert_true(hex_digit(id.data[at]) >= 0 &&
                            (id.data[at] < 'A' || id.data[at] > 'F'));
            }
        }
        text[i] = kept;
    }
}
