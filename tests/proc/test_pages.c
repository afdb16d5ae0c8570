/*
 * Runs each command in the "console" blocks of the front page and of docs/ unchanged. It must print
 * the output that the page shows. The same holds for the conversation on the page about WebSockets.
 * Each page has three replicas and a directory; variables of a line are kept for the next lines.
 * Only ports are replaced. "..." in the shown output matches anything; zxids, times and secrets are
 * masked.
 */
#include "base/buf.h"
#include "tests/lib/unit.h"
#include "tests/proc/ensemble.h"
#include "tests/proc/shown.h"
#include "tests/proc/socket.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    TEXT_MAX = 1 << 20,
    PATH_ROOM = 512,
    PORT_SHOWN = 9998, /* Port of the first replica; the others follow. */
    REPLICAS = 3,
    LINES_MIN = 120, /* On all pages. */
    MESSAGES_MIN = 14,
    CURL_TIMED_OUT = 28
};

static struct ensemble ensemble;
static bool reported; /* The error of the current line is printed; retries do not repeat it. */

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

/* ---- Running a command ---- */

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

static void exchange_ports(const char *text, struct buf *out)
{
    buf_clear(out);
    while (*text) {
        unsigned index = 0;
        size_t len = address_len(text, &index);

        if (len > 0) {
            buf_printf(out, "127.0.0.1:%u", ensemble.replicas[index].client_port);
            text += len;
        } else {
            buf_append_byte(out, (uint8_t)*text++);
        }
    }
}

/* Runs the line in a shell that restores and saves the exported variables. */
static int run_line(const char *line, struct buf *printed)
{
    char path[PATH_ROOM];
    struct buf command;

    buf_init(&command, TEXT_MAX);
    buf_printf(&command,
               "cd %s/page && set -a && . ../set && { %s\n} >../printed 2>../said </dev/null\n"
               "status=$?; export -p >../set; exit $status",
               ensemble.dir, line);

    int status = system(buf_cstr(&command)); /* NOLINT(concurrency-mt-unsafe): one thread. */

    buf_release(&command);
    (void)snprintf(path, sizeof(path), "%s/printed", ensemble.dir);
    read_file(path, printed);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A stream ends by the timeout in the line. */
static bool is_end(int code, const char *line)
{
    return code == 0 || (code == CURL_TIMED_OUT && strstr(line, " -m "));
}

/* True if the output of `line` matches the shown one. */
static bool is_shown(const char *line, const char *came, const char *shown)
{
    struct buf got;

    buf_init(&got, TEXT_MAX);
    shown_mask(came, &got);

    bool same = shown_matches(shown, buf_cstr(&got));

    if (!same && !reported) {
        print_message("%s\nprinted: %s\nshown:   %s\n", line, buf_cstr(&got), shown);
        reported = true;
    }
    buf_release(&got);
    return same;
}

static bool prints(const char *line, const char *shown)
{
    struct buf printed;

    buf_init(&printed, TEXT_MAX);

    int code = run_line(line, &printed);
    bool same = is_shown(line, buf_cstr(&printed), shown);

    if (!is_end(code, line) && !reported) {
        print_message("%s\nended with %d\n", line, code);
        reported = true;
    }
    buf_release(&printed);
    return same && is_end(code, line);
}

/* Only reads may be retried. `zabra` is not retried, because it uses one replica while that
 * answers. */
static bool is_read(const char *line)
{
    static const char *const marks[] = {" -X ", " -d ", " -T ", "--data", "zabra "};

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (strstr(line, marks[i])) {
            return false;
        }
    }
    return true;
}

static void try_line(const char *line, const char *shown)
{
    struct buf here;
    struct buf line_here;
    struct buf shown_here;

    buf_init(&here, TEXT_MAX);
    buf_init(&line_here, TEXT_MAX);
    buf_init(&shown_here, TEXT_MAX);
    reported = false;
    exchange_ports(line, &line_here);
    exchange_ports(shown, &here);
    shown_mask(buf_cstr(&here), &shown_here);
    if (is_read(line)) {
        ENSEMBLE_WAIT(&ensemble, prints(buf_cstr(&line_here), buf_cstr(&shown_here)));
    } else {
        ENSEMBLE_CHECK(&ensemble, prints(buf_cstr(&line_here), buf_cstr(&shown_here)));
    }
    buf_release(&here);
    buf_release(&line_here);
    buf_release(&shown_here);
}

/* ---- Pages ---- */

/* A command and the output shown below it. */
struct example {
    struct buf line;
    struct buf shown;
    bool continued; /* The command continues in the next line. */
};

static uint32_t example_end(struct example *example)
{
    uint32_t count = example->line.len > 0 ? 1 : 0;

    if (count > 0) {
        try_line(buf_cstr(&example->line), buf_cstr(&example->shown));
    }
    buf_clear(&example->line);
    buf_clear(&example->shown);
    return count;
}

/* A command continues in the next line after a backslash and inside quotes. */
static bool is_continued(char *command)
{
    bool quoted = false;
    size_t len = strlen(command);

    for (const char *at = command; *at; at++) {
        quoted ^= *at == '\'';
    }
    return quoted || (len > 0 && command[len - 1] == '\\');
}

/* Returns the number of executed commands. */
static uint32_t example_take(struct example *example, const char *line)
{
    uint32_t count = 0;

    if (!example->continued && strncmp(line, "$ ", 2) == 0) {
        count = example_end(example);
        buf_append_str(&example->line, line + 2);
    } else if (example->continued) {
        buf_printf(&example->line, "\n%s", line);
    } else {
        assert_true(example->line.len > 0);
        buf_printf(&example->shown, "%s\n", line);
        return 0;
    }
    example->continued = is_continued(buf_cstr(&example->line));
    return count;
}

static uint32_t run_page(char *page)
{
    struct example example = {.continued = false};
    bool inside = false;
    uint32_t count = 0;

    buf_init(&example.line, TEXT_MAX);
    buf_init(&example.shown, TEXT_MAX);
    for (char *line = page, *next = NULL; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        if (strncmp(line, "```", 3) == 0) {
            count += example_end(&example);
            inside = !inside && strcmp(line, "```console") == 0;
        } else if (inside) {
            count += example_take(&example, line);
        }
    }
    assert_false(inside);
    buf_release(&example.line);
    buf_release(&example.shown);
    return count;
}

/* Variables for the first line of a page: the program's path and the endpoints. */
static void write_setting(const char *path)
{
    static const char binary[] = ZABRA_BINARY;
    size_t dir_len = (size_t)(strrchr(binary, '/') - binary);
    FILE *file = fopen(path, "wx");

    assert_non_null(file);
    (void)fprintf(file, "PATH=%.*s:$PATH\n", (int)dir_len, binary);
    (void)fprintf(file, "XDG_CONFIG_HOME=%s\n", ensemble.dir);
    (void)fprintf(file, "ZABRA_ENDPOINTS=");
    for (uint32_t i = 0; i < ensemble.count; i++) {
        (void)fprintf(file, "%s127.0.0.1:%u", i > 0 ? "," : "", ensemble.replicas[i].client_port);
    }
    (void)fprintf(file, "\n");
    assert_int_equal(fclose(file), 0);
}

static void open_page(void)
{
    char path[PATH_ROOM];

    ensemble_launch(&ensemble, REPLICAS, NULL);
    (void)snprintf(path, sizeof(path), "%s/page", ensemble.dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/set", ensemble.dir);
    write_setting(path);
}

static uint32_t try_page(const char *path)
{
    struct buf page;
    uint32_t count = 0;

    buf_init(&page, TEXT_MAX);
    read_file(path, &page);
    if (strstr(buf_cstr(&page), "\n```console\n")) {
        open_page();
        count = run_page(buf_cstr(&page));
        ensemble_close(&ensemble);
        assert_true(count > 0);
    }
    buf_release(&page);
    return count;
}

TEST(the_commands_print_the_shown_output)
{
    glob_t pages = {.gl_pathc = 0};
    uint32_t sum = 0;

    assert_int_equal(glob(ZABRA_TOP "/README.md", 0, NULL, &pages), 0);
    assert_int_equal(glob(ZABRA_TOP "/docs/*.md", GLOB_APPEND, NULL, &pages), 0);
    for (size_t i = 0; i < pages.gl_pathc; i++) {
        uint32_t count = try_page(pages.gl_pathv[i]);

        print_message("%3u commands: %s\n", count, pages.gl_pathv[i] + strlen(ZABRA_TOP) + 1);
        sum += count;
    }
    globfree(&pages);
    assert_true(sum >= LINES_MIN);
}

/* ---- The conversation of the page of WebSockets ---- */

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
    shown_mask(shown, &shown_here);
    ENSEMBLE_CHECK(&ensemble, is_shown(asked, buf_cstr(&came), buf_cstr(&shown_here)));
    buf_release(&came);
    buf_release(&shown_here);
    json_decref(message);
}

/* Text after "C> " is sent; text after "S> " is the next expected message. */
static uint32_t hold_conversation(struct socket *socket, char *page)
{
    const char *asked = "";
    uint32_t count = 0;

    for (char *line = page, *next = NULL; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        if (strncmp(line, "C> ", 3) == 0) {
            asked = line + 3;
            socket_send_text(socket, asked, strlen(asked));
        } else if (strncmp(line, "S> ", 3) == 0) {
            expect_message(socket, asked, line + 3);
            count++;
        }
    }
    return count;
}

TEST(the_conversation_matches_the_page)
{
    struct socket *socket = NULL;
    struct buf page;
    uint32_t count = 0;

    ensemble_launch(&ensemble, REPLICAS, NULL);
    socket = socket_open(ensemble.replicas[0].client_port, NULL);
    buf_init(&page, TEXT_MAX);
    read_file(ZABRA_TOP "/docs/websocket.md", &page);
    count = hold_conversation(socket, buf_cstr(&page));
    buf_release(&page);
    socket_close(socket);
    ensemble_close(&ensemble);
    print_message("%u messages\n", count);
    assert_true(count >= MESSAGES_MIN);
}

/* ---- The comparison must notice differences ---- */

TEST(another_answer_is_noticed)
{
    assert_true(shown_matches("{\"a\":1, ... ,\"z\":2}", "{\"a\":1,\"b\":3,\"z\":2}"));
    assert_true(shown_matches("a ... b ... c", "a1b2b3c"));
    assert_true(shown_matches("a", "a"));
    assert_true(shown_matches("", ""));
    assert_false(shown_matches("", "a"));
    assert_false(shown_matches("a", "ab"));
    assert_false(shown_matches("a ... c", "a b d"));
    assert_false(shown_matches("a ... b ... c", "a c c"));
    assert_false(shown_matches("... c", "cd"));
    assert_false(shown_matches("a ...", "b"));
}

static void check_mask(const char *text, const char *expected)
{
    struct buf got;

    buf_init(&got, TEXT_MAX);
    shown_mask(text, &got);
    assert_string_equal(buf_cstr(&got), expected);
    buf_release(&got);
}

TEST(only_what_changes_is_masked)
{
    check_mask("{\"czxid\":4294967297,\"version\":3}", "{\"czxid\":#,\"version\":3}");
    check_mask("{\"czxidHex\":\"0x100000001\"}", "{\"czxidHex\":\"#\"}");
    check_mask("{\"ephemeralOwnerHex\":\"0x0\"}", "{\"ephemeralOwnerHex\":\"0x0\"}");
    check_mask("ETag: \"d100000001.2\"\r\n", "ETag: \"d#.2\"");
    check_mask("ETag: \"t100000001.100000002\"", "ETag: \"t#.#\"");
    check_mask("Zk-Zxid: 0x100000001\r\nA: b", "Zk-Zxid: #\nA: b");
    check_mask("id: 6c58b88fd6d06dab:0x100000002", "id: #:#");
    check_mask("\"0b4ed4a1-7b0c-4c5e-9d3f-0123456789ab\"", "\"#\"");
    check_mask("job-0000000012 d41d8cd98f00b204e9800998ecf8427e",
               "job-0000000012 d41d8cd98f00b204e9800998ecf8427e");
    check_mask("mtime=1795234305052, version=1", "mtime=#, version=1");
}

int main(int count, char **args)
{
    int status = system(/* NOLINT(concurrency-mt-unsafe): one thread. */
                        "command -v curl >/dev/null && command -v jq >/dev/null");

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        print_message("skipped: curl or jq is missing\n");
        return 77;
    }
    web_setup();
    return unit_run(count, args);
}
