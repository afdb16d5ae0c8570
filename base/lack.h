/*
 * lack.h - the machine lacks what the process needs: memory, a descriptor for an event queue, a
 * library that starts.
 *
 * This is no assertion, because the program is right. The process ends all the same, with a
 * sentence that says to its operator what to do.
 */
#ifndef BASE_LACK_H
#define BASE_LACK_H

/* Ends the process. `text` is a sentence without a full stop. May be called by any thread, also
 * when there is no memory: it must not allocate. */
typedef void lack_report_fn(const char *text);

/* Sets the function that lack_failed calls; once at start, before there are threads. The function
 * ends the process; if it returns, or none was set, the sentence is written to stderr behind
 * "zabra: " and the exit code is 1. */
void lack_setup(lack_report_fn *report);

/* Any thread. */
_Noreturn void lack_failed(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
