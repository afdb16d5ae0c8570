/*
 * doctor_kit.h - facts for the findings of `zabra doctor`.
 */
#ifndef TESTS_UNIT_DOCTOR_KIT_H
#define TESTS_UNIT_DOCTOR_KIT_H

#include "base/buf.h"
#include "cli/jsonr.h"
#include "tests/lib/unit.h"

/* The facts of a text in which ' stands for "; releases the text. The caller releases the facts. */
static inline json_t *facts_of(struct buf *text)
{
    char error[JSONR_ERROR_MAX];

    for (size_t i = 0; i < text->len; i++) {
        text->data[i] = text->data[i] == '\'' ? '"' : text->data[i];
    }

    json_t *facts = jsonr_parse(buf_slice(text), error);

    if (!facts) {
        fail_msg("%s: %s", buf_cstr(text), error);
    }
    buf_release(text);
    return facts;
}

#endif
