#include "common/base/parse.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct step {
    const char *name;
    uint64_t size;
};

static const struct step time_steps[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};

const char *format_duration(int64_t ms, char ret[FORMAT_MAX])
{
    const char *sign = ms < 0 ? "-" : "";
    uint64_t left = ms < 0 ? 0 - (uint64_t)ms : (uint64_t)ms;
    if (left < 1000) {
        snprintf(ret, FORMAT_MAX, "%s%" PRIu64 "ms", sign, left);
    } else if (left < 10000 && left % 1000) {
        snprintf(ret, FORMAT_MAX, "%s%" PRIu64 ".%" PRIu64 "s", sign, left / 1000,
                 left % 1000 / 100);
    } else {
        size_t i = 0;
        while (left < time_steps[i].size)
            i++;
        uint64_t large = left / time_steps[i].size;
        uint64_t small = i < 3 ? left % time_steps[i].size / time_steps[i + 1].size : 0;
        if (small)
            snprintf(ret, FORMAT_MAX, "%s%" PRIu64 "%s %" PRIu64 "%s", sign, large,
                     time_steps[i].name, small, time_steps[i + 1].name);
        else
            snprintf(ret, FORMAT_MAX, "%s%" PRIu64 "%s", sign, large, time_steps[i].name);
    }
    return ret;
}

static const char *const byte_names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

const char *format_bytes(uint64_t bytes, char ret[FORMAT_MAX])
{
    size_t i = 0;
    uint64_t tenths = bytes, unit = 1;
    while (bytes / unit >= 1024) {
        unit *= 1024;
        i++;
    }
    if (i == 0) {
        snprintf(ret, FORMAT_MAX, "%" PRIu64 " B", bytes);
        return ret;
    }
    tenths = bytes % unit / (unit / 1024) * 10 / 1024;
    if (tenths)
        snprintf(ret, FORMAT_MAX, "%" PRIu64 ".%" PRIu64 " %s", bytes / unit, tenths,
                 byte_names[i]);
    else
        snprintf(ret, FORMAT_MAX, "%" PRIu64 " %s", bytes / unit, byte_names[i]);
    return ret;
}

const char *format_duration_exact(int64_t ms, char ret[FORMAT_MAX])
{
    uint64_t value = ms < 0 ? 0 : (uint64_t)ms;
    size_t i = 0;
    while (value == 0 ? i < 3 : value % time_steps[i].size != 0)
        i++;
    snprintf(ret, FORMAT_MAX, "%" PRIu64 "%s", value / time_steps[i].size, time_steps[i].name);
    return ret;
}

const char *format_bytes_exact(uint64_t bytes, char ret[FORMAT_MAX])
{
    size_t i = 0;
    while (bytes && bytes % 1024 == 0 && i < 5) {
        bytes /= 1024;
        i++;
    }
    snprintf(ret, FORMAT_MAX, "%" PRIu64 "%s", bytes, i ? byte_names[i] : "");
    return ret;
}

const char *format_f64(double value, char ret[FORMAT_MAX])
{
    if (isnan(value) || isinf(value)) {
        const char *name = isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity";
        snprintf(ret, FORMAT_MAX, "%s", name);
        return ret;
    }
    if (fabs(value) < 1e15 && value == trunc(value)) { /* 100000.0 and not 1e+05 */
        snprintf(ret, FORMAT_MAX, "%.1f", value);
        ret[strlen(ret) - 2] = '.';
        return ret;
    }
    /* A number with at most 15 digits is printed without added zeros. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(ret, FORMAT_MAX, "%.*g", digits, value);
        if (strtod(ret, NULL) == value)
            break;
    }
    for (char *p = ret; *p; p++) /* some locales write a decimal comma */
        if (*p == ',')
            *p = '.';
    if (!strpbrk(ret, ".e"))
        snprintf(ret + strlen(ret), 3, ".0");
    return ret;
}

const char *format_time(int64_t wall_ms, char ret[FORMAT_MAX])
{
    int64_t ms = wall_ms % 1000;
    time_t seconds = (time_t)(wall_ms / 1000);
    if (ms < 0) {
        ms += 1000;
        seconds--;
    }
    struct tm tm;
    if (!gmtime_r(&seconds, &tm) || tm.tm_year < -1900 || tm.tm_year > 9999 - 1900) {
        snprintf(ret, FORMAT_MAX, "%" PRId64 "ms", wall_ms);
        return ret;
    }
    size_t length = strftime(ret, FORMAT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(ret + length, FORMAT_MAX - length, ".%03uZ", (unsigned)ms % 1000);
    return ret;
}
