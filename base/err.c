#include "base/err.h"

#include "base/check.h"

struct err_row {
    int http;
    int number;
    const char *symbol;
    const char *name;
    const char *text;
};

static const struct err_row *row_of(enum err err)
{
    static const struct err_row rows[ERR_COUNT] = {
#define X(symbol, http, number, name, text) {http, number, #symbol, name, text},
        ERR_MAP(X)
#undef X
    };

    ASSERT((unsigned)err < ERR_COUNT);

    return &rows[err];
}

const char *err_text(enum err err)
{
    return row_of(err)->text;
}

const char *err_symbol(enum err err)
{
    return row_of(err)->symbol;
}

const char *err_name(enum err err)
{
    return row_of(err)->name;
}

int err_number(enum err err)
{
    return row_of(err)->number;
}

int err_http_status(enum err err)
{
    return row_of(err)->http;
}
