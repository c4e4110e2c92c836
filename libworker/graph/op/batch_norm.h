/* The attributes of batch normalization's four rows (batch_norm.c), for the kernels of all devices.
 */
#ifndef OP_BATCH_NORM_H
#define OP_BATCH_NORM_H

#include <stdbool.h>

struct batch_norm_attributes {
    int dim; /* of channels */
    float epsilon, momentum;
    bool variance; /* of running: it is that */
};

#endif
