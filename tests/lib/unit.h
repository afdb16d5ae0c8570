/*
 * unit.h - cmocka with the headers that it needs before it. Tests include this one, because sorted
 * includes would put cmocka.h first, where it does not compile.
 */
#ifndef TESTS_LIB_UNIT_H
#define TESTS_LIB_UNIT_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#endif
