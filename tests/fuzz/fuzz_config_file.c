/*
 * The configuration file. What loads is within the limits of its table, and means the same when it
 * is written out and loaded again; any other file gives an error of one line.
 *
 * The text is in a file without a name, so nothing is left on the disk. Inputs that name a secret
 * file are not run: they would open any file or device.
 */
#include "server/config/config.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/config_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct config config; /* Too large for the stack. */
static struct config config_again;
static struct config_report report;

static enum err load_text(struct slice text, struct config *ret_config)
{
    char path[64];
    int fd = memfd_create("config", MFD_CLOEXEC);

    ASSERT(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);

    struct config_sources sources = {.file = path};
    enum err err = config_load(&sources, ret_config, &report);

    close(fd);
    return err;
}

static void check_line(const char *text, size_t size)
{
    ASSERT(memchr(text, 0, size) && text[0] != '\0');
    for (; *text; text++) {
        ASSERT((unsigned char)*text >= ' ');
    }
}

static void check_servers(const struct config *loaded)
{
    uint32_t before = 0;

    bool joins = loaded->peers.join_count > 0;

    ASSERT(loaded->peers.server_count <= ZAB_MEMBERS_MAX);
    ASSERT(loaded->peers.join_count <= CONFIG_JOINS_MAX);
    ASSERT(joins || (loaded->peers.server_count > 0 && loaded->peers.bootstrap == 0));
    ASSERT(loaded->peers.bootstrap == 0 || loaded->peers.server_count == 0);
    ASSERT(loaded->peers.is_alone || loaded->peers.own.port != 0);
    for (uint32_t i = 0; i < loaded->peers.server_count; i++) {
        const struct config_server *server = &loaded->peers.servers[i];

        ASSERT(server->id > before && server->id <= ZAB_ID_MAX && server->host[0] != '\0');
        ASSERT(server->port != 0 || loaded->peers.server_count == 1);
        before = server->id;
    }
    ASSERT(joins || config_self(loaded)->id == loaded->id);
}

static void check_rows(const struct config *loaded)
{
    const struct config_row *rows;
    size_t count = config_rows(&rows);

    for (size_t i = 0; i < count; i++) {
        if (rows[i].type == CONFIG_TEXT) {
            ASSERT(strlen((const char *)loaded + rows[i].offset) <= rows[i].max);
        } else if (rows[i].type != CONFIG_CHOICE) {
            uint64_t value = config_number(loaded, &rows[i]);

            ASSERT(value >= rows[i].min && value <= rows[i].max);
        }
    }
}

/* All keys with their effective values. */
static void write_all(const struct config *loaded, struct buf *out)
{
    config_kit_write(loaded, out);
    for (uint32_t i = 0; i < loaded->peers.server_count; i++) {
        const struct config_server *server = &loaded->peers.servers[i];

        if (server->port != 0 && !loaded->peers.is_alone) {
            buf_printf(out, "server.%" PRIu32 "=[%s]:%u%s\n", server->id, server->host,
                       server->port, server->voter ? "" : ":observer");
        }
    }
    ASSERT(!out->overflow);
}

static bool fuzz_one(struct slice input)
{
    struct buf first;
    struct buf second;

    if (input.len > 0 && memmem(input.data, input.len, "SecretFile", 10)) {
        return false;
    }

    enum err err = load_text(input, &config);

    for (uint32_t i = 0; i < report.warning_count; i++) {
        check_line(report.warnings[i], CONFIG_ERROR_MAX);
    }
    if (err != ERR_OK) {
        ASSERT(err == ERR_CONFIG);
        check_line(report.error, CONFIG_ERROR_MAX);
        return false;
    }
    ASSERT(report.error[0] == '\0');
    check_servers(&config);
    check_rows(&config);
    buf_init(&first, 1 << 20);
    buf_init(&second, 1 << 20);
    write_all(&config, &first);
    err = load_text(buf_slice(&first), &config_again);
    ASSERT(err == ERR_OK);
    write_all(&config_again, &second);
    ASSERT(slice_eq(buf_slice(&first), buf_slice(&second)));
    buf_release(&first);
    buf_release(&second);
    return true;
}

static void fuzz_seeds(struct fuzz_sink *sink)
{
    fuzz_seed_text(sink, "least", "id=1\ndataDir=/d\n");
    fuzz_seed_text(sink, "three",
                   "# three replicas on one machine\n\nid = 2\r\n dataDir = /var/lib/z \n"
                   "server.1=localhost:7101\nserver.3=[::1]:7103:observer\n"
                   "server.2=127.0.0.1:7102:participant\nclientPort=9999\n");
    fuzz_seed_text(sink, "all-types",
                   "id=65535\ndataDir=d\nclientAddress=0.0.0.0\ninsecure=true\nhttpThreads=4\n"
                   "allowedHosts=a, b\nallowedOrigins=\nsnapBytes=1099511627776\n"
                   "walSegmentBytes=65536\nmaxDataBytes=1024\nmaxMultiBytes=8192\n"
                   "logLevel=debug\nlogFormat=json\n");
}

FUZZ_TARGET(config_file)
