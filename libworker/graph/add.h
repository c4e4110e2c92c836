/* Adding an operation's node with inputs of any type. One thread. */
#ifndef GRAPH_ADD_H
#define GRAPH_ADD_H

#include "libworker/graph/build.h"

/* graph_add_exact after conversions: indices in i64, u8 and bool become i32, all other inputs in
 * f64, f16, bf16, u8 and bool become f32. Whole numbers of more than a byte do not become values by
 * themselves, because that would hide a label in the place of a number. */
struct wk_tensor *graph_add(const struct node_request *request);

#endif
