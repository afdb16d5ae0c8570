/* What all parts of the doctor use: findings, names of replicas, checks of /readyz, metrics. */
#include "base/check.h"
#include "cli/doctor_int.h"
#include "cli/jsonr.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    FOUND_MAX = 512
};

void doctor_find(struct look *look, enum doctor_kind kind, const char *subject, const char *format,
                 ...)
{
    char found[FOUND_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(found, sizeof(found), format, list);
    va_end(list);

    json_t *finding = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s}", "severity", doctor_texts[kind].error ? "error" : "warning",
        "code", doctor_texts[kind].code, "subject", subject, "found", found, "meaning",
        doctor_texts[kind].meaning, "advice", doctor_texts[kind].advice);

    ASSERT(finding);
    (void)json_array_append_new(look->findings, finding);
}

const json_t *doctor_member_at(const struct look *look, const char *endpoint)
{
    const json_t *member = NULL;
    size_t i = 0;

    json_array_foreach(jsonr_at(look->ensemble, "members"), i, member)
    {
        if (strcmp(jsonr_text(member, "client"), endpoint) == 0) {
            return member;
        }
    }
    return NULL;
}

void doctor_name(const struct look *look, const json_t *replica, char subject[DOCTOR_SUBJECT_MAX])
{
    int64_t id = jsonr_number(replica, "status.id");

    if (id == 0) {
        id = jsonr_number(doctor_member_at(look, jsonr_text(replica, "endpoint")), "id");
    }
    if (id > 0) {
        (void)snprintf(subject, DOCTOR_SUBJECT_MAX, "replica %" PRId64 " (%s)", id,
                       jsonr_text(replica, "endpoint"));
    } else {
        (void)snprintf(subject, DOCTOR_SUBJECT_MAX, "%s", jsonr_text(replica, "endpoint"));
    }
}

double doctor_figure(const json_t *replica, const char *name)
{
    return json_number_value(json_object_get(json_object_get(replica, "metrics"), name));
}

bool doctor_is_check(const json_t *check, const char *name)
{
    return strcmp(jsonr_text(check, "name"), name) == 0;
}

bool doctor_is_about_leader(const json_t *check)
{
    return doctor_is_check(check, "leader") || doctor_is_check(check, "in_step") ||
           doctor_is_check(check, "fresh");
}

bool doctor_is_explained(const json_t *replica)
{
    bool duplicate = *jsonr_text(replica, "status.duplicate") &&
                     !json_is_true(jsonr_at(replica, "status.serving"));

    return duplicate || doctor_figure(replica, "zabra_log_stuck") > 0;
}
