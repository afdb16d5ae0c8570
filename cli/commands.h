/* commands.h - the rows of the table of commands, each in the file that does its work. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cmd.h"

/* Data. */
extern const struct cmd cmd_get;
extern const struct cmd cmd_set;
extern const struct cmd cmd_create;
extern const struct cmd cmd_rm;
extern const struct cmd cmd_ls;
extern const struct cmd cmd_tree;
extern const struct cmd cmd_stat;
extern const struct cmd cmd_cp;
extern const struct cmd cmd_mv;
extern const struct cmd cmd_edit;
extern const struct cmd cmd_find;
extern const struct cmd cmd_touch;
extern const struct cmd cmd_incr;
extern const struct cmd cmd_multi;
extern const struct cmd cmd_export;
extern const struct cmd cmd_import;

/* Watching. */
extern const struct cmd cmd_watch;

/* Recipes. */
extern const struct cmd cmd_lock;
extern const struct cmd cmd_semaphore;
extern const struct cmd cmd_elect;
extern const struct cmd cmd_barrier;
extern const struct cmd cmd_queue;
extern const struct cmd cmd_counter;

/* Sessions and rights. */
extern const struct cmd cmd_session;
extern const struct cmd cmd_acl;
extern const struct cmd cmd_quota;
extern const struct cmd cmd_whoami;

/* Cluster. */
extern const struct cmd cmd_status;
extern const struct cmd cmd_members;
extern const struct cmd cmd_metrics;
extern const struct cmd cmd_doctor;
extern const struct cmd cmd_serve;
extern const struct cmd cmd_dev;
extern const struct cmd cmd_inspect;
extern const struct cmd cmd_recover;

/* Tools; cmd_version and cmd_help are in help.h. */
extern const struct cmd cmd_shell;
extern const struct cmd cmd_api;
extern const struct cmd cmd_bench;
extern const struct cmd cmd_completion;
extern const struct cmd cmd_complete;
extern const struct cmd cmd_man;

#endif
