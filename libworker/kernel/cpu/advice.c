/* Detects whether OpenBLAS chose kernels for an older CPU. It does so for a CPU newer than the
 * library, and products in float then run at half the rate or less. Names are those of OpenBLAS's
 * driver/others/dynamic.c. */
#include <stdlib.h>
#include <strings.h>

#include "common/base/str.h"
#include "libworker/kernel/cpu/blas.h"

static const struct {
    const char *name;
    enum kernel_simd simd;
} cores[] = {
    {"Haswell", KERNEL_AVX2},    {"Zen", KERNEL_AVX2},         {"Excavator", KERNEL_AVX2},
    {"Sandybridge", KERNEL_AVX}, {"Bulldozer", KERNEL_AVX},    {"Piledriver", KERNEL_AVX},
    {"Steamroller", KERNEL_AVX}, {"Nehalem", KERNEL_SSE},      {"Prescott", KERNEL_SSE},
    {"Katmai", KERNEL_SSE},      {"Coppermine", KERNEL_SSE},   {"Northwood", KERNEL_SSE},
    {"Banias", KERNEL_SSE},      {"Atom", KERNEL_SSE},         {"Core2", KERNEL_SSE},
    {"Penryn", KERNEL_SSE},      {"Dunnington", KERNEL_SSE},   {"Athlon", KERNEL_SSE},
    {"Opteron", KERNEL_SSE},     {"Opteron_SSE3", KERNEL_SSE}, {"Barcelona", KERNEL_SSE},
    {"Nano", KERNEL_SSE},        {"Bobcat", KERNEL_SSE},       {"Generic", KERNEL_SSE},
};

enum kernel_simd blas_core_simd(const char *core)
{
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
        if (strcasecmp(cores[i].name, core) == 0)
            return cores[i].simd;
    return KERNEL_AVX512;
}

void kernel_advice(enum kernel_simd simd, char ret[KERNEL_ADVICE_MAX])
{
    static const struct {
        const char *instructions, *core;
    } best[] = {[KERNEL_AVX] = {"AVX", "Sandybridge"},
                [KERNEL_AVX2] = {"AVX2", "Haswell"},
                [KERNEL_AVX512] = {"AVX-512", "SkylakeX"}};
    const char *core = blas_core();
    *ret = 0;
    if (!core || !blas_chooses() || getenv("OPENBLAS_CORETYPE") || blas_core_simd(core) >= simd)
        return;
    (void)str_printf(ret, KERNEL_ADVICE_MAX,
                     "OpenBLAS computes with its kernels for %s, though this CPU has %s: products "
                     "in float32 may take twice as long; start the program with "
                     "OPENBLAS_CORETYPE=%s, or with OPENBLAS_CORETYPE=%s to keep these kernels "
                     "without this notice",
                     core, best[simd].instructions, best[simd].core, core);
}
