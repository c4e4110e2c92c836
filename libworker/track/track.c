#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <worker/error.h>

#include "common/base/buf.h"
#include "common/base/parse.h"
#include "libworker/track/events.h"
#include "libworker/track/track.h"

/* Whether the file is empty, absent, or ends with its last line; a pipe is never read. */
static bool is_ended(const char *path)
{
    char last = '\n';
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
    if (!file)
        return true;
    if (fseek(file, -1, SEEK_END) == 0)
        (void)!fread(&last, 1, 1, file);
    (void)fclose(file);
    return last == '\n';
}

static int open_one(const char *path, const char *setting, FILE **ret, struct error *err)
{
    if (!path || !*path)
        return 0;
    bool ended = is_ended(path);
    *ret = fopen(path, "ae");
    if (!*ret)
        return error_errno(err, errno, "%s %s", setting, path);
    if (!ended && fputc('\n', *ret) < 0)
        return error_set(err, WK_EIO, "%s %s cannot be written", setting, path);
    return 0;
}

int track_open(struct track *track, const struct track_options *files, int64_t now_ns,
               struct error *err)
{
    track_close(track);
    track->since_ns = now_ns;
    track->since_step = -1;
    track->tokens = 0;
    int rc = open_one(files->path, "log_file", &track->file, err);
    if (!rc)
        rc = open_one(files->csv, "log_csv", &track->csv, err);
    if (!rc && track->csv && ftell(track->csv) <= 0 && /* -1: a pipe */
        fputs("step,time,name,value\n", track->csv) < 0)
        rc = error_set(err, WK_EIO, "log_csv %s cannot be written", files->csv);
    if (!rc && files->events && *files->events)
        rc = events_open(files->events, &track->events, err);
    if (rc)
        track_close(track);
    return rc;
}

void track_close(struct track *track)
{
    if (track->file)
        (void)fclose(track->file);
    if (track->csv)
        (void)fclose(track->csv);
    if (track->events)
        (void)fclose(track->events);
    track->file = track->csv = track->events = NULL;
}

int track_init(struct track *track, const struct track_options *options, int64_t now_ns,
               struct error *err)
{
    *track = (struct track){.options = *options};
    track->options.path = track->options.csv = track->options.events = NULL; /* only used here */
    return track_open(track, options, now_ns, err);
}

void track_fini(struct track *track)
{
    track_close(track);
    *track = (struct track){0};
}

/* One measured figure, with when. */
struct figure {
    int64_t step;
    const char *name;
    double value;
    double wall_s;
    char time[FORMAT_MAX], number[FORMAT_MAX];
};

static int write_json(FILE *file, const struct figure *f)
{
    struct buf line = {0};
    (void)buf_printf(&line, "{\"time\":\"%s\",\"step\":%lld,\"name\":", f->time,
                     (long long)f->step);
    (void)buf_json_string(&line, f->name, strlen(f->name));
    /* JSON has no word for what is not finite; proto3 JSON's strings serve. */
    const char *quote = f->value - f->value == 0 ? "" : "\"";
    (void)buf_printf(&line, ",\"value\":%s%s%s}\n", quote, f->number, quote);
    int rc = buf_failed(&line) ? WK_ENOMEM : 0;
    if (!rc && (fputs(buf_cstr(&line), file) < 0 || fflush(file)))
        rc = WK_EIO;
    buf_fini(&line);
    return rc;
}

/* Names are wk_log's: nothing in them needs quoting. */
static int write_csv(FILE *file, const struct figure *f)
{
    int written = fprintf(file, "%lld,%s,%s,%s\n", (long long)f->step, f->time, f->name, f->number);
    return written < 0 || fflush(file) ? WK_EIO : 0;
}

int track_metric(struct track *track, int64_t step, const char *name, double value)
{
    struct figure figure = {.step = step, .name = name, .value = value};
    struct timespec now;
    int rc = 0;
    if (!track->file && !track->csv && !track->events)
        return 0;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    figure.wall_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    (void)format_time((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000, figure.time);
    format_f64(value, figure.number);
    if (track->file)
        rc = write_json(track->file, &figure);
    if (track->csv && !rc)
        rc = write_csv(track->csv, &figure);
    struct events_scalar scalar = {figure.wall_s, step, name, value};
    if (track->events && !rc)
        rc = events_scalar(track->events, &scalar);
    return rc;
}

double track_progress(struct track *track, const struct track_step *step)
{
    if (track->since_step < 0)
        track->since_step = step->step - 1;
    track->tokens += step->tokens;
    if (track->options.every == 0 || step->step % track->options.every != 0)
        return -1;
    double seconds = (double)(step->now_ns - track->since_ns) * 1e-9;
    double rate = seconds > 0 ? track->tokens / seconds : 0;
    if (track->options.progress) {
        FILE *out = track->options.progress;
        (void)fprintf(out, "step %lld", (long long)step->step);
        if (step->total_steps)
            (void)fprintf(out, "/%lld", (long long)step->total_steps);
        if (isnan(step->loss))
            (void)fprintf(out, "  no loss set");
        else
            (void)fprintf(out, "  loss %.4f", step->loss);
        (void)fprintf(out, "  rate %.3g  %.0f %s/s\n", step->rate, rate,
                      step->of_samples ? "samples" : "tokens");
        (void)fflush(out);
    }
    track->since_ns = step->now_ns;
    track->since_step = step->step;
    track->tokens = 0;
    return rate;
}
