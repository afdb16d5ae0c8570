/*
 * join_text.h - the command that adds a replica which waits to be added. Pure. Any thread.
 */
#ifndef SERVER_PROCESS_JOIN_TEXT_H
#define SERVER_PROCESS_JOIN_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct join_command {
    uint32_t id;
    const char *address;  /* host:port for other replicas. */
    const char *zone;     /* "": none. */
    const char *endpoint; /* host:port of a member for clients; "": not known. */
    bool https;
};

/* Writes the command for a shell, "zabra members add 4 zk4:10998". Other replicas choose the texts,
 * so each that has a character with a meaning for the shell is quoted. Returns false, with an empty
 * text, if the command does not fit. */
bool join_command_text(const struct join_command *command, char *text, size_t size);

#endif
