/*
 * inherited.h - what was given to this process: which descriptors a command is to get, and which
 * signals it is not to take.
 *
 * The library that speaks HTTP opens sockets which a command would inherit, and so keep a
 * connection (to a replica, in a session) open that is ours.
 */
#ifndef CLI_INHERITED_H
#define CLI_INHERITED_H

#include <signal.h>
#include <stdbool.h>

/* Called first of all: what is open now was given to us. */
void inherited_note(void);

/* Treats a descriptor as given to us, too; exec must not close it. */
void inherited_add(int fd);

/* True when the parent process has set this signal to be ignored, as nohup does with
 * SIGHUP: a process that takes signals itself would receive it all the same. */
bool inherited_ignores(int signal_number);

/* From now on the signals, a list that ends with 0, are read from the descriptor that is returned,
 * of struct signalfd_siginfo, without waiting: but not SIGHUP when the parent process ignores it.
 * `old_mask` (or NULL) is what was blocked before. Without a descriptor the process ends. */
int inherited_take_signals(const int *signals, sigset_t *old_mask);

/* Lets exec close all other descriptors. Safe between fork and exec. */
void inherited_only(void);

#endif
