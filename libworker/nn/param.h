/* The parameter table of a model while it is built: each entry's place in the arena follows from
 * the entries before it. The table belongs to the model. One thread.
 */
#ifndef NN_PARAM_H
#define NN_PARAM_H

#include <stdint.h>

#include "libworker/nn/model.h"

/* Description of a new parameter; a shape of one dimension has cols 0. */
struct param_spec {
    int64_t rows, cols;
    int block;
    enum param_init init;
    float init_std;
    bool lookup;
};

/* Make room for `capacity` parameters. WK_ENOMEM. */
int param_table_init(struct wk_model *model, int capacity);
void param_table_fini(struct wk_model *model);

/* Append a parameter; the name is printed from `fmt`. The capacity must not be exceeded. */
void param_table_add(struct wk_model *model, const struct param_spec *spec, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Write the initial value of `param` to its data. Element i depends on (seed, name, i) only. */
void param_fill(const struct param *param, uint64_t seed);

#endif
