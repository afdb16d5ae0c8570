/*
 * mem.h - heap memory. An allocation that fails ends the process: a replica that cannot hold its
 * state must not answer. Sizes that come from outside are checked by the caller against a named
 * limit before they get here.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* Returns `size` uninitialised bytes; `size` 0 is allowed and gives a unique pointer. */
void *mem_alloc(size_t size);

/* Returns `count * size` zeroed bytes; the product is checked for overflow. */
void *mem_zalloc(size_t count, size_t size);

/* Grows or shrinks an allocation; `ptr` may be NULL. */
void *mem_realloc(void *ptr, size_t size);

/* Makes room for one item more in a growing array: when its `count` items fill its capacity `cap`,
 * the capacity is doubled, and `items` and `cap` are set. `max` bounds the capacity; the caller
 * never holds more than `max` items. */
#define MEM_GROW(items, count, cap, max)                                        \
    do {                                                                        \
        if ((count) == (cap)) {                                                 \
            (cap) = (__typeof__(cap))mem_cap_next((cap), (max));                \
            (items) = mem_resize((items), (cap), sizeof(__typeof__(*(items)))); \
        }                                                                       \
    } while (0)

/* The `max` of MEM_GROW for an array without a limit of its own. The number of its items is bounded
 * by the limits of requests and messages, by the files of a directory, or by memory alone. */
#define MEM_ITEMS_MAX UINT32_MAX

/* For MEM_GROW: the next capacity; `cap` must be below `max`. */
size_t mem_cap_next(size_t cap, size_t max);

/* Grows or shrinks an array to `count` items; the product is checked for overflow. */
void *mem_resize(void *items, size_t count, size_t size);

/* Copies `size` bytes. */
void *mem_dup(const void *data, size_t size);

/* Copies a string with its terminator. */
char *mem_strdup(const char *text);

/* Frees an allocation. Accepts NULL. */
void mem_free(void *ptr);

/* Gives freed memory, which the heap otherwise keeps, back to the system. The call looks at all
 * free memory with the heap locked, which takes some milliseconds: call it seldom, from an idle
 * thread. */
void mem_trim(void);

#endif
