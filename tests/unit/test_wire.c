#include "base/wire.h"
#include "tests/lib/unit.h"

TEST(integers_are_little_endian)
{
    struct buf buf;
    const uint8_t expected[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08};

    buf_init(&buf, 100);
    wire_put_u8(&buf, 0x01);
    wire_put_u16(&buf, 0x0203);
    wire_put_u32(&buf, 0x04050607);
    wire_put_u64(&buf, UINT64_C(0x08090a0b0c0d0e0f));
    assert_int_equal(buf.len, sizeof(expected));
    assert_memory_equal(buf.data, expected, sizeof(expected));

    struct wire_reader reader;

    wire_reader_init(&reader, buf_slice(&buf));
    assert_int_equal(wire_get_u8(&reader), 0x01);
    assert_int_equal(wire_get_u16(&reader), 0x0203);
    assert_int_equal(wire_get_u32(&reader), 0x04050607);
    assert_true(wire_get_u64(&reader) == UINT64_C(0x08090a0b0c0d0e0f));
    assert_true(wire_reader_done(&reader));
    buf_release(&buf);
}

TEST(varints_round_trip)
{
    const uint64_t values[] = {0,         1, 127, 128, 16383, 16384, UINT32_MAX, UINT64_MAX / 2,
                               UINT64_MAX};
    const size_t sizes[] = {1, 1, 1, 2, 2, 3, 5, 9, 10};
    struct buf buf;

    buf_init(&buf, 100);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct wire_reader reader;

        buf_clear(&buf);
        wire_put_varint(&buf, values[i]);
        assert_int_equal(buf.len, sizes[i]);
        wire_reader_init(&reader, buf_slice(&buf));
        assert_true(wire_get_varint(&reader) == values[i]);
        assert_true(wire_reader_done(&reader));
    }
    buf_release(&buf);
}

static bool varint_fails(const char *bytes, size_t len)
{
    struct wire_reader reader;

    wire_reader_init(&reader, slice_make(bytes, len));
    return wire_get_varint(&reader) == 0 && !wire_reader_ok(&reader);
}

TEST(malformed_varints_are_refused)
{
    assert_true(varint_fails("", 0));
    assert_true(varint_fails("\x80", 1));
    assert_true(varint_fails("\x80\x00", 2)); /* Longer than needed. */
    assert_true(varint_fails("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10)); /* 65 bits. */
    assert_true(varint_fails("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x81\x00", 11));
}

TEST(decoded_bytes_refer_to_the_input)
{
    struct buf buf;
    struct wire_reader reader;

    buf_init(&buf, 100);
    wire_put_bytes(&buf, slice_str("abc"));
    wire_put_bytes(&buf, slice_make(NULL, 0));
    wire_put_raw(&buf, slice_str("xy"));
    wire_reader_init(&reader, buf_slice(&buf));

    struct slice abc = wire_get_bytes(&reader, 3);

    assert_ptr_equal(abc.data, buf.data + 4);
    assert_true(slice_eq(abc, slice_str("abc")));
    assert_int_equal(wire_get_bytes(&reader, 3).len, 0);
    assert_true(slice_eq(wire_get_raw(&reader, 2), slice_str("xy")));
    assert_true(wire_reader_done(&reader));
    buf_release(&buf);
}

TEST(a_length_beyond_the_maximum_or_the_input_fails)
{
    struct wire_reader reader;

    wire_reader_init(&reader, slice_make("\x03\0\0\0abc", 7));
    assert_int_equal(wire_get_bytes(&reader, 2).len, 0);
    assert_false(wire_reader_ok(&reader));

    wire_reader_init(&reader, slice_make("\xff\xff\xff\xff"
                                         "abc",
                                         7));
    assert_null(wire_get_bytes(&reader, SIZE_MAX).data);
    assert_false(wire_reader_ok(&reader));

    wire_reader_init(&reader, slice_make("abc", 3));
    assert_null(wire_get_raw(&reader, SIZE_MAX).data);
    assert_false(wire_reader_ok(&reader));
}

TEST(the_error_sticks)
{
    struct wire_reader reader;

    wire_reader_init(&reader, slice_make("\x01\x02\x03", 3));
    assert_int_equal(wire_get_u32(&reader), 0);
    assert_int_equal(wire_get_u8(&reader), 0);
    assert_int_equal(wire_get_u16(&reader), 0);
    assert_true(wire_get_u64(&reader) == 0);
    assert_false(wire_reader_ok(&reader));
    assert_false(wire_reader_done(&reader));

    wire_reader_init(&reader, slice_make("\x01", 1));
    wire_reader_fail(&reader);
    assert_int_equal(wire_get_u8(&reader), 0);

    wire_reader_init(&reader, slice_make("\x01", 1));
    assert_false(wire_reader_done(&reader)); /* Left over. */
    wire_reader_init(&reader, slice_make(NULL, 0));
    assert_true(wire_reader_done(&reader));
}

TEST(store_and_load)
{
    uint8_t memory[9] = {0};

    wire_store_u64(memory + 1, UINT64_C(0x1122334455667788));
    assert_int_equal(memory[1], 0x88);
    assert_true(wire_load_u64(memory + 1) == UINT64_C(0x1122334455667788));
    wire_store_u32(memory + 1, 0xaabbccdd);
    assert_int_equal(wire_load_u32(memory + 1), 0xaabbccdd);
    assert_int_equal(wire_load_u32(memory + 5), 0x11223344);
}
