#include "libworker/cuda/cudnn_api.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

#include <worker/error.h>

#include "libworker/cuda/library.h"

static int refuse_version(const struct cudnn_api *api, struct error *err)
{
    int major = api->version / 10000, minor = api->version / 100 % 100, patch = api->version % 100;
    if (api->version == 91000 || api->version == 91001)
        return error_set(err, WK_EUNAVAILABLE,
                         "cuDNN %d.%d.%d is known to compute attention's gradients wrongly: it "
                         "takes 9.10.2 or later",
                         major, minor, patch);
    return error_set(err, WK_EUNAVAILABLE,
                     "cuDNN %d.%d.%d cannot be used for attention: it takes 9.10.2 or later, of 9",
                     major, minor, patch);
}

int cudnn_api_open(struct cudnn_api *ret, struct error *err)
{
    const char *name = getenv("MUSTER_CUDNN");
    struct cudnn_api api = {0};
    bool whole = true;
    void *library = dlopen(name && *name ? name : "libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(err, WK_EUNAVAILABLE,
                         "no cuDNN for attention (%s): install it, or set MUSTER_CUDNN to the "
                         "path of libcudnn.so.9",
                         dlerror());
    if (library_call(library, "cudnnGetVersion", &api.GetVersion))
        api.version = (int)api.GetVersion();
#define X(name) whole = library_call(library, "cudnn" #name, &api.name) && whole;
    CUDNN_CALLS(X)
#undef X
    if (api.version < CUDNN_LEAST || api.version / 10000 != 9 || !whole)
        return refuse_version(&api, err);
    *ret = api;
    return 0;
}
