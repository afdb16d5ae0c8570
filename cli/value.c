#include "cli/value.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool value_read_file(const struct cli *cli, const char *name, struct buf *out)
{
    bool input = strcmp(name, "-") == 0;
    int fd = input ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    bool ok = fd >= 0 && settings_read_all(fd, out);
    int why = errno;

    if (fd >= 0 && !input) {
        close(fd);
    }
    if (!ok && out->overflow) {
        (void)cli_fail(cli, CMD_LIMIT, "TooLarge", "%s is larger than %d bytes", name,
                       (int)VALUE_MAX);
    } else if (!ok) {
        (void)cli_fail(cli, CMD_FAILED, "File", "%s: %s", name, strerrordesc_np(why));
    }
    return ok;
}

bool value_read(const struct cli *cli, const char *operand, struct value *value)
{
    *value = (struct value){.given = operand != NULL};
    buf_init(&value->bytes, VALUE_MAX);
    if (!operand) {
        return true;
    }

    bool input = strcmp(operand, "-") == 0;

    if (!input && operand[0] != '@') {
        return buf_append_str(&value->bytes, operand);
    }
    value->from = input ? "@-" : operand;
    if (!input && operand[1] == '\0') {
        (void)cli_usage(cli, "a file name must follow @");
        return false;
    }
    return cli->settings.curl || value_read_file(cli, input ? "-" : operand + 1, &value->bytes);
}

void value_release(struct value *value)
{
    buf_release(&value->bytes);
}

void value_put(const struct value *value, struct client_request *request)
{
    request->has_body = value->given;
    request->body = buf_slice(&value->bytes);
    request->body_from = value->from;
}
