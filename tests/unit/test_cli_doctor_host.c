/* What the doctor finds about machines, backups and changes that last. */
#include "cli/doctor.h"
#include "tests/lib/unit.h"
#include "tests/unit/doctor_kit.h"

#include <stdbool.h>
#include <string.h>

/* One healthy replica that serves, with these metrics and this member of the ensemble. */
static void expect_code(const char *metrics, const char *member, const char *code)
{
    struct buf text;

    buf_init(&text, 1 << 12);
    buf_printf(&text,
               "{'ensemble':{'leader':1,%s'members':[]},'replicas':[{'endpoint':'http://a','status'"
               ":{'id':1,'serving':true},'limits':{'maxTreeBytes':1000},'metrics':{%s}}]}",
               member, metrics);
    json_t *facts = facts_of(&text);
    json_t *findings = doctor_look(facts);
    const json_t *finding = json_array_get(findings, 0);

    if (json_array_size(findings) != (*code ? 1 : 0) ||
        strcmp(jsonr_text(finding, "code"), code) != 0) {
        fail_msg("%s%s: found %zu, first \"%s\", not \"%s\"", metrics, member,
                 json_array_size(findings), jsonr_text(finding, "code"), code);
    }
    json_decref(findings);
    json_decref(facts);
}

struct sample {
    const char *metrics;
    const char *code;
};

TEST(each_lack_of_the_machines_is_named)
{
    static const struct sample samples[] = {
        {"", ""},
        {"'process_open_fds':7999,'process_max_fds':10000", ""},
        {"'process_open_fds':8000,'process_max_fds':10000", "files-short"},
        {"'process_open_fds':80,'process_max_fds':4095", "files-short"},
        {"'process_open_fds':80,'process_max_fds':4096", ""},
        {"'zabra_memory_max_bytes':10000,'process_resident_memory_bytes':8999", ""},
        {"'zabra_memory_max_bytes':10000,'process_resident_memory_bytes':9000", "memory-short"},
        {"'zabra_memory_max_bytes':1250", ""},
        {"'zabra_memory_max_bytes':1249", "memory-short"},
        {"'zabra_disk_free_bytes':335544320", ""},
        {"'zabra_disk_free_bytes':335544319", "disk-short"},
        {"'zabra_disk_free_bytes':0", "disk-short"},
        {"'zabra_disk_free_bytes':335544320,'zabra_approximate_data_bytes':1", "disk-short"},
        /* The same cause once. */
        {"'zabra_disk_free_bytes':0,'zabra_log_stuck':1", "disk-full"},
        {"'zabra_disk_free_bytes':0,'zabra_disk_low':1", "disk-low"},
    };

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        expect_code(samples[i].metrics, "", samples[i].code);
    }
}

TEST(a_change_that_lasts_is_named)
{
    expect_code("", "'pending':null,", "");
    expect_code("", "'pending':{'version':'0x3','pending_ms':29999},", "");
    expect_code("", "'pending':{'version':'0x3','pending_ms':30000},", "change-pending");
    expect_code("", "'pending':{'version':'0x3'},", ""); /* Of an older release. */
}

/* A backup of any replica counts. */
TEST(the_age_of_backups_is_that_of_the_newest)
{
    static const struct {
        int clock_s;
        int last_s[2];
        int start_s;
        bool is_old;
    } cases[] = {
        {1000000, {827200, 0}, 1, false}, {1000000, {827199, 0}, 1, true},
        {1000000, {1, 999999}, 1, false}, {1000000, {0, 0}, 395200, false},
        {1000000, {0, 0}, 395199, true},  {1000000, {1, 2}, 999990, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct buf text;

        buf_init(&text, 1 << 12);
        buf_printf(&text, "{'replicas':[");
        for (int j = 0; j < 2; j++) {
            buf_printf(&text,
                       "%s{'endpoint':'http://%d','clock_ms':%d000,'asked_ms':%d300,"
                       "'answered_ms':%d301,'status':{'id':%d,'serving':true},'metrics':{"
                       "'zabra_backup_last_seconds':%d,'process_start_time_seconds':%d}}",
                       j ? "," : "", j, cases[i].clock_s, cases[i].clock_s, cases[i].clock_s, j + 1,
                       cases[i].last_s[j], cases[i].start_s);
        }
        buf_printf(&text, "]}");
        json_t *facts = facts_of(&text);
        json_t *findings = doctor_look(facts);

        assert_int_equal(doctor_with(findings, "code", "backup-old") != NULL, cases[i].is_old);
        json_decref(findings);
        json_decref(facts);
    }
}
