/* Ranks whose CPUs have different instructions train one model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/kernel/cpu/blas.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, WEIGHTS_MAX = 1 << 18, JOINED_AFTER = 10 };

struct scene {
    struct fake_cluster cluster;
    struct toy toys[RANKS];
    pthread_t threads[RANKS];
    bool late; /* rank 1 joins when step JOINED_AFTER is done */
};

/* What each thread's OpenBLAS says of itself; NULL: as it is. */
static _Thread_local const char *core;
const char *__real_blas_core(void);
const char *__wrap_blas_core(void);

const char *__wrap_blas_core(void)
{
    return core ? core : __real_blas_core();
}

static const struct kernel_table *best(void)
{
    int i = 0;
    while (kernel_cpu_variant(i + 1))
        i++;
    return kernel_cpu_variant(i);
}

/* The build for any CPU of this kind: there are products by OpenBLAS, but no FMA. */
static const struct kernel_table *least(void)
{
    int i = 0;
    while (strcmp(kernel_cpu_variant(i)->name, "cpu-base") != 0)
        i++;
    return kernel_cpu_variant(i);
}

static void start(struct scene *scene, int rank)
{
    struct toy *toy = &scene->toys[rank];
    toy->session = fake_session(&scene->cluster, rank);
    toy->weights = calloc(WEIGHTS_MAX, sizeof(float));
    toy_set(toy, "total_steps", "30");
    pthread_create(&scene->threads[rank], NULL, toy_thread, toy);
}

static bool invite(void *arg, struct wk_context *ctx)
{
    struct scene *scene = arg;
    if (scene->late && wk_steps(ctx) == JOINED_AFTER && scene->cluster.generation == 1) {
        fake_form(&scene->cluster, (const int[]){0, 1}, 2);
        start(scene, 1);
    }
    return false;
}

static void run(struct scene *scene, const struct kernel_table *first,
                const struct kernel_table *second, bool late)
{
    memset(scene, 0, sizeof(*scene));
    fake_init(&scene->cluster);
    scene->toys[0].kernels = first;
    scene->toys[1].kernels = second;
    scene->late = late;
    scene->toys[0].stepped = invite;
    scene->toys[0].arg = scene;
    fake_form(&scene->cluster, (const int[]){0, 1}, late ? 1 : 2);
    start(scene, 0);
    if (!late)
        start(scene, 1);
    for (int r = 0; r < RANKS; r++) {
        pthread_join(scene->threads[r], NULL);
        CHECK(scene->toys[r].status == 0);
    }
    fake_fini(&scene->cluster);
}

static bool same_weights(const struct toy *a, const struct toy *b)
{
    return memcmp(a->weights, b->weights, WEIGHTS_MAX * sizeof(float)) == 0;
}

static void drop(struct scene *scene)
{
    for (int r = 0; r < RANKS; r++)
        free(scene->toys[r].weights);
}

static void all_take_what_the_least_cpu_has(void)
{
    static struct scene mixed, plain;
    char said[128];
    if (best() == least()) {
        check_skip("this CPU has one kind of kernels only");
        return;
    }
    run(&mixed, best(), least(), false);
    run(&plain, least(), least(), false);
    CHECK(same_weights(&mixed.toys[0], &mixed.toys[1]));
    CHECK(same_weights(&mixed.toys[0], &plain.toys[0]));
    snprintf(said, sizeof(said), "all ranks compute with %s, the most that rank 1's CPU has",
             least()->name);
    CHECK(strstr(mixed.toys[0].notices, said));
    CHECK(!strstr(mixed.toys[1].notices, said) && !strstr(plain.toys[0].notices, said));
    drop(&mixed);
    drop(&plain);
}

static void a_newcomer_with_a_lesser_cpu_is_heeded(void)
{
    static struct scene scene;
    if (best() == least()) {
        check_skip("this CPU has one kind of kernels only");
        return;
    }
    run(&scene, best(), least(), true);
    CHECK(scene.toys[1].losses[30] == scene.toys[0].losses[30]);
    CHECK(same_weights(&scene.toys[0], &scene.toys[1]));
    drop(&scene);
}

/* A name that this machine's OpenBLAS does not go by. */
static const char *another_core(void)
{
    const char *own = __real_blas_core();
    return own && strcmp(own, "Haswell") == 0 ? "Nehalem" : "Haswell";
}

static void *with_another_core(void *toy)
{
    core = another_core();
    return toy_thread(toy);
}

/* Whether two ranks of which one has another OpenBLAS train: 0, or WK_EMISMATCH on both. */
static int train_with_another_core(const char *hook, bool muon)
{
    static struct scene scene;
    memset(&scene, 0, sizeof(scene));
    fake_init(&scene.cluster);
    fake_form(&scene.cluster, (const int[]){0, 1}, 2);
    for (int r = 0; r < RANKS; r++) {
        scene.toys[r].session = fake_session(&scene.cluster, r);
        scene.toys[r].muon = muon;
        toy_set(&scene.toys[r], "total_steps", "2");
        toy_set(&scene.toys[r], "ddp.hook", hook);
        pthread_create(&scene.threads[r], NULL, r == 1 ? with_another_core : toy_thread,
                       &scene.toys[r]);
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(scene.threads[r], NULL);
    fake_fini(&scene.cluster);
    CHECK(scene.toys[0].status == scene.toys[1].status);
    char said[64];
    snprintf(said, sizeof(said), "and %s on rank 1", another_core());
    for (int r = 0; r < RANKS && scene.toys[0].status; r++)
        CHECK(strstr(scene.toys[r].error,
                     "ranks differ in the kernels of OpenBLAS (OPENBLAS_CORETYPE): it is ") &&
              strstr(scene.toys[r].error, said));
    return scene.toys[0].status;
}

static void products_of_other_kernels_are_refused_where_each_rank_makes_them(void)
{
    CHECK(train_with_another_core("none", false) == 0);
    CHECK(train_with_another_core("none", true) == WK_EMISMATCH);
    CHECK(train_with_another_core("powersgd", false) == WK_EMISMATCH);
}

static void *with_oldest_core(void *toy)
{
    core = "Prescott";
    return toy_thread(toy);
}

static const char *named_only(void *arg, const char *name)
{
    (void)arg;
    return strcmp(name, KERNEL_VARIABLE) == 0 ? getenv(name) : NULL;
}

static int times(const char *text, const char *words)
{
    int n = 0;
    for (; (text = strstr(text, words)); text += strlen(words))
        n++;
    return n;
}

/* Once, by one rank of a host, unless the user has chosen. */
static void kernels_that_use_less_than_the_cpu_has_are_told_of(void)
{
    static struct toy toy;
    char *chosen = getenv("OPENBLAS_CORETYPE") ? strdup(getenv("OPENBLAS_CORETYPE")) : NULL;
    pthread_t thread;
    for (int set = 0; set < 2; set++) {
        memset(&toy, 0, sizeof(toy));
        toy_set(&toy, "total_steps", "2");
        if (set)
            setenv("OPENBLAS_CORETYPE", "Prescott", 1);
        else
            unsetenv("OPENBLAS_CORETYPE");
        pthread_create(&thread, NULL, with_oldest_core, &toy);
        pthread_join(thread, NULL);
        CHECK(toy.status == 0);
        bool told = !set && kernel_simd() > KERNEL_SSE && blas_chooses();
        CHECK(times(toy.notices, "OpenBLAS computes with its kernels for Prescott") == told);
        CHECK(times(toy.notices, "start the program with OPENBLAS_CORETYPE=") == told);
    }
    if (chosen)
        setenv("OPENBLAS_CORETYPE", chosen, 1);
    free(chosen);
}

/* A variable that names none of this machine's tables would else change nothing without a word. */
static void a_table_that_is_not_there_is_told_of(void)
{
    static struct toy toy;
    char *chosen = getenv(KERNEL_VARIABLE) ? strdup(getenv(KERNEL_VARIABLE)) : NULL;
    setenv(KERNEL_VARIABLE, "cpu-avx1024", 1);
    toy_set(&toy, "total_steps", "2");
    toy.environment = &(struct environment){named_only, NULL};
    toy_run(&toy);
    CHECK(toy.status == 0);
    CHECK(times(toy.notices, "MUSTER_KERNELS is cpu-avx1024, of which this machine has no") == 1);
    if (chosen)
        setenv(KERNEL_VARIABLE, chosen, 1);
    else
        unsetenv(KERNEL_VARIABLE);
    free(chosen);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(all_take_what_the_least_cpu_has),
        CHECK_CASE(a_newcomer_with_a_lesser_cpu_is_heeded),
        CHECK_CASE(products_of_other_kernels_are_refused_where_each_rank_makes_them),
        CHECK_CASE(kernels_that_use_less_than_the_cpu_has_are_told_of),
        CHECK_CASE(a_table_that_is_not_there_is_told_of),
        {0},
    };
    return check_all(cases, argc, argv);
}
