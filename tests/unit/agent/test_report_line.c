/* Lines of programs that report, and how many of them count. */
#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "agent/link/report_line.h"
#include "agent/link/report_rate.h"
#include "agent/link/report_stacks.h"
#include "common/base/str.h"

static struct arena arena;
static struct report_line line;
static struct error err;

static int parse(const char *text)
{
    arena_fini(&arena);
    error_clear(&err);
    return report_line_parse(text, strlen(text), &arena, &line, &err);
}

Test(report_line, a_step_with_numbers)
{
    cr_assert_eq(
        parse("{\"do\":\"step\",\"step\":12,\"loss\":2.5,\"metrics\":{\"a/b\":\"nan\",\"c\":3},"
              "\"total_steps\":100,\"unknown\":[1,{}]}"),
        0, "%s", err.text);
    cr_expect_eq((int)line.kind, (int)REPORT_STEP);
    cr_expect(line.has_step && line.has_total && !line.has_id);
    cr_expect_eq(line.step, 12u);
    cr_expect_eq(line.total_steps, 100u);
    cr_assert_eq(line.samples_count, 3);
    cr_expect_str_eq(line.samples[0].name, "loss");
    cr_expect_eq(line.samples[0].value, 2.5);
    cr_expect_str_eq(line.samples[1].name, "a/b");
    cr_expect(isnan(line.samples[1].value));
    cr_expect_eq(line.samples[2].value, 3);
}

Test(report_line, every_kind_and_what_it_needs)
{
    static const struct {
        const char *text, *lacks; /* NULL = it is whole */
    } rows[] = {
        {"{\"do\":\"hello\"}", NULL},
        {"{\"do\":\"step\"}", "step"},
        {"{\"do\":\"metric\",\"metrics\":{}}", "metrics"},
        {"{\"do\":\"metric\",\"lr\":0.1}", NULL},
        {"{\"do\":\"pause\",\"for_s\":60,\"why\":\"evaluates\"}", NULL},
        {"{\"do\":\"checkpoint\"}", "path"},
        {"{\"do\":\"checkpoint\",\"state\":\"failed\"}", NULL},
        {"{\"do\":\"latest\"}", NULL},
        {"{\"do\":\"should_stop\"}", NULL},
        {"{\"do\":\"put\",\"value\":\"v\"}", "key"},
        {"{\"do\":\"get\"}", "key"},
        {"{\"do\":\"done\"}", NULL},
        {"{\"do\":\"stacks\"}", "signal"},
        {"{\"do\":\"join\",\"step\":1}", "generation"},
        {"{\"do\":\"lost\",\"ranks\":[1,2]}", "generation"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int rc = parse(rows[i].text);
        cr_expect_eq(rc, rows[i].lacks ? E_INVALID_ARGUMENT : 0, "%s: %s", rows[i].text, err.text);
        cr_expect(!rows[i].lacks || strstr(err.text, rows[i].lacks), "%s: %s", rows[i].text,
                  err.text);
    }
    cr_assert_eq(parse("{\"do\":\"stacks\",\"signal\":\"SIGUSR2\"}"), 0);
    cr_expect_eq(line.signal, SIGUSR2);
    cr_assert_eq(parse("{\"do\":\"checkpoint\",\"path\":\"/c\"}"), 0);
    cr_expect_eq((int)line.phase, (int)REPORT_WHOLE);
    cr_assert_eq(parse("{\"do\":\"lost\",\"generation\":3,\"ranks\":[4,1]}"), 0);
    cr_expect(line.ranks_count == 2 && line.ranks[0] == 4 && line.ranks[1] == 1);
}

Test(report_line, bad_lines_say_what_is_wrong_and_keep_their_id)
{
    static const struct {
        const char *text, *words;
        bool has_id;
    } rows[] = {
        {"", "", false},
        {"nonsense", "", false},
        {"[]", "object", false},
        {"{\"id\":5}", "do", true},
        {"{\"id\":5,\"do\":\"fly\"}", "fly", true},
        {"{\"id\":-1,\"do\":\"done\"}", "id", false},
        {"{\"id\":\"5\",\"do\":\"done\"}", "integer", false},
        {"{\"id\":5,\"do\":\"step\",\"step\":1.5}", "integer", true},
        {"{\"id\":5,\"do\":\"step\",\"step\":9007199254740992}", "9007199254740991", true},
        {"{\"id\":5,\"do\":\"step\",\"step\":1,\"loss\":true}", "number", true},
        {"{\"id\":5,\"do\":\"metric\",\"metrics\":{\"a b\":1}}", "name", true},
        {"{\"id\":5,\"do\":\"metric\",\"metrics\":[1]}", "map", true},
        {"{\"id\":5,\"do\":\"pause\",\"for_s\":-1}", "for_s", true},
        {"{\"id\":5,\"do\":\"pause\",\"for_s\":86401}", "for_s", true},
        {"{\"id\":5,\"do\":\"stacks\",\"signal\":\"KILL\"}", "signal", true},
        {"{\"id\":5,\"do\":\"lost\",\"generation\":1,\"ranks\":[-1]}", "rank", true},
        {"{\"id\":5,\"do\":\"checkpoint\",\"state\":\"half\",\"path\":\"/c\"}", "state", true},
        {"{\"do\":\"done\",\"do\":\"done\"}", "do", false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect_eq(parse(rows[i].text), E_INVALID_ARGUMENT, "%s: %d", rows[i].text, err.code);
        cr_expect(strstr(err.text, rows[i].words), "%s: %s", rows[i].text, err.text);
        cr_expect_eq(line.has_id, rows[i].has_id, "%s", rows[i].text);
    }
}

Test(report_line, texts_and_numbers_have_limits)
{
    cr_expect_eq(parse("{\"a\":[[[[[[1]]]]]]}"), E_RESOURCE_EXHAUSTED); /* depth */
    static char text[64 << 10], key[REPORT_KEY_MAX + 2];
    memset(key, 'k', REPORT_KEY_MAX + 1);
    (void)str_printf(text, sizeof(text), "{\"do\":\"get\",\"key\":\"%s\"}", key);
    cr_expect_eq(parse(text), E_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "257 bytes, at most 256"), "%s", err.text);
    (void)str_printf(text, sizeof(text), "{\"do\":\"get\",\"key\":\"%s\"}", key + 1);
    cr_expect_eq(parse(text), 0, "%s", err.text);
    size_t at = 0;
    at += (size_t)snprintf(text, sizeof(text), "{\"do\":\"metric\",\"metrics\":{");
    for (int i = 0; i <= REPORT_SAMPLES_MAX; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\"m%d\":%d", i ? "," : "", i, i);
    (void)snprintf(text + at, sizeof(text) - at, "}}");
    cr_expect_eq(parse(text), E_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "at most 64 numbers"), "%s", err.text);
}

Test(report_line, an_unread_line_shows_its_id_and_its_step)
{
    static const struct {
        const char *text;
        int64_t id;
        bool steps;
    } rows[] = {
        {"{\"do\":\"step\",\"step\":3}", -1, true},
        {"{\"do\":\"step\", \"id\" : 41, \"step\":3}", 41, true},
        {"{\"id\":9007199254740991}", 9007199254740991, false},
        {"{\"id\":99999999999999999999}", 9999999999999999, false},
        {"{\"id\"", -1, false},
        {"{\"id\":", -1, false},
        {"{\"total_steps\":3}", -1, false},
        {"", -1, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_expect_eq(report_line_asks(rows[i].text, strlen(rows[i].text)), rows[i].id, "%s",
                     rows[i].text);
        cr_expect_eq(report_line_steps(rows[i].text, strlen(rows[i].text)), rows[i].steps, "%s",
                     rows[i].text);
    }
}

Test(report_stacks, the_innermost_frame_of_the_thread_that_got_the_signal)
{
    char where[WAIT_OPERATION_MAX + 1];
    report_stacks_where("process 7:\nThread 0x01 (most recent call first):\n"
                        "  File \"/usr/lib/threading.py\", line 9 in run\n\n"
                        "Current thread 0x02 (most recent call first):\n"
                        "  File \"/home/me/train.py\", line 42 in load\n"
                        "  File \"/home/me/train.py\", line 7 in <module>\n",
                        where, sizeof(where));
    cr_expect_str_eq(where, "train.py:42 in load");
    static const char *const others[] = {"",
                                         "text",
                                         "Current thread",
                                         "Current thread 0x1\n  File \"a",
                                         "Current thread\n File \"a\", line x",
                                         "Current thread\n File \"a\", line 5"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        report_stacks_where(others[i], where, sizeof(where));
        cr_expect_str_eq(where, "", "%s", others[i]);
    }
}

Test(report_stacks, the_innermost_frame_of_the_main_thread_that_py_spy_saw)
{
    char where[WAIT_OPERATION_MAX + 1];
    static const struct {
        const char *text, *where;
    } rows[] = {
        {"process 7 (python3): sleeping\nprocess 7:\nPython v3.11.2\n"
         "Thread 9 (active): \"loader\"\n    read (io.py:3)\n"
         "Thread 7 (idle): \"MainThread\"\n    all_reduce (torch/distributed/c10d.py:2810)\n"
         "    <module> (train.py:20)\n",
         "c10d.py:2810 in all_reduce"},
        {"process 7:\nThread 9 (idle)\n    main.<locals>.<lambda> (a b.py:3)\n",
         "a b.py:3 in main.<locals>.<lambda>"},
        {"\nThread 9 (idle): \"MainThread\"\n", ""},
        {"\nThread 9 (idle): \"MainThread\"\n    ", ""},
        {"\nThread 9 (idle): \"MainThread\"\n    read (io.py:)\n", ""},
        {"\nThread 9 (idle): \"MainThread\"\n    (io.py:3)\n", ""},
        {"\nThread 9 (idle): \"MainThread\"\n    read io.py:3)\n", ""},
        {"\nThread 9 (idle): \"MainThread\"\nread (io.py:3)\n", ""},
        {"\nThread 9 (idle): \"MainThread\"\n    poll (libc.so.6)\n", ""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        report_stacks_where(rows[i].text, where, sizeof(where));
        cr_expect_str_eq(where, rows[i].where, "%s", rows[i].text);
    }
}

/* Ten at once after silence, then five a second. */
Test(report_rate, a_burst_then_the_average)
{
    struct report_rate rate = {0};
    int64_t now_ms = 1000000;
    int taken = 0;
    for (int i = 0; i < 100; i++)
        taken += report_rate_take(&rate, now_ms, 5, 10);
    cr_expect_eq(taken, 10);
    for (int i = 0; i < 100; i++)
        taken += report_rate_take(&rate, now_ms + i * 20, 5, 10); /* 2 s, and 0.02 s less */
    cr_expect_eq(taken, 19);
    cr_expect_not(report_rate_take(&rate, now_ms + 1980, 5, 10));
    now_ms += 3600000;
    for (int i = 0; i < 100; i++)
        taken += report_rate_take(&rate, now_ms, 5, 10);
    cr_expect_eq(taken, 29);
}
