/* The other launches of the module: X(adamw) is cuda_launch_adamw. One a line, in the order of the
 * alphabet. */
#ifndef CUDA_LAUNCH_LIST_H
#define CUDA_LAUNCH_LIST_H

#define CUDA_LAUNCH_LIST(X)

#endif
