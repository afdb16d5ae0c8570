/* The bytes of a transaction. */
#include "server/state/state.h"
#include "server/state/txn.h"
#include "tests/lib/unit.h"

static const struct txn_header header = {
    .origin_member = 3, .origin_boot = UINT64_MAX - 1, .request = 77, .time_ms = -5};

static void test_each_type_comes_back(void **state)
{
    (void)state;
    const struct txn_effect effects[] = {
        {.type = TXN_CREATE,
         .flags = TXN_REPLY,
         .path = slice_str("/a"),
         .data = slice_str("xy"),
         .acl = slice_str("acl"),
         .owner = OWNER_CONTAINER,
         .creates = 9},
        {.type = TXN_CREATE, .flags = TXN_NULL_DATA, .path = slice_str("/a/b")},
        {.type = TXN_SET, .path = slice_str("/a"), .data = slice_str("z"), .version = -7},
        {.type = TXN_DELETE, .flags = TXN_REPLY, .path = slice_str("/a/b")},
        {.type = TXN_CHECK, .path = slice_str("/")},
        {.type = TXN_SET_ACL, .path = slice_str("/a"), .acl = slice_str("w"), .version = 2},
        {.type = TXN_SESSION_OPEN, .extra = slice_str("session")},
        {.type = TXN_FORGET, .extra = slice_str("")},
    };
    struct wire_reader reader;
    struct txn_header got_header;
    struct txn_effect got;
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        txn_put(&txn, &effects[i]);
    }
    assert_int_equal(txn_open(&reader, buf_slice(&txn), &got_header), ERR_OK);
    assert_int_equal(got_header.origin_member, 3);
    assert_true(got_header.origin_boot == UINT64_MAX - 1);
    assert_int_equal(got_header.request, 77);
    assert_int_equal(got_header.time_ms, -5);
    for (size_t i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
        assert_int_equal(txn_next(&reader, &got), ERR_OK);
        assert_int_equal(got.type, effects[i].type);
        assert_int_equal(got.flags, effects[i].flags);
        assert_true(slice_eq(got.path, effects[i].path));
        assert_true(slice_eq(got.data, effects[i].data));
        assert_true(slice_eq(got.acl, effects[i].acl));
        assert_true(slice_eq(got.extra, effects[i].extra));
        assert_true(got.owner == effects[i].owner);
        assert_int_equal(got.creates, effects[i].creates);
        assert_int_equal(got.version, effects[i].version);
    }
    assert_int_equal(txn_next(&reader, &got), ERR_MISSING);
    assert_int_equal(txn_next(&reader, &got), ERR_MISSING);
    buf_release(&txn);
}

/* Reads everything; OK or the first error. */
static enum err read_all(struct slice txn)
{
    struct wire_reader reader;
    struct txn_header got_header;
    struct txn_effect got;
    enum err err = txn_open(&reader, txn, &got_header);

    while (err == ERR_OK) {
        err = txn_next(&reader, &got);
    }
    return err == ERR_MISSING ? ERR_OK : err;
}

static void test_every_cut_is_noticed(void **state)
{
    (void)state;
    struct buf txn;
    size_t header_len = 0;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    header_len = txn.len;
    txn_put(&txn, &(struct txn_effect){
                      .type = TXN_CREATE, .path = slice_str("/a"), .data = slice_str("xy")});
    assert_int_equal(read_all(buf_slice(&txn)), ERR_OK);
    for (size_t len = 0; len < txn.len; len++) {
        enum err want = len == header_len ? ERR_OK : ERR_FORMAT;

        assert_int_equal(read_all(slice_make(txn.data, len)), want);
    }
    buf_release(&txn);
}

static void assert_patched_refused(size_t pos, uint8_t value)
{
    struct buf txn;

    buf_init(&txn, 4096);
    txn_begin(&txn, &header);
    txn_put(&txn, &(struct txn_effect){.type = TXN_DELETE, .path = slice_str("/a")});
    txn.data[pos] = value;
    assert_int_equal(read_all(buf_slice(&txn)), ERR_FORMAT);
    buf_release(&txn);
}

static void test_what_is_not_known_is_refused(void **state)
{
    (void)state;

    assert_patched_refused(0, 2);              /* Version. */
    assert_patched_refused(1, 1);              /* Header flags. */
    assert_patched_refused(30, 0);             /* Type. */
    assert_patched_refused(30, 11);            /* Type. */
    assert_patched_refused(31, 4);             /* Effect flags. */
    assert_patched_refused(31, TXN_NULL_DATA); /* A delete has no data. */
    assert_patched_refused(36, 'a');           /* An illegal path. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_type_comes_back),
        cmocka_unit_test(test_every_cut_is_noticed),
        cmocka_unit_test(test_what_is_not_known_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
