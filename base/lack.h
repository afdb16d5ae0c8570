/*
 * lack.h - ends the process when the machine lacks what the process needs: memory, a descriptor for
 * an event loop, a library that can be initialised.
 *
 * This is not an assertion, because the program is right. The process ends all the same, with a
 * sentence that tells its operator what is lacking.
 */
#ifndef BASE_LACK_H
#define BASE_LACK_H

/* Ends the process. `text` is a sentence without a full stop. May be called by any thread, also
 * when there is no memory: it must not allocate. */
typedef void lack_report_fn(const char *text);

/* Sets the function that lack_failed calls to end the process. Call this once at start, before
 * there are threads. If no function was set, or the function returns all the same, lack_failed
 * writes the sentence to stderr behind "zabra: " and ends the process with exit code 1. */
void lack_setup(lack_report_fn *report);

/* Reports the lack and ends the process. Any thread. */
_Noreturn void lack_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
