/* A model's parameters for tests that train without a model: side by side in one array, with
 * numbers that are the same everywhere. No state; any thread. */
#ifndef LIB_PARAMS_H
#define LIB_PARAMS_H

#include <stdint.h>
#include <stdio.h>

#include "libworker/nn/model.h"

struct params_tensor {
    const char *name;
    int dims;
    int64_t shape[2];
};

/* Describe `n` tensors, one after the other; matrices decay. Returns the number of elements. */
static inline size_t params_describe(const struct params_tensor *tensors, int n,
                                     struct param *ret_params)
{
    size_t offset = 0;
    for (int i = 0; i < n; i++) {
        struct param *param = &ret_params[i];
        *param = (struct param){.dims = tensors[i].dims, .count = 1, .offset = offset};
        snprintf(param->name, sizeof(param->name), "%s", tensors[i].name);
        for (int d = 0; d < tensors[i].dims; d++) {
            param->shape[d] = tensors[i].shape[d];
            param->count *= (size_t)tensors[i].shape[d];
        }
        param->decay = param->dims > 1;
        offset += param->count;
    }
    return offset;
}

/* Between about -1 and 1: element i of the numbers of a key. */
static inline float params_number(uint64_t key, size_t i)
{
    uint64_t x = (key * 0x9e3779b97f4a7c15u + i + 1) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    return (float)((double)(x >> 11) * 0x1p-52 - 1);
}

#endif
