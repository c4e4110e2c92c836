#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "libworker/nn/random.h"
#include "tests/numeric/nn/fixture.h"

float *fixture_normal(const char *name, size_t count, double deviation)
{
    float *values = malloc((count + 2) * sizeof(*values));
    uint64_t key = random_key(1, name);
    for (size_t i = 0; i < count; i += 2) {
        double pair[2];
        random_normal_pair(key, i / 2, pair);
        values[i] = (float)(pair[0] * deviation);
        values[i + 1] = (float)(pair[1] * deviation);
    }
    return values;
}

double fixture_distance(const float *a, const float *b, size_t count)
{
    double most = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan(a[i]) || isnan(b[i]))
            return NAN;
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most == 0 ? 0 : most / size;
}

struct fixture fixture_new(const struct wk_gpt_config *config)
{
    struct fixture f = {0};
    cr_assert_eq(wk_gpt_new(config, &f.model), 0);
    f.params = calloc(f.model->count, sizeof(float));
    f.grads = calloc(f.model->count, sizeof(float));
    cr_assert_eq(model_bind(f.model, f.params, f.grads), 0);
    return f;
}

void fixture_free(struct fixture *f)
{
    wk_model_free(f->model);
    free(f->params);
    free(f->grads);
}

char *fixture_reference(const char *file)
{
    const char *folder = getenv("MUSTER_REFERENCE");
    char *path;
    if (asprintf(&path, "%s/%s", folder ? folder : MUSTER_SOURCE_DIR "/../shared/reference", file) <
        0)
        cr_assert_fail("out of memory");
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "SKIPPED: no reference data at %s (set MUSTER_REFERENCE)\n", path);
        cr_skip_test("SKIPPED: no reference data at %s (set MUSTER_REFERENCE)", path);
    }
    return path;
}
