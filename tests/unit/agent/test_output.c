#include <criterion/criterion.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/supervisor/exit_text.h"
#include "agent/supervisor/output.h"
#include "common/base/str.h"

struct rig {
    struct output_writer *writer;
    char path[64];
};

static struct rig begin(void)
{
    struct rig rig = {.writer = malloc(sizeof(struct output_writer))};
    strcpy(rig.path, "/tmp/muster-output-XXXXXX");
    close(mkstemp(rig.path));
    cr_assert_eq(output_writer_init(rig.writer, rig.path, 1000, NULL), 0);
    return rig;
}

static void end(struct rig *rig)
{
    output_writer_fini(rig->writer);
    unlink(rig->path);
    free(rig->writer);
}

static void put(struct rig *rig, enum output_stream stream, const char *text)
{
    output_write(rig->writer, stream, text, strlen(text), 1000);
}

static const char *last_of(struct rig *rig)
{
    static char last[AGENT_LAST_OUTPUT_MAX_BYTES + 1];
    memset(last, 'x', sizeof(last));
    output_last(rig->writer, last);
    cr_assert(strnlen(last, sizeof(last)) < sizeof(last));
    return last;
}

/* What the file holds, without times: "o text|e text|" */
static char *lines_of(struct rig *rig)
{
    static char file[1 << 20], text[OUTPUT_RECORD_MAX_BYTES], all[1 << 20];
    int fd = open(rig->path, O_RDONLY);
    ssize_t size = read(fd, file, sizeof(file));
    close(fd);
    struct output_line line;
    size_t at = 0, record;
    all[0] = '\0';
    while ((record = output_parse(file + at, (size_t)size - at, text, &line)) > 0) {
        cr_expect_eq(line.wall_ms, 1000);
        strcat(strcat(strcat(all, line.is_stderr ? "e " : "o "), line.text), "|");
        at += record;
    }
    cr_expect_eq(at, (size_t)size);
    return all;
}

Test(output, lines_in_order_of_arrival)
{
    struct rig rig = begin();
    put(&rig, OUTPUT_STDOUT, "one\ntw");
    put(&rig, OUTPUT_STDERR, "oops\n");
    put(&rig, OUTPUT_STDOUT, "o\n\nlast");
    output_flush(rig.writer, 1000);
    cr_expect_str_eq(lines_of(&rig), "o one|e oops|o two|o |o last|");
    cr_expect_str_eq(last_of(&rig), "one\noops\ntwo\n\nlast\n");
    end(&rig);
}

Test(output, progress_bars_end_at_carriage_return)
{
    struct rig rig = begin();
    put(&rig, OUTPUT_STDERR, "\r10%\r20%\r");
    put(&rig, OUTPUT_STDERR, "\n100%\r\nx");
    output_flush(rig.writer, 1000);
    cr_expect_str_eq(lines_of(&rig), "e 10%|e 20%|e 100%|e x|");
    end(&rig);
}

Test(output, long_lines_are_cut_and_say_so)
{
    struct rig rig = begin();
    static char text[OUTPUT_LINE_MAX_BYTES + 12];
    memset(text, 'a', sizeof(text) - 2);
    text[sizeof(text) - 2] = '\n';
    put(&rig, OUTPUT_STDOUT, text);
    put(&rig, OUTPUT_STDOUT, "next\n");
    char *all = lines_of(&rig);
    cr_expect_eq(strspn(all + 2, "a"), (size_t)OUTPUT_LINE_MAX_BYTES);
    cr_expect_str_eq(all + 2 + OUTPUT_LINE_MAX_BYTES, " [muster: 10 bytes cut]|o next|");
    end(&rig);
}

Test(output, what_is_not_utf8_becomes_so)
{
    struct rig rig = begin();
    output_write(rig.writer, OUTPUT_STDOUT, "a\xff\0b\xc3\xa9\n", 7, 1000);
    cr_expect_str_eq(lines_of(&rig), "o a\xef\xbf\xbd\xef\xbf\xbd"
                                     "b\xc3\xa9|");
    static char text[OUTPUT_LINE_MAX_BYTES + 2];
    memset(text, 0xff, OUTPUT_LINE_MAX_BYTES);
    text[OUTPUT_LINE_MAX_BYTES] = '\n';
    put(&rig, OUTPUT_STDOUT, text);
    cr_expect(utf8_valid(last_of(&rig), strlen(last_of(&rig))));
    char *all = lines_of(&rig);
    cr_expect_eq(strlen(all), 2 + 1 + 6 + 3 + 1 + 2 + 3 * (size_t)OUTPUT_LINE_MAX_BYTES + 1);
    end(&rig);
}

Test(output, a_flood_is_bounded_and_counted)
{
    struct rig rig = begin();
    static char block[1 << 20];
    memset(block, 'x', sizeof(block));
    for (size_t i = 99; i < sizeof(block); i += 100)
        block[i] = '\n';
    for (int i = 0; i < 40; i++) /* 40 MiB at once: beyond the burst */
        output_write(rig.writer, OUTPUT_STDOUT, block, sizeof(block), 1000);
    off_t size = lseek(rig.writer->fd, 0, SEEK_END);
    cr_expect_lt(size, (off_t)OUTPUT_BURST_BYTES + (1 << 20));
    cr_expect_gt(rig.writer->dropped_lines, 200000);
    output_write(rig.writer, OUTPUT_STDOUT, "x\nlater\n", 8, 3000);
    char tail[512] = {0};
    int fd = open(rig.path, O_RDONLY);
    cr_assert(pread(fd, tail, 300, lseek(fd, 0, SEEK_END) - 300) > 0);
    close(fd);
    cr_expect(strstr(tail, "lines dropped") != NULL, "%s", tail);
    cr_expect(strstr(tail, "3000 o later\n") != NULL, "%s", tail);
    end(&rig);
}

Test(output, last_output_keeps_the_end)
{
    struct rig rig = begin();
    char text[64];
    for (int i = 0; i < 1000; i++) {
        sprintf(text, "line %d\n", i);
        put(&rig, OUTPUT_STDOUT, text);
        cr_assert_eq(strncmp(last_of(&rig), "line ", 5), 0);
    }
    cr_expect_str_eq(last_of(&rig) + strlen(last_of(&rig)) - 9, "line 999\n");
    cr_expect_gt(strlen(last_of(&rig)), AGENT_LAST_OUTPUT_MAX_BYTES - 20);
    end(&rig);
}

Test(output, a_record_that_is_none_reads_as_its_bytes)
{
    char text[OUTPUT_RECORD_MAX_BYTES];
    struct output_line line;
    cr_expect_eq(output_parse("12 o unfinished", 15, text, &line), 0);
    cr_expect_eq(output_parse("junk\n", 5, text, &line), 5);
    cr_expect_str_eq(line.text, "junk");
    cr_expect_eq(output_parse("12 o\n", 5, text, &line), 5);
    cr_expect_eq(output_parse("12 e \n", 6, text, &line), 6);
    cr_expect_str_eq(line.text, "");
    cr_expect(line.is_stderr);
}

/* The file takes 50 bytes: two records and a piece of the third. */
Test(output, a_full_disk_costs_whole_lines_and_they_are_counted)
{
    struct rig rig = begin();
    struct rlimit before, small;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 50, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    put(&rig, OUTPUT_STDOUT,
        "line number 1\nline number 2\nline number 3\nline number 4\nline number 5\n");
    put(&rig, OUTPUT_STDOUT, "line number 6\nline number 7\n");
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    put(&rig, OUTPUT_STDERR, "after\n");
    cr_expect_str_eq(lines_of(&rig),
                     "o line number 1|o line number 2|"
                     "e [muster: 5 lines dropped: more output than is kept]|e after|");
    end(&rig);
}

static int64_t size_of(const struct rig *rig)
{
    return lseek(rig->writer->fd, 0, SEEK_END);
}

/* Blocks of lines, told at one time. */
static void flood(struct rig *rig, int blocks, int64_t wall_ms)
{
    static char block[1 << 20];
    memset(block, 'x', sizeof(block));
    for (size_t i = 99; i < sizeof(block); i += 100)
        block[i] = '\n';
    for (int i = 0; i < blocks; i++)
        output_write(rig->writer, OUTPUT_STDOUT, block, sizeof(block), wall_ms);
}

/* Of more at once than is gathered before it is written nothing is lost. */
Test(output, many_lines_at_once_are_kept_whole)
{
    enum { BYTES = 6 << 20 };
    struct rig rig = begin();
    char *lines = malloc(BYTES);
    memset(lines, 'x', BYTES);
    for (size_t i = 99; i < BYTES; i += 100)
        lines[i] = '\n';
    output_write(rig.writer, OUTPUT_STDOUT, lines, BYTES, 1000);
    cr_expect_eq(rig.writer->dropped_lines, 0);
    cr_expect_eq(size_of(&rig), (BYTES / 100) * (100 + (int64_t)strlen("1000 o ")));
    free(lines);
    end(&rig);
}

/* After a minute of silence a burst is there, and no more than one. */
Test(output, silence_earns_one_burst)
{
    enum { BLOCKS = 2 * (OUTPUT_BURST_BYTES >> 20) + 8 };
    struct rig rig = begin();
    int64_t before = 0;
    for (int64_t wall_ms = 70000; wall_ms <= 210000; wall_ms += 70000) {
        flood(&rig, BLOCKS, wall_ms);
        int64_t kept = size_of(&rig) - before;
        cr_expect(kept > OUTPUT_BURST_BYTES / 2 && kept < OUTPUT_BURST_BYTES + (1 << 20), "%lld",
                  (long long)kept);
        before += kept;
    }
    end(&rig);
}

/* It earns from then on, not only once it is as late again as it was. */
Test(output, a_clock_that_jumps_back_costs_no_lines)
{
    enum { BURST_BLOCKS = (OUTPUT_BURST_BYTES >> 20) + 8 };
    struct rig rig = begin();
    flood(&rig, BURST_BLOCKS, 50000);
    flood(&rig, 1, 2000);
    int64_t before = size_of(&rig);
    output_write(rig.writer, OUTPUT_STDOUT, "later\n", 6, 7000);
    cr_expect_gt(size_of(&rig), before);
    end(&rig);
}

Test(output, what_was_dropped_last_is_told_at_the_end)
{
    enum { BURST_BLOCKS = (OUTPUT_BURST_BYTES >> 20) + 8 };
    struct rig rig = begin();
    flood(&rig, BURST_BLOCKS, 1000);
    cr_assert_gt(rig.writer->dropped_lines, 0);
    output_flush(rig.writer, 1000);
    cr_expect_eq(rig.writer->dropped_lines, 0);
    char tail[101] = {0};
    cr_assert_eq(pread(open(rig.path, O_RDONLY), tail, 100, size_of(&rig) - 100), 100);
    cr_expect(strstr(tail, "lines dropped"), "%s", tail);
    end(&rig);
}

/* "\r\n" is one end of a line, "\r" and later "\n" two. */
Test(output, a_line_after_a_return_ends_by_itself)
{
    struct rig rig = begin();
    put(&rig, OUTPUT_STDOUT, "10%\rdone\n\nend\r");
    put(&rig, OUTPUT_STDOUT, "\n");
    cr_expect_str_eq(lines_of(&rig), "o 10%|o done|o |o end|");
    end(&rig);
}

/* What the disk takes at most, however slowly it comes. */
Test(output, no_more_is_kept_than_its_limit)
{
    struct rig rig = begin();
    rig.writer->kept_bytes = OUTPUT_KEPT_MAX_BYTES;
    put(&rig, OUTPUT_STDOUT, "one too many\n");
    cr_expect_eq(size_of(&rig), 0);
    cr_expect_eq(rig.writer->dropped_lines, 1);
    output_flush(rig.writer, 1000); /* the notice; what is kept is measured, not counted */
    cr_expect_lt(rig.writer->kept_bytes, OUTPUT_KEPT_MAX_BYTES);
    put(&rig, OUTPUT_STDOUT, "room again\n");
    cr_expect(strstr(lines_of(&rig), "o room again|"));
    end(&rig);
}

static void expect_text(const struct worker_exit *exit, const struct exit_circumstances *c,
                        const char *text)
{
    struct worker_exit described = *exit;
    exit_describe(&described, c);
    cr_expect_str_eq(described.text, text);
}

Test(exit_text, only_a_stop_was_asked_for)
{
    const struct exit_circumstances asked = {.asked_signal = SIGTERM};
    expect_text(&(struct worker_exit){.signal = SIGTERM}, &asked,
                "killed by SIGTERM (asked to stop)");
    expect_text(&(struct worker_exit){.signal = SIGSEGV}, &asked, "killed by SIGSEGV");
    expect_text(&(struct worker_exit){.signal = SIGKILL}, &(struct exit_circumstances){0},
                "killed by SIGKILL");
}

Test(exit_text, memory_is_named_where_only_a_part_was_killed)
{
    const struct exit_circumstances none = {0};
    expect_text(&(struct worker_exit){.code = 1, .oom = true}, &none,
                "exited with code 1 (part of it was killed: out of memory)");
    expect_text(&(struct worker_exit){.signal = SIGKILL, .oom = true}, &none,
                "killed by SIGKILL (out of memory)");
}
