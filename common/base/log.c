#include "common/base/log.h"

#include <inttypes.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/parse.h"
#include "common/base/str.h"

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_event(const struct log *log, enum log_level level, const char *message,
               const struct log_field *fields)
{
    if (!log || level < log->level || !log->sink.write)
        return;
    struct log_record record = {level, message, log->context, fields};
    log->sink.write(log->sink.self, &record);
}

const char *log_level_name(enum log_level level)
{
    return level_names[level];
}

int log_level_from_name(const char *name, enum log_level *ret)
{
    for (int i = LOG_LEVEL_DEBUG; i <= LOG_LEVEL_ERROR; i++) {
        if (strcmp(level_names[i], name) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return E_INVALID_ARGUMENT;
}

/* May the text stand without quotes in key=value? */
static bool is_plain(const char *text)
{
    if (!*text)
        return false;
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == '"' || *p == '=' || *p == '\\' || *p == 0x7f)
            return false;
    return utf8_valid(text, strlen(text));
}

static void write_value(const struct log_field *field, bool json, struct buf *out)
{
    char space[FORMAT_MAX];
    const char *text;
    switch (field->kind) {
    case LOG_KIND_STRING:
        text = field->string ? field->string : "";
        if (json || !is_plain(text))
            buf_json_string(out, text, strlen(text));
        else
            buf_str(out, text);
        break;
    case LOG_KIND_INTEGER:
        buf_printf(out, "%" PRId64, field->integer);
        break;
    case LOG_KIND_NUMBER:
        format_f64(field->number, space);
        if (json && (space[0] == 'N' || strchr(space, 'I')))
            buf_json_string(out, space, strlen(space));
        else
            buf_str(out, space);
        break;
    case LOG_KIND_BOOL:
        buf_str(out, field->boolean ? "true" : "false");
        break;
    }
}

static void write_fields(const struct log_field *fields, bool json, struct buf *out)
{
    for (; fields && fields->key; fields++) {
        if (json) {
            buf_char(out, ',');
            buf_json_string(out, fields->key, strlen(fields->key));
            buf_char(out, ':');
        } else {
            buf_printf(out, " %s=", fields->key);
        }
        write_value(fields, json, out);
    }
}

/* The sentence as it is, apart from what would break the line or drive a terminal. */
static void write_message(const char *message, struct buf *out)
{
    size_t left = strlen(message);
    while (left) {
        size_t length = utf8_decode(message, left, NULL);
        unsigned char c = (unsigned char)*message;
        if (length == 0 || c < ' ' || c == 0x7f)
            buf_printf(out, "\\x%02x", c);
        else
            buf_append(out, message, length);
        length = length ? length : 1;
        message += length;
        left -= length;
    }
}

int log_format_text(const struct log_record *record, struct buf *out)
{
    write_message(record->message, out);
    write_fields(record->context, false, out);
    write_fields(record->fields, false, out);
    return buf_failed(out) ? E_RESOURCE_EXHAUSTED : 0;
}

int log_format_json(const struct log_record *record, int64_t wall_ms, struct buf *out)
{
    char time[FORMAT_MAX];
    buf_printf(out, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", format_time(wall_ms, time),
               log_level_name(record->level));
    buf_json_string(out, record->message, strlen(record->message));
    write_fields(record->context, true, out);
    write_fields(record->fields, true, out);
    return buf_char(out, '}');
}
