/*
 * fuzz.h - one parser under hostile bytes.
 *
 * A target is one file, fuzz_<name>.c, that defines two functions and ends with FUZZ_TARGET(name):
 *
 *     static bool fuzz_one(struct slice input)
 *         Runs one input, which lies in memory of exactly its length. True when it was accepted,
 *         where that has a meaning: the figure shows whether the inputs get past the first check.
 *     static void fuzz_seeds(struct fuzz_sink *sink)
 *         Gives valid inputs to `sink`; the same ones each time. fuzz_one must accept all of them.
 *
 * libfuzzer.c drives one target in the build for fuzzing, replay.c all of them in every other
 * build, so that every build tests what fuzzing has found. Every property is an ASSERT: a target
 * has no other way to fail.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/buf.h"
#include "base/check.h"
#include "base/wire.h"

enum {
    FUZZ_INPUT_MAX = 20 * 1024 /* The drivers cut longer inputs. */
};

/* The receiver of seeds. */
struct fuzz_sink {
    void (*put)(struct fuzz_sink *sink, const char *name, struct slice bytes);
};

struct fuzz_target {
    const char *name;
    bool (*one)(struct slice input);
    void (*seeds)(struct fuzz_sink *sink);
    struct fuzz_target *next;
};

/* Called before main, for each target of the program. */
void fuzz_add(struct fuzz_target *target);

#define FUZZ_TARGET(target)                                                                        \
    __attribute__((constructor)) static void fuzz_add_##target(void)                               \
    {                                                                                              \
        static struct fuzz_target entry = {.name = #target, .one = fuzz_one, .seeds = fuzz_seeds}; \
                                                                                                   \
        fuzz_add(&entry);                                                                          \
    }

static inline void fuzz_seed(struct fuzz_sink *sink, const char *name, struct slice bytes)
{
    sink->put(sink, name, bytes);
}

static inline void fuzz_seed_text(struct fuzz_sink *sink, const char *name, const char *text)
{
    fuzz_seed(sink, name, slice_str(text));
}

/* ---- Structured inputs: after their end there are zeros. ---- */

static inline bool fuzz_more(const struct wire_reader *reader)
{
    return !reader->failed && reader->pos < reader->end;
}

/* Length u16, then up to that many bytes, as far as they exist. */
static inline struct slice fuzz_take(struct wire_reader *reader, size_t len_max)
{
    size_t len = wire_get_u16(reader);
    size_t left = reader->failed ? 0 : (size_t)(reader->end - reader->pos);

    len = len < len_max ? len : len_max;
    return wire_get_raw(reader, len < left ? len : left);
}

static inline void fuzz_put(struct buf *out, struct slice bytes)
{
    wire_put_u16(out, (uint16_t)bytes.len);
    wire_put_raw(out, bytes);
}

/* The rest. */
static inline struct slice fuzz_rest(struct wire_reader *reader)
{
    return wire_get_raw(reader, reader->failed ? 0 : (size_t)(reader->end - reader->pos));
}

#endif
