/*
 * inherited.h - what this process has inherited: descriptors to hand down to a command, and signals
 * that the parent process ignores.
 *
 * libcurl opens sockets. Without inherited_only() a command would inherit them, and so keep a
 * connection of zabra (to a replica, in a session) open.
 */
#ifndef CLI_INHERITED_H
#define CLI_INHERITED_H

#include <signal.h>
#include <stdbool.h>

/* Records the open descriptors as inherited. Called before the process opens any itself. */
void inherited_note(void);

/* Treats a descriptor as inherited, too, so that exec does not close it. */
void inherited_add(int fd);

/* Whether the parent process has set this signal to be ignored, as nohup does with SIGHUP. Called
 * before zabra handles a signal: a handler, or a descriptor of signals, would receive the signal
 * all the same. */
bool inherited_ignores(int signal_number);

/* Blocks the signals in the list, which ends with 0, and returns a descriptor from which they are
 * read as struct signalfd_siginfo, without waiting. SIGHUP is left out when the parent process
 * ignores it. `old_mask` (or NULL) gets the signals that were blocked before. When no descriptor is
 * left, the process ends. */
int inherited_take_signals(const int *signals, sigset_t *old_mask);

/* Lets exec close all descriptors that were not inherited. Safe between fork and exec. */
void inherited_only(void);

#endif
