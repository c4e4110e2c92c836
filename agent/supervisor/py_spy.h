/* Stacks of a worker that offers none (docs/report.md, "Stacks"): the activity of its processes,
 * and what py-spy sees in those that are Python. Loop thread only.
 *
 *     look ─► terminal: sh, then py-spy for each Python process ─► its end, or PY_SPY_MS ─► found
 *
 * py-spy is searched in the worker's PATH, so it may be any program of the job. It therefore runs
 * as a terminal beside the worker (terminal.h): as the worker's user, in its cgroup and namespaces,
 * and not longer than the worker. Its output is not trusted: the size is bounded, and control bytes
 * are replaced. Command lines are left out, because they may have secrets. py-spy does not pause
 * the processes (--nonblocking). The kernel ends it first where the job's memory is used up.
 *
 * Source: https://github.com/benfred/py-spy
 */
#ifndef SUPERVISOR_PY_SPY_H
#define SUPERVISOR_PY_SPY_H

#include "agent/supervisor/launcher.h"
#include "common/loop/loop.h"

enum {
    PY_SPY_MS = 5000,
    PY_SPY_PROCESSES_MAX = 16, /* parents before children; the others are counted */
    PY_SPY_BYTES = 64 << 10,   /* of its output that are kept */
};

struct py_spy;

struct py_spy_options {
    struct loop *loop; /* both outlive it */
    struct launcher *launcher;
    const char *node;    /* copied */
    int64_t patience_ms; /* with py-spy at one worker: PY_SPY_MS, but in tests */
    /* Lines of valid text; UTF-8 may be cut at the end. */
    void (*found)(void *arg, const struct worker_key *key, const char *text, size_t size);
    void *arg;
};

int py_spy_new(const struct py_spy_options *options, struct py_spy **ret, struct error *err);
/* No callback follows. Before launcher.close. NULL does nothing. */
void py_spy_free(struct py_spy *spy);

/* Look at a worker; `pid` is its first process. `found` follows once, never inside this call. A
 * look that is under way serves later ones too. Does nothing if the launcher has no terminals. */
void py_spy_look(struct py_spy *spy, const struct worker_key *key, int64_t pid);

#endif
