/* zab_notice.h - the text of a notice of the protocol core, put together from its pieces. */
#ifndef TESTS_LIB_ZAB_NOTICE_H
#define TESTS_LIB_ZAB_NOTICE_H

#include "zab/zab.h"

void zab_notice_text(const struct zab_notice *notice, char text[ZAB_TEXT_MAX]);

#endif
