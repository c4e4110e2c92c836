#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/list.h"

struct item {
    int value;
    struct list link;
};

static int as_number(struct list *head)
{
    struct item *item;
    int number = 0;
    list_each(item, head, link)
        number = number * 10 + item->value;
    return number;
}

Test(list, keeps_the_order_of_pushes)
{
    struct list head;
    struct item items[4] = {{1}, {2}, {3}, {4}};
    list_init(&head);
    cr_assert(list_empty(&head));
    cr_assert_null(list_first(&head, struct item, link));
    list_push_back(&head, &items[1].link);
    list_push_back(&head, &items[2].link);
    list_push_front(&head, &items[0].link);
    list_insert_before(&items[2].link, &items[3].link);
    cr_assert_eq(as_number(&head), 1243);
    cr_assert_eq(list_first(&head, struct item, link)->value, 1);
    cr_assert_eq(list_last(&head, struct item, link)->value, 3);
    cr_assert_eq(list_count(&head), 4);
}

Test(list, removal_is_safe_twice_and_during_a_safe_walk)
{
    struct list head;
    struct item *item, *after;
    list_init(&head);
    for (int i = 1; i <= 9; i++) {
        item = malloc(sizeof(*item));
        item->value = i;
        list_push_back(&head, &item->link);
    }
    list_each_safe(item, after, &head, link) {
        if (item->value % 2) {
            list_remove(&item->link);
            list_remove(&item->link);
            free(item);
        }
    }
    cr_assert_eq(as_number(&head), 2468);
    struct item *first = list_first(&head, struct item, link);
    list_remove(&first->link);
    cr_assert(list_empty(&first->link), "a removed link is alone");
    free(first);
    list_each_safe(item, after, &head, link)
        free(item);
}

Test(list, splice_moves_everything_in_order)
{
    struct list a, b;
    struct item items[4] = {{1}, {2}, {3}, {4}};
    list_init(&a);
    list_init(&b);
    list_splice_back(&a, &b);
    cr_assert(list_empty(&a));
    for (int i = 0; i < 4; i++)
        list_push_back(i < 2 ? &a : &b, &items[i].link);
    list_splice_back(&a, &b);
    cr_assert_eq(as_number(&a), 1234);
    cr_assert(list_empty(&b));
}
