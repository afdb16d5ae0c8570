/*
 * inherited.h - which descriptors a command is to get: those that we have got ourselves.
 *
 * The library that speaks HTTP opens sockets which a command would inherit, and so keep a
 * connection (to a replica, in a session) open that is ours.
 */
#ifndef CLI_INHERITED_H
#define CLI_INHERITED_H

/* Called first of all: what is open now was given to us. */
void inherited_note(void);

/* As if this one, which must not be closed by exec, had been given to us, too. */
void inherited_add(int fd);

/* Whatever else is open will be closed by exec. Safe between fork and exec. */
void inherited_only(void);

#endif
