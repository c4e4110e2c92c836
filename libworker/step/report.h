/* The metrics of steps, for observers: the coordinator, log files, the terminal. Owned by the
 * program's thread. */
#ifndef STEP_REPORT_H
#define STEP_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "common/base/error.h"
#include "libworker/track/profile.h"
#include "libworker/track/track.h"

struct wk_context;

struct reports {
    struct track track;
    struct profile profile; /* of this rank's steps */
    bool is_open;           /* track is */
    bool failed;            /* the notice about log_file was given */
    bool keeps_files;       /* this is rank 0, which writes the log and trace files */
    bool told_metric;       /* the notice about an invalid metric name was given */
};

/* `progress`: file for progress lines, or NULL. Rank 0 opens the files of logs and the trace;
 * WK_EIO and similar codes if it cannot. */
int report_open(struct wk_context *ctx, FILE *progress, struct error *err);
void report_close(struct wk_context *ctx); /* also one that was not opened */

/* Close the log files, because this process leaves or another one is now rank 0. */
void report_release(struct wk_context *ctx);
/* Call after each generation. If another process was rank 0, this one continues its files. A
 * failure is only a notice. */
void report_follow(struct wk_context *ctx);

void report_step(struct wk_context *ctx, double tokens);
void report_one(struct wk_context *ctx, const char *name, double value);

#endif
