/* Log lines as values: a level, a sentence and key=value fields. A sink decides where lines go
 * (common/env/log_stderr.h writes them; tests collect them). The sink adds the time: nothing here
 * reads a clock. Programs and drivers log; library code returns errors instead.
 *
 *       log_info(log, "node joined", log_str("node", name), log_int("slots", slots));
 *
 * A struct log is plain data owned by its program; fields and strings are read only during the
 * call. Any thread, if the sink allows it.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };

enum log_kind { LOG_KIND_STRING, LOG_KIND_INTEGER, LOG_KIND_NUMBER, LOG_KIND_BOOL };

struct log_field { /* a NULL key ends an array of fields */
    const char *key;
    enum log_kind kind;
    union {
        const char *string; /* NULL is shown as "" */
        int64_t integer;
        double number;
        bool boolean;
    };
};

struct log_record {
    enum log_level level;
    const char *message;
    const struct log_field *context; /* of the struct log, before the fields; may be NULL */
    const struct log_field *fields;  /* ended by a NULL key */
};

struct log_sink {
    void *self;
    void (*write)(void *self, const struct log_record *record);
};

struct log {
    enum log_level level;            /* lines below it are dropped */
    struct log_sink sink;            /* a NULL write drops everything */
    const struct log_field *context; /* fields of every line, ended by a NULL key; may be NULL */
};

#define log_str(k, v)  ((struct log_field){.key = (k), .kind = LOG_KIND_STRING, .string = (v)})
#define log_int(k, v)  ((struct log_field){.key = (k), .kind = LOG_KIND_INTEGER, .integer = (v)})
#define log_num(k, v)  ((struct log_field){.key = (k), .kind = LOG_KIND_NUMBER, .number = (v)})
#define log_bool(k, v) ((struct log_field){.key = (k), .kind = LOG_KIND_BOOL, .boolean = (v)})

#define LOG_FIELDS(...) ((const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = 0}})

#define log_debug(log, message, ...)                                                               \
    log_event((log), LOG_LEVEL_DEBUG, (message), LOG_FIELDS(__VA_ARGS__))
#define log_info(log, message, ...)                                                                \
    log_event((log), LOG_LEVEL_INFO, (message), LOG_FIELDS(__VA_ARGS__))
#define log_warn(log, message, ...)                                                                \
    log_event((log), LOG_LEVEL_WARN, (message), LOG_FIELDS(__VA_ARGS__))
#define log_error(log, message, ...)                                                               \
    log_event((log), LOG_LEVEL_ERROR, (message), LOG_FIELDS(__VA_ARGS__))

/* Pass a line to the sink unless it is below the level. A NULL log drops it. */
void log_event(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields);

/* "debug", "info", "warn", "error". */
const char *log_level_name(enum log_level level);
int log_level_from_name(const char *name, enum log_level *ret); /* or E_INVALID_ARGUMENT */

/* One line without a line break: `message key=value key="two words"`; control characters and
 * invalid UTF-8 are escaped, so one record is always one line. */
int log_format_text(const struct log_record *record, struct buf *out);

/* One JSON object: {"time":<UTC>,"level":...,"message":...,<fields>}. `wall_ms` since 1970. */
int log_format_json(const struct log_record *record, int64_t wall_ms, struct buf *out);

#endif
