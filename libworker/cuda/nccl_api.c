#include "libworker/cuda/nccl_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include <worker/error.h>

#include "libworker/cuda/library.h"

enum { NCCL_LEAST = 22800 }; /* has AlltoAll */

/* It reads them once in a process. NVLS: its sums are not always the same from run to run. RAS: it
 * listens at one port of the host, where two jobs would collide. */
static const char *const defaults[][2] = {
    {"NCCL_NVLS_ENABLE", "0"},
    {"NCCL_CUMEM_ENABLE", "1"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
    {"NCCL_RAS_ENABLE", "0"},
};

void nccl_api_prepare(void)
{
    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++)
        (void)setenv(defaults[i][0], defaults[i][1], 0);
    (void)unsetenv("NCCL_COMM_BLOCKING"); /* it would make calls wait that must not */
}

static int too_old(const struct nccl_api *api, struct error *err)
{
    return error_set(err, WK_EUNAVAILABLE,
                     "NCCL %d.%d.%d is too old for collectives between GPUs, 2.28 is the oldest",
                     api->version / 10000, api->version / 100 % 100, api->version % 100);
}

const char *nccl_api_name(void)
{
    const char *name = getenv("MUSTER_NCCL");
    return name && *name ? name : "libnccl.so.2";
}

int nccl_api_open(const char *name, struct nccl_api *ret, struct error *err)
{
    struct nccl_api api = {0};
    bool whole = true;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(err, WK_EUNAVAILABLE,
                         "no NCCL for collectives between GPUs (%s): install it, or set "
                         "MUSTER_NCCL to the path of libnccl.so.2",
                         dlerror());
    if (!library_call(library, "ncclGetVersion", &api.GetVersion) || api.GetVersion(&api.version))
        api.version = 0;
#define X(name) whole = library_call(library, "nccl" #name, &api.name) && whole;
    NCCL_CALLS(X)
#undef X
    if (api.version < NCCL_LEAST || !whole)
        return too_old(&api, err);
    *ret = api;
    return 0;
}
