/* Pure: queues in which the clients of all addresses take turns, however many of one address wait.
 */
#include "zk/zk_int.h"

static struct zk_fair *entry(struct list *node)
{
    return list_entry(node, struct zk_fair, node);
}

void zk_fair_push(struct list *queue, struct zk_fair *node, uint64_t key, uint64_t least)
{
    struct list *before = queue->prev;
    struct list *same = queue->prev;

    while (same != queue && entry(same)->key != key) {
        same = same->prev;
    }
    node->key = key;
    node->rank = list_empty(queue) ? 0 : entry(queue->next)->rank;
    if (same != queue) {
        node->rank = entry(same)->rank + 1;
    }
    node->rank = max_u64(node->rank, least);
    while (before != queue && entry(before)->rank > node->rank) {
        before = before->prev;
    }
    list_push_back(before->next, &node->node);
}
