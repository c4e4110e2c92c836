#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env/disk_os.h"
#include "coordinator/store/logs.h"

static char dir[64];
static struct disk disk;
static struct logs *logs;

static void reopen(void)
{
    logs_free(logs);
    cr_assert_eq(logs_new(&disk, dir, &logs, NULL), 0);
}

static void init(void)
{
    snprintf(dir, sizeof(dir), "/tmp/muster-logs-XXXXXX");
    cr_assert(mkdtemp(dir));
    disk = disk_os();
    reopen();
}

static void fini(void)
{
    logs_free(logs);
    cr_assert_eq(disk.remove_tree(disk.self, dir, NULL), 0);
}

TestSuite(logs, .init = init, .fini = fini);

static void append(uint64_t uid, uint32_t rank, uint64_t offset, int count)
{
    struct log_line lines[100];
    static char texts[100][64];
    struct error err = {0};
    for (int i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "u%llu line %llu", (unsigned long long)uid,
                 (unsigned long long)offset + (unsigned)i);
        lines[i] = (struct log_line){.wall_ms = 1000 + i,
                                     .rank = rank,
                                     .generation = 2,
                                     .is_stderr = i % 2,
                                     .text = texts[i]};
    }
    struct logs_chunk chunk = {.uid = uid, .offset = offset, .lines = lines, .count = count};
    cr_assert_eq(logs_append(logs, "j1", &chunk, &err), 0, "%s", err.text);
}

static struct arena arena;

static struct logs_page read_page(struct logs_query query)
{
    struct logs_page page;
    struct error err = {0};
    arena_fini(&arena);
    arena_init(&arena, 256 << 20);
    cr_assert_eq(logs_read(logs, "j1", &query, &arena, &page, &err), 0, "%s", err.text);
    return page;
}

Test(logs, lines_come_back_in_order_with_what_was_said_of_them)
{
    append(1, 0, 0, 3);
    append(2, 1, 0, 2);
    struct logs_page page = read_page((struct logs_query){.rank = -1});
    cr_assert_eq(page.count, 5);
    cr_assert(page.at_end);
    cr_assert_str_eq(page.lines[4].text, "u2 line 1");
    cr_assert(page.lines[4].rank == 1 && page.lines[4].generation == 2 && page.lines[4].is_stderr &&
              page.lines[4].wall_ms == 1001);
    page = read_page((struct logs_query){.rank = 1});
    cr_assert_eq(page.count, 2);
    page = read_page((struct logs_query){.rank = -1, .tail_lines = 2});
    cr_assert(page.count == 2 && strcmp(page.lines[0].text, "u2 line 0") == 0);
    page = read_page((struct logs_query){.rank = 0, .tail_lines = 1});
    cr_assert(page.count == 1 && strcmp(page.lines[0].text, "u1 line 2") == 0);
    cr_assert_eq(read_page((struct logs_query){.rank = -1, .cursor = page.cursor}).count, 0);
}

Test(logs, a_job_without_output_is_an_empty_page)
{
    struct logs_page page = read_page((struct logs_query){.rank = -1});
    cr_assert(page.count == 0 && page.at_end && page.cursor == 0);
}

Test(logs, repeats_are_recognised_also_after_a_restart)
{
    append(1, 0, 0, 5);
    append(1, 0, 0, 5);
    append(1, 0, 3, 5); /* overlaps */
    reopen();
    append(1, 0, 0, 8);
    append(1, 0, 8, 1);
    struct logs_page page = read_page((struct logs_query){.rank = -1});
    cr_assert_eq(page.count, 9);
    for (int i = 0; i < 9; i++) {
        char text[32];
        snprintf(text, sizeof(text), "u1 line %d", i);
        cr_assert_str_eq(page.lines[i].text, text);
    }
}

Test(logs, a_cursor_goes_on_where_it_was)
{
    append(1, 0, 0, 50);
    uint64_t cursor = 0;
    int seen = 0;
    for (int pages = 0; pages < 100; pages++) {
        struct logs_page page =
            read_page((struct logs_query){.rank = -1, .cursor = cursor, .max_bytes = 100});
        seen += page.count;
        cursor = page.cursor;
        if (page.at_end)
            break;
    }
    cr_assert_eq(seen, 50);
    append(1, 0, 50, 2);
    cr_assert_eq(read_page((struct logs_query){.rank = -1, .cursor = cursor}).count, 2);
}

Test(logs, a_line_torn_by_a_crash_costs_only_itself)
{
    char path[128];
    append(1, 0, 0, 2);
    snprintf(path, sizeof(path), "%s/logs/j1/%016x", dir, 0);
    int fd = open(path, O_WRONLY | O_APPEND);
    cr_assert(fd >= 0 && write(fd, "1234 0 2 1", 10) == 10);
    close(fd);
    reopen();
    append(1, 0, 2, 1);
    struct logs_page page = read_page((struct logs_query){.rank = -1});
    cr_assert_eq(page.count, 3);
    cr_assert_str_eq(page.lines[2].text, "u1 line 2");
}

Test(logs, line_ends_inside_and_endless_lines_are_tamed)
{
    char *large = malloc(100001);
    memset(large, 'a', 100000);
    large[100000] = 0;
    struct log_line lines[] = {{.text = "a\nb\rc"}, {.text = large}};
    struct logs_chunk chunk = {.uid = 1, .lines = lines, .count = 2};
    cr_assert_eq(logs_append(logs, "j1", &chunk, NULL), 0);
    struct logs_page page = read_page((struct logs_query){.rank = -1});
    cr_assert_eq(page.count, 2);
    cr_assert_str_eq(page.lines[0].text, "a b c");
    cr_assert_eq(strlen(page.lines[1].text), (size_t)LOGS_LINE_MAX_BYTES);
    free(large);
}

/* 16 KiB lines until the first segments must have been dropped. */
Test(logs, the_oldest_output_is_dropped_and_that_is_said)
{
    enum { LINE = 16000, LINES = 64 };
    static char text[LINE + 1];
    struct log_line lines[LINES];
    memset(text, 'x', LINE);
    for (int i = 0; i < LINES; i++)
        lines[i] = (struct log_line){.text = text};
    uint64_t offset = 0, wanted = (uint64_t)LOGS_JOB_MAX_BYTES + 3 * (uint64_t)LOGS_SEGMENT_BYTES;
    for (; offset * LINE < wanted; offset += LINES) {
        struct logs_chunk chunk = {.uid = 7, .offset = offset, .lines = lines, .count = LINES};
        cr_assert_eq(logs_append(logs, "j1", &chunk, NULL), 0);
    }
    struct logs_page page = read_page((struct logs_query){.rank = -1, .max_bytes = 1});
    cr_assert(strstr(page.lines[0].text, "dropped"), "%s", page.lines[0].text);
    reopen(); /* what is held of each worker survives in the head of the last segment */
    struct logs_chunk repeat = {.uid = 7, .offset = 0, .lines = lines, .count = LINES};
    cr_assert_eq(logs_append(logs, "j1", &repeat, NULL), 0);
    page = read_page((struct logs_query){.rank = -1, .tail_lines = 1});
    uint64_t end = page.cursor;
    cr_assert_eq(logs_append(logs, "j1", &repeat, NULL), 0);
    page = read_page((struct logs_query){.rank = -1, .tail_lines = 1});
    cr_assert_eq(page.cursor, end, "a repeat was appended");
    char **names;
    char path[128];
    int count = 0;
    snprintf(path, sizeof(path), "%s/logs/j1", dir);
    cr_assert_eq(disk.list(disk.self, path, &names, NULL), 0);
    while (names[count])
        count++;
    free(names);
    cr_assert_leq(count, LOGS_JOB_MAX_BYTES / LOGS_SEGMENT_BYTES + 1);
}
