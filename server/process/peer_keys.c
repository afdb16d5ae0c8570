/* The secrets and the certificate with which this replica proves itself to the others. */
#include "server/process/server_int.h"

enum err peer_keys_load(const struct config *config, const struct config_secrets *secrets,
                        struct keys **ret_keys, char error[SERVER_ERROR_MAX])
{
    struct keys_options options = {.secret_count = secrets->count,
                                   .cert_file = config->peers.cert_file,
                                   .key_file = config->peers.key_file,
                                   .ca_file = config->peers.ca_file};

    for (uint32_t i = 0; i < secrets->count; i++) {
        options.secrets[i] = slice_make(secrets->items[i].bytes, secrets->items[i].len);
    }
    return keys_load(&options, ret_keys, error);
}
