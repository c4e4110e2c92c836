/* One parameter of a model, or one of its buffers: what it is called, its shape, and where it is.
 * An entry of the model's table (model.h) and of the table of what a rank updates. Plain data.
 */
#ifndef NN_PARAMETER_H
#define NN_PARAMETER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PARAM_DIMS_MAX = 4, PARAM_NAME_MAX = 96 };

enum param_init { PARAM_ZERO, PARAM_ONE, PARAM_NORMAL, PARAM_UNIFORM };

struct param {
    char name[PARAM_NAME_MAX];
    int dims;
    int64_t shape[PARAM_DIMS_MAX]; /* row-major; unused dimensions are 0 */
    size_t count;                  /* product of shape */
    size_t offset;                 /* first element in either arena */
    float *data, *grad;            /* views into the arenas; NULL until model_bind */
    float *host;                   /* the master in the host's memory (parallel/masters.h), which
                                    * a device's passes do not read; NULL: data is all there is */
    const uint16_t *low;           /* view into the low-precision arena, or NULL */
    float *wide;                   /* custom models: what passes read instead of data, or NULL */
    uint16_t *low_grad;            /* custom models: address of the narrow gradient, or NULL */
    unsigned narrow;               /* custom models: wk_buffer.narrow */
    bool decay;                    /* weight decay applies: two or more dimensions */
    bool lookup;                   /* an embedding or a head: its rows stand for tokens */
    int block;                     /* unit of sharding and of pipeline cuts, rising with depth */
    enum param_init init;
    float init_std; /* of PARAM_NORMAL; the bound of PARAM_UNIFORM */
};

static inline float *param_master(const struct param *param)
{
    return param->host ? param->host : param->data;
}

#endif
