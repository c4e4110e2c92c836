/* State in files that is cut anew for another world: it travels by way of files, as there may be no
 * memory for it. Ranks are threads; wk_broadcast, which carries the parts, is wrapped by the
 * linker.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { ROWS = 2048, COLS = 2048, COUNT = ROWS * COLS, STEPS = 4 };

static atomic_size_t most_kib; /* of memory without a file, while a part travels */

int __real_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret);
int __wrap_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret);

static size_t anonymous_kib(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    CHECK(file);
    while (fgets(line, sizeof(line), file))
        (void)sscanf(line, "RssAnon: %zu kB", &kib);
    fclose(file);
    CHECK(kib > 0);
    return kib;
}

int __wrap_wk_broadcast(struct wk_comm *comm, void *data, size_t count, enum wk_dtype dtype,
                        int source, struct wk_work **ret)
{
    int rc = __real_wk_broadcast(comm, data, count, dtype, source, ret);
    size_t now = anonymous_kib(), before = atomic_load(&most_kib);
    while (count >= COUNT && now > before && !atomic_compare_exchange_weak(&most_kib, &before, now))
        ;
    return rc;
}

struct worker {
    struct fake_cluster *cluster;
    const char *dir;
    int number;
    pthread_t thread, other;
    struct worker *guest; /* invited after the second step */
    size_t before_kib;
};

static float initial_of(size_t i)
{
    return (float)(i % 8191) * 0.25f;
}

static float initial[COUNT];

static void check_all_there(struct wk_model *model)
{
    CHECK(wk_gather_parameters(model) == 0);
    const float *data = wk_parameter_data(model, 0);
    for (size_t i = 0; i < COUNT; i++)
        CHECK(data[i] == initial_of(i));
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    const struct wk_buffer buffer = {
        .name = "w", .dims = 2, .shape = {ROWS, COLS}, .initial = initial};
    const struct wk_adamw_options adamw = {1e-30, 0.9, 0.95, 1e-8, 0}; /* nothing moves */
    const struct wk_setting settings[] = {{"offload.dir", w->dir},
                                          {"strategy", "fsdp"},
                                          {"offload.parameters", "true"},
                                          {"total_steps", "4"}};
    struct environment environment = {nothing, NULL};
    struct wk_options options = {.settings = settings, .n_settings = 4};
    struct context_seams seams = {
        .environment = &environment, .session = fake_session(w->cluster, w->number), .quiet = true};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_custom_new(&buffer, 1, &model) == 0 && wk_adamw_new(&adamw, &optimizer) == 0);
    (void)wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer));
    CHECK(wk_status(ctx) == 0);
    while (wk_join(ctx, 1)) {
        CHECK(wk_backward(model) == 0 && wk_step(optimizer) == 0);
        if (w->guest && wk_steps(ctx) == 2) {
            w->before_kib = anonymous_kib();
            fake_form(w->cluster, (const int[]){0, 1}, 2);
            pthread_create(&w->other, NULL, work, w->guest);
            w->guest = NULL;
        }
        /* A pass that came to nothing shows no parameters. */
        if (wk_step_taken(optimizer))
            check_all_there(model);
    }
    CHECK(wk_status(ctx) == 0 && wk_steps(ctx) == STEPS);
    CHECK(wk_close(ctx) == 0);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void shards_in_files_travel_by_way_of_files(void)
{
    struct tmpdir dir = tmpdir_make();
    struct fake_cluster cluster;
    struct worker guest = {.cluster = &cluster, .dir = dir.path, .number = 1};
    struct worker host = {.cluster = &cluster, .dir = dir.path, .guest = &guest};
    for (size_t i = 0; i < COUNT; i++)
        initial[i] = initial_of(i);
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0}, 1);
    work(&host);
    pthread_join(host.other, NULL);
    size_t most = atomic_load(&most_kib);
    printf("%zu MiB without a file before, at most %zu MiB on the way\n", host.before_kib >> 10,
           most >> 10);
    CHECK(cluster.generation == 2 && most > 0);
    CHECK(most < host.before_kib + 2 * COUNT * sizeof(float) / 1024);
    fake_fini(&cluster);
    tmpdir_remove(&dir);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(shards_in_files_travel_by_way_of_files),
        {0},
    };
    return check_all(cases, argc, argv);
}
