/* The first chapter of docs/operating.md, as it stands there: its commands are cut out of the page
 * and run on three replicas, then its backups with the command line of the unit. Only host names,
 * ports and directories are replaced. */
#include "tests/lib/ports.h"
#include "tests/lib/unit.h"
#include "tests/proc/page.h"
#include "tests/proc/shell.h"

enum {
    REPLICAS = 3,
    FILES = 1, /* The blocks of the chapter that tests run. */
    CLOSING,
    BACKUP
};

static struct ensemble ensemble;
static uint16_t probes[REPLICAS];

static void cut_out(uint32_t number, const char *name)
{
    const struct page_block block = {.page = "docs/operating.md",
                                     .heading = "Three machines in ten minutes",
                                     .kind = "sh",
                                     .number = number};

    page_cut(&block, name);
    page_localize(&ensemble, name);
}

/* Each replica gets the directory that the page makes for it: what the test has for it are its
 * numbers, ports and members. */
static void configure(void)
{
    cut_out(FILES, "files");
    shell_expect("sed -i 's/zk$n[.]example[.]org$/localhost,127.0.0.1/' $D/files && "
                 "sh -e $D/files 2>&1",
                 0, "CN=zk3");
    shell_expect("stat -c %a tls/ca.key zk1/zk1.key zk3/zk3.key tls/secret zk2/secret | uniq", 0,
                 "600\n");
    for (uint32_t i = 0; i < REPLICAS; i++) {
        const struct replica *replica = &ensemble.replicas[i];

        probes[i] = port_free();
        assert_int_equal(
            shell("c=zk%u/zabra.cfg; grep -qx id=%u $c && "
                  "sed -i '/^clientTls=/d; /^tls/d; /^peerSecretFile=/d' %s && "
                  "sed -E '/^(id|dataDir|server[.].|clientPort)=/d; s/0[.]0[.]0[.]0/127.0.0.1/; "
                  "s/^(advertiseClient=).*/\\1localhost:%u/; s/^(probeListen=.*:).*/\\1%u/; "
                  "s,/etc/zabra/,%s/zk%u/,' $c >>%s",
                  i + 1, i + 1, replica->config, replica->client_port, probes[i], ensemble.dir,
                  i + 1, replica->config),
            0);
    }
}

/* Runs the block with which the administrator looks at the whole. */
static void close_tree(void)
{
    cut_out(CLOSING, "closing");
    shell_expect("eval \"$LIB\"; eval \"$(grep '^export' $D/closing)\"; "
                 "await 'zabra doctor | grep -q \"no problem found\"'",
                 0, "");
    shell_expect("sh -e $D/closing 2>&1", 0, "no problem found");
    shell_expect("tail -1 $D/closing | grep -c ^curl", 0, "1\n");
    shell_expect("eval \"$(grep '^export' $D/closing)\"; zabra get /app", 0, "one");
}

static void open_page(void)
{
    page_ensemble_open(&ensemble, REPLICAS, configure, probes);
    close_tree();
}

static void close_page(void)
{
    page_ensemble_close(&ensemble);
}

TEST_GROUP(open_page, close_page)

/* The settings of the page and the command line of the unit, whose own settings name a password. */
TEST(the_unit_takes_backups_with_the_certificate)
{
    cut_out(BACKUP, "settings");
    shell_expect("sh -e $D/settings && sed -i \"s,/etc/zabra/,$D/tls/,\" backup.env && "
                 "mkdir backups",
                 0, "");
    assert_int_equal(
        shell("u=%s/deploy/systemd/zabra-backup.service.in; sed -n 's/^Environment=//p' $u | "
              "tr ' ' '\\n' >unit.env; "
              "sed -n 's/^ExecStart=@zabra_binary@/zabra/p' $u | "
              "sed 's,/var/lib/zabra-backup$,backups,' >unit && grep -q 'backups$' unit",
              ZABRA_TOP),
        0);
    shell_expect("set -a; . ./unit.env; sh ./unit 2>&1", 2, "backup-password: No such file");
    shell_expect("set -a; . ./unit.env; . ./backup.env; sh ./unit 2>&1", 0, "full backup");
    shell_expect("set -a; . ./unit.env; . ./backup.env; zabra set /app two && sh ./unit 2>&1", 0,
                 "increment");
    shell_expect("zabra restore --from backups --dir drill --id 1 && zabra inspect drill", 0,
                 "drill: sound");
    shell_expect("zabra inspect backups", 1, "'zabra inspect' it alone");
}
