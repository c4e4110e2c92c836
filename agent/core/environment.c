#include "agent/core/environment.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "common/settings/accelerate.h"
#include "common/settings/variable.h"

enum { NUMBER_TEXT_BYTES = 24 };

struct environment {
    struct arena *arena;
    const char **items; /* ENVIRONMENT_NAMES_MAX and the NULL */
    int count;
    bool failed; /* out of memory: reported once at the end */
};

const char *environment_get(const char *const *envp, const char *name)
{
    size_t length = strlen(name);
    for (; envp && *envp; envp++)
        if (strncmp(*envp, name, length) == 0 && (*envp)[length] == '=')
            return *envp + length + 1;
    return NULL;
}

/* [A-Za-z_][A-Za-z0-9_]*: what a shell can name (POSIX 8.1, lower case included) */
static bool is_shell_name(const char *name)
{
    if (!name[0] || isdigit((unsigned char)name[0]))
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}

static void set_variable(struct environment *env, const char *name, const char *value)
{
    size_t length = strlen(name);
    const char *item = arena_printf(env->arena, "%s=%s", name, value);
    if (!item) {
        env->failed = true;
        return;
    }
    for (int i = 0; i < env->count; i++)
        if (strncmp(env->items[i], item, length + 1) == 0) {
            env->items[i] = item;
            return;
        }
    if (env->count == ENVIRONMENT_NAMES_MAX) {
        env->failed = true;
        return;
    }
    env->items[env->count++] = item;
}

static void set_number(struct environment *env, const char *name, uint64_t value)
{
    char text[NUMBER_TEXT_BYTES];
    (void)str_printf(text, sizeof(text), "%" PRIu64, value);
    set_variable(env, name, text);
}

/* Where set, under a name the other side knows. */
static void set_if(struct environment *env, const char *name, const char *value)
{
    if (value && value[0])
        set_variable(env, name, value);
}

static void set_inherited(struct environment *env, const char *const *inherited)
{
    for (; inherited && *inherited; inherited++) {
        const char *equals = strchr(*inherited, '=');
        char *name =
            equals ? arena_strndup(env->arena, *inherited, (size_t)(equals - *inherited)) : NULL;
        /* launch records are JSON: what is not UTF-8 cannot be passed on */
        if (name && is_shell_name(name) && utf8_valid(equals + 1, strlen(equals + 1)))
            set_variable(env, name, equals + 1);
    }
}

static void set_user(struct environment *env, const struct launch_user *user)
{
    if (!user)
        return;
    set_variable(env, "HOME", user->home);
    set_variable(env, "USER", user->name);
    set_variable(env, "LOGNAME", user->name);
    set_variable(env, "SHELL", user->shell);
}

static void set_place(struct environment *env, const struct assignment *a)
{
    set_number(env, "RANK", a->rank);
    set_number(env, "WORLD_SIZE", a->world);
    set_number(env, "LOCAL_RANK", a->local_rank);
    set_number(env, "LOCAL_WORLD_SIZE", a->local_world);
    set_number(env, "NODE_RANK", a->node_rank);
    set_number(env, "GROUP_RANK", a->node_rank);
    set_number(env, "GROUP_WORLD_SIZE", a->node_count);
    set_number(env, "ROLE_RANK", a->rank);
    set_number(env, "ROLE_WORLD_SIZE", a->world);
    set_variable(env, "ROLE_NAME", "default");
    set_variable(env, "MASTER_ADDR", a->master_addr);
    set_number(env, "MASTER_PORT", a->master_port);
    set_number(env, "TORCHELASTIC_RESTART_COUNT", a->restarts);
    set_number(env, "TORCHELASTIC_MAX_RESTARTS", a->restarts_max);
    set_variable(env, "TORCHELASTIC_RUN_ID", a->key.job);
}

static void set_devices(struct environment *env, const struct assignment *a,
                        const struct environment_facts *facts)
{
    set_number(env, "OMP_NUM_THREADS", a->cpus >= 1 ? (uint64_t)a->cpus : 1);
    set_if(env, "MUSTER_CORES", facts->cores);
    if (!facts->gpus) {
        set_variable(env, "ACCELERATE_USE_CPU", "true");
        return;
    }
    /* Indices differ from program to program and change when a GPU falls off the bus; UUIDs name
     * the device (CUDA C Programming Guide, "CUDA Environment Variables"). */
    const char *list = "";
    for (uint32_t i = a->slot; i < a->slot + a->slots && i < facts->gpus_count && list; i++)
        list = arena_printf(env->arena, "%s%s%s", list, list[0] ? "," : "", facts->gpus[i]);
    if (list)
        set_variable(env, "CUDA_VISIBLE_DEVICES", list);
    else
        env->failed = true;
    set_variable(env, "CUDA_DEVICE_ORDER", "PCI_BUS_ID"); /* nvidia-smi's, where models differ */
}

static void set_muster(struct environment *env, const struct assignment *a,
                       const struct environment_facts *facts)
{
    set_variable(env, "MUSTER_JOB", a->key.job);
    set_number(env, "MUSTER_UID", a->key.uid);
    set_number(env, "MUSTER_GENERATION", a->generation);
    set_number(env, "MUSTER_NODE_RANK", a->node_rank);
    set_variable(env, "MUSTER_WORKER_SOCKET", facts->socket);
    set_if(env, "MUSTER_REPORT_SOCKET", facts->report_socket);
    set_if(env, "MUSTER_RESUME_FROM", a->resume_from);
    if (a->checkpoint_dir[0]) {
        set_variable(env, "MUSTER_CHECKPOINT_DIR", a->checkpoint_dir);
        set_if(env, "MUSTER_CHECKPOINT_EVERY", a->checkpoint_every);
        set_number(env, "MUSTER_CHECKPOINT_KEEP", a->checkpoint_keep);
    }
    for (int i = 0; i < a->training_count; i++) {
        char name[SETTING_ENV_MAX];
        /* The coordinator's checkpoint is newer than the job's initial one. */
        if (strcmp(a->training[i].name, "resume_from") != 0 || !a->resume_from[0])
            set_variable(env, setting_variable(a->training[i].name, name), a->training[i].value);
    }
}

/* What libraries meet the other ranks by. Gloo would take the address of the host's name, which on
 * Debian is 127.0.1.1, and ranks of several nodes would never meet (PyTorch's documentation of
 * torch.distributed, "Choosing the network interface"). */
static void set_interfaces(struct environment *env, const struct environment_facts *facts)
{
    if (!facts->interface || !*facts->interface)
        return;
    set_variable(env, "GLOO_SOCKET_IFNAME", facts->interface);
    if (!facts->gpus)
        return;
    /* With "=" the whole name must be equal, not only its begin. */
    const char *exactly = arena_printf(env->arena, "=%s", facts->interface);
    if (exactly)
        set_variable(env, "NCCL_SOCKET_IFNAME", exactly);
    else
        env->failed = true;
}

/* Once, however often the job sets it. */
static void list_name(struct environment *env, const char **list, const char *name)
{
    struct str rest = str_of(*list), one;
    while (str_next(&rest, ' ', &one))
        if (str_equal(one, str_of(name)))
            return;
    const char *longer = arena_printf(env->arena, "%s%s%s", *list, **list ? " " : "", name);
    if (longer)
        *list = longer;
    else
        env->failed = true;
}

/* The settings set by the job, so that a program can distinguish them from its machine's own. */
static void set_origin(struct environment *env, const struct assignment *a)
{
    static const char *const of_checkpoint[] = {"MUSTER_CHECKPOINT_DIR", "MUSTER_CHECKPOINT_EVERY",
                                                "MUSTER_CHECKPOINT_KEEP"};
    const char *list = "";
    char name[SETTING_ENV_MAX];
    if (a->resume_from[0])
        list_name(env, &list, "MUSTER_RESUME_FROM");
    for (size_t i = 0; a->checkpoint_dir[0] && i < 3; i++)
        list_name(env, &list, of_checkpoint[i]);
    for (int i = 0; i < a->training_count; i++)
        list_name(env, &list, setting_variable(a->training[i].name, name));
    for (int i = 0; i < a->env_count; i++)
        if (variable_setting(a->env[i].name) >= 0)
            list_name(env, &list, a->env[i].name);
    set_variable(env, "MUSTER_JOB_SETTINGS", list);
}

/* What Accelerate reads in place of its config file. */
static void set_accelerate(struct environment *env, const struct assignment *a, bool gpus)
{
    const char *given[SETTINGS_COUNT];
    struct accelerate_variable variables[ACCELERATE_MAX];
    for (int i = 0; i < SETTINGS_COUNT; i++)
        given[i] = assignment_training(a, setting_rows[i].name);
    int count = accelerate_variables(given, a->world, gpus, variables);
    for (int i = 0; i < count; i++)
        set_variable(env, variables[i].name, variables[i].value);
}

static int set_job(struct environment *env, const struct assignment *a, struct error *err)
{
    for (int i = 0; i < a->env_count; i++) {
        const char *name = a->env[i].name;
        if (!is_shell_name(name)) {
            error_field(err, "spec.env");
            return error_set(err, E_INVALID_ARGUMENT, "\"%s\" cannot name a variable", name);
        }
        if (variable_reserved(name)) {
            error_set(err, E_INVALID_ARGUMENT,
                      "env of the job sets %s, which Muster itself sets for each worker", name);
            error_field(err, "spec.env.%s", name);
            error_hint(err, "remove %s from env", name);
            return E_INVALID_ARGUMENT;
        }
        set_variable(env, name, a->env[i].value);
    }
    return 0;
}

/* Activate the job's virtual environment: its programs have priority. A missing one has no effect,
 * because its folder in PATH is skipped. */
static void set_python(struct environment *env, const struct assignment *a)
{
    const char *folder = NULL, *path = NULL;
    for (int i = 0; i < a->env_count; i++) {
        const char *name = a->env[i].name;
        if (strcmp(name, "PATH") == 0)
            return;
        if (strcmp(name, "VIRTUAL_ENV") == 0 || (strcmp(name, "CONDA_PREFIX") == 0 && !folder))
            folder = a->env[i].value;
    }
    if (!folder || !folder[0])
        return;
    for (int i = 0; i < env->count; i++)
        if (strncmp(env->items[i], "PATH=", 5) == 0)
            path = env->items[i] + 5;
    const char *longer =
        arena_printf(env->arena, "%s/bin%s%s", folder, path ? ":" : "", path ? path : "");
    if (longer)
        set_variable(env, "PATH", longer);
    else
        env->failed = true;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int environment_build(const struct assignment *assignment, const struct environment_facts *facts,
                      struct arena *arena, const char *const **ret, struct error *err)
{
    struct environment env = {.arena = arena};
    env.items = arena_array(arena, ENVIRONMENT_NAMES_MAX + 1, sizeof(*env.items));
    if (!env.items)
        return error_set(err, E_RESOURCE_EXHAUSTED, "no memory for the environment");
    set_inherited(&env, facts->inherited);
    set_user(&env, facts->user);
    set_place(&env, assignment);
    set_devices(&env, assignment, facts);
    set_interfaces(&env, facts);
    set_muster(&env, assignment, facts);
    set_origin(&env, assignment);
    set_accelerate(&env, assignment, facts->gpus);
    int rc = set_job(&env, assignment, err);
    if (rc)
        return rc;
    set_python(&env, assignment);
    if (env.failed)
        return error_set(err, E_RESOURCE_EXHAUSTED, "the environment has more than %d names",
                         ENVIRONMENT_NAMES_MAX);
    qsort(env.items, (size_t)env.count, sizeof(*env.items), by_bytes);
    *ret = env.items;
    return 0;
}
