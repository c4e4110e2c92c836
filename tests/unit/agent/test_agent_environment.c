#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/core/environment.h"

static struct assignment *two_nodes(void)
{
    struct assignment *a = assignment_new();
    strcpy(a->key.job, "gpt-1");
    a->key.uid = 7;
    a->generation = 3;
    a->rank = 5, a->world = 8, a->local_rank = 1, a->local_world = 4;
    a->node_rank = 1, a->node_count = 2;
    a->master_addr = "10.0.0.1", a->master_port = 23456;
    a->restarts = 2, a->restarts_max = 5;
    a->slot = 2, a->slots = 2, a->cpus = 3.5;
    a->token = "mst_worker_x";
    return a;
}

static const char *const inherited[] = {"PATH=/bin",  "HOME=/root", "RANKING=1", "RANK=99",
                                        "bad name=1", "ODD=\xff",   NULL};

struct built {
    struct arena arena;
    const char *const *envp;
    struct error err;
    int rc;
};

static struct built build(const struct assignment *a, bool gpus)
{
    struct built b = {0};
    /* GPU 1 is gone from the bus: slot 1 is the one that NVML calls 2. */
    static const char *const uuids[] = {"GPU-0a", "GPU-2c", "GPU-3d", "GPU-4e"};
    struct environment_facts facts = {.inherited = inherited,
                                      .socket = "ipc:///d/hub.sock",
                                      .interface = "ens5",
                                      .gpus = gpus ? uuids : NULL,
                                      .gpus_count = 4};
    b.rc = environment_build(a, &facts, &b.arena, &b.envp, &b.err);
    return b;
}

static void expect(const char *const *envp, const char *const rows[][2], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *value = environment_get(envp, rows[i][0]);
        if (!rows[i][1])
            cr_expect_null(value, "%s is set to %s", rows[i][0], value);
        else if (!value)
            cr_expect(0, "%s is not set", rows[i][0]);
        else
            cr_expect_str_eq(value, rows[i][1], "%s is %s", rows[i][0], value);
    }
}
#define EXPECT(b, ...)                                                                             \
    do {                                                                                           \
        const char *const rows[][2] = {__VA_ARGS__};                                               \
        expect((b).envp, rows, sizeof(rows) / sizeof(rows[0]));                                    \
    } while (0)

Test(environment, place_in_the_world_as_torchrun_gives_it)
{
    struct assignment *a = two_nodes();
    struct built b = build(a, false);
    cr_assert_eq(b.rc, 0);
    EXPECT(b, {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"},
           {"NODE_RANK", "1"}, {"GROUP_RANK", "1"}, {"GROUP_WORLD_SIZE", "2"},
           {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "23456"},
           {"TORCHELASTIC_RESTART_COUNT", "2"}, {"TORCHELASTIC_MAX_RESTARTS", "5"},
           {"TORCHELASTIC_RUN_ID", "gpt-1"}, {"OMP_NUM_THREADS", "3"}, {"PATH", "/bin"},
           {"HOME", "/root"}, {"CUDA_VISIBLE_DEVICES", NULL}, {"NCCL_SOCKET_IFNAME", NULL},
           {"GLOO_SOCKET_IFNAME", "ens5"}, {"bad name", NULL}, {"RANKING", "1"}, {"RANKIN", NULL},
           {"ODD", NULL});
    arena_fini(&b.arena);
    a->cpus = 0.5;
    b = build(a, false);
    EXPECT(b, {"OMP_NUM_THREADS", "1"});
    arena_fini(&b.arena);
    assignment_release(a);
}

Test(environment, muster_names)
{
    struct assignment *a = two_nodes();
    a->checkpoint_dir = "/ckpt", a->checkpoint_every = "200 steps", a->checkpoint_keep = 3;
    a->resume_from = "/ckpt/step-00000200";
    struct built b = build(a, false);
    EXPECT(b, {"MUSTER_JOB", "gpt-1"}, {"MUSTER_UID", "7"}, {"MUSTER_GENERATION", "3"},
           {"MUSTER_WORKER_SOCKET", "ipc:///d/hub.sock"}, {"MUSTER_CHECKPOINT_DIR", "/ckpt"},
           {"MUSTER_CHECKPOINT_EVERY", "200 steps"}, {"MUSTER_CHECKPOINT_KEEP", "3"},
           {"MUSTER_RESUME_FROM", "/ckpt/step-00000200"});
    for (const char *const *item = b.envp; *item; item++)
        cr_expect_null(strstr(*item, a->token), "%s: its token is for a file", *item);
    assignment_release(a);
    arena_fini(&b.arena);
}

Test(environment, without_checkpoints_there_are_no_names_of_them)
{
    struct assignment *a = two_nodes();
    struct built b = build(a, false);
    EXPECT(b, {"MUSTER_CHECKPOINT_DIR", NULL}, {"MUSTER_CHECKPOINT_KEEP", NULL},
           {"MUSTER_RESUME_FROM", NULL}, {"ACCELERATE_MIXED_PRECISION", NULL},
           {"ACCELERATE_USE_FSDP", NULL});
    assignment_release(a);
    arena_fini(&b.arena);
}

Test(environment, slots_are_gpus_where_there_are_some)
{
    struct assignment *a = two_nodes();
    struct built b = build(a, true);
    EXPECT(b, {"CUDA_VISIBLE_DEVICES", "GPU-3d,GPU-4e"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
           {"NCCL_SOCKET_IFNAME", "=ens5"}, {"GLOO_SOCKET_IFNAME", "ens5"},
           {"ACCELERATE_USE_CPU", NULL});
    assignment_release(a);
    arena_fini(&b.arena);
}

Test(environment, training_settings_for_libworker_and_accelerate)
{
    static const struct named_value training[] = {{"strategy", "fsdp"},
                                                  {"mixed_precision", "bf16"},
                                                  {"gradient_accumulation_steps", "4"},
                                                  {"recompute", "true"},
                                                  {"offload.parameters", "1"},
                                                  {"fsdp.reshard_after_forward", "no"},
                                                  {"mesh.dp_shard", "2"},
                                                  {"mesh.tp", "2"}};
    struct assignment *a = two_nodes();
    a->training = training, a->training_count = 8;
    struct built b = build(a, true);
    EXPECT(b, {"MUSTER_STRATEGY", "fsdp"}, {"MUSTER_MIXED_PRECISION", "bf16"},
           {"MUSTER_GRADIENT_ACCUMULATION_STEPS", "4"}, {"MUSTER_MESH_TP", "2"},
           {"ACCELERATE_MIXED_PRECISION", "bf16"}, {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4"},
           {"ACCELERATE_USE_FSDP", "true"}, {"FSDP_VERSION", "2"},
           {"FSDP_RESHARD_AFTER_FORWARD", "false"},
           {"FSDP_SHARDING_STRATEGY", "HYBRID_SHARD_ZERO2"},
           {"FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP"},
           {"FSDP_ACTIVATION_CHECKPOINTING", "true"}, {"FSDP_OFFLOAD_PARAMS", "true"},
           {"FSDP_CPU_RAM_EFFICIENT_LOADING", NULL}, {"ACCELERATE_USE_PARALLELISM_CONFIG", "true"},
           {"PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "2"}, {"PARALLELISM_CONFIG_DP_SHARD_SIZE", "2"},
           {"PARALLELISM_CONFIG_TP_SIZE", "2"}, {"PARALLELISM_CONFIG_CP_SIZE", "1"});
    arena_fini(&b.arena);

    /* On CPUs it trains under DDP, and a parallelism config is an error. */
    b = build(a, false);
    EXPECT(b, {"ACCELERATE_USE_PARALLELISM_CONFIG", NULL}, {"FSDP_VERSION", "2"},
           {"PARALLELISM_CONFIG_DP_SHARD_SIZE", NULL}, {"ACCELERATE_MIXED_PRECISION", "bf16"});
    assignment_release(a);
    arena_fini(&b.arena);
}

Test(environment, what_accelerate_hears_of_each_strategy)
{
    static const struct {
        const char *strategy, *version, *reshards, *strategy1;
    } heard[] = {{"ddp", NULL, NULL, NULL},
                 {"zero1", NULL, NULL, NULL},
                 {"zero2", "2", "false", "SHARD_GRAD_OP"},
                 {"fsdp", "2", "true", "FULL_SHARD"}};
    for (size_t k = 0; k < sizeof(heard) / sizeof(heard[0]); k++) {
        struct named_value training = {"strategy", heard[k].strategy};
        struct assignment *a = two_nodes();
        a->training = &training, a->training_count = 1;
        struct built b = build(a, true);
        EXPECT(b, {"FSDP_VERSION", heard[k].version},
               {"ACCELERATE_USE_FSDP", heard[k].version ? "true" : NULL},
               {"FSDP_RESHARD_AFTER_FORWARD", heard[k].reshards},
               {"FSDP_SHARDING_STRATEGY", heard[k].strategy1},
               {"ACCELERATE_USE_PARALLELISM_CONFIG", NULL});
        assignment_release(a);
        arena_fini(&b.arena);
    }
}

Test(environment, settings_of_the_job_are_listed_and_those_of_the_machine_are_not)
{
    static const struct named_value training[] = {{"ddp.hook", "fp16"}, {"resume_from", "latest"}};
    static const struct named_value env[] = {{"MUSTER_SEED", "3"}, {"X_1", ""}};
    struct assignment *a = two_nodes();
    a->training = training, a->training_count = 2;
    a->env = env, a->env_count = 2;
    a->checkpoint_dir = "/ckpt", a->checkpoint_every = "200 steps", a->checkpoint_keep = 3;
    struct built b = build(a, false);
    EXPECT(b, {"MUSTER_DDP_HOOK", "fp16"}, {"MUSTER_RESUME_FROM", "latest"},
           {"MUSTER_JOB_SETTINGS",
            "MUSTER_CHECKPOINT_DIR MUSTER_CHECKPOINT_EVERY MUSTER_CHECKPOINT_KEEP MUSTER_DDP_HOOK "
            "MUSTER_RESUME_FROM MUSTER_SEED"});
    arena_fini(&b.arena);

    a->resume_from = "/ckpt/step-00000200"; /* it has one of its own by now */
    b = build(a, false);
    EXPECT(b, {"MUSTER_RESUME_FROM", "/ckpt/step-00000200"},
           {"MUSTER_JOB_SETTINGS",
            "MUSTER_RESUME_FROM MUSTER_CHECKPOINT_DIR MUSTER_CHECKPOINT_EVERY "
            "MUSTER_CHECKPOINT_KEEP MUSTER_DDP_HOOK MUSTER_SEED"});
    arena_fini(&b.arena);
    assignment_release(a);
}

Test(environment, job_comes_last_but_may_not_say_who_the_worker_is)
{
    static const struct named_value good[] = {
        {"HOME", "/data"}, {"OMP_NUM_THREADS", "1"}, {"X_1", ""}};
    struct assignment *a = two_nodes();
    a->env = good, a->env_count = 3;
    struct built b = build(a, false);
    cr_assert_eq(b.rc, 0);
    EXPECT(b, {"HOME", "/data"}, {"OMP_NUM_THREADS", "1"}, {"X_1", ""});
    arena_fini(&b.arena);

    static const char *const refused[] = {"RANK",
                                          "MASTER_PORT",
                                          "MUSTER_WORKER_TOKEN",
                                          "MUSTER_WORKER_TOKEN_FILE",
                                          "CUDA_VISIBLE_DEVICES",
                                          "TORCHELASTIC_RUN_ID"};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct named_value one = {refused[i], "1"};
        a->env = &one, a->env_count = 1;
        b = build(a, false);
        cr_expect_eq(b.rc, E_INVALID_ARGUMENT, "%s", refused[i]);
        cr_expect(strstr(b.err.text, refused[i]) != NULL, "%s", b.err.text);
        arena_fini(&b.arena);
    }
    struct named_value odd = {"A=B", "1"};
    a->env = &odd, a->env_count = 1;
    b = build(a, false);
    cr_expect_eq(b.rc, E_INVALID_ARGUMENT);
    arena_fini(&b.arena);
    assignment_release(a);
}

Test(environment, is_sorted_without_repeats)
{
    struct assignment *a = two_nodes();
    struct built b = build(a, true);
    for (const char *const *e = b.envp; e[0] && e[1]; e++)
        cr_expect(strcmp(e[0], e[1]) < 0, "%s %s", e[0], e[1]);
    assignment_release(a);
    arena_fini(&b.arena);
}

/* The last that fits, and one more. */
Test(environment, too_many_names_are_refused)
{
    struct assignment *a = two_nodes();
    struct named_value *many = calloc(ENVIRONMENT_NAMES_MAX, sizeof(*many));
    static char names[ENVIRONMENT_NAMES_MAX][16];
    for (int i = 0; i < ENVIRONMENT_NAMES_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "N%d", i);
        many[i] = (struct named_value){names[i], "v"};
    }
    a->env = many;
    struct built b = build(a, false);
    int room = ENVIRONMENT_NAMES_MAX;
    for (const char *const *e = b.envp; *e; e++)
        room--;
    arena_fini(&b.arena);
    a->env_count = room;
    b = build(a, false);
    cr_assert_eq(b.rc, 0, "%s", b.err.text);
    cr_expect_null(b.envp[ENVIRONMENT_NAMES_MAX]);
    arena_fini(&b.arena);
    a->env_count = room + 1;
    b = build(a, false);
    cr_expect_eq(b.rc, E_RESOURCE_EXHAUSTED);
    arena_fini(&b.arena);
    assignment_release(a);
    free(many);
}

/* Where it is not on this node the rest of PATH is as it was. */
Test(environment, a_virtual_environment_of_the_job_comes_first_in_the_path)
{
    static const struct {
        struct named_value env[2];
        int count;
        const char *path;
    } jobs[] = {{{{"A", "b"}}, 1, "/bin"},
                {{{"VIRTUAL_ENV", "/v"}}, 1, "/v/bin:/bin"},
                {{{"CONDA_PREFIX", "/c"}}, 1, "/c/bin:/bin"},
                {{{"VIRTUAL_ENV", "/v"}, {"CONDA_PREFIX", "/c"}}, 2, "/v/bin:/bin"},
                {{{"VIRTUAL_ENV", "/v"}, {"PATH", "/own"}}, 2, "/own"}};
    for (size_t k = 0; k < sizeof(jobs) / sizeof(jobs[0]); k++) {
        struct assignment *a = two_nodes();
        a->env = jobs[k].env, a->env_count = jobs[k].count;
        struct built b = build(a, false);
        EXPECT(b, {"PATH", jobs[k].path});
        assignment_release(a);
        arena_fini(&b.arena);
    }
}
