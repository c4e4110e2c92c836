#include "agent/supervisor/run_gpus.h"

#include <string.h>
#include <unistd.h>

#include "agent/supervisor/gpu_access.h"

static void add_run(struct launch_gpus *into, const struct run *run, bool *first)
{
    if (*first)
        *into = (struct launch_gpus){.major = run->gpus.major};
    *first = false;
    launch_gpus_join(into, &run->gpus);
}

void run_gpus_of(const struct run *runs, const struct run *more, const char *job,
                 struct launch_gpus *ret)
{
    struct launch_gpus gpus = {0};
    bool first = true;
    for (const struct run *run = runs; run; run = run->next)
        if (!run->ended && strcmp(run->key.job, job) == 0)
            add_run(&gpus, run, &first);
    if (more)
        add_run(&gpus, more, &first);
    *ret = gpus;
}

static bool same(const struct launch_gpus *left, const struct launch_gpus *right)
{
    return memcmp(left, right, sizeof(*left)) == 0;
}

static int apply_cgroup(struct run *run, const struct launch_gpus *gpus, struct error *err)
{
    struct cgroup cgroup;
    if (!run->started || same(&run->in_cgroup, gpus)) /* else its shim has yet to make it */
        return 0;
    run_cgroup(run, &cgroup);
    int rc = cgroup_set_gpus(&cgroup, gpus, err);
    if (!rc)
        run->in_cgroup = *gpus;
    return rc;
}

static int apply_mounts(struct run *run, const struct launch_gpus *gpus, struct error *err)
{
    struct gpu_nodes closed, open;
    bool confined = run->user != (int64_t)geteuid() && run->shim.pidfd >= 0 &&
                    proc_alive(run->shim.pid, run->shim.start_ticks);
    if (!confined || same(&run->in_mounts, gpus))
        return 0;
    gpu_access_nodes(gpus, false, &closed);
    gpu_access_nodes(gpus, true, &open);
    int problem = namespace_set_gpus(run->shim.pid, &closed, &open);
    if (problem)
        return error_errno(err, problem, "GPUs of job %s", run->key.job);
    run->in_mounts = *gpus;
    return 0;
}

int run_gpus_apply(struct run *runs, const char *job, const struct launch_gpus *gpus,
                   const struct namespaces *have, struct error *err)
{
    int rc = 0;
    for (struct run *run = runs; run && gpus->major; run = run->next) {
        if (run->ended || strcmp(run->key.job, job) != 0)
            continue;
        int one = apply_cgroup(run, gpus, err);
        if (!one && have->devices)
            one = apply_mounts(run, gpus, err);
        if (!rc)
            rc = one;
    }
    return rc;
}

void run_gpus_keep(struct run *runs, const char *job, const struct namespaces *have)
{
    struct launch_gpus gpus;
    run_gpus_of(runs, NULL, job, &gpus);
    (void)run_gpus_apply(runs, job, &gpus, have, NULL);
}
