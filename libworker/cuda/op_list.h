/* The operations of the module, by the names of their tables: X(gelu) is cuda_op_gelu. One a line,
 * in the order of the alphabet. */
#ifndef CUDA_OP_LIST_H
#define CUDA_OP_LIST_H

#define CUDA_OP_LIST(X)

#endif
