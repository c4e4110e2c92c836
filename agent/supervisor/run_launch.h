/* The program that a shim starts: launch.json of a run directory (rundir.h). Plain data. */
#ifndef SUPERVISOR_RUN_LAUNCH_H
#define SUPERVISOR_RUN_LAUNCH_H

#include "agent/core/launch.h"
#include "agent/supervisor/cgroup.h"

enum { RUNDIR_PATH_MAX = 512 };

struct run_launch {       /* launch.json: struct launch and the node's choices */
    struct launch launch; /* in the arena it was read into */
    const char *work;     /* absolute; the worker's own folder */
    const char *token;    /* absolute; the file with its token, "" = none */
    const char *secrets;  /* absolute; the folder with its secrets; NULL, "" = none */
    struct cgroup_home home;
    struct launch_gpus job_gpus; /* of the job on this node: what it may open */
};

#endif
