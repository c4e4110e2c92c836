/* Each allocation of each operation fails once: the answer is E_RESOURCE_EXHAUSTED and, under the
 * address sanitizer, nothing leaks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/args.h"
#include "common/base/heap.h"
#include "common/base/map.h"
#include "common/base/ring.h"
#include "common/base/tree.h"
#include "tests/lib/fault.h"

static void each_allocation(int (*operation)(void), int at_least)
{
    int failures = 0;
    for (int n = 1;; n++) {
        fault_in(n);
        int rc = operation();
        if (!fault_struck()) {
            cr_assert_eq(rc, 0);
            break;
        }
        cr_assert_eq(rc, E_RESOURCE_EXHAUSTED, "allocation %d gave %d", n, rc);
        failures++;
    }
    cr_assert_geq(failures, at_least);
}

static int use_buf(void)
{
    struct buf buf = {0};
    for (int i = 0; i < 200; i++)
        buf_printf(&buf, "%d", i);
    int rc = buf_char(&buf, 'x');
    buf_fini(&buf);
    return rc;
}

static int use_map(void)
{
    struct strmap map = {0};
    static const char *const names[] = {"a", "b", "c", "d"};
    int rc = 0;
    for (int i = 0; i < 4 && rc == 0; i++)
        rc = strmap_set(&map, names[i], &map, NULL);
    strmap_fini(&map);
    return rc;
}

static int use_heap_and_ring(void)
{
    struct heap heap = {0};
    struct ring ring = {0};
    struct heap_node nodes[40] = {0};
    int rc = ring_init(&ring, 4, 4);
    for (int i = 0; i < 40 && rc == 0; i++)
        rc = heap_push(&heap, &nodes[i]);
    heap_fini(&heap);
    ring_fini(&ring);
    return rc;
}

static int read_json(void)
{
    enum { KEYS = 200 }; /* more than are compared without memory */
    char text[16 * KEYS] = "{\"a\":[1,2.5,\"x\"],\"b\":{\"c\":null,\"d\":true}";
    size_t size = strlen(text);
    for (int i = 0; i < KEYS; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, ",\"k%d\":%d", i, i);
    text[size++] = '}';
    struct tree_input input = {.text = text, .size = size};
    struct arena arena = {0};
    struct tree *root;
    int rc = tree_parse_json(&input, &arena, &root, NULL);
    arena_fini(&arena);
    return rc;
}

static int read_command_line(void)
{
    static const struct args_option options[] = {{.name = "x", .kind = ARGS_OPTION}, {0}};
    static const struct args_command command = {.program = "p", .options = options};
    static const char *const words[] = {"--x", "1"};
    struct args args;
    int rc = args_parse(&command, 2, (char *const *)words, &args, NULL);
    if (rc == 0)
        args_fini(&args);
    return rc;
}

Test(allocation, a_buffer_remembers_that_memory_was_out)
{
    each_allocation(use_buf, 3);
}

Test(allocation, maps_stay_whole)
{
    each_allocation(use_map, 4);
}

Test(allocation, heaps_and_rings_refuse)
{
    each_allocation(use_heap_and_ring, 3);
}

Test(allocation, json_is_refused_and_not_half_read)
{
    each_allocation(read_json, 3);
}

Test(allocation, the_command_line_is_refused)
{
    each_allocation(read_command_line, 2);
}
