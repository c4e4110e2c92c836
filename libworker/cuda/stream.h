/* The stream that a kernel is launched on, as CUDA's own headers name it. So the headers of kernels
 * can be read without those. */
#ifndef CUDA_STREAM_H
#define CUDA_STREAM_H

typedef struct CUstream_st *cudaStream_t;

#endif
