/*
 * library.h - loads shared libraries that only some commands need.
 *
 * A replica runs for months and needs neither libcurl nor libedit. With those the loader would map
 * thirty more libraries into it, for LDAP, Kerberos and SSH among others, at every start.
 */
#ifndef CLI_LIBRARY_H
#define CLI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

enum {
    LIBRARY_ERROR_MAX = 512
};

struct library_symbol {
    const char *name; /* NULL: the end of the list. */
    void *slot;       /* Where the pointer to the function is written. */
};

/* Loads the library and finds its functions. `file` is its name for the loader, as "libcurl.so.4",
 * `package` that of Debian's package. The library stays loaded until the process ends. Returns
 * false with a sentence without a full stop in `error`; then some slots may have been written. */
bool library_load(const char *file, const char *package, const struct library_symbol *symbols,
                  char error[LIBRARY_ERROR_MAX]);

#endif
