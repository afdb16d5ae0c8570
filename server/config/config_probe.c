/* Where a replica answers probes, as its file and its environment say it. */
#include "base/mem.h"
#include "server/config/config_int.h"

#include <stdio.h>

/* Writes the address at which a process of the same machine reaches a listener. */
static void take_host(const char *listen, char host[CONFIG_HOST_MAX])
{
    bool is_any_v4 = strcmp(listen, "0.0.0.0") == 0;
    bool is_any_v6 = strcmp(listen, "::") == 0;

    (void)snprintf(host, CONFIG_HOST_MAX, "%s",
                   is_any_v4   ? "127.0.0.1"
                   : is_any_v6 ? "::1"
                               : listen);
}

static enum err find(struct config_loader *loader, struct config_probe *ret_probe)
{
    const struct config_clients *clients = &loader->config->clients;
    char host[CONFIG_HOST_MAX];

    *ret_probe = (struct config_probe){.port = clients->client_port};
    if (clients->probe_listen[0] != '\0') {
        enum err err = config_split_listen(loader, "probeListen", clients->probe_listen, host,
                                           &ret_probe->port);

        take_host(host, ret_probe->host);
        return err;
    }
    take_host(clients->client_address, ret_probe->host);
    ret_probe->is_secure = clients->tls.mode == CONFIG_TLS_REQUIRED;
    if (ret_probe->is_secure && clients->tls.clients == CONFIG_CERTIFICATES_REQUIRED) {
        return config_fail(loader,
                           "clientCertificates: required, so the port for clients answers no probe "
                           "without a certificate; give probeListen, for example "
                           "probeListen=127.0.0.1:9997");
    }
    return ERR_OK;
}

enum err config_find_probe(const struct config_sources *sources, struct config_probe *ret_probe,
                           char error[CONFIG_ERROR_MAX])
{
    struct config *config = mem_zalloc(1, sizeof *config);
    struct config_report *report = mem_zalloc(1, sizeof *report);
    struct config_loader loader = {.config = config, .report = report};
    enum err err = config_take_sources(&loader, sources);

    THEN(err, find(&loader, ret_probe));
    (void)snprintf(error, CONFIG_ERROR_MAX, "%s", report->error);
    mem_free(report);
    mem_free(config);
    return err;
}
