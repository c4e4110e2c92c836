/* Two models in one loop: a generator learns to draw numbers like those it is shown, by what a
 * discriminator that tells them apart thinks of its own (Goodfellow et al. 2014). The numbers are
 * normal, so a line through noise can draw them and a parabola is the best discriminator; passes
 * are by hand. Two optimizer steps make one step of the training.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <worker/worker.h>

enum { NUMBERS = 1 << 16, LENGTH = 16, BATCH = 16, EVERY = 200 };
static const double MEAN = 1, DEVIATION = 0.5;

/* Normal noise that depends on its number only: the same whichever rank draws it. */
static double noise(uint64_t number)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        uint64_t x = (number * 12 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        sum += (double)(x >> 11) * 0x1p-53;
    }
    return sum;
}

/* Numbers travel as bytes: 32 of them to a unit, 0 in the middle. */
static void fill(unsigned char *bytes)
{
    for (int i = 0; i < NUMBERS; i++)
        bytes[i] = (unsigned char)lround(128 + 32 * (MEAN + DEVIATION * noise((uint64_t)i)));
}

static float judge(const float *d, float x)
{
    return 1 / (1 + expf(-(d[0] + d[1] * x + d[2] * x * x)));
}

/* What the generator makes of sample i of a batch. */
static float draw(const float *g, const struct wk_batch *batch, int64_t first, int64_t i, float *z)
{
    *z = (float)noise((uint64_t)NUMBERS + (uint64_t)((batch->position + first) * LENGTH + i));
    return g[0] * *z + g[1];
}

/* The discriminator: what it is shown is real, what the generator draws is not. */
static void discriminate(struct wk_model *model, const float *g, const struct wk_batch *batch,
                         int64_t first)
{
    const float *d = wk_parameter_data(model, 0);
    float *grad = wk_parameter_grad(model, 0), z;
    double loss = 0;
    for (int64_t i = 0; i < batch->samples * LENGTH; i++) {
        float xs[2] = {(float)(batch->tokens[i] - 128) / 32, draw(g, batch, first, i, &z)};
        for (int fake = 0; fake < 2; fake++) {
            float x = xs[fake], p = judge(d, x), part = (float)(1 / batch->denominator);
            float error = (p - (fake ? 0.0f : 1.0f)) * part;
            loss -= log(1e-9 + (double)(fake ? 1 - p : p)) * (double)part;
            grad[0] += error;
            grad[1] += error * x;
            grad[2] += error * x * x;
        }
    }
    wk_set_loss(model, loss);
}

/* The generator: what it draws ought to pass. */
static void generate(struct wk_model *model, const float *d, const struct wk_batch *batch,
                     int64_t first)
{
    const float *g = wk_parameter_data(model, 0);
    float *grad = wk_parameter_grad(model, 0), z;
    double loss = 0;
    for (int64_t i = 0; i < batch->samples * LENGTH; i++) {
        float x = draw(g, batch, first, i, &z), p = judge(d, x);
        float error = (p - 1) * (d[1] + 2 * d[2] * x) * (float)(1 / batch->denominator);
        loss -= log(1e-9 + (double)p) / batch->denominator;
        grad[0] += error * z;
        grad[1] += error;
    }
    wk_set_loss(model, loss);
}

int main(void)
{
    static unsigned char numbers[NUMBERS];
    static const float start[] = {1, 0};
    struct wk_buffer judges = {.name = "parabola", .dims = 1, .shape = {3}, .decay = true};
    struct wk_buffer draws = {.name = "line", .dims = 1, .shape = {2}, .initial = start};
    struct wk_sgd_options fast = {.rate = 0.5, .weight_decay = 0.02}, slow = {.rate = 0.1};
    struct wk_loader_options deal = {.length = LENGTH, .batch = BATCH};
    struct wk_setting settings[] = {{"total_steps", "2000"}, {"log_every", "200"}};
    struct wk_options options = {.settings = settings, .n_settings = 2};
    struct wk_context *ctx;
    struct wk_loader *loader = NULL;
    struct wk_model *discriminator = NULL, *generator = NULL;
    struct wk_optimizer *of_discriminator = NULL, *of_generator = NULL;

    fill(numbers);
    wk_open(&options, &ctx);
    wk_source_bytes(ctx, numbers, sizeof(numbers), &deal.source);
    wk_loader_new(ctx, &deal, &loader);
    wk_custom_new(&judges, 1, &discriminator);
    wk_custom_new(&draws, 1, &generator);
    wk_sgd_new(&fast, &of_discriminator);
    wk_sgd_new(&slow, &of_generator);
    wk_optimizer_over(of_discriminator, discriminator);
    wk_optimizer_over(of_generator, generator);
    wk_prepare_all(ctx, WK_OBJECT(discriminator), WK_OBJECT(of_discriminator), WK_OBJECT(generator),
                   WK_OBJECT(of_generator), WK_OBJECT(loader));

    for (struct wk_batch batch; wk_next(loader, &batch);) {
        int64_t first, count;
        wk_split(ctx, batch.global_samples, false, &first, &count);
        discriminate(discriminator, wk_parameter_data(generator, 0), &batch, first);
        wk_backward(discriminator);
        wk_step(of_discriminator);

        generate(generator, wk_parameter_data(discriminator, 0), &batch, first);
        wk_backward(generator);
        wk_step(of_generator);
        if (wk_steps(ctx) % EVERY == 0)
            wk_log(ctx, "generator_loss", wk_model_loss(generator));
    }
    wk_gather_parameters(generator);
    const float *line = wk_parameter_data(generator, 0);
    if (!wk_status(ctx))
        wk_print(ctx, stdout, "draws with mean %.2f (of %.2f) and deviation %.2f (of %.2f)\n",
                 (double)line[1], MEAN, fabs((double)line[0]), DEVIATION);
    else
        wk_print_error(ctx, stderr);
    return wk_close(ctx);
}
