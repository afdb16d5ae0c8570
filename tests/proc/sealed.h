/*
 * sealed.h - the tests over TLS: with ZABRA_TEST_TLS=1 the replicas get a certificate and
 * clientTls=optional, and this program speaks TLS to their client ports.
 *
 * Hardly a test knows of it. The linker replaces the calls of the test's objects: connect() makes
 * the handshake, and recv(), read(), send(), write() and poll() then work on decrypted bytes
 * (tls/socket.h). libcurl gets https and the CA (web.c). Commands that a test runs still use plain
 * connections, which the same port takes.
 */
#ifndef TESTS_PROC_SEALED_H
#define TESTS_PROC_SEALED_H

#include "base/buf.h"

bool sealed_on(void);

/* Appends the lines of configuration of a replica; none when `keys` (NULL: none), the lines of the
 * test, set clientTls. */
void sealed_configure(const char *keys, struct buf *out);

/* Called before a replica starts with this file: only if the file has those lines, this program
 * speaks TLS to its client port. A test may have written its own file. */
void sealed_note(uint16_t client_port, const char *config);

/* Whether TLS is on and a replica has this client port. */
bool sealed_has(uint16_t port);

/* The file of the CA. */
const char *sealed_ca(void);

#endif
