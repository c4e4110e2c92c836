#include <criterion/criterion.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/config/place.h"

enum { PAIRS_MAX = 16 };

static const char *lookup(void *arg, const char *name)
{
    for (const char *const *pair = arg; *pair; pair += 2)
        if (strcmp(pair[0], name) == 0)
            return pair[1];
    return NULL;
}

static int place_of(const char *const *pairs, struct place *ret, struct error *err)
{
    struct environment environment = {lookup, (void *)pairs};
    return place_read(&environment, ret, err);
}

struct row {
    const char *pairs[PAIRS_MAX];
    enum place_kind kind;
    int rank, world, local_rank, local_world, port;
    const char *addr;
};

static const struct row rows[] = {
    {{NULL}, PLACE_ALONE, 0, 1, 0, 1, 0, ""},
    {{"RANK", "1", "WORLD_SIZE", "2", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "2", "MASTER_ADDR",
      "127.0.0.1", "MASTER_PORT", "1234"},
     PLACE_ENV,
     1,
     2,
     1,
     2,
     1234,
     "127.0.0.1"},
    {{"RANK", "0", "WORLD_SIZE", "1"}, PLACE_ENV, 0, 1, 0, 1, PLACE_PORT_DEFAULT, ""},
    {{"SLURM_PROCID", "3", "SLURM_NTASKS", "8", "SLURM_STEP_NUM_TASKS", "4", "SLURM_LOCALID", "1",
      "SLURM_LAUNCH_NODE_IPADDR", "10.0.0.1"},
     PLACE_SLURM,
     3,
     4,
     1,
     2,
     PLACE_PORT_DEFAULT,
     "10.0.0.1"},
    {{"OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK", "0",
      "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "MASTER_ADDR", "a"},
     PLACE_OPENMPI,
     2,
     4,
     0,
     2,
     PLACE_PORT_DEFAULT,
     "a"},
    {{"PMI_RANK", "1", "PMI_SIZE", "2", "MASTER_ADDR", "a"},
     PLACE_PMI,
     1,
     2,
     0,
     1,
     PLACE_PORT_DEFAULT,
     "a"},
    {{"MV2_COMM_WORLD_RANK", "1", "MV2_COMM_WORLD_SIZE", "2", "MASTER_ADDR", "a"},
     PLACE_MV2,
     1,
     2,
     0,
     1,
     PLACE_PORT_DEFAULT,
     "a"},
    /* An allocation without srun has sizes but no rank. */
    {{"SLURM_NTASKS", "8", "SLURM_JOB_ID", "5"}, PLACE_ALONE, 0, 1, 0, 1, 0, ""},
    /* A Muster worker also has RANK for other libraries; the session decides. */
    {{"MUSTER_WORKER_SOCKET", "/s", "MUSTER_JOB", "j", "RANK", "1", "WORLD_SIZE", "2",
      "MASTER_ADDR", "10.0.0.2", "MASTER_PORT", "77"},
     PLACE_MUSTER,
     0,
     1,
     0,
     1,
     77,
     "10.0.0.2"},
    /* torchrun inside a Slurm step. */
    {{"RANK", "1", "WORLD_SIZE", "4", "MASTER_ADDR", "a", "SLURM_PROCID", "0", "SLURM_NTASKS", "2"},
     PLACE_ENV,
     1,
     4,
     0,
     1,
     PLACE_PORT_DEFAULT,
     "a"},
};

Test(place, each_launcher_is_recognised)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        struct place place;
        struct error err = {0};
        cr_assert_eq(place_of(row->pairs, &place, &err), 0, "row %zu: %s", i, err.text);
        cr_assert_eq(place.kind, row->kind, "row %zu is %s", i, place_name(place.kind));
        cr_assert(place.rank == row->rank && place.world == row->world, "row %zu", i);
        cr_assert(place.local_rank == row->local_rank && place.local_world == row->local_world,
                  "row %zu: local %d of %d", i, place.local_rank, place.local_world);
        cr_assert(place.master_port == row->port, "row %zu: port %d", i, place.master_port);
        cr_assert_str_eq(place.master_addr, row->addr);
    }
}

Test(place, what_cannot_be_is_refused_with_the_variable_named)
{
    static const struct {
        const char *pairs[PAIRS_MAX];
        const char *named;
    } bad[] = {
        {{"RANK", "2", "WORLD_SIZE", "2", "MASTER_ADDR", "a"}, "RANK"},
        {{"RANK", "x", "WORLD_SIZE", "2", "MASTER_ADDR", "a"}, "RANK"},
        {{"RANK", "-1", "WORLD_SIZE", "2", "MASTER_ADDR", "a"}, "RANK"},
        {{"RANK", "0"}, "WORLD_SIZE"},
        {{"WORLD_SIZE", "2"}, "RANK is not set"},
        {{"WORLD_SIZE", "2", "LOCAL_RANK", "1", "MASTER_ADDR", "a"}, "0 to 1"},
        {{"RANK", "0", "WORLD_SIZE", "0"}, "RANK"},
        {{"RANK", "0", "WORLD_SIZE", "2"}, "mpirun -x MASTER_ADDR"},
        {{"RANK", "0", "WORLD_SIZE", "2", "MASTER_ADDR", "a", "MASTER_PORT", "70000"},
         "MASTER_PORT"},
        {{"MUSTER_WORKER_SOCKET", "/s"}, "MUSTER_JOB"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct place place;
        struct error err = {0};
        cr_assert_eq(place_of(bad[i].pairs, &place, &err), WK_EINVAL, "row %zu", i);
        cr_assert_eq(err.code, WK_EINVAL, "row %zu: %d", i, err.code);
        cr_assert(strstr(err.text, bad[i].named), "row %zu: %s", i, err.text);
    }
}

/* What a launcher calls one start of all ranks; a name that is too long keeps what tells it apart.
 */
Test(place, the_run_is_what_the_launcher_calls_it)
{
    static const struct {
        const char *pairs[PAIRS_MAX];
        const char *run;
        bool shared;
    } all[] = {
        {{"RANK", "0", "WORLD_SIZE", "1"}, "", false},
        {{"RANK", "0", "WORLD_SIZE", "1", "TORCHELASTIC_RUN_ID", "j7"}, "torchrun j7", true},
        /* RANK is set by hand within an allocation: its ranks need not be of one step. */
        {{"RANK", "0", "WORLD_SIZE", "1", "SLURM_JOB_ID", "5", "SLURM_STEP_ID", "0"}, "", false},
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "1", "SLURM_JOB_ID", "5", "SLURM_STEP_ID", "2"},
         "Slurm 5.2",
         false},
        {{"SLURM_PROCID", "0", "SLURM_NTASKS", "1", "SLURM_JOB_ID", "5", "SLURM_STEP_ID", "2",
          "SLURM_HET_SIZE", "2"},
         "",
         false},
        {{"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1", "PMIX_NAMESPACE", "3478913025"},
         "Open MPI 3478913025",
         false},
        {{"OMPI_COMM_WORLD_RANK", "0", "OMPI_COMM_WORLD_SIZE", "1", "OMPI_MCA_ess_base_jobid",
          "34"},
         "Open MPI 34",
         false},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct place place;
        struct error err = {0};
        cr_assert_eq(place_of(all[i].pairs, &place, &err), 0, "row %zu: %s", i, err.text);
        cr_assert_str_eq(place.run, all[i].run);
        cr_assert_eq(place.port_is_shared, all[i].shared, "row %zu", i);
    }
    char names[2][200];
    struct place places[2];
    for (int i = 0; i < 2; i++) {
        memset(names[i], 'x', sizeof(names[i]));
        names[i][198] = (char)('0' + i);
        names[i][199] = '\0';
        const char *pairs[] = {"RANK",   "0", "WORLD_SIZE", "1", "TORCHELASTIC_RUN_ID",
                               names[i], NULL};
        cr_assert_eq(place_of(pairs, &places[i], NULL), 0);
        cr_assert(strncmp(places[i].run, "torchrun ", 9) == 0 && strlen(places[i].run) > 32);
    }
    cr_assert(strcmp(places[0].run, places[1].run) != 0);
}
