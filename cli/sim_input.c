#include "cli/sim_input.h"

#include <limits.h>
#include <stdlib.h>

#include "common/env/disk_os.h"
#include "common/env/paths.h"

int sim_read_text(const char *path, char **ret, size_t *ret_size, struct error *err)
{
    char absolute[PATH_MAX];
    struct disk disk = disk_os();
    int rc = paths_absolute(absolute, sizeof(absolute), path, err);
    if (rc)
        return rc;
    return disk.read_file(disk.self, absolute, SIM_FILE_MAX_BYTES, ret, ret_size, err);
}

struct rehearsal_job *sim_add_job(struct rehearsal *rehearsal, struct error *err)
{
    enum { GROW = 1024 };
    if (rehearsal->jobs_count >= REHEARSAL_JOBS_MAX) {
        error_set(err, E_RESOURCE_EXHAUSTED, "more than %d jobs", REHEARSAL_JOBS_MAX);
        return NULL;
    }
    if (rehearsal->jobs_count % GROW == 0) {
        struct rehearsal_job *jobs =
            realloc(rehearsal->jobs, sizeof(*jobs) * (size_t)(rehearsal->jobs_count + GROW));
        if (!jobs) {
            error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
            return NULL;
        }
        rehearsal->jobs = jobs;
    }
    struct rehearsal_job *job = &rehearsal->jobs[rehearsal->jobs_count++];
    *job = (struct rehearsal_job){
        .tenant = "default", .nodes_min = 1, .nodes_max = 1, .workers_per_node = 1, .slots = 1};
    return job;
}

int sim_whole(double value, int least)
{
    if (value >= SIM_COUNT_MAX)
        return SIM_COUNT_MAX;
    return value > least ? (int)value : least;
}

int64_t sim_ms(double ms)
{
    if (ms > (double)REHEARSAL_TIME_MAX_MS)
        return REHEARSAL_TIME_MAX_MS + 1;
    return ms >= 0 ? (int64_t)ms : -1;
}
