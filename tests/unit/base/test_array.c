#include <criterion/criterion.h>
#include <stdlib.h>

#include "common/base/array.h"

struct list {
    int *items;
    int count, capacity;
};

static void list_add(struct list *list, int item)
{
    list->items = array_reserve(list->items, list->count, &list->capacity, sizeof(*list->items));
    list->items[list->count++] = item;
}

Test(array, keeps_its_items_while_it_grows)
{
    struct list list = {0};
    for (int i = 0; i < 1000; i++) {
        list_add(&list, i);
        cr_assert_leq(list.count, list.capacity);
    }
    for (int i = 0; i < 1000; i++)
        cr_assert_eq(list.items[i], i);
    cr_expect_leq(list.capacity, 2048);
    free(list.items);
}

Test(array, with_a_place_left_stays_where_it_is)
{
    struct list list = {0};
    list_add(&list, 1);
    int *before = list.items, capacity = list.capacity;
    cr_assert_gt(capacity, 1);
    list_add(&list, 2);
    cr_expect_eq(list.items, before);
    cr_expect_eq(list.capacity, capacity);
    free(list.items);
}
