/* The place of this process among the ranks, read from the environment that its launcher made. The
 * first row that applies counts:
 *
 *   MUSTER_WORKER_SOCKET, MUSTER_JOB      a Muster session; RANK is only a first value
 *   RANK, WORLD_SIZE                      torchrun and the like, with MASTER_ADDR and MASTER_PORT
 *   SLURM_PROCID, SLURM_STEP_NUM_TASKS    srun (SLURM_NTASKS where the step has no count)
 *   OMPI_COMM_WORLD_RANK, _SIZE           Open MPI's mpirun
 *   PMI_RANK, PMI_SIZE                    MPICH, Intel MPI
 *   MV2_COMM_WORLD_RANK, _SIZE            MVAPICH
 *   nothing                               alone: rank 0 of 1
 *
 * `run` is the launcher's name for this start of all ranks. With it the ranks of two trainings that
 * share a MASTER_PORT ignore each other. It is TORCHELASTIC_RUN_ID, the job and step of Slurm, or
 * the namespace of Open MPI. RANK and WORLD_SIZE set by hand, MPICH and MVAPICH have no run.
 *
 * Pure except for the environment callback; any thread. The names are from the launchers' manuals.
 */
#ifndef CONFIG_PLACE_H
#define CONFIG_PLACE_H

#include "common/base/error.h"
#include "libworker/config/settings.h"

enum place_kind {
    PLACE_MUSTER,
    PLACE_ENV,
    PLACE_SLURM,
    PLACE_OPENMPI,
    PLACE_PMI,
    PLACE_MV2,
    PLACE_ALONE
};

enum { PLACE_WORLD_MAX = 1 << 20, PLACE_PORT_DEFAULT = 29500, PLACE_RUN_BYTES = 64 };

struct place {
    enum place_kind kind;
    int rank, world;
    int local_rank, local_world;
    char master_addr[256]; /* "" when alone or in a Muster session without one */
    int master_port;
    char run[PLACE_RUN_BYTES]; /* "" where nothing names it; a long name by its digest */
    bool port_is_shared;       /* the launcher itself uses master_port */
};

/* WK_EINVAL names the variable that is missing, no number or out of range. */
int place_read(const struct environment *environment, struct place *ret, struct error *err);

/* "Muster", "RANK/WORLD_SIZE", "Slurm", … */
const char *place_name(enum place_kind kind);

#endif
