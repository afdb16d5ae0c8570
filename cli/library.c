#include "cli/library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static bool failed(const char *file, const char *package, char error[LIBRARY_ERROR_MAX])
{
    const char *why = dlerror(); /* NOLINT(concurrency-mt-unsafe): each thread has its own. */

    (void)snprintf(error, LIBRARY_ERROR_MAX,
                   "the library %s cannot be loaded (%s); install the package %s", file,
                   why ? why : "no reason given", package);
    return false;
}

bool library_load(const char *file, const char *package, const struct library_symbol *symbols,
                  char error[LIBRARY_ERROR_MAX])
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        return failed(file, package, error);
    }
    for (; symbols->name; symbols++) {
        void *function = dlsym(library, symbols->name);

        if (!function) { /* It is older than the one that the program was built with. */
            return failed(file, package, error);
        }
        memcpy(symbols->slot, &function, sizeof(function));
    }
    return true;
}
