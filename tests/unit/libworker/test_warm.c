/* kernel_warm, where a thread of the library behind products starts later than the first product.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "libworker/kernel/kernel.h"
#include "tests/lib/check.h"

enum { SIDE = 256, SPARE_BYTES = 16 << 20, LATE_MS = 200, HANG_S = 300 };

typedef void *(*start_fn)(void *);
typedef int (*create_fn)(pthread_t *, const pthread_attr_t *, start_fn, void *);

struct late {
    start_fn start;
    void *arg;
};

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

static void *start_late(void *arg)
{
    struct late late = *(struct late *)arg;
    free(arg);
    pause_ms(LATE_MS);
    return late.start(late.arg);
}

/* In place of the C library's, for this program and the libraries it uses. */
__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attr, start_fn start, void *arg)
{
    struct late *late = malloc(sizeof(*late));
    create_fn create;
    *(void **)&create = dlsym(RTLD_NEXT, "pthread_create");
    CHECK(late && create);
    *late = (struct late){start, arg};
    return create(thread, attr, start_late, late);
}

static void limit_address_space(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld", &pages) == 1);
    fclose(file);
    rlim_t limit = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + SPARE_BYTES;
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit}) == 0);
}

static void multiply(const struct kernel_table *kernels)
{
    static float a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
    struct kernel_gemm gemm = {.m = SIDE, .n = SIDE, .k = SIDE, .alpha = 1, .a = a, .b = b, .c = c};
    gemm.lda = gemm.ldb = gemm.ldc = SIDE;
    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = b[i] = 1;
    kernels->gemm(&gemm);
    CHECK(c[0] == SIDE && c[SIDE * SIDE - 1] == SIDE);
}

static void products_ask_for_no_memory_afterwards(void)
{
    int status;
    pid_t child = fork(); /* OpenBLAS ends its threads at a fork and starts them again later */
    if (child == 0) {
        alarm(HANG_S);
        const struct kernel_table *kernels = kernel_cpu();
        CHECK(kernel_warm(kernels) == 0);
        limit_address_space();
        pause_ms(2 * LATE_MS); /* by now whoever was late has run */
        multiply(kernels);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(products_ask_for_no_memory_afterwards),
        {0},
    };
    return check_all(cases, argc, argv);
}
