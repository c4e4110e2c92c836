/* Intrusive doubly linked list: the links live in the listed struct, so nothing is allocated. A
 * head is a struct list that was list_init'ed; a link that is in no list points to itself after
 * list_init or list_remove. Walks are in list order.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next, *previous;
};

#define list_entry(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

static inline void list_init(struct list *list)
{
    list->next = list->previous = list;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_insert_before(struct list *position, struct list *link)
{
    link->next = position;
    link->previous = position->previous;
    position->previous->next = link;
    position->previous = link;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    list_insert_before(head, link);
}

static inline void list_push_front(struct list *head, struct list *link)
{
    list_insert_before(head->next, link);
}

/* Safe to call again on a removed link. */
static inline void list_remove(struct list *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    list_init(link);
}

/* Move all links of `from` to the end of `to`; `from` is empty after. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    list_init(from);
}

static inline size_t list_count(const struct list *head)
{
    size_t count = 0;
    for (const struct list *link = head->next; link != head; link = link->next)
        count++;
    return count;
}

/* The first or last entry, NULL if the list is empty. */
#define list_first(head, type, member)                                                             \
    (list_empty(head) ? NULL : list_entry((head)->next, type, member))
#define list_last(head, type, member)                                                              \
    (list_empty(head) ? NULL : list_entry((head)->previous, type, member))

/* struct job *job; list_each(job, &jobs, link) { ... }   The body must not remove `job`. */
#define list_each(it, head, member)                                                                \
    for ((it) = list_entry((head)->next, __typeof__(*(it)), member); &(it)->member != (head);      \
         (it) = list_entry((it)->member.next, __typeof__(*(it)), member))

/* As list_each, and the body may remove or free `it` (but not `after`, another such pointer). */
#define list_each_safe(it, after, head, member)                                                    \
    for ((it) = list_entry((head)->next, __typeof__(*(it)), member),                               \
        (after) = list_entry((it)->member.next, __typeof__(*(it)), member);                        \
         &(it)->member != (head);                                                                  \
         (it) = (after), (after) = list_entry((it)->member.next, __typeof__(*(it)), member))

#endif
