#include "base/list.h"
#include "tests/lib/unit.h"

struct item {
    int number;
    struct list link;
};

TEST(keeps_the_order_of_pushes)
{
    struct list head;
    struct item items[3] = {{.number = 0}, {.number = 1}, {.number = 2}};
    int expected = 0;

    list_init(&head);
    assert_true(list_empty(&head));
    for (int i = 0; i < 3; i++) {
        list_push_back(&head, &items[i].link);
    }
    assert_false(list_empty(&head));
    assert_ptr_equal(list_first(&head, struct item, link), &items[0]);
    list_for_each (it, &head) {
        assert_int_equal(list_entry(it, struct item, link)->number, expected++);
    }
    assert_int_equal(expected, 3);
}

TEST(remove_while_walking)
{
    struct list head;
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    int left = 0;

    list_init(&head);
    for (int i = 0; i < 4; i++) {
        list_push_back(&head, &items[i].link);
    }
    list_for_each_safe (it, tmp, &head) {
        if (list_entry(it, struct item, link)->number % 2 == 0) {
            list_remove(it);
        }
    }
    list_for_each (it, &head) {
        left = left * 10 + list_entry(it, struct item, link)->number;
    }
    assert_int_equal(left, 13);
}

TEST(a_removed_node_may_be_pushed_and_removed_again)
{
    struct list head;
    struct item item = {.number = 7};

    list_init(&head);
    list_push_back(&head, &item.link);
    list_remove(&item.link);
    list_remove(&item.link);
    assert_true(list_empty(&head));
    list_push_back(&head, &item.link);
    assert_ptr_equal(head.next, &item.link);
}
