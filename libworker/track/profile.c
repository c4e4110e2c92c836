#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "libworker/track/profile.h"

enum {
    BUFFER_BYTES = 1 << 16, /* more than the events of a step */
    TAIL_BYTES = 1 << 16,   /* of a continued trace, searched for its last whole event */
};

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

void profile_init(struct profile *profile)
{
    *profile = (struct profile){.step = 1};
}

/* End of the last whole event, where another may follow; 0 if there is none. */
static off_t end_of_events(int fd)
{
    static const char end[] = "}}";
    char tail[TAIL_BYTES];
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode))
        return 0;
    off_t from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
    ssize_t size = pread(fd, tail, sizeof(tail), from);
    for (ssize_t at = size - 2; at >= 0; at--)
        if (memcmp(tail + at, end, 2) == 0)
            return from + at + 2;
    return 0;
}

int profile_trace(struct profile *profile, const char *path, int rank, bool goes_on,
                  struct error *err)
{
    struct stat st;
    profile_end_trace(profile);
    if (!*path)
        return 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_errno(err, errno, "trace_file %s", path);
    off_t end = goes_on ? end_of_events(fd) : 0;
    /* There is nothing to cut off a pipe or a device. */
    bool cut = fstat(fd, &st) == 0 && (!S_ISREG(st.st_mode) || ftruncate(fd, end) == 0);
    profile->trace = cut ? fdopen(fd, "a") : NULL;
    if (!profile->trace) {
        int rc = error_errno(err, errno, "trace_file %s", path);
        close(fd);
        return rc;
    }
    /* Flushed with each step, when it is whole: a killed process leaves no partial event. */
    (void)setvbuf(profile->trace, NULL, _IOFBF, BUFFER_BYTES);
    profile->rank = rank;
    profile->events = 0;
    (void)fprintf(
        profile->trace,
        "%s\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank "
        "%d\"}}",
        end ? "," : "[", rank, rank);
    return 0;
}

void profile_end_trace(struct profile *profile)
{
    if (profile->trace) {
        (void)fputs("\n]\n", profile->trace);
        (void)fclose(profile->trace);
    }
    profile->trace = NULL;
}

void profile_fini(struct profile *profile)
{
    profile_end_trace(profile);
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
    if (profile->trace)
        (void)fflush(profile->trace);
    profile->step_seconds += (double)(now - begun) * 1e-9;
    profile->all_seconds += (double)(now - begun) * 1e-9;
    profile->exposed_seconds += profile->pending[PROFILE_EXPOSED];
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
