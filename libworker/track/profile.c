#include <assert.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "libworker/track/profile.h"

const char *profile_name(enum profile_phase phase)
{
    static const char *const names[] = {
#define X(id, name) [PROFILE_##id] = (name),
        PROFILE_PHASES(X)
#undef X
    };
    return names[phase];
}

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int profile_init(struct profile *profile, const char *path, int rank, struct error *err)
{
    *profile = (struct profile){.rank = rank, .step = 1};
    if (!*path)
        return 0;
    profile->trace = fopen(path, "we");
    if (!profile->trace)
        return error_errno(err, errno, "trace_file %s", path);
    (void)fprintf(profile->trace,
                  "[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank "
                  "%d\"}}",
                  rank, rank);
    return 0;
}

void profile_fini(struct profile *profile)
{
    if (profile->trace) {
        (void)fputs("\n]\n", profile->trace);
        (void)fclose(profile->trace);
    }
    *profile = (struct profile){0};
}

void profile_begin(struct profile *profile, enum profile_phase phase)
{
    assert(profile->depth < PROFILE_NESTED_MAX);
    int64_t now = now_ns();
    if (!profile->step_begun_ns)
        profile->step_begun_ns = now;
    profile->open[profile->depth].phase = phase;
    profile->open[profile->depth].begun_ns = now;
    profile->open[profile->depth++].inner_ns = 0;
}

static void write_event(struct profile *profile, const char *name, int64_t begun_ns,
                        int64_t took_ns)
{
    if (!profile->trace || profile->events++ >= PROFILE_TRACE_EVENTS_MAX)
        return;
    (void)fprintf(profile->trace,
                  ",\n{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,"
                  "\"args\":{\"step\":%lld}}",
                  name, profile->rank, (double)begun_ns * 1e-3, (double)took_ns * 1e-3,
                  (long long)profile->step);
}

void profile_end(struct profile *profile)
{
    assert(profile->depth > 0);
    int i = --profile->depth;
    enum profile_phase phase = profile->open[i].phase;
    int64_t begun = profile->open[i].begun_ns, took = now_ns() - begun;
    profile->pending[phase] += (double)(took - profile->open[i].inner_ns) * 1e-9;
    if (i > 0)
        profile->open[i - 1].inner_ns += took;
    write_event(profile, profile_name(phase), begun, took);
}

void profile_step(struct profile *profile, int64_t next)
{
    int64_t now = now_ns(), begun = profile->step_begun_ns ? profile->step_begun_ns : now;
    write_event(profile, "step", begun, now - begun);
    profile->step_seconds += (double)(now - begun) * 1e-9;
    for (int i = 0; i < PROFILE_COUNT; i++)
        profile->seconds[i] += profile->pending[i];
    memset(profile->pending, 0, sizeof(profile->pending));
    profile->step_begun_ns = now;
    profile->steps++;
    profile->step = next;
}

void profile_take(struct profile *profile, struct profile_means *ret)
{
    double steps = profile->steps > 0 ? (double)profile->steps : 1;
    *ret = (struct profile_means){.step = profile->step_seconds / steps};
    ret->other = ret->step;
    for (int i = 0; i < PROFILE_COUNT; i++) {
        ret->phase[i] = profile->seconds[i] / steps;
        ret->other -= ret->phase[i];
    }
    memset(profile->seconds, 0, sizeof(profile->seconds));
    profile->step_seconds = 0;
    profile->steps = 0;
}
