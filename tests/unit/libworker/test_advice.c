/* What a user is told whose OpenBLAS computes with less than the CPU has. The library's own answers
 * are replaced. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/blas.h"

static const char *core;
static bool chooses = true;

const char *__wrap_blas_core(void);
bool __wrap_blas_chooses(void);

const char *__wrap_blas_core(void)
{
    return core;
}

bool __wrap_blas_chooses(void)
{
    return chooses;
}

static const char *advice_of(const char *name, enum kernel_simd simd)
{
    static char text[KERNEL_ADVICE_MAX];
    core = name;
    unsetenv("OPENBLAS_CORETYPE");
    kernel_advice(simd, text);
    return text;
}

Test(advice, names_the_kernels_that_use_all_of_the_cpu)
{
    static const struct {
        const char *core;
        enum kernel_simd simd;
        const char *setting; /* NULL: nothing is said */
    } rows[] = {
        {"Haswell", KERNEL_AVX512, "OPENBLAS_CORETYPE=SkylakeX,"},
        {"Zen", KERNEL_AVX512, "OPENBLAS_CORETYPE=SkylakeX,"},
        {"Prescott", KERNEL_AVX512, "OPENBLAS_CORETYPE=SkylakeX,"},
        {"Sandybridge", KERNEL_AVX2, "OPENBLAS_CORETYPE=Haswell,"},
        {"Barcelona", KERNEL_AVX2, "OPENBLAS_CORETYPE=Haswell,"},
        {"Nehalem", KERNEL_AVX, "OPENBLAS_CORETYPE=Sandybridge,"},
        {"SkylakeX", KERNEL_AVX512, NULL},
        {"Cooperlake", KERNEL_AVX512, NULL},
        {"SapphireRapids", KERNEL_AVX512, NULL},
        {"Haswell", KERNEL_AVX2, NULL},
        {"Zen", KERNEL_AVX2, NULL},
        {"Prescott", KERNEL_SSE, NULL},
        {"a name from a later OpenBLAS", KERNEL_AVX512, NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *text = advice_of(rows[i].core, rows[i].simd);
        cr_expect(rows[i].setting ? strstr(text, rows[i].setting) && strstr(text, rows[i].core)
                                  : !*text,
                  "%s, %d: %s", rows[i].core, rows[i].simd, text);
    }
}

Test(advice, is_whole)
{
    cr_expect_str_eq(advice_of("Haswell", KERNEL_AVX512),
                     "OpenBLAS computes with its kernels for Haswell, though this CPU has AVX-512: "
                     "products in float32 may take twice as long; start the program with "
                     "OPENBLAS_CORETYPE=SkylakeX, or with OPENBLAS_CORETYPE=Haswell to keep these "
                     "kernels without this notice");
    cr_expect_leq(strlen(advice_of("Opteron_SSE3", KERNEL_AVX512)), KERNEL_ADVICE_MAX - 1);
}

Test(advice, keeps_quiet_where_nothing_can_be_set_or_the_user_has_chosen)
{
    char text[KERNEL_ADVICE_MAX] = "left";
    cr_expect_str_empty(advice_of(NULL, KERNEL_AVX512)); /* no OpenBLAS */
    chooses = false;                                     /* one built for a single CPU */
    cr_expect_str_empty(advice_of("Haswell", KERNEL_AVX512));
    chooses = true;
    core = "Haswell";
    setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    kernel_advice(KERNEL_AVX512, text);
    cr_expect_str_empty(text);
}

Test(advice, a_table_is_chosen_by_its_name)
{
    const struct kernel_table *one, *best = NULL;
    for (int i = 0; (one = kernel_cpu_variant(i)); i++) {
        setenv(KERNEL_VARIABLE, one->name, 1);
        cr_expect_eq(kernel_cpu(), one);
        cr_expect_eq(kernel_named(one->name), one);
        best = one;
    }
    setenv(KERNEL_VARIABLE, "none-such", 1);
    cr_expect_null(kernel_named("none-such"));
    cr_expect_eq(kernel_cpu(), best);
    unsetenv(KERNEL_VARIABLE);
    cr_expect_eq(kernel_cpu(), best);
}
