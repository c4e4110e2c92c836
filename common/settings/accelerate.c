#include "common/settings/accelerate.h"

#include <string.h>

#include "common/base/str.h"

struct variables {
    struct accelerate_variable *list;
    int count;
};

static void say(struct variables *all, const char *name, const char *value)
{
    if (all->count < ACCELERATE_MAX &&
        !str_copy(all->list[all->count].value, ACCELERATE_VALUE_MAX, value))
        all->list[all->count++].name = name;
}

static void say_number(struct variables *all, const char *name, int64_t number)
{
    char text[ACCELERATE_VALUE_MAX];
    (void)str_printf(text, sizeof(text), "%lld", (long long)number);
    say(all, name, text);
}

static int64_t number_of(const char *const given[SETTINGS_COUNT], enum setting setting)
{
    struct setting_parsed parsed = {0};
    const char *text = given[setting] ? given[setting] : setting_rows[setting].fallback;
    return setting_parse(setting, text, &parsed, NULL) ? 0 : parsed.integer;
}

static bool is(const char *const given[SETTINGS_COUNT], enum setting setting, const char *value)
{
    return given[setting] && strcmp(given[setting], value) == 0;
}

static bool shards(const char *const given[SETTINGS_COUNT])
{
    return is(given, SETTING_STRATEGY, "fsdp") || is(given, SETTING_STRATEGY, "zero2");
}

/* The sizes that the settings leave open follow from the world, as under libworker. */
struct sizes {
    int64_t replicate, shard, cp, tp;
};

static struct sizes sizes_of(const char *const given[SETTINGS_COUNT], int64_t world)
{
    struct sizes s = {.replicate = number_of(given, SETTING_MESH_DP_REPLICATE),
                      .shard = number_of(given, SETTING_MESH_DP_SHARD),
                      .cp = number_of(given, SETTING_MESH_CP),
                      .tp = number_of(given, SETTING_MESH_TP)};
    s.cp = s.cp > 1 ? s.cp : 1;
    s.tp = s.tp > 1 ? s.tp : 1;
    int64_t rest = world / (s.cp * s.tp);
    if (!shards(given))
        s.shard = 1;
    if (s.shard < 1)
        s.shard = s.replicate > 1 ? rest / s.replicate : rest;
    if (s.replicate < 1)
        s.replicate = rest / s.shard;
    s.shard = s.shard > 1 ? s.shard : 1;
    s.replicate = s.replicate > 1 ? s.replicate : 1;
    return s;
}

static void say_mesh(struct variables *all, const struct sizes *sizes)
{
    say(all, "ACCELERATE_USE_PARALLELISM_CONFIG", "true");
    say_number(all, "PARALLELISM_CONFIG_DP_REPLICATE_SIZE", sizes->replicate);
    say_number(all, "PARALLELISM_CONFIG_DP_SHARD_SIZE", sizes->shard);
    say_number(all, "PARALLELISM_CONFIG_CP_SIZE", sizes->cp);
    say_number(all, "PARALLELISM_CONFIG_TP_SIZE", sizes->tp);
}

/* FSDP2. A job with a torch that lacks it sets FSDP_VERSION to 1 in its `env`; the sharding
 * strategy here is for that. */
static void say_fsdp(struct variables *all, const char *const given[SETTINGS_COUNT], bool replicas)
{
    static const struct {
        enum setting setting;
        const char *name;
    } switches[] = {
        {SETTING_OFFLOAD_PARAMETERS, "FSDP_OFFLOAD_PARAMS"},
        {SETTING_RECOMPUTE, "FSDP_ACTIVATION_CHECKPOINTING"},
        {SETTING_ONE_RANK_READS, "FSDP_CPU_RAM_EFFICIENT_LOADING"},
    };
    bool reshards = is(given, SETTING_STRATEGY, "fsdp") && number_of(given, SETTING_RESHARD);
    say(all, "ACCELERATE_USE_FSDP", "true");
    say(all, "FSDP_VERSION", "2");
    say(all, "FSDP_RESHARD_AFTER_FORWARD", reshards ? "true" : "false");
    if (replicas)
        say(all, "FSDP_SHARDING_STRATEGY", reshards ? "HYBRID_SHARD" : "HYBRID_SHARD_ZERO2");
    else
        say(all, "FSDP_SHARDING_STRATEGY", reshards ? "FULL_SHARD" : "SHARD_GRAD_OP");
    say(all, "FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP");
    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++)
        if (given[switches[i].setting])
            say(all, switches[i].name, number_of(given, switches[i].setting) ? "true" : "false");
}

int accelerate_variables(const char *const given[SETTINGS_COUNT], int64_t world, bool gpus,
                         struct accelerate_variable ret[ACCELERATE_MAX])
{
    struct variables all = {.list = ret};
    struct sizes sizes = sizes_of(given, world);
    bool meshed = given[SETTING_MESH_DP_REPLICATE] || given[SETTING_MESH_DP_SHARD] ||
                  given[SETTING_MESH_CP] || given[SETTING_MESH_TP];
    if (given[SETTING_MIXED_PRECISION])
        say(&all, "ACCELERATE_MIXED_PRECISION", given[SETTING_MIXED_PRECISION]);
    if (given[SETTING_ACCUMULATION])
        say(&all, "ACCELERATE_GRADIENT_ACCUMULATION_STEPS", given[SETTING_ACCUMULATION]);
    if (meshed && gpus)
        say_mesh(&all, &sizes);
    if (shards(given))
        say_fsdp(&all, given, meshed && sizes.replicate > 1);
    return all.count;
}

static bool is_told(const char *const given[SETTINGS_COUNT], enum setting setting)
{
    static const enum setting always[] = {
        SETTING_MIXED_PRECISION, SETTING_ACCUMULATION, SETTING_MESH_DP, SETTING_MESH_DP_REPLICATE,
        SETTING_MESH_DP_SHARD,   SETTING_MESH_CP,      SETTING_MESH_TP};
    static const enum setting sharded[] = {SETTING_RESHARD, SETTING_OFFLOAD_PARAMETERS,
                                           SETTING_RECOMPUTE, SETTING_ONE_RANK_READS};
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++)
        if (always[i] == setting)
            return true;
    for (size_t i = 0; shards(given) && i < sizeof(sharded) / sizeof(sharded[0]); i++)
        if (sharded[i] == setting)
            return true;
    return setting == SETTING_STRATEGY && !is(given, SETTING_STRATEGY, "zero1");
}

void accelerate_untold(const char *const given[SETTINGS_COUNT], char ret[ACCELERATE_TEXT_MAX])
{
    enum { NAMED_MAX = 5, NAMES_BYTES = 200 };
    char names[NAMES_BYTES] = "";
    int count = 0;
    for (int i = 0; i < SETTINGS_COUNT; i++) {
        const struct setting_row *row = &setting_rows[i];
        size_t used = strlen(names);
        if (row->use != SETTING_OF_JOB || !given[i] || strcmp(given[i], row->fallback) == 0 ||
            i == SETTING_RESUME_FROM || is_told(given, (enum setting)i) || count++ >= NAMED_MAX)
            continue;
        (void)str_printf(names + used, sizeof(names) - used, "%s%s%s", used ? ", " : "", row->name,
                         i == SETTING_STRATEGY ? " zero1" : "");
    }
    ret[0] = '\0';
    if (count > 0)
        (void)str_printf(ret, ACCELERATE_TEXT_MAX,
                         "if this program uses HuggingFace Accelerate, it must set %s%s itself: "
                         "Accelerate has no variable for it",
                         names, count > NAMED_MAX ? " and others" : "");
    else if (given[SETTING_RESUME_FROM] && given[SETTING_RESUME_FROM][0])
        (void)str_copy(ret, ACCELERATE_TEXT_MAX,
                       "resume_from: the program has to continue from it, as muster.latest, Loop "
                       "and callbacks do; a program without them reads MUSTER_RESUME_FROM");
}

static bool names_python(const char *program, size_t length)
{
    static const char *const launchers[] = {"accelerate", "torchrun", "ipython"};
    const char *slash = memrchr(program, '/', length);
    const char *name = slash ? slash + 1 : program;
    length -= (size_t)(name - program);
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
        if (length == strlen(launchers[i]) && strncmp(name, launchers[i], length) == 0)
            return true;
    return (length >= 6 && strncmp(name, "python", 6) == 0) ||
           (length > 3 && strncmp(name + length - 3, ".py", 3) == 0);
}

/* Of a shell's command the first word that it runs counts. */
bool accelerate_may_run(const char *const *command, int count)
{
    if (count < 1 || !command[0])
        return false;
    const char *program = command[0], *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;
    bool shell = strcmp(name, "sh") == 0 || strcmp(name, "bash") == 0;
    if (shell && count > 2 && strcmp(command[1], "-c") == 0)
        program = command[2] + strspn(command[2], " \t\n");
    return names_python(program, strcspn(program, " \t\n"));
}
