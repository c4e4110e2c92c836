/* cuDNN's library, opened when it is first needed: the calls that graphs use (cudnn_graph.h of
 * cuDNN). It is "libcudnn.so.9" of the loader's path, or what MUSTER_CUDNN names. What has been
 * opened stays open. Any thread. Source: NVIDIA's cuDNN backend API, 9.19.
 */
#ifndef CUDA_CUDNN_API_H
#define CUDA_CUDNN_API_H

#include <cudnn_graph.h>

#include "common/base/error.h"

#define CUDNN_CALLS(X)                                                                             \
    X(GetVersion)                                                                                  \
    X(GetErrorString)                                                                              \
    X(GetLastErrorString)                                                                          \
    X(Create)                                                                                      \
    X(Destroy)                                                                                     \
    X(SetStream)                                                                                   \
    X(BackendCreateDescriptor)                                                                     \
    X(BackendDestroyDescriptor)                                                                    \
    X(BackendSetAttribute)                                                                         \
    X(BackendGetAttribute)                                                                         \
    X(BackendFinalize)                                                                             \
    X(BackendExecute)

/* 9.10.0 and 9.10.1 are known to compute attention's gradients wrongly. */
enum { CUDNN_LEAST = 91002 };

struct cudnn_api {
#define X(name) __typeof__(cudnn##name) *name;
    CUDNN_CALLS(X)
#undef X
    int version; /* 91900 is 9.19.0 */
};

/* Open it. WK_EUNAVAILABLE: there is none, or it is older than CUDNN_LEAST. */
int cudnn_api_open(struct cudnn_api *ret, struct error *err);

#endif
