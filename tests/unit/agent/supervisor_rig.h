/* A launcher with real processes under a loop of its own, and a diary of what it told. */
#ifndef SUPERVISOR_RIG_H
#define SUPERVISOR_RIG_H

#include <stdbool.h>

#include "agent/supervisor/launcher_shim.h"
#include "agent/supervisor/rundir.h"
#include "common/base/buf.h"

enum { RIG_WORKERS_MAX = 8, RIG_PATIENCE_MS = 300000 };

struct rig_worker {
    struct worker_key key;
    bool found, started, ended, failed, is_stuck;
    struct worker_stuck stuck; /* with is_stuck, as told last */
    int64_t pid;
    struct worker_exit exit;
    char why[512];
    int code;    /* with why */
    int outputs; /* how often it was told that there is output */
    struct worker_found adopted;
};

struct rig {
    char dir[64];
    struct launch_user user; /* with as_user */
    bool as_user;
    struct namespaces namespaces; /* with as_user; at the next start */
    struct env env;
    struct loop *loop;
    struct launcher_shim *shims;
    struct launcher launcher;
    struct cgroup_home home;
    struct rig_worker workers[RIG_WORKERS_MAX];
    int count;
};

void rig_init(struct rig *rig);
void rig_fini(struct rig *rig);    /* ends what still runs, removes everything */
void rig_end(struct rig *rig);     /* rig_fini, and no child of this process is left */
void rig_restart(struct rig *rig); /* the agent dies, another one starts: the diary is empty */

void rig_as_user(struct rig *rig, uid_t uid, gid_t gid); /* restarts; for workers from now on */

/* `script` runs as /bin/sh -c. Returns its diary. */
struct rig_worker *rig_sh(struct rig *rig, uint64_t uid, const char *script);
int rig_launch(struct rig *rig, const struct launch *launch, struct error *err);
struct rig_worker *rig_worker(struct rig *rig, uint64_t uid);

void rig_turn(struct rig *rig, int ms);            /* let `ms` pass */
bool rig_until(struct rig *rig, const bool *flag); /* with RIG_PATIENCE_MS */

/* All lines so far as "o text\n"; the caller frees. Nothing is acknowledged. */
char *rig_output(struct rig *rig, uint64_t uid);
bool rig_output_has(struct rig *rig, uint64_t uid, const char *text); /* waits for it */

void rig_expect_output(struct rig *rig, uint64_t uid, const char *expected);

/* The number in a line "name=123" of its output, waited for. */
int64_t rig_number(struct rig *rig, uint64_t uid, const char *name);

/* Of a worker of job "job". */
struct rundir rig_run_dir(struct rig *rig, uint64_t uid);
pid_t rig_shim(struct rig *rig, uint64_t uid);

extern const char *const rig_environment[];

#endif
