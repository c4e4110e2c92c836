/* Wire to model: what agents report, bounded and validated before core gets them.
 * Borrowed strings live as long as the message. Pure. */
#ifndef API_RPC_INTAKE_H
#define API_RPC_INTAKE_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "coordinator/core/event.h"
#include "coordinator/model/cluster.h"
#include "proto/job.pb-c.h"
#include "proto/node.pb-c.h"

enum {
    INTAKE_WORKERS_MAX = 1024, /* reported by one node */
    INTAKE_LOST_RANKS_MAX = 65536,
    INTAKE_STUCK_PIDS_MAX = 16,
};

/* "[a-z0-9][a-z0-9.-]{0,62}" or E_INVALID_ARGUMENT with `field`. */
int intake_name(const char *name, const char *field, struct error *err);

/* Fill `ret` (zeroed by the caller); its GPUs are in `arena`. */
int intake_node(const Muster__RegisterNodeRequest *message, struct arena *arena, struct node *ret,
                struct error *err);

/* How its GPUs are, by slot; returns their number. */
int intake_readings(const Muster__NodeReport *message, struct gpu_now ret[NODE_GPUS_MAX]);

/* How they are connected, by slot, in `arena`; returns their number. Without room: 0. */
int intake_links(const Muster__NodeReport *message, struct arena *arena, const struct gpu **ret);

/* Its slots that are held; returns their number. */
int intake_held(const Muster__NodeReport *message, struct slot_held ret[NODE_GPUS_MAX]);

/* Reports in `arena`. Their jobs' metrics named loss and tokens_per_second are added to them. */
struct intake_workers {
    Muster__WorkerStatus *const *workers;
    size_t workers_count;
    Muster__MetricSample *const *metrics;
    size_t metrics_count;
};
int intake_reports(const struct intake_workers *from, struct arena *arena,
                   struct worker_report **ret, int *ret_count, struct error *err);

int intake_checkpoint(const Muster__Checkpoint *message, struct checkpoint *ret, struct error *err);

#endif
