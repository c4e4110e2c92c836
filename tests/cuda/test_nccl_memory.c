/* Memory that NCCL shares between the ranks (libworker/cuda/nccl_memory.h), in whole trainings of
 * processes over the fake NCCL, whose rules are in docs/nccl.md.
 *
 *     cuda_nccl_memory [CASE]
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/device/wire_ops.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/wires_run.h"

/* Of a rank: gradients, and what is gathered; in f32 also its shard. In a narrow type parameters
 * are gathered in place. What takes turns in memory, as fsdp's blocks do, is not shared. */
static void what_is_used_in_each_step_is_shared(void)
{
    static const int in_f32[] = {1, 3, 3, 1}, narrow[] = {1, 2, 2, 0};
    for (int s = 0; s < 4; s++) {
        struct run run = {.strategy = strategies[s], .ranks = 2};
        same_bits(&run);
        CHECK(own_wires_shared(wires) == 2 * in_f32[s] && !own_wires_unshared(wires));
        run.precision = "bf16";
        same_bits(&run);
        CHECK(own_wires_shared(wires) == 2 * narrow[s] && !own_wires_unshared(wires));
    }
}

/* Gradients that are summed in two bytes are other memory. */
static void a_hook_shares_its_own(void)
{
    struct run run = {.strategy = "ddp", .ranks = 3, .hook = "bf16"};
    same_bits(&run);
    CHECK(own_wires_shared(wires) == 3 && !own_wires_unshared(wires));
}

/* Each row of the mesh does so by itself. */
static void groups_share_theirs(void)
{
    same_bits(&(struct run){.strategy = "fsdp", .ranks = 4, .replicas = "2"});
    CHECK(own_wires_shared(wires) == 4 * 1);
}

/* Sums are the device's, in its order. */
static void fast_sums_use_it(void)
{
    for (int s = 0; s < 3; s += 2) {
        struct run run = {.strategy = strategies[s], .ranks = 2, .on = OWN, .sums = "fast"};
        play_well(&run);
        CHECK(own_wires_shared(wires) == (s ? 6 : 2));
        check_same(&scene->told[0], &scene->told[1]);
    }
}

/* One rank has ordinary memory: the others have to see that. */
static void all_ranks_share_or_none(void)
{
    for (int s = 0; s < 3; s += 2) {
        struct run run = {
            .strategy = strategies[s], .ranks = 3, .timeout = "2s", .fault = OWN_WIRES_SCARCE};
        same_bits(&run);
        CHECK(!own_wires_shared(wires) && own_wires_unshared(wires) == (s ? 9 : 3));
    }
}

/* A shard of another world has memory of its own, made and freed between two communicators. */
static void survivors_share_again(void)
{
    for (int s = 0; s < 4; s++) {
        struct tmpdir dir = tmpdir_make();
        struct run run = {.strategy = strategies[s],
                          .ranks = 3,
                          .steps = "12",
                          .kills = true,
                          .dir = dir.path,
                          .on = OWN};
        play_well(&run);
        CHECK(own_wires_shared(wires) >= (s % 3 ? 5 * 3 : 5) && !own_wires_unshared(wires));
        CHECK(scene->told[0].losses[LONG_STEPS] > 0);
        check_same(&scene->told[0], &scene->told[1]);
        tmpdir_remove(&dir);
    }
}

/* The ranks train on without, by another communicator, and do not try again. */
static void where_windows_fail_no_memory_is_shared(void)
{
    for (int s = 0; s < 3; s += 2) {
        struct run run = {
            .strategy = strategies[s], .ranks = 3, .timeout = "2s", .fault = OWN_WIRES_NO_WINDOWS};
        same_bits(&run);
        CHECK(own_wires_unshared(wires) == (s ? 6 : 0));
        for (int i = 0; i < 3; i++)
            CHECK(strstr(scene->told[i].notices, "the ranks' devices do not share memory: "));
        CHECK(strstr(scene->told[2].notices, "memory: NCCL, "));
    }
}

/* Until it has worked. */
static void await_wire(const struct wire_ops *ops, struct device_wire *wire)
{
    int rc = WIRE_PENDING;
    while (rc == WIRE_PENDING)
        rc = ops->ready(wire, NULL);
    CHECK(!rc);
}

static void share(const struct wire_ops *ops, struct device_wire *wire, void *at, size_t bytes)
{
    CHECK(ops->shares(wire, at));
    CHECK(!ops->enroll(wire, &(struct wire_memory){at, bytes, true}, NULL));
    await_wire(ops, wire);
}

/* Memory of `bytes` is freed while its wire is open, then the rest is used. */
static void free_in_between(int rank, const unsigned char *id)
{
    enum { BYTES = 8192 };
    struct device *device = own_wires_device((uint64_t)rank, NULL, NULL);
    struct device_wire *wire = NULL;
    void *first = NULL, *second = NULL, *third = NULL;
    own_wires_give(wires, device, OWN_WIRES_WORK);
    const struct wire_ops *ops = device_wires(device);
    struct queue *queue = NULL;
    CHECK(!queue_new(device, &queue, NULL));
    CHECK(!wire_zeros_new(queue, BYTES, &first, NULL)); /* not prepared: ordinary memory */
    ops->prepare(device);
    CHECK(!wire_zeros_new(queue, BYTES, &second, NULL));
    CHECK(!wire_zeros_new(queue, BYTES, &third, NULL));
    CHECK(!ops->open(device, &(struct wire_place){id, rank, 2}, &wire, NULL));
    await_wire(ops, wire);
    CHECK(!ops->shares(wire, first) && !ops->shares(wire, (char *)second + 1));
    CHECK(!ops->enroll(wire, &(struct wire_memory){first, BYTES, false}, NULL));
    share(ops, wire, second, BYTES);
    share(ops, wire, third, BYTES);
    device_memory_free(device, second, BYTES);
    device_memory_free(device, first, BYTES);
    const struct wire_message sum = {WIRE_SUM, third, third, BYTES / sizeof(float), WK_F32, 0};
    CHECK(!ops->enqueue(wire, queue, &sum, NULL));
    CHECK(!queue_finish(queue, NULL));
    ops->close(wire);
    device_memory_free(device, third, BYTES);
    queue_free(queue);
    device_free(device);
}

static void memory_may_be_freed_before_its_wire(void)
{
    unsigned char id[WIRE_ID_BYTES] = {0};
    pid_t pids[2];
    int status;
    own_wires_clear(wires);
    own_wires_id(wires, id);
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank] == 0) {
            free_in_between(rank, id);
            _exit(0);
        }
    }
    for (int rank = 0; rank < 2; rank++) {
        CHECK(waitpid(pids[rank], &status, 0) == pids[rank]);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(what_is_used_in_each_step_is_shared),
        CHECK_CASE(a_hook_shares_its_own),
        CHECK_CASE(groups_share_theirs),
        CHECK_CASE(fast_sums_use_it),
        CHECK_CASE(all_ranks_share_or_none),
        CHECK_CASE(survivors_share_again),
        CHECK_CASE(where_windows_fail_no_memory_is_shared),
        CHECK_CASE(memory_may_be_freed_before_its_wire),
        {0},
    };
    scene_new();
    return check_all(cases, argc, argv);
}
