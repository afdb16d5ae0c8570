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

/* Moves all nodes of `from` behind those of `to`. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (!list_empty(from)) {
        from->next->prev = to->prev;
        to->prev->next = from->next;
        from->prev->next = to;
        to->prev = from->prev;
        list_init(from);
    }
}

/* Takes the first node out; the list must not be empty. */
static inline struct list *list_pop(struct list *head)
{
    struct list *node = head->next;

    list_remove(node);
    return node;
}

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
#define list_first(head, type, member) list_entry((head)->next, type, member)
#define list_take(head, type, member)  list_entry(list_pop(head), type, member)

/* NOLINTBEGIN(*-parentheses): a name that is declared here cannot stand in parentheses. */
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, tmp, head) \
    for (struct list *it = (head)->next, *tmp = it->next; it != (head); it = tmp, tmp = it->next)
/* Walks the entries in order: `it` points to an entry of type `type`; `member` is its list node. */
#define list_for_each_entry(type, it, member, head)                        \
    for (type *it = list_first(head, type, member); &it->member != (head); \
         it = list_first(&it->member, type, member))
/* Like list_for_each_entry; `it` may be removed meanwhile. */
#define list_for_each_entry_safe(type, it, tmp, member, head)                                     \
    for (type *it = list_first(head, type, member), *tmp = list_first(&it->member, type, member); \
         &it->member != (head); it = tmp, tmp = list_first(&tmp->member, type, member))
/* Like list_for_each_entry; each entry is already taken out of the list. */
#define list_take_each(type, it, member, head) \
    for (type * it; (it = list_empty(head) ? NULL : list_take(head, type, member)) != NULL;)
/* NOLINTEND(*-parentheses) */

#endif
