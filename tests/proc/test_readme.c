/*
 * The front page is what a stranger tries first: its curl lines are run as they stand there,
 * against three replicas, and must print what it shows; the conversation on the page of WebSockets
 * is held likewise. Only the ports are exchanged. In what is shown "..." stands for anything; zxids
 * and times are those of another day.
 */
#include "base/buf.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/socket.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1 << 20,
    PORT_SHOWN = 9998, /* Of the first replica; the others follow. */
    LINES_MIN = 10,
    MESSAGES_MIN = 14,
    NOT_FOUND = 127,
    WAIT_MS = 10000 * ENSEMBLE_FACTOR /* A read elsewhere may be a moment behind. */
};

static struct ensemble ensemble;

static void read_file(const char *path, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    assert_true(fd >= 0);
    buf_clear(out);
    while (got > 0) {
        uint8_t *to = buf_reserve(out, BUFSIZ);

        assert_non_null(to);
        got = read(fd, to, BUFSIZ);
        out->len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
}

/* ---- What differs from day to day ---- */

static bool is_moving(struct slice key)
{
    static const char *const keys[] = {"czxid",    "mzxid",    "pzxid",   "zxid",
                                       "czxidHex", "mzxidHex", "ctime",   "mtime",
                                       "pzxidHex", "zxidHex",  "instance"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (slice_eq(key, slice_str(keys[i]))) {
            return true;
        }
    }
    return false;
}

/* The length of `"key":` when a value that changes begins behind it, else 0. */
static size_t moving_key_len(const char *text)
{
    const char *end = *text == '"' ? strchr(text + 1, '"') : NULL;
    bool moving = end && end[1] == ':' && is_moving(slice_make(text + 1, (size_t)(end - text - 1)));

    return moving ? (size_t)(end + 2 - text) : 0;
}

/* The length of the address of one of the replicas, else 0. */
static size_t address_len(const char *text, unsigned *ret_index)
{
    static const char host[] = "127.0.0.1:";
    size_t host_len = sizeof(host) - 1;
    unsigned port = 0;

    if (strncmp(text, host, host_len) != 0 || sscanf(text + host_len, "%5u", &port) != 1 ||
        port < PORT_SHOWN || port >= PORT_SHOWN + ensemble.count) {
        return 0;
    }
    *ret_index = port - PORT_SHOWN;
    return host_len + strspn(text + host_len, "0123456789");
}

/* Exchanges ports, and values that change by "#". */
static void plain(const char *text, struct buf *out)
{
    buf_clear(out);
    while (*text) {
        unsigned index = 0;
        size_t key_len = moving_key_len(text);
        size_t len = address_len(text, &index);

        if (key_len > 0) {
            buf_append(out, text, key_len);
            buf_append_byte(out, '#');
            text += key_len + strcspn(text + key_len, ",}]");
        } else if (len > 0) {
            buf_printf(out, "127.0.0.1:%u", ensemble.replicas[index].client_port);
            text += len;
        } else {
            buf_append_byte(out, (uint8_t)*text++);
        }
    }
    while (out->len > 0 && isspace(out->data[out->len - 1])) {
        out->len--;
    }
}

/* Cuts what stands before the next "..." off `shown`, without the blanks around that; what is left
 * is NULL behind the last one. */
static struct slice next_piece(const char **shown)
{
    const char *gap = strstr(*shown, "...");
    struct slice piece = slice_make(*shown, gap ? (size_t)(gap - *shown) : strlen(*shown));

    while (gap && piece.len > 0 && piece.data[piece.len - 1] == ' ') {
        piece.len--;
    }
    *shown = gap ? gap + 3 + strspn(gap + 3, " ") : NULL;
    return piece;
}

/* Each piece in its order, the first at the start, the last at the end. */
static bool matches(const char *shown, const char *printed)
{
    bool first = true;

    while (shown) {
        struct slice piece = next_piece(&shown);
        size_t left = strlen(printed);
        const char *found = printed;

        if (piece.len > left) {
            return false;
        }
        if (!first) {
            found =
                shown ? memmem(printed, left, piece.data, piece.len) : printed + left - piece.len;
        }
        if (!found || memcmp(found, piece.data, piece.len) != 0) {
            return false;
        }
        printed = found + piece.len;
        first = false;
    }
    return *printed == '\0';
}

/* ---- Running it ---- */

static int run_line(const char *line, struct buf *printed)
{
    char path[256];
    struct buf command;

    (void)snprintf(path, sizeof(path), "%s/printed", ensemble.dir);
    buf_init(&command, TEXT_MAX);
    buf_printf(&command, "%s >%s 2>/dev/null", line, path);

    int status = system(buf_cstr(&command)); /* NOLINT(concurrency-mt-unsafe): one thread. */

    buf_release(&command);
    read_file(path, printed);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What came behind `line` is what is shown there. */
static bool is_shown(const char *line, const char *came, const char *shown)
{
    struct buf got;

    buf_init(&got, TEXT_MAX);
    plain(came, &got);

    bool same = shown[0] && matches(shown, buf_cstr(&got));

    if (!same) {
        print_message("%s\nprinted: %s\nshown:   %s\n", line, buf_cstr(&got), shown);
    }
    buf_release(&got);
    return same;
}

static bool prints(const char *line, const char *shown)
{
    struct buf printed;

    buf_init(&printed, TEXT_MAX);
    assert_int_equal(run_line(line, &printed), 0);

    bool same = is_shown(line, buf_cstr(&printed), shown);

    buf_release(&printed);
    return same;
}

/* Only what changes nothing may be tried again. */
static bool is_read(const char *line)
{
    return !strstr(line, " -X ") && !strstr(line, " -d ");
}

static void try_line(const char *line, const char *shown)
{
    struct buf line_here;
    struct buf shown_here;

    buf_init(&line_here, TEXT_MAX);
    buf_init(&shown_here, TEXT_MAX);
    plain(line, &line_here);
    plain(shown, &shown_here);
    if (is_read(line)) {
        ENSEMBLE_WAIT(&ensemble, WAIT_MS, prints(buf_cstr(&line_here), buf_cstr(&shown_here)));
    } else {
        ENSEMBLE_CHECK(&ensemble, prints(buf_cstr(&line_here), buf_cstr(&shown_here)));
    }
    buf_release(&line_here);
    buf_release(&shown_here);
}

/* A "$ curl" line, and what stands below it up to an empty line or the end of the block. */
static void test_the_front_page_is_true(void **state)
{
    const char *command = NULL;
    struct buf page;
    struct buf shown;
    uint32_t count = 0;

    (void)state;
    buf_init(&page, TEXT_MAX);
    buf_init(&shown, TEXT_MAX);
    read_file(ZABRA_README, &page);
    for (char *line = buf_cstr(&page), *next = NULL; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        if (!strncmp(line, "$ curl ", 7)) {
            command = line + 2;
            buf_clear(&shown);
        } else if (command && *line && strncmp(line, "```", 3) != 0) {
            buf_printf(&shown, "%s\n", line);
        } else if (command) {
            try_line(command, buf_cstr(&shown));
            command = NULL;
            count++;
        }
    }
    buf_release(&page);
    buf_release(&shown);
    print_message("%u lines\n", count);
    assert_true(count >= LINES_MIN);
}

/* ---- The page of WebSockets ---- */

static void expect_message(struct socket *socket, const char *asked, const char *shown)
{
    json_t *message = socket_next(socket, SOCKET_TIMEOUT_MS);
    struct buf came;
    struct buf shown_here;

    buf_init(&came, TEXT_MAX);
    buf_init(&shown_here, TEXT_MAX);
    ENSEMBLE_CHECK(&ensemble, message != NULL);
    came.len =
        json_dumpb(message, (char *)buf_reserve(&came, TEXT_MAX / 2), TEXT_MAX / 2, JSON_COMPACT);
    assert_in_range(came.len, 1, TEXT_MAX / 2);
    plain(shown, &shown_here);
    ENSEMBLE_CHECK(&ensemble, is_shown(asked, buf_cstr(&came), buf_cstr(&shown_here)));
    buf_release(&came);
    buf_release(&shown_here);
    json_decref(message);
}

/* What stands behind "C> " is sent, and what stands behind "S> " is the next that comes. */
static void test_the_page_of_websockets_is_true(void **state)
{
    struct socket *socket = socket_open(ensemble.replicas[0].client_port, NULL);
    const char *asked = "";
    struct buf page;
    uint32_t count = 0;

    (void)state;
    buf_init(&page, TEXT_MAX);
    read_file(ZABRA_DOCS "/websocket.md", &page);
    for (char *line = buf_cstr(&page), *next = NULL; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        if (!strncmp(line, "C> ", 3)) {
            asked = line + 3;
            socket_send_text(socket, asked, strlen(asked));
        } else if (!strncmp(line, "S> ", 3)) {
            expect_message(socket, asked, line + 3);
            count++;
        }
    }
    buf_release(&page);
    socket_close(socket);
    print_message("%u messages\n", count);
    assert_true(count >= MESSAGES_MIN);
}

/* A comparison that lets everything pass would prove nothing. */
static void test_another_answer_is_noticed(void **state)
{
    (void)state;
    assert_true(matches("{\"a\":1, ... ,\"z\":2}", "{\"a\":1,\"b\":3,\"z\":2}"));
    assert_true(matches("a ... b ... c", "a1b2b3c"));
    assert_true(matches("a", "a"));
    assert_false(matches("a", "ab"));
    assert_false(matches("a ... c", "a b d"));
    assert_false(matches("a ... b ... c", "a c c"));
    assert_false(matches("... c", "cd"));
    assert_false(matches("a ...", "b"));
}

static int open_three(void **state)
{
    (void)state;
    ensemble_launch(&ensemble, 3, NULL);
    return 0;
}

static int close_three(void **state)
{
    (void)state;
    ensemble_close(&ensemble);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_front_page_is_true),
        cmocka_unit_test(test_the_page_of_websockets_is_true),
        cmocka_unit_test(test_another_answer_is_noticed),
    };
    int status = system("curl --version >/dev/null 2>&1"); /* NOLINT(concurrency-mt-unsafe) */

    if (!WIFEXITED(status) || WEXITSTATUS(status) == NOT_FOUND) {
        print_message("skipped: there is no curl\n");
        return 77;
    }
    web_setup();
    return cmocka_run_group_tests(tests, open_three, close_three);
}
