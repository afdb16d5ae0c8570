/*
 * doctor.h - diagnoses an ensemble from the reports of its replicas. Pure.
 *
 * Facts are one object: "ensemble" (an answer of /ensemble/v1, or null) and "replicas", a list of
 * {"endpoint","error","status","ready","limits","metrics","clock_ms","asked_ms","answered_ms"}:
 * answers of the routes of these names, figures by their names, and the clock that its Date has
 * shown. A replica that does not answer has an "error" and nothing else; "foreign" is true when
 * another server has answered in its place.
 */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <jansson.h>

/* A list of {"severity","code","subject","found","meaning","advice"}, the worst first; the caller
 * drops it. Severity is "error" or "warning". */
json_t *doctor_look(const json_t *facts);

#endif
