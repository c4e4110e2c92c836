#include <string.h>

#include <worker/error.h>

#include "common/base/parse.h"
#include "common/base/sha256.h"
#include "common/base/str.h"
#include "libworker/config/place.h"

struct launcher {
    enum place_kind kind;
    const char *name;
    const char *rank, *world, *local_rank, *local_world;
    const char *world_else; /* read when `world` is not set */
};

static const struct launcher launchers[] = {
    {PLACE_ENV, "RANK/WORLD_SIZE", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
    {PLACE_SLURM, "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL,
     "SLURM_NTASKS"},
    {PLACE_OPENMPI, "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {PLACE_PMI, "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    {PLACE_MV2, "MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE", NULL},
};

enum { LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

const char *place_name(enum place_kind kind)
{
    if (kind == PLACE_MUSTER)
        return "Muster";
    for (int i = 0; i < LAUNCHERS; i++)
        if (launchers[i].kind == kind)
            return launchers[i].name;
    return "alone";
}

static const char *variable_of(const struct environment *environment, const char *name)
{
    const char *text = name ? environment->get(environment->arg, name) : NULL;
    return text && *text ? text : NULL;
}

static int read_number(const struct environment *environment, const char *name, int64_t max,
                       int *ret, struct error *err)
{
    const char *text = variable_of(environment, name);
    if (!text)
        return error_set(err, WK_EINVAL, "%s is not set", name);
    int64_t number;
    if (parse_i64(text, 0, max, &number, err)) {
        error_wrap(err, "%s", name);
        return error_recode(err, WK_EINVAL);
    }
    *ret = (int)number;
    return 0;
}

static int read_local(const struct environment *environment, const struct launcher *launcher,
                      struct place *place, struct error *err)
{
    place->local_rank = 0;
    place->local_world = 1;
    int rc = 0;
    if (variable_of(environment, launcher->local_rank))
        rc = read_number(environment, launcher->local_rank, PLACE_WORLD_MAX - 1, &place->local_rank,
                         err);
    if (!rc && variable_of(environment, launcher->local_world))
        rc = read_number(environment, launcher->local_world, PLACE_WORLD_MAX, &place->local_world,
                         err);
    if (!rc && place->local_world <= place->local_rank)
        place->local_world = place->local_rank + 1;
    return rc;
}

/* The launch node of an allocation, from the variables that srun sets. */
static const char *default_master(const struct environment *environment, enum place_kind kind)
{
    return kind == PLACE_SLURM ? variable_of(environment, "SLURM_LAUNCH_NODE_IPADDR") : NULL;
}

/* A name that is too long is replaced by its digest. */
static void name_run(struct place *place, const char *launcher, const char *name)
{
    uint8_t digest[SHA256_BYTES];
    char hex[2 * 16 + 1];
    if (!str_printf(place->run, sizeof(place->run), "%s %s", launcher, name))
        return;
    sha256(name, strlen(name), digest);
    for (int i = 0; i < 16; i++)
        (void)str_printf(hex + 2 * i, 3, "%02x", digest[i]);
    (void)str_printf(place->run, sizeof(place->run), "%s %s", launcher, hex);
}

/* The parts of a heterogeneous job have numbers of their own. */
static void name_slurm_run(const struct environment *environment, struct place *place)
{
    const char *job = variable_of(environment, "SLURM_JOB_ID"),
               *step = variable_of(environment, "SLURM_STEP_ID");
    char name[PLACE_RUN_BYTES];
    if (job && step && !variable_of(environment, "SLURM_HET_SIZE") &&
        !str_printf(name, sizeof(name), "%s.%s", job, step))
        name_run(place, "Slurm", name);
}

static void read_run(const struct environment *environment, struct place *place)
{
    const char *name = NULL;
    if (place->kind == PLACE_ENV &&
        (name = variable_of(environment, "TORCHELASTIC_RUN_ID")) != NULL) {
        name_run(place, "torchrun", name);
        place->port_is_shared = true;
    }
    if (place->kind == PLACE_SLURM)
        name_slurm_run(environment, place);
    if (place->kind == PLACE_OPENMPI) {
        name = variable_of(environment, "PMIX_NAMESPACE");
        name = name ? name : variable_of(environment, "OMPI_MCA_ess_base_jobid");
        if (name)
            name_run(place, "Open MPI", name);
    }
}

static int read_master(const struct environment *environment, struct place *place,
                       struct error *err)
{
    const char *addr = variable_of(environment, "MASTER_ADDR");
    if (!addr)
        addr = default_master(environment, place->kind);
    if (addr && str_copy(place->master_addr, sizeof(place->master_addr), addr))
        return error_set(err, WK_EINVAL, "MASTER_ADDR is too long");
    place->master_port = PLACE_PORT_DEFAULT;
    if (variable_of(environment, "MASTER_PORT"))
        return read_number(environment, "MASTER_PORT", 65535, &place->master_port, err);
    return 0;
}

static int read_launcher(const struct environment *environment, const struct launcher *launcher,
                         struct place *place, struct error *err)
{
    const char *world =
        variable_of(environment, launcher->world) ? launcher->world : launcher->world_else;
    *place = (struct place){.kind = launcher->kind};
    int rc = read_number(environment, launcher->rank, PLACE_WORLD_MAX - 1, &place->rank, err);
    if (!rc)
        rc = read_number(environment, world ? world : launcher->world, PLACE_WORLD_MAX,
                         &place->world, err);
    if (!rc && place->rank >= place->world)
        rc = error_set(err, WK_EINVAL, "%s is %d, but by %s there are %d", launcher->rank,
                       place->rank, world ? world : launcher->world, place->world);
    if (!rc)
        rc = read_local(environment, launcher, place, err);
    if (!rc)
        rc = read_master(environment, place, err);
    read_run(environment, place);
    if (!rc && place->world > 1 && !*place->master_addr)
        rc = error_set(err, WK_EINVAL,
                       "MASTER_ADDR is not set: set it for all ranks to the address of rank 0's "
                       "machine (127.0.0.1 where there is one machine), as with mpirun -x "
                       "MASTER_ADDR=ADDR");
    if (rc)
        error_wrap(err, "started by %s", launcher->name);
    return rc;
}

/* A process that was to be one of several must not train alone. */
static int check_alone(const struct environment *environment, struct error *err)
{
    const char *text = variable_of(environment, "WORLD_SIZE");
    int64_t world;
    if (!text || parse_i64(text, 0, INT64_MAX, &world, NULL) || world < 2)
        return 0;
    return error_set(err, WK_EINVAL,
                     "WORLD_SIZE is %s but RANK is not set: set it for each process, 0 to %lld, or "
                     "unset WORLD_SIZE to train alone",
                     text, (long long)world - 1);
}

int place_read(const struct environment *environment, struct place *ret, struct error *err)
{
    struct place place = {.kind = PLACE_ALONE, .world = 1, .local_world = 1};
    if (variable_of(environment, "MUSTER_WORKER_SOCKET")) {
        if (!variable_of(environment, "MUSTER_JOB"))
            return error_set(err, WK_EINVAL, "MUSTER_WORKER_SOCKET is set without MUSTER_JOB");
        place.kind = PLACE_MUSTER;
        int rc = read_master(environment, &place, err);
        if (!rc)
            *ret = place;
        return rc;
    }
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *launcher = &launchers[i];
        /* Inside an allocation but not under srun, Slurm sets only the sizes. */
        if (!variable_of(environment, launcher->rank))
            continue;
        if (!variable_of(environment, launcher->world) &&
            !variable_of(environment, launcher->world_else))
            return error_set(err, WK_EINVAL, "started by %s: %s is set but %s is not",
                             launcher->name, launcher->rank, launcher->world);
        int rc = read_launcher(environment, launcher, &place, err);
        if (!rc)
            *ret = place;
        return rc;
    }
    int rc = check_alone(environment, err);
    if (!rc)
        *ret = place;
    return rc;
}
