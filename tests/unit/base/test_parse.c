#include <criterion/criterion.h>
#include <float.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/rng.h"

Test(parse, integers_within_their_range)
{
    int64_t x = 0;
    cr_assert_eq(parse_i64("-42", -100, 100, &x, NULL), 0);
    cr_assert_eq(x, -42);
    cr_assert_eq(parse_i64("+7", 0, 100, &x, NULL), 0);
    cr_assert_eq(parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &x, NULL), 0);
    cr_assert_eq(x, INT64_MAX);
    cr_assert_eq(parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &x, NULL), 0);
    cr_assert_eq(x, INT64_MIN);
    cr_assert_eq(parse_i64("0000000000000000000000000012", 0, 12, &x, NULL), 0);
    cr_assert_eq(x, 12);
}

Test(parse, integers_out_of_range_leave_the_result_alone)
{
    static const char *const large[] = {"9223372036854775808", "-9223372036854775809",
                                        "99999999999999999999999999"};
    int64_t x = 5;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(parse_i64(large[i], INT64_MIN, INT64_MAX, &x, NULL), E_OUT_OF_RANGE);
    struct error err;
    cr_assert_eq(parse_i64("11", 1, 10, &x, &err), E_OUT_OF_RANGE);
    cr_assert_str_eq(err.text, "11 is not in 1..10");
    cr_assert_eq(parse_i64("-1", 0, INT64_MAX, &x, &err), E_OUT_OF_RANGE);
    cr_assert_str_eq(err.text, "-1 is below 0");
    cr_assert_eq(x, 5);
}

Test(parse, what_is_no_integer_is_refused)
{
    static const char *const bad[] = {"", "-", "+", " 1", "1 ", "1.0", "0x10", "1e3", "--1", "a"};
    int64_t x = 5;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(parse_i64(bad[i], INT64_MIN, INT64_MAX, &x, NULL), E_INVALID_ARGUMENT);
    cr_assert_eq(x, 5);
}

Test(parse, numbers)
{
    double x = 0;
    cr_assert_eq(parse_f64("1.5e3", &x, NULL), 0);
    cr_assert_eq(x, 1500);
    cr_assert_eq(parse_f64("-.5", &x, NULL), 0);
    cr_assert_eq(x, -0.5);
    cr_assert_eq(parse_f64("5.", &x, NULL), 0);
    cr_assert_eq(parse_f64("1e-400", &x, NULL), 0);
    cr_assert_eq(x, 0);
    cr_assert_eq(parse_f64("1e400", &x, NULL), E_OUT_OF_RANGE);
    static const char *const bad[] = {"",   ".",  "e5",  "1e",    "1e+", "nan", "inf",
                                      " 1", "1 ", "0x1", "1.2.3", "1,5", "-"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(parse_f64(bad[i], &x, NULL), E_INVALID_ARGUMENT, "%s", bad[i]);
}

Test(parse, numbers_do_not_depend_on_the_locale)
{
    double x = 0;
    char text[FORMAT_MAX];
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        cr_skip_test("no locale with a decimal comma is installed");
    cr_assert_eq(parse_f64("1.5", &x, NULL), 0);
    cr_assert_eq(x, 1.5);
    cr_assert_str_eq(format_f64(1.5, text), "1.5");
}

Test(parse, booleans)
{
    static const char *const yes[] = {"true", "YES", "on", "1"}, *const no[] = {"false", "no",
                                                                                "Off", "0"};
    for (int i = 0; i < 4; i++) {
        bool x = false;
        cr_assert_eq(parse_bool(yes[i], &x, NULL), 0);
        cr_assert(x);
        cr_assert_eq(parse_bool(no[i], &x, NULL), 0);
        cr_assert_not(x);
    }
    bool x;
    cr_assert_eq(parse_bool("", &x, NULL), E_INVALID_ARGUMENT);
    cr_assert_eq(parse_bool("2", &x, NULL), E_INVALID_ARGUMENT);
}

static int64_t duration(const char *text)
{
    int64_t ms = -1;
    int rc = parse_duration(text, &ms, NULL);
    return rc ? rc : ms;
}

Test(parse, durations)
{
    cr_assert_eq(duration("1500ms"), 1500);
    cr_assert_eq(duration("2s"), 2000);
    cr_assert_eq(duration("5m"), 300000);
    cr_assert_eq(duration("2h"), 7200000);
    cr_assert_eq(duration("1d"), 86400000);
    cr_assert_eq(duration("1.5h"), 5400000);
    cr_assert_eq(duration("1h30m"), 5400000);
    cr_assert_eq(duration("1h30m5s10ms"), 5405010);
    cr_assert_eq(duration("0"), 0);
    cr_assert_eq(duration("0s"), 0);
    cr_assert_eq(duration("106751991167d"), 106751991167 * 86400000);
}

Test(parse, what_is_no_duration_is_refused)
{
    static const char *const bad[] = {"",       "5",    "s",   "-5s", "5 s",  "5m2h",      "5s5s",
                                      "1.2.3s", "5sec", "5s ", ".5s", "1e3s", "5\xc2\xb5s"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(duration(bad[i]), E_INVALID_ARGUMENT, "%s", bad[i]);
    cr_assert_eq(duration("106751991168d"), E_OUT_OF_RANGE);
    cr_assert_eq(duration("9223372036854775807ms"), INT64_MAX);
    cr_assert_eq(duration("1s9223372036854775807ms"), E_OUT_OF_RANGE);
    cr_assert_eq(duration("99999999999999999999s"), E_OUT_OF_RANGE);
}

static uint64_t bytes(const char *text)
{
    uint64_t value = 0;
    int rc = parse_bytes(text, &value, NULL);
    return rc ? (uint64_t)rc : value;
}

Test(parse, byte_sizes)
{
    cr_assert_eq(bytes("4096"), 4096);
    cr_assert_eq(bytes("0"), 0);
    cr_assert_eq(bytes("512MiB"), 512ull << 20);
    cr_assert_eq(bytes("2GiB"), 2ull << 30);
    cr_assert_eq(bytes("2G"), 2ull << 30);
    cr_assert_eq(bytes("2gib"), 2ull << 30);
    cr_assert_eq(bytes("1.5TiB"), 3ull << 39);
    cr_assert_eq(bytes("100MB"), 100000000);
    cr_assert_eq(bytes("7B"), 7);
    static const char *const bad[] = {"", "MiB", "-1", "1 MiB", "1XiB", "1MiBs", "1MiB1", "1..5K"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert_eq(bytes(bad[i]), (uint64_t)E_INVALID_ARGUMENT, "%s", bad[i]);
    cr_assert_eq(bytes("9000PiB"), (uint64_t)E_OUT_OF_RANGE);
    cr_assert_eq(bytes("9000.5PiB"), (uint64_t)E_OUT_OF_RANGE);
}

Test(format, durations_for_people)
{
    char text[FORMAT_MAX];
    cr_assert_str_eq(format_duration(0, text), "0ms");
    cr_assert_str_eq(format_duration(999, text), "999ms");
    cr_assert_str_eq(format_duration(1500, text), "1.5s");
    cr_assert_str_eq(format_duration(2000, text), "2s");
    cr_assert_str_eq(format_duration(59999, text), "59s");
    cr_assert_str_eq(format_duration(125000, text), "2m 5s");
    cr_assert_str_eq(format_duration(3600000, text), "1h");
    cr_assert_str_eq(format_duration(273600000, text), "3d 4h");
    cr_assert_str_eq(format_duration(-1500, text), "-1.5s");
    format_duration(INT64_MIN, text);
    format_duration(INT64_MAX, text);
}

Test(format, bytes_for_people)
{
    char text[FORMAT_MAX];
    cr_assert_str_eq(format_bytes(0, text), "0 B");
    cr_assert_str_eq(format_bytes(1023, text), "1023 B");
    cr_assert_str_eq(format_bytes(1024, text), "1 KiB");
    cr_assert_str_eq(format_bytes(1536, text), "1.5 KiB");
    cr_assert_str_eq(format_bytes(3ull << 29, text), "1.5 GiB");
    cr_assert_str_eq(format_bytes(UINT64_MAX, text), "15.9 EiB");
}

Test(format, exact_forms_read_back_equal)
{
    char text[FORMAT_MAX];
    struct rng rng;
    cr_assert_str_eq(format_duration_exact(90000, text), "90s");
    cr_assert_str_eq(format_duration_exact(7200000, text), "2h");
    cr_assert_str_eq(format_duration_exact(0, text), "0s");
    cr_assert_str_eq(format_bytes_exact(2ull << 30, text), "2GiB");
    cr_assert_str_eq(format_bytes_exact(1000, text), "1000");
    cr_assert_str_eq(format_bytes_exact(0, text), "0");
    rng_seed(&rng, 2);
    for (int i = 0; i < 10000; i++) {
        int64_t ms = (int64_t)(rng_next(&rng) >> (1 + rng_below(&rng, 60)));
        uint64_t size = rng_next(&rng) >> (1 + rng_below(&rng, 60));
        cr_assert_eq(duration(format_duration_exact(ms, text)), ms);
        cr_assert_eq(bytes(format_bytes_exact(size, text)), size);
    }
}

Test(format, numbers_take_the_shortest_form_that_reads_back)
{
    char text[FORMAT_MAX];
    struct rng rng;
    cr_assert_str_eq(format_f64(0.1, text), "0.1");
    cr_assert_str_eq(format_f64(1, text), "1.0");
    cr_assert_str_eq(format_f64(-0.0, text), "-0.0");
    cr_assert_str_eq(format_f64(100000, text), "100000.0");
    cr_assert_str_eq(format_f64(1e300, text), "1e+300");
    cr_assert_str_eq(format_f64(NAN, text), "NaN");
    cr_assert_str_eq(format_f64(-INFINITY, text), "-Infinity");
    rng_seed(&rng, 4);
    for (int i = 0; i < 50000; i++) {
        uint64_t bits = rng_next(&rng);
        double x;
        memcpy(&x, &bits, sizeof(x));
        if (isfinite(x))
            cr_assert_eq(strtod(format_f64(x, text), NULL), x);
    }
    cr_assert_eq(strtod(format_f64(DBL_MAX, text), NULL), DBL_MAX);
    cr_assert_eq(strtod(format_f64(DBL_TRUE_MIN, text), NULL), DBL_TRUE_MIN);
}

Test(format, times_are_utc)
{
    char text[FORMAT_MAX];
    cr_assert_str_eq(format_time(0, text), "1970-01-01T00:00:00.000Z");
    cr_assert_str_eq(format_time(1795166100123, text), "2026-11-20T09:15:00.123Z");
    cr_assert_str_eq(format_time(-1, text), "1969-12-31T23:59:59.999Z");
    format_time(INT64_MAX, text);
    format_time(INT64_MIN, text);
}

Test(parse, ranges)
{
    static const struct {
        const char *text;
        int64_t low, high;
    } good[] = {{"2", 2, 2}, {"1..4", 1, 4}, {"1-4", 1, 4}, {"3..3", 3, 3}};
    static const char *const bad[] = {"",   "0",    "4..1", "1.4",   "1...4", "1..",  "..4",
                                      "-4", "1--4", "1..9", "1 ..4", "a..b",  "1..4 "};
    int64_t low, high;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(parse_range(good[i].text, 1, 8, &low, &high, NULL), 0, "%s", good[i].text);
        cr_expect_eq(low, good[i].low);
        cr_expect_eq(high, good[i].high);
    }
    low = high = 7;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_neq(parse_range(bad[i], 1, 8, &low, &high, NULL), 0, "%s", bad[i]);
        cr_expect(low == 7 && high == 7, "%s", bad[i]);
    }
}
