/* What a training step of a model makes a device do (libworker/estimate/traffic.h), as a table. */
#ifndef CLI_MODEL_TRAFFIC_H
#define CLI_MODEL_TRAFFIC_H

#include "common/base/args.h"
#include "common/base/error.h"

struct device;
struct wk_model;

/* The rows of `muster model count` with what a device can do. */
#define TRAFFIC_OPTIONS                                                                            \
    {.name = "bandwidth",                                                                          \
     .kind = ARGS_OPTION,                                                                          \
     .type = ARGS_INTEGER,                                                                         \
     .fallback = "4300",                                                                           \
     .value_name = "GB/S",                                                                         \
     .help = "count: bytes that memory moves in a second, else about an H200's"},                  \
    {                                                                                              \
        .name = "rate", .kind = ARGS_OPTION, .type = ARGS_INTEGER, .fallback = "780",              \
        .value_name = "TFLOP/S", .help = "count: what products reach, else about an H200's"        \
    }

/* On standard output. The floor of a row is the longer of its bytes at the bandwidth and its FLOP
 * at the rate. E_INVALID_ARGUMENT names the number that is wrong; others as plan_new. */
int traffic_table(const struct args *args, struct wk_model *model, const struct device *device,
                  struct error *err);

#endif
