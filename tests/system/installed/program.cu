/* A CUDA program on an installed libworker: its pass runs on the GPU where there is one, else on the
 * host. Parameters and gradients lie in libworker's host memory, so each pass copies them.
 */
#include <cstdio>
#include <cuda_runtime.h>
#include <worker/worker.h>

enum { SIZE = 256 };

/* The loss is the mean of (parameter - 2)^2; each thread has one element. */
static __host__ __device__ float gradient_of(float parameter)
{
    return 2 * (parameter - 2) / SIZE;
}

static __global__ void pass_kernel(const float *parameters, float *gradients)
{
    int i = static_cast<int>(threadIdx.x);
    gradients[i] = gradient_of(parameters[i]);
}

static bool pass_on_device(const float *parameters, float *gradients)
{
    float *memory = nullptr;
    if (cudaMalloc(&memory, 2 * SIZE * sizeof(*memory)) != cudaSuccess)
        return false;
    cudaMemcpy(memory, parameters, SIZE * sizeof(*memory), cudaMemcpyHostToDevice);
    pass_kernel<<<1, SIZE>>>(memory, memory + SIZE);
    bool done = cudaMemcpy(gradients, memory + SIZE, SIZE * sizeof(*memory), cudaMemcpyDeviceToHost) == cudaSuccess;
    cudaFree(memory);
    return done;
}

static void pass(const float *parameters, float *gradients)
{
    for (int i = 0; i < SIZE; i++)
        gradients[i] = gradient_of(parameters[i]);
}

int main()
{
    const wk_setting settings[] = {{"total_steps", "50"}};
    wk_options options = wk_options();
    options.settings = settings;
    options.n_settings = 1;
    wk_context *ctx = nullptr;
    wk_open(&options, &ctx);
    wk_buffer buffer = wk_buffer();
    buffer.name = "values";
    buffer.dims = 1;
    buffer.shape[0] = SIZE;
    wk_model *model = nullptr;
    wk_custom_new(&buffer, 1, &model);
    wk_sgd_options rate = wk_sgd_options();
    rate.rate = 0.25 * SIZE;
    wk_optimizer *sgd = nullptr;
    wk_sgd_new(&rate, &sgd);
    wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(sgd));

    int devices = 0;
    bool on_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
    while (wk_join(ctx, 1)) {
        const float *parameters = wk_parameter_data(model, 0);
        float *gradients = wk_parameter_grad(model, 0);
        if (!on_device || !pass_on_device(parameters, gradients))
            pass(parameters, gradients);
        wk_set_loss(model, static_cast<double>((parameters[0] - 2) * (parameters[0] - 2)));
        wk_backward(model);
        wk_step(sgd);
    }
    std::printf("rank %d of %d: %.3f\n", wk_rank(ctx), wk_world(ctx), static_cast<double>(*wk_parameter_data(model, 0)));
    wk_print_error(ctx, stderr);
    int code = wk_close(ctx);
    wk_optimizer_free(sgd);
    wk_model_free(model);
    return code;
}
