/* list.h - an intrusive doubly linked list with a head; no memory of its own. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

static inline void list_init(struct list *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    node->prev = head->prev;
    node->next = head;
    head->prev->next = node;
    head->prev = node;
}

/* Takes a node out of its list; it may be pushed again. */
static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = node;
    node->prev = node;
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define list_first(head, type, member) list_entry((head)->next, type, member)

/* NOLINTBEGIN(*-parentheses): `it` and `tmp` are declared here and cannot stand in them. */
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, tmp, head) \
    for (struct list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)
/* NOLINTEND(*-parentheses) */

#endif
