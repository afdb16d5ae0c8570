/* build.h - from which commit the program was built; cmake/commit.cmake writes the values. */
#ifndef CLI_BUILD_H
#define CLI_BUILD_H

#include <stdbool.h>

extern const char build_commit[];      /* "unknown": neither git nor a source tarball. */
extern const long long build_commit_s; /* When it was made, seconds since 1970; 0: unknown. */
extern const bool build_modified;      /* Files under version control differed from it. */

#endif
