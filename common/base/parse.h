/* Numbers, durations and sizes as people write them, and back. The whole text must match; spaces
 * around it are refused. On failure `*ret` is untouched and the error has what was expected.
 */
#ifndef BASE_PARSE_H
#define BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"

/* Decimal. E_INVALID_ARGUMENT for other text, E_OUT_OF_RANGE outside min..max. */
int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret, struct error *err);

/* "2" is 2 to 2; "1..4" and "1-4" are 1 to 4: ends of 0 or more, the lower first. */
int parse_range(const char *text, int64_t min, int64_t max, int64_t *ret_low, int64_t *ret_high,
                struct error *err);

/* Check a number that is already parsed: E_INVALID_ARGUMENT with its name and bounds outside
 * min..max. */
int number_within(const char *name, int64_t value, int64_t min, int64_t max, struct error *err);

/* Decimal with optional fraction and exponent; independent of the locale. Never NaN or infinite. */
int parse_f64(const char *text, double *ret, struct error *err);

/* true false yes no on off 1 0: for command lines and environments (files have booleans). */
int parse_bool(const char *text, bool *ret, struct error *err);

/* "1500ms", "2s", "5m", "2h", "1d", "1.5h", "1h30m"; a bare "0". Never negative. Milliseconds. */
int parse_duration(const char *text, int64_t *ret_ms, struct error *err);

/* "4096", "512MiB", "2GiB", "1.5TiB", "100MB" (powers of 1000), "2G" (of 1024). */
int parse_bytes(const char *text, uint64_t *ret_bytes, struct error *err);

/* For people: "1.5s", "2m 5s", "3d 4h" / "1.5 GiB", "512 B". Return `ret`. */
enum { FORMAT_MAX = 48 };
const char *format_duration(int64_t ms, char ret[FORMAT_MAX]);
const char *format_bytes(uint64_t bytes, char ret[FORMAT_MAX]);

/* For files: the shortest text that parses back to the same value: "90s" is "90s", "2h", "1500ms";
 * "2GiB", "1000". */
const char *format_duration_exact(int64_t ms, char ret[FORMAT_MAX]);
const char *format_bytes_exact(uint64_t bytes, char ret[FORMAT_MAX]);

/* The shortest decimal that reads back as the same double; "NaN", "Infinity", "-Infinity". Always
 * with a fraction or an exponent, so that it stays a number and not an integer. */
const char *format_f64(double value, char ret[FORMAT_MAX]);

/* "2026-11-20T09:15:00.123Z" of milliseconds since 1970. */
const char *format_time(int64_t wall_ms, char ret[FORMAT_MAX]);

#endif
