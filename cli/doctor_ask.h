/* doctor_ask.h - the reports of all replicas, as the doctor needs them, and its result. */
#ifndef CLI_DOCTOR_ASK_H
#define CLI_DOCTOR_ASK_H

#include "cli/cli.h"

/* Asks all replicas and fills the object `facts` (doctor.h). Returns CMD_OK, whatever they answer;
 * or CMD_SHOWN, or the code of a reported error. */
int doctor_ask(struct cli *cli, json_t *facts);

/* Returns {"ok","replicas","errors","warnings","findings"}, which the caller drops. */
json_t *doctor_result(const json_t *facts);

#endif
