/* Opening the module for GPUs, and which device a context chooses. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/module.h"
#include "libworker/step/compute.h"

static struct error err;

static int opens(const char *path)
{
    const struct module_table *table = NULL;
    err = (struct error){0};
    int rc = module_open(path, &table, &err);
    cr_assert_eq(!rc, table != NULL);
    return rc;
}

static void assert_told(const char *part)
{
    cr_assert(strstr(err.text, part), "%s", err.text);
}

Test(module, what_cannot_be_opened_is_told)
{
    cr_assert_eq(opens("/nowhere/libworker-cuda.so"), WK_ENOTFOUND);
    assert_told("there is no /nowhere/libworker-cuda.so, which MUSTER_CUDA_MODULE names");
    cr_assert_eq(opens(MODULE_OTHER_BUILD), WK_EMISMATCH);
    assert_told("is of Muster 0.0.9-0123456789ab, and this is ");
    assert_told("install both from one build");
    cr_assert_eq(opens(MODULE_NONE), WK_EMISMATCH);
    assert_told("is no module of Muster: it has no muster_cuda_module");
    cr_assert_eq(opens("/etc/passwd"), WK_EUNSUPPORTED);
    assert_told("cannot be loaded: ");
}

/* The test's folder and where packages install have none, unless this machine has Muster. */
Test(module, without_a_path_it_is_searched)
{
    int rc = opens("");
    if (rc == WK_ENOTFOUND)
        assert_told("there is no libworker-cuda.so in ");
    cr_assert(!rc || rc == WK_ENOTFOUND || rc == WK_EMISMATCH || rc == WK_EUNSUPPORTED);
}

Test(module, one_of_this_build_is_used)
{
    cr_assert_eq(opens(MODULE_GPUS), 0, "%s", err.text);
}

#ifdef MODULE_REAL
/* Here it is as if there were no GPU, also on a machine with some. */
Test(module, the_real_one_opens_without_a_gpu)
{
    const struct module_table *table = NULL;
    struct device *device = NULL;
    int count = 0;
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    cr_assert_eq(module_open(MODULE_REAL, &table, &err), 0, "%s", err.text);
    cr_assert_eq(table->count(&count, &err), WK_EUNSUPPORTED);
    cr_assert(strstr(err.text, "this machine has no NVIDIA driver") ||
                  strstr(err.text, "this process has no GPU") ||
                  strstr(err.text, "the NVIDIA driver is for CUDA"),
              "%s", err.text);
    cr_assert_eq(table->device_new(0, &device, &err), WK_EUNSUPPORTED);
    cr_assert_eq(table->plan_device_new(90, &device, &err), 0, "%s", err.text);
    cr_assert_str_eq(device_kernels(device), "cuda");
    device_free(device);
}
#endif

static int chooses(const char *kind, const char *gpus, int local_rank, struct compute *ret)
{
    const struct compute_options options = {.kind = kind,
                                            .module = MODULE_GPUS,
                                            .attention = "own",
                                            .compile = "auto",
                                            .local_rank = local_rank};
    setenv("GPUS", gpus, 1);
    err = (struct error){0};
    return compute_init(ret, &options, &err);
}

static void assert_on(struct compute *compute, const char *why)
{
    cr_assert_str_eq(compute->why, why);
    compute_fini(compute);
}

Test(compute, a_rank_has_the_gpu_of_its_local_rank)
{
    struct compute compute;
    cr_assert_eq(chooses("auto", "8", 3, &compute), 0);
    assert_on(&compute, "GPU 3, attention own");
    cr_assert_eq(chooses("cuda", "1", 3, &compute), 0);
    assert_on(&compute, "GPU 0, attention own");
    cr_assert_eq(chooses("cuda", "2", 2, &compute), WK_EUNSUPPORTED);
    assert_told("device is cuda: this process has 2 GPUs, and its local rank is 2");
    cr_assert_eq(chooses("auto", "2", 2, &compute), 0);
    assert_on(&compute, "this process has 2 GPUs, and its local rank is 2");
}

Test(compute, auto_is_the_cpu_where_there_is_no_gpu)
{
    struct compute compute;
    cr_assert_eq(chooses("auto", "0", 0, &compute), 0);
    assert_on(&compute, "this process has no GPU");
    cr_assert_eq(chooses("cpu", "8", 0, &compute), 0);
    assert_on(&compute, "device is cpu");
    cr_assert_eq(chooses("cuda", "0", 0, &compute), WK_EUNSUPPORTED);
    assert_told("device is cuda: this process has no GPU");
}

Test(compute, a_gpu_that_cannot_be_used_is_an_error)
{
    struct compute compute;
    cr_assert_eq(chooses("auto", "broken", 1, &compute), WK_EIO);
    assert_told("GPU 1 fell off the bus");
}

Test(compute, a_worker_has_the_gpus_that_its_agent_gave_it)
{
    struct compute compute;
    struct compute_options options = {.kind = "auto",
                                      .module = MODULE_GPUS,
                                      .attention = "own",
                                      .compile = "auto",
                                      .has_agent = true};
    setenv("GPUS", "1", 1);
    cr_assert_eq(compute_init(&compute, &options, &err), 0);
    assert_on(&compute, "the agent gave this worker no GPU");
    options.visible = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
    cr_assert_eq(compute_init(&compute, &options, &err), 0);
    assert_on(&compute, "GPU 0, attention own");
}
