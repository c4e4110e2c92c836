/* The audit trail outside the store: each entry as a line of JSON in a file, to syslog, or both,
 * once it is durable. An attacker of the coordinator's machine cannot remove what was sent before.
 * A file that was renamed (logrotate) is opened again. A file that cannot be written is reported
 * once in the log and retried with each entry. Loop thread only. */
#ifndef DAEMON_AUDIT_SINK_H
#define DAEMON_AUDIT_SINK_H

#include <limits.h>
#include <stdbool.h>

#include "common/base/log.h"
#include "coordinator/store/store.h"

struct audit_sink {
    char path[PATH_MAX]; /* "" = no file */
    bool syslog, failing;
    int fd;
    const struct log *log;
};

/* `file` NULL: none. A file that cannot be opened at the start is an error. */
int audit_sink_init(struct audit_sink *sink, const char *file, bool syslog, const struct log *log,
                    struct error *err);
void audit_sink_fini(struct audit_sink *sink);

void audit_sink_write(void *arg, const struct store_audit *entry); /* `arg`: the sink */

#endif
