/* Metrics on this machine: files of JSON lines, CSV and TensorBoard events on request, and a
 * regular progress line for people. (session/ feeds the coordinator's charts.) Used by rank 0 only;
 * one thread. */
#ifndef TRACK_TRACK_H
#define TRACK_TRACK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/error.h"

struct track_options {
    const char *path;   /* JSON lines, appended to; "" = none, as below */
    const char *csv;    /* step,time,name,value; appended to */
    const char *events; /* folder of TensorBoard event files */
    FILE *progress;     /* borrowed; NULL = none */
    int64_t every;      /* steps between progress lines; 0 = none */
};

struct track {
    struct track_options options;
    FILE *file, *csv, *events;
    int64_t since_ns; /* monotonic, of the progress line before */
    int64_t since_step;
    double tokens; /* since then */
};

/* What one completed optimizer step was. */
struct track_step {
    int64_t step, total_steps; /* total 0 = unknown */
    double loss;               /* NaN: none */
    double rate;
    double tokens;   /* of the global batches of this step */
    bool of_samples; /* `tokens` counts samples */
    int64_t now_ns;  /* monotonic */
};

int track_init(struct track *track, const struct track_options *options, int64_t now_ns,
               struct error *err);
void track_fini(struct track *track);

/* This process becomes rank 0 and opens the three `files`, which another process may have written,
 * at their end; or it stops being rank 0 and closes them. An unfinished line is ended, so that it
 * stays alone. The count of the progress lines starts again. On failure none is open. */
int track_open(struct track *track, const struct track_options *files, int64_t now_ns,
               struct error *err);
void track_close(struct track *track);

/* One metric of one step to every file there is. WK_EIO once one refuses it. */
int track_metric(struct track *track, int64_t step, const char *name, double value);

/* Count a step; every so often print a line and return the tokens (or samples) per second since
 * the last one, else a negative number. */
double track_progress(struct track *track, const struct track_step *step);

#endif
