/* What the fake of cuDNN shares: descriptors with their attributes, and the walk of a graph. One
 * thread at a time. */
#ifndef FAKE_CUDNN_INSIDE_H
#define FAKE_CUDNN_INSIDE_H

#include <cudnn_graph.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ATTRIBUTES_MAX = 12, DIMS = 4, UIDS_MAX = 128, GRAPH_OPS_MAX = 64 };

struct attribute {
    cudnnBackendAttributeName_t name;
    int64_t count;
    void *at; /* a copy */
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool final;
    int n;
    struct attribute attributes[ATTRIBUTES_MAX];
};

/* The value of one; NULL: it is not set. */
const struct attribute *attribute_of(const struct descriptor *d, cudnnBackendAttributeName_t name);
int64_t whole_of(const struct descriptor *d, cudnnBackendAttributeName_t name, int64_t otherwise);
int kind_of(const struct descriptor *d, cudnnBackendAttributeName_t name);
bool flag_of(const struct descriptor *d, cudnnBackendAttributeName_t name);
const struct descriptor *part_of(const struct descriptor *d, cudnnBackendAttributeName_t name);

struct tensor {
    int64_t uid, shape[DIMS], stride[DIMS], align;
    int type;
    bool between, number;
};
struct tensor tensor_of(const struct descriptor *d);
int64_t tensor_count(const struct tensor *t);
size_t tensor_bytes(const struct tensor *t); /* from its first element to its last */

/* The operands of an operation: up to three read, the last written. NULL where there is none. */
struct operands {
    const struct descriptor *in[3], *out, *how;
};
struct operands operands_of(const struct descriptor *op);

/* cuDNN's rules for an operation; SUCCESS if they are kept. */
cudnnStatus_t operation_check(const struct descriptor *op);

/* What a graph computes, on the device's memory, operation by operation. */
struct walk {
    const struct descriptor *graph;
    void *memory[UIDS_MAX]; /* by identifier */
    float numbers[UIDS_MAX];
};
void walk_run(const struct walk *walk);

#endif
