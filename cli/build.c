/* For programs without a commit, such as tests, which need not be linked again after each commit.
 * The linker does not take this file where the program itself has these values. */
#include "cli/build.h"

const char build_commit[] = "unknown";
const long long build_commit_s = 0;
const bool build_modified = false;
