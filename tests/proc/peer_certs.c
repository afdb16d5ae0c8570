#include "tests/proc/peer_certs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void peer_certs_make(struct cert_kit *kit, const char *name, uint32_t id, enum cert_kit_life life)
{
    char uri[64];
    struct cert_kit_spec spec = {.kind = ISSUE_PEER, .common = name, .uri = uri, .life = life};

    (void)snprintf(uri, sizeof(uri), "zabra://shop/%u", id);
    cert_kit_add(kit, name, &spec);
}

void peer_certs_open(struct ensemble *ensemble, struct cert_kit *kit)
{
    char lines[4 * CERT_KIT_PATH_MAX];
    char name[16];

    cert_kit_open(kit);
    for (uint32_t i = 0; i < ensemble->count; i++) {
        int fd = open(ensemble->replicas[i].config, O_WRONLY | O_APPEND | O_CLOEXEC);

        (void)snprintf(name, sizeof(name), "peer-%u", i + 1);
        peer_certs_make(kit, name, i + 1, CERT_KIT_VALID);
        (void)snprintf(lines, sizeof(lines),
                       "environment=shop\npeerTls=required\npeerCertFile=%s/%s.pem\n"
                       "peerKeyFile=%s/%s.key\npeerCaFile=%s/ca.pem\n",
                       kit->dir, name, kit->dir, name, kit->dir);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, lines, strlen(lines)), (ssize_t)strlen(lines));
        close(fd);
    }
}
