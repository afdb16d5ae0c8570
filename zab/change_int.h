/*
 * change_int.h - a change of the configuration while the leader makes it; for change*.c only.
 */
#ifndef ZAB_CHANGE_INT_H
#define ZAB_CHANGE_INT_H

#include "zab/zab_int.h"

/* The configuration that is to be proposed. Members without an edit keep their texts. */
struct change_draft {
    struct zab_config config;
    struct zab_config_edit edits[ZAB_MEMBERS_MAX]; /* The slices are those of the change, or of
                                                      the committed configuration. */
    uint32_t edit_count;
};

/* Sets the texts that the member has in the draft; empty for other ids. */
void change_texts_of(const struct zab *zab, const struct change_draft *draft, uint32_t id,
                     struct zab_texts *ret_texts);

/* Whether both have an address for other replicas, and the same one. */
bool change_have_same_address(const struct zab_texts *a, const struct zab_texts *b);

/* facts.c: adds what the host knows of the members' texts to the draft. True if there is something
 * that is to be proposed now. facts_written: it was proposed, or could not be. */
bool facts_draft(struct zab *zab, struct change_draft *draft);
void facts_written(struct zab *zab);

/* Judges the changes of members and makes them in the draft, which is the committed configuration
 * with the version of the new one. */
enum zab_fault change_members(const struct zab *zab, const struct zab_change *change,
                              struct change_draft *draft, struct zab_change_report *report);

/* Whether the observer may become a voter. */
enum zab_fault change_judge_step(const struct zab *zab, const struct peer *peer,
                                 struct zab_change_report *report);

/* Judges the voters of the draft against those of the committed configuration. */
enum zab_fault change_judge_voters(const struct zab *zab, const struct zab_change *change,
                                   const struct change_draft *draft,
                                   struct zab_change_report *report);

#endif
