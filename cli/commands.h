/* commands.h - the rows of the table of commands, each in the file that does its work. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/cmd.h"

/* All rows, in the order of help: `row(get)` stands for cmd_get. */
#define CMD_ROWS(row)                                                                            \
    row(get) row(set) row(create) row(rm) row(ls) row(tree) row(stat) row(cp) row(mv) row(edit)  \
        row(find) row(touch) row(incr) row(multi) row(export) row(import) row(watch) row(lock)   \
            row(semaphore) row(elect) row(barrier) row(queue) row(counter) row(session) row(acl) \
                row(quota) row(whoami) row(status) row(members) row(metrics) row(doctor)         \
                    row(serve) row(dev) row(inspect) row(recover) row(shell) row(api) row(bench) \
                        row(completion) row(version) row(help) row(complete) row(man)

#define CMD_DECLARE(name) extern const struct cmd cmd_##name;

CMD_ROWS(CMD_DECLARE)

#endif
