/* What nccl_gate.c and its test have in common. */
#ifndef CUDA_NCCL_GATE_H
#define CUDA_NCCL_GATE_H

#define GATE_VARIABLE "NCCL_GATE"

enum { GATE_MAIN = 'm', GATE_ASIDE = 'a' };

#endif
