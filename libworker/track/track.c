#include <errno.h>
#include <string.h>
#include <time.h>

#include <worker/error.h>

#include "common/base/buf.h"
#include "common/base/parse.h"
#include "libworker/track/track.h"

int track_init(struct track *track, const struct track_options *options, int64_t now_ms,
               struct error *err)
{
    *track = (struct track){.options = *options, .since_ms = now_ms, .since_step = -1};
    track->options.path = NULL; /* not kept: only used here */
    if (!*options->path)
        return 0;
    track->file = fopen(options->path, "ae");
    if (!track->file)
        return error_errno(err, errno, "log_file %s", options->path);
    return 0;
}

void track_fini(struct track *track)
{
    if (track->file)
        (void)fclose(track->file);
    *track = (struct track){0};
}

int track_metric(struct track *track, int64_t step, const char *name, double value)
{
    if (!track->file)
        return 0;
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    char time_text[FORMAT_MAX], number[FORMAT_MAX];
    struct buf line = {0};
    (void)buf_printf(&line, "{\"time\":\"%s\",\"step\":%lld,\"name\":",
                     format_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, time_text),
                     (long long)step);
    (void)buf_json_string(&line, name, strlen(name));
    format_f64(value, number);
    /* JSON has no word for what is not finite; proto3 JSON's strings serve. */
    const char *quote = value - value == 0 ? "" : "\"";
    (void)buf_printf(&line, ",\"value\":%s%s%s}\n", quote, number, quote);
    int rc = buf_failed(&line) ? WK_ENOMEM : 0;
    if (!rc && (fputs(buf_cstr(&line), track->file) < 0 || fflush(track->file)))
        rc = WK_EIO;
    buf_fini(&line);
    return rc;
}

double track_progress(struct track *track, const struct track_step *step)
{
    if (track->since_step < 0)
        track->since_step = step->step - 1;
    track->tokens += step->tokens;
    if (track->options.every == 0 || step->step % track->options.every != 0)
        return -1;
    double seconds = (double)(step->now_ms - track->since_ms) / 1000;
    double rate = seconds > 0 ? track->tokens / seconds : 0;
    if (track->options.progress) {
        FILE *out = track->options.progress;
        (void)fprintf(out, "step %lld", (long long)step->step);
        if (step->total_steps)
            (void)fprintf(out, "/%lld", (long long)step->total_steps);
        (void)fprintf(out, "  loss %.4f  rate %.3g  %.0f tokens/s\n", step->loss, step->rate, rate);
        (void)fflush(out);
    }
    track->since_ms = step->now_ms;
    track->since_step = step->step;
    track->tokens = 0;
    return rate;
}
