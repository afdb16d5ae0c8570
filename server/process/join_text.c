#include "server/process/join_text.h"

#include "base/buf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool is_plain(const char *word)
{
    for (; *word; word++) {
        if (!isalnum((unsigned char)*word) && !strchr("._:/-", *word)) {
            return false;
        }
    }
    return true;
}

static void put_word(struct buf *out, const char *word)
{
    if (is_plain(word)) {
        buf_append_str(out, word);
        return;
    }
    buf_append_byte(out, '\'');
    for (; *word; word++) {
        if (*word == '\'') {
            buf_append_str(out, "'\\''");
        } else {
            buf_append_byte(out, (uint8_t)*word);
        }
    }
    buf_append_byte(out, '\'');
}

bool join_command_text(const struct join_command *command, char *text, size_t size)
{
    struct buf out;

    buf_init(&out, size - 1);
    buf_printf(&out, "zabra members add %u ", command->id);
    put_word(&out, command->address);
    if (command->zone[0] != '\0') {
        buf_append_str(&out, " --zone ");
        put_word(&out, command->zone);
    }
    if (command->endpoint[0] != '\0') {
        char url[320];

        (void)snprintf(url, sizeof url, "http%s://%s", command->https ? "s" : "",
                       command->endpoint);
        buf_append_str(&out, " --endpoints ");
        put_word(&out, url);
    }
    bool fits = !out.overflow;

    (void)snprintf(text, size, "%.*s", fits ? (int)out.len : 0, (const char *)out.data);
    buf_release(&out);
    return fits;
}
