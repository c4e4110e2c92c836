#include "agent/starter.h"

#include "agent/core/environment.h"

static int check_path(const struct starter *starter, const char *what, const char *path,
                      struct error *err)
{
    const char *hidden = namespaces_hide(starter->namespaces, path);
    if (!hidden)
        return 0;
    error_field(err, "%s", what);
    error_hint(err, "use another folder; `muster agent --namespaces off` would show the machine's");
    return error_set(err, E_INVALID_ARGUMENT,
                     "%s %s: each job has its own %s on this node, which is removed with the job",
                     what, path, hidden);
}

static int check_paths(const struct starter *starter, const struct assignment *a, struct error *err)
{
    int rc = check_path(starter, "command", a->command[0], err);
    if (!rc)
        rc = check_path(starter, "workdir", a->workdir, err);
    if (rc)
        return rc;
    return check_path(starter, "checkpoint.dir", a->checkpoint_dir, err);
}

static struct launch_gpus gpus_of(const struct inventory *inventory, const struct assignment *a)
{
    struct launch_gpus gpus = {.major = inventory->gpu_major};
    for (uint32_t slot = a->slot; slot < a->slot + a->slots; slot++)
        if (gpus.major && slot < (uint32_t)inventory->gpus_count) {
            struct launch_gpus one = {gpus.major, 1, {(uint32_t)inventory->gpus[slot].minor}};
            launch_gpus_join(&gpus, &one);
        }
    return gpus;
}

/* Without it the worker runs all the same: its programs cannot report. */
static void open_reports(const struct starter *starter, const struct launch *launch,
                         char ret[REPORT_SOCKET_MAX_BYTES])
{
    struct error err = {0};
    int64_t owner = launch->user ? (int64_t)launch->user->uid : -1;
    ret[0] = '\0';
    int rc = report_socket_path(starter->reports, &launch->key, ret);
    if (rc == E_NOT_FOUND)
        return;
    if (rc || report_socket_open(starter->reports, &launch->key, owner, &err)) {
        log_warn(starter->log, "a worker's programs cannot report", log_str("job", launch->key.job),
                 log_str("reason", err.text));
        ret[0] = '\0';
    }
}

int starter_start(const struct starter *starter, const struct assignment *a, struct error *err)
{
    struct arena arena = {0};
    char cores[CORES_TEXT_BYTES];
    char report_socket[REPORT_SOCKET_MAX_BYTES];
    const char *gpus[INVENTORY_GPUS_MAX];
    const struct inventory *inventory = starter->inventory;
    struct cores_request request = {a->slot, a->slots, inventory->slots, a->cpus};
    cores_share(starter->cores, &request, cores);
    inventory_uuids(inventory, gpus);
    struct environment_facts facts = {.inherited = starter->inherited,
                                      .socket = starter->socket,
                                      .cores = cores,
                                      .interface = starter->interface,
                                      .gpus = inventory->gpus_count ? gpus : NULL,
                                      .gpus_count = (uint32_t)inventory->gpus_count};
    struct launch launch = {.key = a->key,
                            .generation = a->generation,
                            .rank = a->rank,
                            .argv = a->command,
                            .token = a->token,
                            .secrets = a->secrets,
                            .secrets_count = a->secrets_count,
                            .workdir = a->workdir,
                            /* A job without a limit may still not use all of the machine's memory.
                             */
                            .memory_bytes =
                                a->memory_bytes ? a->memory_bytes : inventory->memory_bytes,
                            .processes = starter->processes,
                            .stop_signal = a->stop_signal,
                            .early_signal = a->early_signal,
                            .cores = cores,
                            .gpus = gpus_of(inventory, a),
                            .master_addr = a->master_addr,
                            .master_port = a->rank == 0 && a->world > 1 ? a->master_port : 0};
    int rc = a->command[0] ? 0 : error_set(err, E_INVALID_ARGUMENT, "the job has no command");
    if (!rc && a->secrets_error[0])
        rc = error_set(err, a->secrets_later ? E_UNAVAILABLE : E_NOT_FOUND, "%s", a->secrets_error);
    if (!rc && starter->users)
        rc = users_find(starter->users, a->tenant, &arena, &launch.user, err);
    facts.user = launch.user;
    if (!rc && launch.user && starter->namespaces)
        rc = check_paths(starter, a, err);
    if (!rc) {
        open_reports(starter, &launch, report_socket);
        facts.report_socket = report_socket;
        rc = environment_build(a, &facts, &arena, &launch.envp, err);
    }
    if (rc == E_RESOURCE_EXHAUSTED)
        rc = error_recode(err, E_UNAVAILABLE); /* too much was asked: no fault of the node's */
    if (!rc)
        rc = starter->launcher->start(starter->launcher->self, &launch, err);
    if (rc)
        report_socket_close(starter->reports, &a->key);
    arena_fini(&arena);
    return rc;
}
