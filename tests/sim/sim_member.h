/*
 * sim_member.h - the operation "reconfigure": a client asks for other members while all other
 * faults strike, and an operator starts the machines that join and stops those that leave.
 *
 * A node is a machine. It is idle while it belongs to no ensemble: no process runs on it. The plan
 * asks only for changes that keep a majority of sound disks in the committed configuration, in each
 * one that may still be committed, and in the one that it asks for.
 */
#ifndef TESTS_SIM_SIM_MEMBER_H
#define TESTS_SIM_SIM_MEMBER_H

#include "tests/sim/sim.h"

/* The founders are at work; the other machines are idle. */
void sim_member_init(struct sim *sim);

/* Machines begin to join without a list. */
void sim_member_begin(struct sim *sim);

/* sim_change.c: begins to ask for changes. */
void sim_change_begin(struct sim *sim);

/* Sets the server list for a process that starts now, or how it joins. */
void sim_member_options(struct sim *sim, struct sim_node *node, struct zab_init *init);

/* The host looks which machines it reaches, and reports whether it reaches all. */
void sim_member_met(struct sim *sim, struct sim_node *a, struct sim_node *b);

/* The committed configuration has such a member. */
bool sim_member_is(const struct sim *sim, const struct sim_node *node);

/* The replica writes that its disk is in a cluster: there is only one (A39). */
void sim_member_persists(struct sim *sim, const struct sim_node *node,
                         const struct zab_config *config);

/* A leader proposes this configuration: it names all removed disks, and each disk that becomes a
 * voter is in step (A34, A35). */
void sim_member_proposed(struct sim *sim, const struct sim_node *leader, const struct logrec *rec,
                         const struct zab_config *config);

/* A leader is established: its disk was not removed (A34). */
void sim_member_established(struct sim *sim, const struct sim_node *leader);

/* Another configuration is committed: machines of new members start, others stop after a while. */
void sim_member_committed(struct sim *sim);

/* The replica has learnt that its disk was removed: its process ends. */
void sim_member_removed(struct sim *sim, struct sim_node *node);

/* A majority of sound disks is in the configuration, and in each one that may be committed. */
bool sim_member_is_safe(struct sim *sim, const struct zab_config *config);

/* A port of the machine, drawn again. */
uint16_t sim_member_port(struct sim *sim, const struct sim_node *node);

/* No configuration that binds, may be committed or was asked for needs the disk of this node. */
bool sim_member_may_lose(struct sim *sim, const struct sim_node *node);

/* The address that `from` has of `to` is right. */
bool sim_member_reaches(struct sim *sim, const struct sim_node *from, const struct sim_node *to);

/* The faults are over: all addresses are right from now on. */
void sim_member_end(struct sim *sim);

#endif
