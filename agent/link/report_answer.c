#include "agent/link/report_answer.h"

#include <inttypes.h>
#include <string.h>

static void put_name(struct buf *out, const char *name)
{
    char last = out->size > 0 ? out->data[out->size - 1] : '{';
    (void)buf_printf(out, "%s\"%s\": ", last == '{' ? "" : ", ", name);
}

void report_open(struct buf *out, int64_t id)
{
    (void)buf_char(out, '{');
    if (id >= 0)
        report_put_count(out, "id", (uint64_t)id);
}

void report_close(struct buf *out)
{
    (void)buf_char(out, '}');
}

void report_put_text(struct buf *out, const char *name, const char *value)
{
    put_name(out, name);
    if (value[0])
        (void)buf_json_string(out, value, strlen(value));
    else
        (void)buf_str(out, "null");
}

void report_put_count(struct buf *out, const char *name, uint64_t value)
{
    put_name(out, name);
    (void)buf_printf(out, "%" PRIu64, value);
}

void report_put_flag(struct buf *out, const char *name, bool value)
{
    put_name(out, name);
    (void)buf_str(out, value ? "true" : "false");
}

void report_put_stop(struct buf *out, const struct report_stop *stop)
{
    report_put_flag(out, "stop", stop->stop);
    if (!stop->stop)
        return;
    put_name(out, "grace_s");
    (void)buf_printf(out, "%.3f", (double)(stop->grace_ms > 0 ? stop->grace_ms : 0) / 1000);
    report_put_text(out, "reason", stop->reason);
}

void report_put_place(struct buf *out, const struct report_place *place)
{
    const struct assignment *a = place->assignment;
    report_put_count(out, "protocol", REPORT_PROTOCOL);
    report_put_text(out, "job", a->key.job);
    report_put_count(out, "uid", a->key.uid);
    report_put_count(out, "generation", place->generation);
    report_put_count(out, "rank", a->rank);
    report_put_count(out, "world", a->world);
    report_put_count(out, "local_rank", a->local_rank);
    report_put_count(out, "local_world", a->local_world);
    report_put_count(out, "node_rank", a->node_rank);
    report_put_count(out, "nodes", a->node_count);
    report_put_count(out, "restarts", a->restarts);
    report_put_text(out, "master_addr", a->master_addr);
    report_put_count(out, "master_port", a->master_port);
    report_put_text(out, "latest", place->latest);
    report_put_stop(out, &place->stop);
    report_put_count(out, "beat_ms", (uint64_t)place->beat_ms);
    report_put_count(out, "line_bytes", (uint64_t)place->line_bytes);
}

void report_put_error(struct buf *out, const struct error *err)
{
    put_name(out, "error");
    (void)buf_char(out, '{');
    report_put_text(out, "code", error_name(err->code));
    report_put_text(out, "message", err->text);
    if (err->hint[0])
        report_put_text(out, "hint", err->hint);
    (void)buf_char(out, '}');
}
