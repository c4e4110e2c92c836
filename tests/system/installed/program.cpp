/* A C++ program on an installed libworker: a model of its own, y = a x + b, whose data it makes
 * itself. Prints the versions and what it has learned.
 */
#include <cstdio>
#include <vector>

#include <worker/worker.h>

static void pass(wk_model *model, const std::vector<float> &x)
{
    const float *weight = wk_parameter_data(model, 0);
    const float *bias = wk_parameter_data(model, 1);
    float *dweight = wk_parameter_grad(model, 0);
    float *dbias = wk_parameter_grad(model, 1);
    double loss = 0;
    for (float value : x) {
        float difference = weight[0] * value + bias[0] - (3 * value - 1);
        dweight[0] += 2 * difference * value;
        dbias[0] += 2 * difference;
        loss += static_cast<double>(difference * difference);
    }
    wk_set_loss(model, loss);
}

int main()
{
    static_assert(WK_VERSION >= WK_VERSION_NUMBER(0, 1, 0), "too old");
    std::printf("headers %d library %d %s\n", WK_VERSION, wk_version(), wk_version_text());

    const wk_setting settings[] = {{"total_steps", "200"}};
    wk_options options = wk_options();
    options.settings = settings;
    options.n_settings = 1;
    wk_context *ctx = nullptr;
    wk_open(&options, &ctx);

    wk_buffer buffers[2] = {};
    buffers[0].name = "weight";
    buffers[1].name = "bias";
    for (wk_buffer &buffer : buffers) {
        buffer.dims = 1;
        buffer.shape[0] = 1;
    }
    wk_model *model = nullptr;
    wk_custom_new(buffers, 2, &model);
    wk_sgd_options rate = wk_sgd_options();
    rate.rate = 0.1;
    wk_optimizer *sgd = nullptr;
    wk_sgd_new(&rate, &sgd);
    wk_schedule_options steady = wk_schedule_options();
    steady.kind = WK_SCHEDULE_CONSTANT;
    wk_scheduler *schedule = nullptr;
    wk_scheduler_new(sgd, &steady, &schedule);
    wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(sgd), WK_OBJECT(schedule));

    const std::vector<float> x = {-1, -0.5F, 0, 0.5F, 1};
    while (wk_join(ctx, static_cast<double>(x.size()))) {
        pass(model, x);
        wk_backward(model);
        wk_step(sgd);
        wk_scheduler_step(schedule);
    }
    std::printf("rank %d of %d: %.3f %.3f\n", wk_rank(ctx), wk_world(ctx), static_cast<double>(*wk_parameter_data(model, 0)),
                static_cast<double>(*wk_parameter_data(model, 1)));
    wk_print_error(ctx, stderr);
    int code = wk_close(ctx);
    wk_scheduler_free(schedule);
    wk_optimizer_free(sgd);
    wk_model_free(model);
    return code;
}
