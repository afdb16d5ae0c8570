#include "server/op/trend_request.h"

#include "base/check.h"

static const char *const names[] = {
#define X(symbol, name) name,
    TREND_MAP(X)
#undef X
};

/* The next name of a list; false at its end. */
static bool next_name(struct slice *rest, struct slice *ret_name)
{
    if (rest->len == 0) {
        return false;
    }
    size_t len = slice_find(*rest, ',');

    *ret_name = slice_make(rest->data, len);
    *rest = slice_from(*rest, min_size(len + 1, rest->len));
    return true;
}

const char *trend_series_name(enum trend_series series)
{
    ASSERT(series < TREND_COUNT);

    return names[series];
}

bool trend_is_wanted(const struct trend_request *request, enum trend_series series)
{
    struct slice list = request->series;
    struct slice wanted;

    if (list.len == 0) {
        return true;
    }
    while (next_name(&list, &wanted)) {
        if (slice_eq(wanted, slice_str(names[series]))) {
            return true;
        }
    }
    return false;
}

static bool is_known(struct slice name)
{
    for (uint32_t i = 0; i < TREND_COUNT; i++) {
        if (slice_eq(slice_str(names[i]), name)) {
            return true;
        }
    }
    return false;
}

enum err trend_check(const struct trend_request *request, const char **ret_why)
{
    struct slice rest = request->series;
    struct slice name;

    if (request->step_s != TREND_FINE_S && request->step_s != TREND_COARSE_S) {
        *ret_why = "step must be 1 or 10 seconds";
        return ERR_BAD_ARGUMENTS;
    }
    while (next_name(&rest, &name)) {
        if (!is_known(name)) {
            *ret_why =
                "series must be names of series, comma separated; without it the answer has all";
            return ERR_BAD_ARGUMENTS;
        }
    }
    return ERR_OK;
}
