/* limits_kit.h - limits of the preparation that a test does not reach unless it lowers them. */
#ifndef TESTS_LIB_LIMITS_KIT_H
#define TESTS_LIB_LIMITS_KIT_H

#include "server/prepare/prep.h"

static const struct prep_limits kit_limits = {
    .data_bytes_max = 1 << 20,
    .txn_bytes_max = 1 << 20,
    .multi_ops_max = 100,
    .tree.recursive_max = 1000,
    .tree.session_min_ms = 1000,
    .tree.session_max_ms = 60000,
    .tree.session_default_ms = 10000,
    .tree.sessions_max = 1000,
    .tree.session_ephemerals_max = 100,
    .tree.session_ephemeral_bytes_max = 10000,
    .tree.remembered_max = 1000,
    .tree.remembered_bytes_max = 1 << 20,
    .tree.result_bytes_max = 1 << 16,
    .tree.remember_ms = 60000,
};

#endif
