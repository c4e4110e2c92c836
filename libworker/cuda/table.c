#include "libworker/cuda/table.h"

#include <string.h>

#include "libworker/cuda/launch.h"
#include "libworker/cuda/launch_list.h"
#include "libworker/cuda/op.h"
#include "libworker/cuda/op_list.h"
#include "libworker/cuda/traffic.h"
#include "libworker/graph/launches.h"

static inline void run_op(const struct cuda_op *op, struct queue *queue, const void *args)
{
    const struct op_args *a = args;
    struct op_call call = a->call;
    call.pass = &a->pass;
    call.queue = queue;
    if (a->backward)
        op->backward(&call, cuda_queue_of(queue));
    else
        op->forward(&call, cuda_queue_of(queue));
}

static inline size_t scratch_of(const struct cuda_op *op, const struct device *device,
                                const void *args)
{
    const struct op_args *a = args;
    size_t bytes = op->scratch_bytes ? op->scratch_bytes(&a->call, a->backward) : 0;
    size_t made = op->prepare ? op->prepare(cuda_device_of(device), &a->call, a->backward) : 0;
    return bytes > made ? bytes : made;
}

static inline void keep_of(const struct cuda_op *op, void *args)
{
    struct op_args *a = args;
    a->call.pass = &a->pass;
    if (op->keep)
        op->keep(&a->call, &a->keeps);
    a->narrows = op->narrows ? op->narrows(a->call.node) : 0;
    a->bends = op->bends && op->bends(a->call.node);
}

static inline void chosen_of(const struct cuda_op *op, const struct device *device,
                             const void *args, char ret[DEVICE_CHOSEN_BYTES])
{
    const struct op_args *a = args;
    *ret = '\0';
    if (op->chosen)
        op->chosen(cuda_device_of(device), &a->call, a->backward, ret);
}

static void traffic_of(const struct device *device, const void *args,
                       struct device_traffic *traffic)
{
    const struct op_args *a = args;
    traffic_add(cuda_device_of(device), a, traffic);
}

#define X(name)                                                                                    \
    extern const struct cuda_op cuda_op_##name;                                                    \
    static void run_op_##name(struct queue *queue, const void *args)                               \
    {                                                                                              \
        run_op(&cuda_op_##name, queue, args);                                                      \
    }                                                                                              \
    static size_t scratch_of_##name(const struct device *device, const void *args)                 \
    {                                                                                              \
        return scratch_of(&cuda_op_##name, device, args);                                          \
    }                                                                                              \
    static void keep_of_##name(void *args)                                                         \
    {                                                                                              \
        keep_of(&cuda_op_##name, args);                                                            \
    }                                                                                              \
    static void chosen_of_##name(const struct device *device, const void *args,                    \
                                 char ret[DEVICE_CHOSEN_BYTES])                                    \
    {                                                                                              \
        chosen_of(&cuda_op_##name, device, args, ret);                                             \
    }
CUDA_OP_LIST(X)
#undef X

#define X(name)                                                                                    \
    extern const struct cuda_launch cuda_launch_##name;                                            \
    static void run_launch_##name(struct queue *queue, const void *args)                           \
    {                                                                                              \
        cuda_launch_##name.run(args, cuda_queue_of(queue));                                        \
    }                                                                                              \
    static void traffic_of_launch_##name(const struct device *device, const void *args,            \
                                         struct device_traffic *traffic)                           \
    {                                                                                              \
        (void)device;                                                                              \
        traffic->launches = cuda_launch_##name.kernels ? cuda_launch_##name.kernels : 1;           \
        if (cuda_launch_##name.traffic)                                                            \
            cuda_launch_##name.traffic(args, traffic);                                             \
    }
CUDA_LAUNCH_LIST(X)
#undef X

struct op_kernel {
    const struct cuda_op *op;
    struct device_kernel kernel;
};

struct launch_kernel {
    const struct cuda_launch *launch;
    struct device_kernel kernel;
};

static const struct op_kernel ops[] = {
#define X(name)                                                                                    \
    {&cuda_op_##name,                                                                              \
     {run_op_##name, scratch_of_##name, keep_of_##name, traffic_of, chosen_of_##name}},
    CUDA_OP_LIST(X)
#undef X
        {NULL, {.run = NULL}},
};

static const struct launch_kernel launches[] = {
#define X(name)                                                                                    \
    {&cuda_launch_##name, {.run = run_launch_##name, .traffic = traffic_of_launch_##name}},
    CUDA_LAUNCH_LIST(X)
#undef X
        {NULL, {.run = NULL}},
};

const struct cuda_op *table_op(const char *name)
{
    for (int i = 0; ops[i].op; i++) {
        if (!strcmp(ops[i].op->name, name))
            return ops[i].op;
    }
    return NULL;
}

const struct device_kernel *table_find(const char *name)
{
    for (int i = 0; ops[i].op; i++) {
        if (!strcmp(ops[i].op->name, name))
            return &ops[i].kernel;
    }
    for (int i = 0; launches[i].launch; i++) {
        if (!strcmp(launches[i].launch->name, name))
            return &launches[i].kernel;
    }
    return NULL;
}
