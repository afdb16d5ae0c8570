/* check.h - assertions that stay on in every build: a wrong replica must stop, not answer. */
#ifndef BASE_CHECK_H
#define BASE_CHECK_H

/* Aborts. First writes the failed expression and its place to stderr, unless the write would have
 * to wait for a reader. */
_Noreturn void check_failed(const char *file, int line, const char *expr);

#define ASSERT(expr)  ((expr) ? (void)0 : check_failed(__FILE__, __LINE__, #expr))
#define UNREACHABLE() check_failed(__FILE__, __LINE__, "unreachable")

/* Marks a parameter that a callback has to take and does not use. */
#define UNUSED __attribute__((unused))

#endif
