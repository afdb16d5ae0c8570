/*
 * dial.h - the client side of TLS, for connections whose bytes socket.h encrypts in place. `zabra
 * migrate` reaches a ZooKeeper by it; requests over https are libcurl's.
 *
 * TLS 1.2 and 1.3, security level 2. The certificate of the server must be from the CA, and must
 * prove the name or the address that was dialled: no option leaves that out.
 */
#ifndef TLS_DIAL_H
#define TLS_DIAL_H

#include "tls/socket.h"

enum {
    TLS_DIAL_ERROR_MAX = 512
};

struct tls_dial;

/* Loads the files: the CAs of servers; the certificate and the key of this client, or NULL for
 * both. Returns NULL with a sentence when one of them is not usable. */
struct tls_dial *tls_dial_new(const char *ca_file, const char *cert_file, const char *key_file,
                              char ret_error[TLS_DIAL_ERROR_MAX]);
void tls_dial_free(struct tls_dial *dial); /* Accepts NULL. */

/* Whether this client has a certificate. */
bool tls_dial_proves(const struct tls_dial *dial);

/* A connection before its handshake, to the server `host`. The descriptor stays the caller's and
 * must not block. */
struct tls_socket *tls_dial_socket(const struct tls_dial *dial, int fd, const char *host);

/* Continues the handshake as tls_socket_shake() does. When it failed, `ret_why` says why: the words
 * that follow "TLS: ". */
enum tls_step tls_dial_shake(struct tls_socket *socket, char ret_why[TLS_DIAL_ERROR_MAX]);

#endif
