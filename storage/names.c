#include "storage/names.h"

#include "base/check.h"
#include "base/mem.h"
#include "base/wire.h"
#include "storage/slots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HISTORY_DIGITS = 8,
    NUMBER_DIGITS = 16
};

void name_wal(char out[VFS_NAME_MAX], uint64_t history, uint64_t number)
{
    int put = snprintf(out, VFS_NAME_MAX, "wal-%08" PRIx64 "-%016" PRIx64, history, number);

    ASSERT(put > 0 && put < VFS_NAME_MAX);
}

void name_next(char out[VFS_NAME_MAX], uint64_t number)
{
    int put = snprintf(out, VFS_NAME_MAX, "next-%016" PRIx64, number);

    ASSERT(put > 0 && put < VFS_NAME_MAX);
}

void name_snap(char out[VFS_NAME_MAX], uint64_t history, uint64_t start)
{
    int put = snprintf(out, VFS_NAME_MAX, "snap-%08" PRIx64 "-%016" PRIx64, history, start);

    ASSERT(put > 0 && put < VFS_NAME_MAX);
}

/* Reads `digits` lower-case hexadecimal digits and moves past them. */
static bool parse_hex(const char **pos, unsigned digits, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < digits; i++) {
        char c = (*pos)[i];

        if (c >= '0' && c <= '9') {
            value = value << 4 | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        } else {
            return false;
        }
    }
    *pos += digits;
    *ret_value = value;
    return true;
}

static bool parse_prefix(const char **pos, const char *prefix)
{
    size_t len = strlen(prefix);

    if (strncmp(*pos, prefix, len) != 0) {
        return false;
    }
    *pos += len;
    return true;
}

unsigned name_slots(const char *text)
{
    static const char *const all[] = {[SLOTS_IDENTITY] = NAME_IDENTITY,
                                      [SLOTS_PROMISE] = NAME_PROMISE,
                                      [SLOTS_QUARANTINE] = NAME_QUARANTINE,
                                      [SLOTS_MANIFEST] = NAME_MANIFEST};

    for (unsigned kind = SLOTS_IDENTITY; kind <= SLOTS_MANIFEST; kind++) {
        if (strcmp(text, all[kind]) == 0) {
            return kind;
        }
    }
    return 0;
}

/* Whether the numbers in the file's name are low enough: new files get numbers above the highest
 * number found in any name, and must not run out of numbers. */
static bool can_be_counted(const struct name *name)
{
    return name->history <= NAME_HISTORY_MAX &&
           (name->kind == NAME_KIND_SNAP || name->number <= NAME_NUMBER_MAX);
}

struct name name_parse(const char *text)
{
    struct name name = {.kind = NAME_KIND_OTHER};
    size_t len = strlen(text);
    const char *pos = text;
    bool is_wal = parse_prefix(&pos, "wal-");
    bool is_snap = !is_wal && parse_prefix(&pos, "snap-");

    if (len >= VFS_NAME_MAX) {
        return name;
    }
    memcpy(name.text, text, len + 1);
    if (len > 4 && strcmp(text + len - 4, ".tmp") == 0) {
        name.kind = NAME_KIND_TEMP;
    } else if (name_slots(text) != 0) {
        name.kind = NAME_KIND_SLOTS;
    } else if (is_wal || is_snap) {
        bool is_whole = parse_hex(&pos, HISTORY_DIGITS, &name.history) && parse_prefix(&pos, "-") &&
                        parse_hex(&pos, NUMBER_DIGITS, &name.number) && *pos == '\0';

        name.kind = !is_whole ? NAME_KIND_OTHER : is_wal ? NAME_KIND_WAL : NAME_KIND_SNAP;
    } else if (parse_prefix(&pos, "next-") && parse_hex(&pos, NUMBER_DIGITS, &name.number) &&
               *pos == '\0') {
        name.kind = NAME_KIND_NEXT;
    }
    if (!can_be_counted(&name)) {
        name.kind = NAME_KIND_OTHER;
    }
    return name;
}

static void names_add(void *arg, const char *text)
{
    struct names *names = arg;

    if (names->count > NAMES_MAX) {
        return;
    }
    MEM_GROW(names->list, names->count, names->cap, NAMES_MAX + 1);
    names->list[names->count++] = name_parse(text);
}

static int name_cmp(const void *left, const void *right)
{
    const struct name *a = left;
    const struct name *b = right;

    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    if (a->history != b->history) {
        return a->history < b->history ? -1 : 1;
    }
    if (a->number != b->number) {
        return a->number < b->number ? -1 : 1;
    }
    return strcmp(a->text, b->text);
}

enum err names_list(const struct vfs *vfs, struct names *ret_names)
{
    *ret_names = (struct names){0};

    enum err err = vfs->ops->list(vfs->ctx, names_add, ret_names);

    if (err == ERR_OK && ret_names->count > NAMES_MAX) {
        err = ERR_FULL;
    }
    if (err != ERR_OK) {
        names_release(ret_names);
    } else if (ret_names->count > 1) {
        qsort(ret_names->list, ret_names->count, sizeof(*ret_names->list), name_cmp);
    }
    return err;
}

void names_release(struct names *names)
{
    mem_free(names->list);
    *names = (struct names){0};
}

const struct name *names_find(const struct names *names, enum name_kind kind, uint64_t history,
                              uint64_t number)
{
    ASSERT(kind != NAME_KIND_OTHER);

    for (size_t i = 0; i < names->count; i++) {
        const struct name *name = &names->list[i];

        if (name->kind == kind && name->history == history && name->number == number) {
            return name;
        }
    }
    return NULL;
}

/* ---- The manifest. ---- */

#define MANIFEST(form, member) WIRE_FIELD(WIRE_##form, struct manifest, member)

static const struct wire_field manifest_fields[] = {
    MANIFEST(INT, history),    MANIFEST(INT, first),        MANIFEST(INT, top),
    MANIFEST(BOOL, clean),     MANIFEST(INT, clean_number), MANIFEST(INT, clean_offset),
    MANIFEST(INT, clean_last), MANIFEST(INT, clean_chain),  {.form = WIRE_END},
};

void manifest_encode(const struct manifest *manifest, struct buf *out)
{
    ASSERT(manifest->history > 0 && manifest->first > 0);
    ASSERT(manifest->top >= manifest->first);

    wire_put_fields(out, manifest_fields, manifest);
    ASSERT(!out->overflow);
}

enum err manifest_decode(struct slice bytes, struct manifest *ret_manifest)
{
    struct wire_reader reader;

    wire_reader_init(&reader, bytes);
    wire_get_fields(&reader, manifest_fields, ret_manifest);
    if (!wire_reader_done(&reader) || ret_manifest->history == 0 || ret_manifest->first == 0 ||
        ret_manifest->top < ret_manifest->first || ret_manifest->top > NAME_NUMBER_MAX ||
        ret_manifest->history > NAME_HISTORY_MAX) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}
