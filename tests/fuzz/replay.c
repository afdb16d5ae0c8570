/*
 * Runs the target that its first argument names over its seeds, its corpus and mutations of both;
 * the same inputs each time.
 *
 * When an input fails, the process dies; it first writes the input to a file, which can be run
 * alone and kept.
 */
#include "base/hash.h"
#include "base/mem.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/mutate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    INPUTS_MAX = 4096,
    PATH_LEN = 512,
    INPUT_CPU_MS_MAX = 2000,   /* One input, sanitizers included. */
    RSS_KIB_MAX = 1536 * 1024, /* The whole run, with the sanitizers' own memory. */
    RUNS_DEFAULT = 3000
};

struct inputs {
    struct fuzz_sink sink; /* First, because the seeds arrive through it. */
    struct buf *list;
    size_t count;
    const char *write_dir; /* Where to write the seeds; NULL: nowhere. */
};

static struct fuzz_target *targets;
static const struct fuzz_target *target; /* The chosen one. */
static struct slice current;             /* The running input. */
static char crash_name[PATH_LEN];

/* Provided by the sanitizers' runtime, when there is one. */
/* NOLINTNEXTLINE(readability-identifier-naming): theirs. */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

void fuzz_add(struct fuzz_target *added)
{
    added->next = targets;
    targets = added;
}

static const struct fuzz_target *find_target(const char *name)
{
    const struct fuzz_target *found = targets;

    while (found && strcmp(found->name, name) != 0) {
        found = found->next;
    }
    if (!found) {
        (void)fprintf(stderr, "no target is named '%s'\n", name);
        abort();
    }
    return found;
}

/* Makes only calls that are safe in a signal handler. */
static void save_current(void)
{
    int fd = open(crash_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd >= 0) {
        (void)!write(fd, current.data, current.len);
        close(fd);
    }
}

static void on_abort(int number)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};

    save_current();
    (void)sigaction(number, &plain, NULL);
    (void)raise(number);
}

static void catch_deaths(void)
{
    struct sigaction action = {.sa_handler = on_abort};

    (void)snprintf(crash_name, sizeof(crash_name), "crash-fuzz.%.200s", target->name);
    (void)sigaction(SIGABRT, &action, NULL);
    (void)sigaction(SIGILL, &action, NULL); /* Undefined behaviour that is trapped. */
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(save_current);
    } else {
        (void)sigaction(SIGSEGV, &action, NULL);
        (void)sigaction(SIGFPE, &action, NULL);
    }
}

static struct rusage usage_now(void)
{
    struct rusage usage;
    int failed = getrusage(RUSAGE_SELF, &usage);

    ASSERT(!failed);
    return usage;
}

static int64_t cpu_ms(void)
{
    struct rusage usage = usage_now();
    int64_t seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;

    return seconds * 1000 + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

/* In memory of its exact length, so that reading beyond it is noticed. */
static bool run_one(struct slice bytes)
{
    int64_t start_ms = cpu_ms();
    size_t len = bytes.len < FUZZ_INPUT_MAX ? bytes.len : FUZZ_INPUT_MAX;
    uint8_t *copy = mem_alloc(len);

    if (len > 0) {
        memcpy(copy, bytes.data, len);
    }
    current = slice_make(copy, len);

    bool accepted = target->one(current);

    ASSERT(cpu_ms() - start_ms <= INPUT_CPU_MS_MAX);
    current = slice_make(NULL, 0);
    mem_free(copy);
    return accepted;
}

static struct buf *add_input(struct inputs *inputs)
{
    ASSERT(inputs->count < INPUTS_MAX);

    struct buf *bytes = &inputs->list[inputs->count++];

    buf_init(bytes, FUZZ_INPUT_MAX);
    return bytes;
}

static void read_file(struct inputs *inputs, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct buf *bytes = add_input(inputs);
    uint8_t *to = buf_reserve(bytes, FUZZ_INPUT_MAX);
    ssize_t got = fd >= 0 ? read(fd, to, FUZZ_INPUT_MAX) : -1;

    if (got < 0) {
        (void)fprintf(stderr, "%s cannot be read\n", path);
        abort();
    }
    bytes->len = (size_t)got;
    close(fd);
}

static int name_order(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* In the order of names, so that the mutations are the same everywhere. */
static void read_dir(struct inputs *inputs, const char *dir)
{
    struct dirent **names = NULL;
    int count = scandir(dir, &names, NULL, name_order);

    for (int i = 0; i < count; i++) {
        char path[PATH_LEN];

        (void)snprintf(path, sizeof(path), "%.200s/%s", dir, names[i]->d_name);
        if (names[i]->d_name[0] != '.') {
            read_file(inputs, path);
        }
        mem_free(names[i]);
    }
    mem_free(names);
}

static void write_seed(const char *dir, const char *name, struct slice bytes)
{
    char path[PATH_LEN];

    (void)snprintf(path, sizeof(path), "%.200s/%.200s", dir, name);

    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    ssize_t put = fd >= 0 ? write(fd, bytes.data, bytes.len) : -1;

    ASSERT(put == (ssize_t)bytes.len);
    close(fd);
}

static void take_seed(struct fuzz_sink *sink, const char *name, struct slice bytes)
{
    struct inputs *inputs = (struct inputs *)(void *)sink;

    ASSERT(bytes.len <= FUZZ_INPUT_MAX);
    buf_append_slice(add_input(inputs), bytes);
    if (inputs->write_dir) {
        write_seed(inputs->write_dir, name, bytes);
    }
}

static size_t run_mutations(const struct inputs *inputs, uint64_t runs)
{
    size_t accepted = 0;
    struct rng rng;
    struct buf bytes;

    rng_init(&rng, hash64(1, slice_str(crash_name)));
    buf_init(&bytes, FUZZ_INPUT_MAX);
    for (uint64_t i = 0; i < runs; i++) {
        const struct buf *base = &inputs->list[rng_below(&rng, inputs->count)];
        const struct buf *other = &inputs->list[rng_below(&rng, inputs->count)];

        buf_clear(&bytes);
        buf_append_slice(&bytes, buf_slice(base));
        mutate(&bytes, buf_slice(other), &rng);
        accepted += run_one(buf_slice(&bytes)) ? 1 : 0;
    }
    buf_release(&bytes);
    return accepted;
}

static void run_all(struct inputs *inputs, const char *corpus, uint64_t runs)
{
    size_t accepted = 0;

    target->seeds(&inputs->sink);
    for (size_t i = 0; i < inputs->count; i++) {
        if (!run_one(buf_slice(&inputs->list[i]))) {
            /* It would test nothing but the first check. */
            (void)fprintf(stderr, "seed %zu is refused\n", i);
            abort();
        }
        accepted++;
    }
    ASSERT(inputs->count > 0);

    size_t seeds = inputs->count;

    if (corpus) {
        read_dir(inputs, corpus);
    }
    for (size_t i = seeds; i < inputs->count; i++) {
        accepted += run_one(buf_slice(&inputs->list[i])) ? 1 : 0;
    }
    accepted += run_mutations(inputs, runs);
    printf("%zu seeds, %zu files, %llu mutations: %zu accepted, %lld ms, %ld KiB\n", seeds,
           inputs->count - seeds, (unsigned long long)runs, accepted, (long long)cpu_ms(),
           usage_now().ru_maxrss);
    ASSERT(usage_now().ru_maxrss <= RSS_KIB_MAX);
}

static uint64_t number_of(const char *text)
{
    char *end = NULL;

    errno = 0;

    uint64_t number = strtoull(text, &end, 10);

    if (errno != 0 || *end != '\0') {
        (void)fprintf(stderr, "%s is not a number\n", text);
        abort();
    }
    return number;
}

/* Usage: TARGET [--runs N] [--corpus DIR] [--write-seeds DIR], or the files to run. */
int main(int argc, char **argv)
{
    struct inputs inputs = {.sink.put = take_seed};
    const char *corpus = NULL;
    uint64_t runs = RUNS_DEFAULT;
    bool has_files = false;

    target = find_target(argc > 1 ? argv[1] : "");
    catch_deaths();
    inputs.list = mem_zalloc(INPUTS_MAX, sizeof(*inputs.list));
    for (int i = 2; i < argc; i++) {
        const char *next = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--runs") == 0) {
            runs = number_of(next);
            i++;
        } else if (strcmp(argv[i], "--corpus") == 0) {
            corpus = next;
            i++;
        } else if (strcmp(argv[i], "--write-seeds") == 0) {
            inputs.write_dir = next;
            i++;
        } else {
            has_files = true;
            read_file(&inputs, argv[i]);
            printf("%s: %s\n", argv[i],
                   run_one(buf_slice(&inputs.list[inputs.count - 1])) ? "accepted" : "refused");
        }
    }
    if (!has_files) {
        run_all(&inputs, corpus, runs);
    }
    for (size_t i = 0; i < inputs.count; i++) {
        buf_release(&inputs.list[i]);
    }
    mem_free(inputs.list);
    return 0;
}
