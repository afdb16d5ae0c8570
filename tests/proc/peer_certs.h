/*
 * peer_certs.h - an ensemble named "shop" whose replicas have certificates for each other, and no
 * secret. Replica N has NAME.pem and NAME.key of the kit, with NAME = peer-N.
 */
#ifndef TESTS_PROC_PEER_CERTS_H
#define TESTS_PROC_PEER_CERTS_H

#include "tests/lib/cert_kit.h"
#include "tests/proc/ensemble.h"

/* Makes "NAME.pem" and "NAME.key" for the replica `id` of this ensemble. */
void peer_certs_make(struct cert_kit *kit, const char *name, uint32_t id, enum cert_kit_life life);

/* Opens the kit and writes the configuration of each replica; none is started. */
void peer_certs_open(struct ensemble *ensemble, struct cert_kit *kit);

#endif
