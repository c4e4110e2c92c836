#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/log.h"

struct collector {
    struct buf text, json;
    int lines;
};

static void collect(void *self, const struct log_record *record)
{
    struct collector *collector = self;
    collector->lines++;
    buf_clear(&collector->text);
    buf_clear(&collector->json);
    log_format_text(record, &collector->text);
    log_format_json(record, 1000, &collector->json);
}

static void fini(struct collector *collector)
{
    buf_fini(&collector->text);
    buf_fini(&collector->json);
}

Test(log, a_record_has_a_level_a_sentence_and_fields)
{
    struct collector seen = {0};
    struct log log = {.sink = {&seen, collect}};
    log_warn(&log, "node lost", log_str("node", "n1"), log_int("slots", -4), log_num("load", 0.5),
             log_bool("drained", true));
    cr_assert_str_eq(buf_cstr(&seen.text), "node lost node=n1 slots=-4 load=0.5 drained=true");
    cr_assert_str_eq(buf_cstr(&seen.json),
                     "{\"time\":\"1970-01-01T00:00:01.000Z\",\"level\":\"warn\",\"message\":\"node "
                     "lost\",\"node\":\"n1\",\"slots\":-4,\"load\":0.5,\"drained\":true}");
    fini(&seen);
}

Test(log, levels_below_the_chosen_one_are_dropped)
{
    struct collector seen = {0};
    struct log log = {.level = LOG_LEVEL_WARN, .sink = {&seen, collect}};
    log_debug(&log, "d");
    log_info(&log, "i");
    cr_assert_eq(seen.lines, 0);
    log_warn(&log, "w");
    log_error(&log, "e");
    cr_assert_eq(seen.lines, 2);
    log_error((struct log *)NULL, "nowhere");
    struct log deaf = {0};
    log_error(&deaf, "nowhere");
    fini(&seen);
}

Test(log, context_comes_before_the_fields)
{
    struct collector seen = {0};
    struct log log = {.sink = {&seen, collect}, .context = LOG_FIELDS(log_str("role", "agent"))};
    log_info(&log, "up", log_int("pid", 3));
    cr_assert_str_eq(buf_cstr(&seen.text), "up role=agent pid=3");
    fini(&seen);
}

Test(log, a_record_stays_one_line_whatever_is_in_it)
{
    struct collector seen = {0};
    struct log log = {.sink = {&seen, collect}};
    log_info(&log, "two\nlines\033[31m\xff", log_str("a", "x\ny"), log_str("b", "two words"),
             log_str("c", ""), log_str("d", NULL), log_str("e", "k=v"), log_str("f", "\xff"));
    cr_assert_str_eq(buf_cstr(&seen.text),
                     "two\\x0alines\\x1b[31m\\xff a=\"x\\ny\" b=\"two words\" c=\"\" d=\"\" "
                     "e=\"k=v\" f=\"\xef\xbf\xbd\"");
    cr_assert_null(strchr(buf_cstr(&seen.json), '\n'));
    fini(&seen);
}

Test(log, numbers_json_cannot_say_are_strings)
{
    struct collector seen = {0};
    struct log log = {.sink = {&seen, collect}};
    log_info(&log, "m", log_num("a", NAN), log_num("b", -INFINITY));
    cr_assert_not_null(strstr(buf_cstr(&seen.json), "\"a\":\"NaN\",\"b\":\"-Infinity\"}"));
    fini(&seen);
}

Test(log, level_names)
{
    enum log_level level = LOG_LEVEL_DEBUG;
    cr_assert_eq(log_level_from_name("error", &level), 0);
    cr_assert_eq(level, LOG_LEVEL_ERROR);
    cr_assert_eq(log_level_from_name("loud", &level), E_INVALID_ARGUMENT);
    cr_assert_str_eq(log_level_name(LOG_LEVEL_INFO), "info");
}
