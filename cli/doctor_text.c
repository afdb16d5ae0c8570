/* What each finding of the doctor means, and what to do. */
#include "cli/doctor_int.h"

const struct doctor_text doctor_texts[DOCTOR_KINDS] = {
    [DUPLICATE_ID] =
        {true, "duplicate-id",
         "The one that was connected first keeps its place. The other one is refused: it "
         "serves nothing and tries again.",
         "Stop the process that is not meant to run; if it is to be a replica of its "
         "own, give it another id and an empty dataDir. When the right one is refused, "
         "end the other one: it is let in within two seconds."},
    [NO_QUORUM] = {true, "no-quorum",
                   "No majority of the voters works together: nothing can be "
                   "written, and reads end soon.",
                   "Start the replicas that are down, or mend the network between them: see the "
                   "findings above. Only if their disks are lost for good: zabra help recover."},
    [UNREACHABLE] = {true, "unreachable",
                     "It is not running, or there is no way to its client "
                     "port.",
                     "Look at its log and start it; else look at clientPort, clientAddress "
                     "and the firewall; or take it out of --endpoints."},
    [NOT_ZABRA] = {true, "not-zabra",
                   "Another server listens there, or a proxy that has found no replica.",
                   "Correct --endpoints, or the clientPort of the replica that should be there; "
                   "behind a proxy look at the replicas themselves."},
    [REFUSED] = {true, "refused", "It runs, and does not answer you.",
                 "With 401 look at --user and "
                 "the password, with 421 at its allowedHosts."},
    [OTHER_CLUSTER] = {true, "wrong-cluster", "These endpoints are replicas of several ensembles.",
                       "Correct --endpoints, or the server list of the one that is a stranger."},
    [OTHER_HISTORY] = {true, "wrong-history",
                       "They go on from different points: some were "
                       "restored or recovered, the others have what was before.",
                       "Decide which "
                       "one is right, stop the others and start them with empty directories "
                       "(docs/operating.md)."},
    [STATES_DIFFER] = {true, "states-differ",
                       "At the same zxid they hold different trees. This "
                       "must never happen.",
                       "Keep the logs and directories and report it; "
                       "replicas of the minority refill themselves."},
    [NOT_READY] = {true, "not-ready", "It answers, but does not serve.",
                   "What it says itself is "
                   "the reason; if it lasts, look at its log."},
    [NOT_MEMBER] = {true, "not-ready",
                    "Its disk is new or not trusted: it is filled by the leader, shows its tree "
                    "meanwhile, and does not vote.",
                    "Wait: that ends by itself. A disk in the place of another votes when that one "
                    "has been absent for 10 s and the others are a majority without it, at most "
                    "once in 10 minutes; a new ensemble needs all of its list at first."},
    [PEER_REFUSED] = {true, "peer-refused", "Replicas do not accept each other's connections.",
                      "Give all the same peerSecretFile and server list; the log of the one that "
                      "refuses says which of them is wrong."},
    [LOG_STUCK] = {true, "disk-full",
                   "Nothing can be appended to its log: it takes no writes, and "
                   "refuses reads once its tree is too old.",
                   "Free space on the disk of its dataDir; the replica then continues by itself."},
    [MISSING] = {true, "missing", "A member of the ensemble is not there for the others.",
                 "Start it, or mend the network between the replicas' peer ports."},
    [NO_SPARE] = {false, "no-spare", "With one replica less there is no majority.",
                  "Bring back the ones that are missing."},
    [LAGGING] = {false, "lagging",
                 "What it shows is old; it may have too little CPU, disk or "
                 "network.",
                 "Look at its zabra_log_sync_seconds and at the load of its machine."},
    [DISK_LOW] = {false, "disk-low", "There is no room for the next segment of its log.",
                  "Free space on the disk of its dataDir now."},
    [DISK_SLOW] = {false, "disk-slow", "Every write waits for this disk, if a majority is as slow.",
                   "Give dataDir an SSD of its own; see docs/operating.md, Disks."},
    [SNAPSHOTS_FAIL] = {false, "snapshots-fail",
                        "Until one can be written the log grows, and a "
                        "start takes longer.",
                        "Its log says why; as a rule there is no space."},
    [REFILL_LOST] = {false, "refill-lost",
                     "A replica that is brought in step needs the leader's log from the start of "
                     "its snapshot. The leader had to purge that log, and the refill began again.",
                     "Raise maxRefillLogBytes or free space on the disk of the leader's dataDir; "
                     "or give the replica a faster network."},
    [REFILL_STALLED] =
        {false, "refill-stalled",
         "A replica that is connected with the leader, and shown as joining by "
         "`zabra members`, has taken nothing of its refill for 300 ticks. The leader "
         "keeps no log for it any longer, so that its refill may begin again.",
         "Look at the log and the disk of that replica and at the network between "
         "the two; restart the replica if it stands still."},
    [CLOCK_SKEW] = {false, "clock-skew",
                    "Times of changes (ctime, mtime) follow a majority of the "
                    "voters' clocks: with one voter down a wrong clock can make them wrong. Logs "
                    "cannot be compared. Nothing else depends on clocks.",
                    "Run chrony or systemd-timesyncd on all machines."},
    [VERSIONS_DIFFER] = {false, "versions-differ",
                         "Right in the middle of an upgrade, and only "
                         "then.",
                         "Finish it: one replica after the other."},
    [CONFIG_DIFFERS] = {false, "config-differs",
                        "What clients may do depends on who answers, and "
                        "changes with the leader.",
                        "Give all replicas the same values."},
    [EVEN_VOTERS] = {false, "even-voters",
                     "One voter more than needed: it makes writes slower, "
                     "and no further loss is survived.",
                     "Who votes is settled when an ensemble is "
                     "founded: found the next one with an odd number (docs/operating.md)."},
    [NO_CLIENT_ADDRESS] = {false, "no-client-address",
                           "Clients cannot find it by asking the "
                           "others.",
                           "Set advertiseClient=host:port in its configuration."},
    [LOOPBACK_ADDRESS] = {false, "loopback-address",
                          "It tells clients an address that leads them "
                          "to themselves.",
                          "Set advertiseClient=host:port to one that others "
                          "reach."},
    [NEAR_LIMIT] = {false, "near-limit",
                    "When it is reached, what comes next is refused with 429 "
                    "or 503.",
                    "Find out who uses so many, or raise the limit on all replicas."},
    [TREE_FULL] = {false, "tree-full",
                   "At the limit all writes that need memory are refused with 507, and new "
                   "sessions as well; deletes pass.",
                   "Delete what is not needed, or give that replica more memory and a larger "
                   "maxTreeBytes."},
    [UNSENT_SHORT] = {false, "unsent-short",
                      "Clients do not read what they asked for. The replica closes the slowest "
                      "clients; slow watchers get their events later.",
                      "Find the clients that read slowly. Raise maxUnsentBytes if so many large "
                      "answers at a time are intended."},
    [UNSENT_FULL] = {false, "unsent-full",
                     "Reads with answers above 16 KiB get 429 until clients read, or are closed. "
                     "Writes and small reads are answered.",
                     "Find the clients that do not read, or ask for less at a time. Raise "
                     "maxUnsentBytes if the machine has the memory."},
    [QUOTA_EXCEEDED] = {false, "quota-exceeded",
                        "A soft limit refuses no write; a subtree now holds more "
                        "than its limit says.",
                        "zabra quota lists them."},
};
