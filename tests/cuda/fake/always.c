/* A runtime with one GPU from the start of the program, which begins no fake itself. */
#include "tests/cuda/fake/gpu.h"

__attribute__((constructor)) static void begin(void)
{
    const struct fake_options options = gpu_options(1);
    fake_begin(&options);
}
