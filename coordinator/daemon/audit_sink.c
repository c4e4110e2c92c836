#include "coordinator/daemon/audit_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/str.h"

enum { LINE_MAX_BYTES = 8192, FILE_MODE = 0600 };

static int open_file(struct audit_sink *sink, struct error *err)
{
    sink->fd = open(sink->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                    FILE_MODE);
    return sink->fd < 0 ? error_errno(err, errno, "audit file %s", sink->path) : 0;
}

int audit_sink_init(struct audit_sink *sink, const char *file, bool syslog, const struct log *log,
                    struct error *err)
{
    *sink = (struct audit_sink){.syslog = syslog, .fd = -1, .log = log};
    if (syslog)
        openlog("muster", LOG_PID, LOG_AUTHPRIV);
    if (!file)
        return 0;
    if (str_copy(sink->path, sizeof(sink->path), file))
        return error_set(err, E_INVALID_ARGUMENT, "audit file: the path is too long");
    return open_file(sink, err);
}

void audit_sink_fini(struct audit_sink *sink)
{
    if (sink->path[0] && sink->fd >= 0)
        close(sink->fd);
    if (sink->syslog)
        closelog();
    *sink = (struct audit_sink){.fd = -1};
}

static void add_text(struct buf *out, const char *name, const char *text)
{
    (void)buf_printf(out, ",\"%s\":", name);
    (void)buf_json_string(out, text, strlen(text));
}

static void line_of(const struct store_audit *entry, struct buf *out)
{
    (void)buf_printf(out, "{\"wall_ms\":%lld", (long long)entry->wall_ms);
    add_text(out, "token", entry->token);
    add_text(out, "token_name", entry->token_name);
    add_text(out, "role", entry->role);
    add_text(out, "tenant", entry->tenant);
    add_text(out, "carrier", entry->carrier);
    add_text(out, "peer", entry->peer);
    add_text(out, "method", entry->method);
    add_text(out, "object", entry->object);
    add_text(out, "result", entry->result);
    add_text(out, "text", entry->text);
    (void)buf_char(out, '}');
}

/* True if the open file no longer has that name. */
static bool renamed(const struct audit_sink *sink)
{
    struct stat open_one, named;
    return sink->fd < 0 || fstat(sink->fd, &open_one) < 0 || stat(sink->path, &named) < 0 ||
           open_one.st_ino != named.st_ino || open_one.st_dev != named.st_dev;
}

static int write_line(struct audit_sink *sink, const struct buf *line, struct error *err)
{
    if (renamed(sink)) {
        if (sink->fd >= 0)
            close(sink->fd);
        int rc = open_file(sink, err);
        if (rc)
            return rc;
    }
    return write(sink->fd, line->data, line->size) == (ssize_t)line->size
               ? 0
               : error_errno(err, errno, "audit file %s", sink->path);
}

void audit_sink_write(void *arg, const struct store_audit *entry)
{
    struct audit_sink *sink = arg;
    struct error err = {0};
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    line_of(entry, &line);
    if (sink->syslog)
        syslog(LOG_NOTICE, "audit %s", buf_cstr(&line));
    (void)buf_char(&line, '\n');
    int rc = sink->path[0] ? write_line(sink, &line, &err) : 0;
    if (rc && !sink->failing)
        log_error(sink->log, "the audit trail could not be written outside of the store",
                  log_str("error", err.text));
    sink->failing = rc;
    buf_fini(&line);
}
