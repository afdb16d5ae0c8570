/* Which recorded figures a client asks for. */
#include "server/op/trend_request.h"

#include "base/check.h"

static const char *const series_names[] = {
#define X(symbol, name) name,
    TREND_MAP(X)
#undef X
};

const char *trend_series_name(enum trend_series series)
{
    ASSERT(series < TREND_COUNT);

    return series_names[series];
}

bool trend_is_wanted(const struct trend_request *request, enum trend_series series)
{
    struct slice list = request->series;
    bool wanted = list.len == 0;

    while (list.len > 0 && !wanted) {
        wanted = slice_eq(slice_cut(&list, ','), slice_str(series_names[series]));
    }
    return wanted;
}

static bool is_series(struct slice name)
{
    for (uint32_t i = 0; i < TREND_COUNT; i++) {
        if (slice_eq(slice_str(series_names[i]), name)) {
            return true;
        }
    }
    return false;
}

static enum err refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return ERR_BAD_ARGUMENTS;
}

enum err trend_check(const struct trend_request *request, const char **ret_why)
{
    struct slice rest = request->series;

    if (request->step_s != TREND_FINE_S && request->step_s != TREND_COARSE_S) {
        return refuse(ret_why, "step= must be 1 or 10 (seconds)");
    }
    while (rest.len > 0) {
        if (!is_series(slice_cut(&rest, ','))) {
            return refuse(
                ret_why,
                "series= must be names of series, comma separated; without series= the answer has "
                "all series");
        }
    }
    return ERR_OK;
}
