/* The driver of the build for fuzzing: libFuzzer calls this for each input. */
#include "tests/fuzz/fuzz.h"

static const struct fuzz_target *target; /* The only one of the program. */

void fuzz_add(struct fuzz_target *added)
{
    target = added;
}

/* NOLINTBEGIN(readability-identifier-naming): libFuzzer's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > FUZZ_INPUT_MAX) {
        return -1; /* Not kept in the corpus. */
    }
    (void)target->one(slice_make(data, size));
    return 0;
}

/* NOLINTEND(readability-identifier-naming) */
