/* A copy of the store, made in small steps between the turns, so that no call waits for it. */
#include <string.h>
#include <sys/stat.h>

#include "coordinator/api_rpc/calls.h"
#include "coordinator/api_rpc/service_answer.h"
#include "coordinator/api_rpc/service_audit.h"
#include "coordinator/api_rpc/service_state.h"
#include "proto/client.pb-c.h"

enum { BACKUP_PATH_MAX = 1024, STEP_EVERY_MS = 2 };

static void step_backup(void *arg);

static void next_step(struct service *service)
{
    loop_timer_set(service->options.loop, &service->backup, service_now_ms(service) + STEP_EVERY_MS,
                   step_backup, service);
}

/* A call past its deadline has ended; the backup continues. */
static void step_backup(void *arg)
{
    struct service *service = arg;
    struct store *store = service->options.store;
    struct error err = {0};
    bool done = false;
    int rc = store->verbs->backup_step(store, &done, &err);
    if (!rc && !done) {
        next_step(service);
        return;
    }
    struct service_call *call = map_get(&service->calls, service->backup_call);
    service->backup_call = 0;
    if (!call)
        return;
    service_write_audit(call, rc ? &err : NULL);
    if (rc) {
        service_fail(call, &err);
        return;
    }
    char path[BACKUP_PATH_MAX + 1];
    struct stat info = {0};
    memcpy(path, call->trace->object, strlen(call->trace->object) + 1);
    Muster__BackupAnswer answer = MUSTER__BACKUP_ANSWER__INIT;
    answer.path = path;
    answer.size_bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
    service_answer(call, &answer.base);
}

void call_backup(struct service *service, struct service_call *call,
                 const struct service_request *request)
{
    const Muster__BackupRequest *message = (const void *)request->message;
    struct store *store = service->options.store;
    struct error err = {0};
    service_trace(call, message->path, NULL);
    if (service->backup_call)
        error_set(&err, E_FAILED_PRECONDITION, "another backup is under way");
    else if (message->path[0] != '/' || strlen(message->path) >= sizeof(call->trace->object))
        error_set(&err, E_INVALID_ARGUMENT, "path: an absolute one on the coordinator's machine");
    else
        (void)store->verbs->backup_begin(store, message->path, &err);
    if (err.code) {
        if (err.code == E_INVALID_ARGUMENT)
            error_field(&err, "path");
        service_fail(call, &err);
        return;
    }
    service->backup_call = call->id;
    next_step(service);
}
