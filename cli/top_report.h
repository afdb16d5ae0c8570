/*
 * top_report.h - adds up what all replicas report about their load. Pure.
 *
 * Facts are one object: "ensemble" (an answer of /ensemble/v1, or null) and "replicas", a list of
 * {"endpoint","top","watches"}: the answers of /top/v1 and of /watches/v1?clients=true, or instead
 * of "top" an "error".
 */
#ifndef CLI_TOP_REPORT_H
#define CLI_TOP_REPORT_H

#include "cli/jsonr.h"

/* Returns {"prefixes","clients","watchers","replicas","complete"}, which the caller drops; each
 * list has at most `rows` rows, except "replicas". Rates are requests per second. A prefix is left
 * out if one of the prefixes below it causes nearly all of its requests. */
json_t *top_report_of(const json_t *facts, size_t rows);

#endif
