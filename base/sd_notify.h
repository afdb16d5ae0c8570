/*
 * sd_notify.h - tells the service manager what the process does: datagrams to $NOTIFY_SOCKET, as
 * sd_notify(3) of systemd describes them.
 *
 * Nothing waits for the manager: a datagram that finds no room is lost. That is harmless for the
 * watchdog and the status, which are sent again and again; the few others find an empty queue.
 */
#ifndef BASE_SD_NOTIFY_H
#define BASE_SD_NOTIFY_H

#include <stdint.h>

enum {
    SD_NOTIFY_TEXT_MAX = 512 /* Bytes of a datagram, with the final zero. */
};

struct sd_notify {
    int fd; /* Connected to the manager; -1: there is none. */
    /* The manager ends the process after this time without "WATCHDOG=1"; 0: never. */
    uint32_t watchdog_ms;
};

/* Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID of the environment. A path that cannot be
 * used counts as no manager. */
void sd_notify_open(struct sd_notify *ret_notify);

void sd_notify_close(struct sd_notify *notify);

/* Sends lines of NAME=value; never blocks. Any thread. */
void sd_notify_send(const struct sd_notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
