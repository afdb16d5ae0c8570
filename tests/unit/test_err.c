#include "base/err.h"
#include "tests/lib/unit.h"

TEST(known_rows)
{
    assert_int_equal(ERR_OK, 0);
    assert_string_equal(err_symbol(ERR_NO_NODE), "NO_NODE");
    assert_string_equal(err_name(ERR_NO_NODE), "NoNode");
    assert_string_equal(err_text(ERR_NO_NODE), "znode does not exist");
    assert_int_equal(err_number(ERR_NO_NODE), -101);
    assert_int_equal(err_http_status(ERR_NO_NODE), 404);
    assert_int_equal(err_http_status(ERR_BAD_VERSION), 412);
    assert_int_equal(err_number(ERR_SESSION_EXPIRED), -112);
}

TEST(every_row_is_complete)
{
    for (int i = 0; i < ERR_COUNT; i++) {
        enum err err = (enum err)i;

        assert_true(err_text(err)[0] != '\0');
        assert_true(err_symbol(err)[0] != '\0');
        assert_true(err_name(err)[0] != '\0');
        assert_in_range(err_http_status(err), 200, 599);
        assert_true(err == ERR_OK ? err_number(err) == 0 : err_number(err) < 0);
    }
}
