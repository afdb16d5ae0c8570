/*
 * children.h - the processes that a command has started, once they are orphans.
 *
 * A command starts others, and ends before them. They become our children then, and can be ended
 * too when nothing of it may continue: also what has left its process group. One thread.
 */
#ifndef CLI_CHILDREN_H
#define CLI_CHILDREN_H

#include <sys/types.h>

/* Before a command is started: from now on what children of ours leave behind is ours. Those that
 * are there already have nothing to do with it. */
void children_adopt(void);

/* Sends a signal (0: none) to each child that has come since then and runs. Returns how many there
 * are; 0 also where this cannot be known. */
int children_signal(int number);

/* Waits for orphans that have ended, but not for `command`, nor for children from before the first
 * command: its starter does. */
void children_wait(pid_t command);

#endif
