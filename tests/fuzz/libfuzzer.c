/* The driver of the build for fuzzing: libFuzzer calls this for each input. */
#include "tests/fuzz/fuzz.h"

/* NOLINTBEGIN(readability-identifier-naming): libFuzzer's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > FUZZ_INPUT_MAX) {
        return -1; /* Not kept in the corpus. */
    }
    (void)fuzz_one(slice_make(data, size));
    return 0;
}

/* NOLINTEND(readability-identifier-naming) */
