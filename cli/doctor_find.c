/* The findings of the doctor, with their meaning and advice. */
#include "base/check.h"
#include "cli/doctor.h"
#include "cli/url.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    FOUND_MAX = 512,
    SUBJECT_MAX = 320
};

struct doctor_text {
    bool error;          /* An error; else a warning. */
    const char *code;    /* Stable; in openapi/output.yaml. */
    const char *meaning; /* A sentence or two. */
    const char *advice;  /* Each word that looks like a key of the configuration must be one
                            (tests/unit/test_cli_doctor.c checks this). */
};

static const struct doctor_text texts[DOCTOR_KINDS] = {
    [DUPLICATE_ID] =
        {true, "duplicate-id",
         "Two processes run with the same id. The one that connected first keeps its place; the "
         "others refuse the second one, which serves nothing and retries.",
         "Stop the process that should not run. To make it a separate replica, give it another "
         "id and an empty dataDir. If the wrong process was first, stop it: the right one "
         "connects within two seconds."},
    [NO_QUORUM] = {true, "no-quorum",
                   "No majority of the voters works together: all writes are refused, and soon "
                   "reads too.",
                   "Start the replicas that are down, or repair the network between them: see "
                   "the findings above. Only if their disks are lost for good, see 'zabra help "
                   "recover'."},
    [UNREACHABLE] =
        {true, "unreachable",
         "The replica is not running, or the network does not reach its client port.",
         "Check the log of the replica and start the replica. If the replica runs, check "
         "clientPort, clientAddress and the firewall, or remove the replica from --endpoints."},
    [NOT_ZABRA] =
        {true, "not-zabra",
         "Another server listens at this endpoint, or a proxy without a replica behind it.",
         "Correct --endpoints, or the clientPort of the replica that should listen at this "
         "endpoint. Behind a proxy, check the replicas directly."},
    [TLS_FAILED] =
        {true, "tls",
         "The replica and this command cannot make a TLS connection, so the state of the replica "
         "is unknown.",
         "Do what the reason says. If other clients fail too, examine the certificate of the "
         "replica with 'zabra cert check'."},
    [REFUSED] = {true, "refused", "The replica runs, but refuses your requests.",
                 "For 401 check --user and the password, for 421 allowedHosts of the replica."},
    [OTHER_CLUSTER] = {true, "wrong-cluster", "These endpoints are replicas of several ensembles.",
                       "Correct --endpoints, or the server list of the replica that does not "
                       "belong here."},
    [OTHER_HISTORY] =
        {true, "wrong-history",
         "The histories of the replicas differ: some replicas were restored or recovered, the "
         "others have the state from before.",
         "Decide which history is right, stop the other replicas and start them "
         "with empty directories (docs/operating.md)."},
    [STATES_DIFFER] =
        {true, "states-differ",
         "The replicas hold different trees at the same zxid. This must never happen.",
         "Keep the logs and directories and report the bug. Replicas in the "
         "minority are refilled automatically."},
    [NOT_READY] = {true, "not-ready", "The replica answers, but does not serve.",
                   "See the reason above. If the problem persists, check the replica's log."},
    [NOT_MEMBER] =
        {true, "not-ready",
         "The disk of the replica is new or not trusted. The leader refills the replica, which "
         "meanwhile serves reads and does not vote.",
         "Wait: this ends automatically. A disk that replaces another one votes when "
         "the old one has been absent for 10 s and the others are a majority without "
         "it, at most once in 10 minutes. A new ensemble first needs all replicas of "
         "its list."},
    [PEER_REFUSED] = {true, "peer-refused", "Replicas do not accept each other's connections.",
                      "Give all replicas the same peerSecretFile and server list; the log of the "
                      "refusing replica says which one is wrong."},
    [LOG_STUCK] =
        {true, "disk-full",
         "The replica cannot append to its log: it refuses writes, and refuses reads once its "
         "tree is too old.",
         "Free space on the disk of dataDir; the replica then continues automatically."},
    [MISSING] = {true, "missing", "The other replicas do not reach this member.",
                 "Start the member, or repair the network between the peer ports of the replicas."},
    [NO_SPARE] = {false, "no-spare", "If one more voter fails, the majority is lost.",
                  "Bring back the missing voters."},
    [LAGGING] = {false, "lagging",
                 "The reads of the replica are stale; the replica may have too little CPU, disk or "
                 "network.",
                 "Check zabra_log_sync_seconds of the replica and the load of its machine."},
    [DISK_LOW] = {false, "disk-low", "The disk has no space for the next segment of the log.",
                  "Free space on the disk of dataDir now."},
    [AUDIT_FAILING] =
        {true, "audit-failing",
         "The audit file cannot be written. With auditFull=refuse the replica takes no writes "
         "until it can; with auditFull=drop lines are lost, also those of refused requests.",
         "Free space on the disk of auditFile, or check its permissions; the log of the replica "
         "names the reason. The replica then continues automatically."},
    [AUDIT_BEHIND] = {false, "audit-behind",
                      "The audit log is recorded later than changes are applied. What the log of "
                      "transactions loses meanwhile is not recorded.",
                      "Give auditFile a faster disk, and check the log of the replica."},
    [DISK_SLOW] = {false, "disk-slow",
                   "If a majority of the disks is as slow as this one, every write waits for them.",
                   "Give dataDir an SSD of its own; see docs/operating.md, Disks."},
    [SNAPSHOTS_FAIL] = {false, "snapshots-fail",
                        "The log grows until a snapshot succeeds, and a start takes longer.",
                        "Check the log of the replica for the reason; usually the disk is full."},
    [REFILL_LOST] = {false, "refill-lost",
                     "A joining replica needs the leader's log from the start of its snapshot. "
                     "The leader had to purge that log, so the refill started again.",
                     "Raise maxRefillLogBytes, free space on the disk of the leader's dataDir, "
                     "or give the replica a faster network."},
    [REFILL_STALLED] =
        {false, "refill-stalled",
         "A replica is connected to the leader and joining (see `zabra members`), but its "
         "refill made no progress for 300 ticks. The leader no longer keeps log for it, so the "
         "refill may start again.",
         "Check the log and the disk of that replica and the network between the two. If it is "
         "frozen, restart it."},
    [PEERS_PLAIN] =
        {false, "peers-plain",
         "The connections between the replicas are not encrypted: an attacker in the network "
         "between them can read and change all data.",
         "Set peerTls=accept on all replicas, one after the other, then dial, then required "
         "(docs/operating.md, TLS between replicas)."},
    [PEER_TLS_STEP] = {false, "peer-tls-step",
                       "A rolling change to TLS between the replicas is not complete. This is "
                       "normal during the change, and only then.",
                       "Take this step; 'zabra doctor' then shows the next one. The last is "
                       "peerTls=required."},
    [PEER_KEYS_BAD] =
        {false, "peer-keys-bad",
         "A file with a secret, certificate or key for other replicas has changed "
         "and is not usable. The replica continues with what it read before; it would "
         "not start again.",
         "The log of the replica says what is wrong. Correct peerSecretFile, "
         "peerCertFile, peerKeyFile or peerCaFile."},
    [PEER_CERTIFICATE] = {false, "peer-certificate",
                          "With an expired certificate the replica cannot connect to others again.",
                          "Make another certificate with 'zabra cert peer' and put it in the place "
                          "of peerCertFile and peerKeyFile; no restart is needed."},
    [CLOCK_SKEW] = {false, "clock-skew",
                    "ctime and mtime follow the clocks of a majority of the voters: with one "
                    "voter down, a wrong clock can make them wrong. Times in the logs of "
                    "different replicas cannot be compared. Nothing else depends on clocks.",
                    "Run chrony or systemd-timesyncd on all machines."},
    [VERSIONS_DIFFER] = {false, "versions-differ",
                         "This is normal during an upgrade, and only then.",
                         "Finish the upgrade, one replica after the other."},
    [CONFIG_DIFFERS] =
        {false, "config-differs",
         "Limits depend on the replica that answers, and change with the leader. So do "
         "requireIdentity (clients without an identity use a replica that has it "
         "off) and inheritAcl (the leader decides which ACL a new znode gets).",
         "Set the same values on all replicas."},
    [LIST_DIFFERS] =
        {false, "list-differs",
         "The members are those of the replicated configuration. The lines server.N of a replica "
         "only give addresses, so a list that is out of date hides a mistake, or an address that "
         "is over.",
         "Make the lines server.N of the replica name the members, as 'zabra members' shows them; "
         "the next restart of the replica reads them."},
    [REPLICA_WAITS] =
        {false, "replica-waits",
         "A replica with the secret of the ensemble is connected and is no member: it serves "
         "nothing until it is added.",
         "Add it as the super user with this command, or stop it (docs/operating.md, Adding a "
         "replica)."},
    [EVEN_VOTERS] = {false, "even-voters",
                     "The extra voter makes writes slower and does not tolerate a further failure.",
                     "Promote an observer or demote a voter: 'zabra members promote ID', 'zabra "
                     "members demote ID' (docs/operating.md)."},
    [NO_CLIENT_ADDRESS] = {false, "no-client-address",
                           "Clients cannot discover this member through the others.",
                           "Set advertiseClient=host:port in the configuration of this member."},
    [LOOPBACK_ADDRESS] =
        {false, "loopback-address",
         "This member advertises a loopback address, which leads clients to their own machine.",
         "Set advertiseClient=host:port to an address that clients reach."},
    [NEAR_LIMIT] = {false, "near-limit",
                    "At the limit, further requests are refused with 429 or 503.",
                    "Find the clients that use so many, or raise the limit on all replicas."},
    [TREE_FULL] = {false, "tree-full",
                   "At the limit, writes that need memory and new sessions are refused with 507; "
                   "deletes are still applied.",
                   "Delete data that is not needed, or give that replica more memory and a "
                   "larger maxTreeBytes."},
    [UNSENT_SHORT] = {false, "unsent-short",
                      "Clients do not read their answers. The replica closes the slowest "
                      "clients; slow watchers get their events later.",
                      "Find the slow clients. Raise maxUnsentBytes if so many large answers at a "
                      "time are intended."},
    [UNSENT_FULL] = {false, "unsent-full",
                     "Reads with answers above 16 KiB get 429 until the slow clients read or are "
                     "closed. Writes and small reads still work.",
                     "Find the clients that do not read, or request less at a time. Raise "
                     "maxUnsentBytes if the machine has the memory."},
    [QUOTA_EXCEEDED] = {false, "quota-exceeded",
                        "A subtree exceeds its soft limit. A soft limit refuses no write.",
                        "List the quotas with 'zabra quota'."},
    [CERT_EXPIRED] = {true, "certificate-expired",
                      "Clients that check the certificate refuse the replica.",
                      "Give the replica a new certificate ('zabra cert server' makes one); the "
                      "replica loads it without a restart."},
    [CERT_EXPIRES] = {false, "certificate-expires",
                      "After that, clients that check the certificate refuse the replica.",
                      "Give the replica a new certificate ('zabra cert server' makes one); the "
                      "replica loads it without a restart."},
    [CLIENT_CA_EXPIRES] =
        {false, "client-ca-expires",
         "With an expired CA all certificates that it has signed are refused, and "
         "the replica does not start.",
         "Replace the CA in clientCaFile, and the certificates that it has "
         "signed; the replica loads them without a restart."},
    [CLIENT_CRL_EXPIRES] = {false, "client-crl-expires",
                            "With an expired revocation list all certificates of its CA are "
                            "refused, and the replica does not start.",
                            "Put a list of today into clientCrlFile, and check the job that does "
                            "it; the replica loads it without a restart."},
    [CERT_RELOAD] = {false, "certificate-reload",
                     "The replica has continued with the certificates from before, which may "
                     "expire.",
                     "See the log of the replica for the reason, and examine the files with "
                     "'zabra cert check'. The replica loads good files within seconds."},
    [RELOAD_STUCK] =
        {false, "reload-stuck",
         "The replica serves with the certificates and keys that it has read before. Renewed ones "
         "are not used, and after a rename auditFile is not opened again, until the file system "
         "answers.",
         "Check the file systems of tlsCertFile, peerSecretFile, peerCertFile and auditFile; POST "
         "/status/v1?op=reload says which of them it is."},
    [FILES_SHORT] = {false, "files-short",
                     "At the limit the replica refuses connections, and a log that gets no file "
                     "acknowledges no write until one is free.",
                     "Raise the hard limit of open files (LimitNOFILE= of systemd, ulimit -Hn) to "
                     "65536 and restart the replica, or find the clients with many connections."},
    [MEMORY_SHORT] = {false, "memory-short",
                      "The kernel ends a process that needs more than that. The tree is in memory, "
                      "beside the bytes that wait for clients.",
                      "Give the replica more memory, or lower maxTreeBytes: the smallest value of "
                      "the voters applies, and half of the memory is the default."},
    [DISK_SHORT] = {false, "disk-short",
                    "When the disk is full the replica cannot write its log; when a majority of "
                    "the disks is full, all writes are refused.",
                    "Free space or enlarge the disk of dataDir. Fewer snapshots (snapRetainCount) "
                    "and less log between them (snapBytes) need less."},
    [BACKUP_OLD] = {false, "backup-old",
                    "A wrong delete, or the loss of all disks, cannot be undone beyond the last "
                    "backup.",
                    "Check the job that runs 'zabra backup', its log and its disk; run it by hand "
                    "with --verify."},
    [CHANGE_PENDING] = {false, "change-pending",
                        "A change is committed when majorities of the voters before it and after "
                        "it have it on their disks. No other change can begin meanwhile.",
                        "Bring back the voters that 'zabra members' shows as unreachable, also "
                        "those that the change adds; if one of them is slow, check its disk."},
};

static void name(const struct look *look, const json_t *about, char subject[SUBJECT_MAX])
{
    const char *endpoint = jsonr_text(about, "endpoint");
    int64_t id = jsonr_number(about, *endpoint ? "status.id" : "id");

    if (id == 0 && *endpoint) {
        id = jsonr_number(doctor_at(jsonr_at(look->ensemble, "members"), "client", endpoint), "id");
    }
    if (id > 0 && *endpoint) {
        (void)snprintf(subject, SUBJECT_MAX, "replica %" PRId64 " (%s)", id, endpoint);
    } else if (id > 0) {
        (void)snprintf(subject, SUBJECT_MAX, "replica %" PRId64, id);
    } else {
        (void)snprintf(subject, SUBJECT_MAX, "%s", *endpoint ? endpoint : "ensemble");
    }
}

void doctor_find(struct look *look, enum doctor_kind kind, const json_t *about, const char *format,
                 ...)
{
    char found[FOUND_MAX];
    char subject[SUBJECT_MAX];
    va_list list;

    va_start(list, format);
    (void)vsnprintf(found, sizeof(found), format, list);
    va_end(list);
    name(look, about, subject);

    json_t *finding =
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "severity", texts[kind].error ? "error" : "warning",
                  "code", texts[kind].code, "subject", subject, "found", found, "meaning",
                  texts[kind].meaning, "advice", texts[kind].advice);

    ASSERT(finding);
    (void)json_array_insert_new(
        look->findings, texts[kind].error ? look->errors++ : json_array_size(look->findings),
        finding);
}

const json_t *doctor_with(const json_t *list, const char *member, const char *text)
{
    JSONR_EACH (one, list) {
        if (strcmp(jsonr_text(one, member), text) == 0) {
            return one;
        }
    }
    return NULL;
}

const json_t *doctor_at(const json_t *list, const char *member, const char *url)
{
    JSONR_EACH (one, list) {
        if (url_same_place(jsonr_text(one, member), url)) {
            return one;
        }
    }
    return NULL;
}

double doctor_figure(const json_t *replica, const char *name)
{
    return json_number_value(json_object_get(jsonr_at(replica, "metrics"), name));
}
