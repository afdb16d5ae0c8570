/* tls_bench.h - the server's side of TLS for the targets: one certificate, and handshakes. */
#ifndef TESTS_FUZZ_TLS_BENCH_H
#define TESTS_FUZZ_TLS_BENCH_H

#include "tls/socket.h"

#include "tests/lib/tls_peer.h"

/* The context of all connections; made once, and never for another certificate. */
struct tls_context *tls_bench_context(void);

/* Opens the client's side of a connection. */
void tls_bench_dial(struct tls_peer *peer, int fd);

/* Continues the server's handshake, and checks that a failure has a reason. */
enum tls_step tls_bench_step(struct tls_socket *socket);

/* Runs a handshake between two that follow the rules. */
void tls_bench_shake(struct tls_socket *socket, struct tls_peer *peer);

#endif
