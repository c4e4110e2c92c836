/* Every allocation of the seam and the CPU device fails in turn: the result is WK_ENOMEM, nothing
 * leaks (AddressSanitizer's build sees to that), and a later try succeeds. */
#include <worker/error.h>

#include "libworker/device/cpu.h"
#include "tests/conformance/device/programs.h"
#include "tests/lib/fault.h"

/* Make all kinds of objects, use them and free them. */
static int make_and_free(struct error *err)
{
    struct device *device = NULL;
    struct queue *queue = NULL;
    struct numbers *numbers = NULL;
    const double *values = NULL;
    int rc = device_cpu_new(&device, err);
    if (rc)
        return rc;
    rc = queue_new(device, &queue, err);
    if (!rc)
        rc = numbers_new(device, 3, &numbers, err);
    if (!rc) {
        numbers_clear(numbers, queue);
        numbers_fetch(numbers, queue);
        rc = numbers_wait(numbers, &values, err);
    }
    numbers_free(numbers);
    queue_free(queue);
    device_free(device);
    return rc;
}

static void each_allocation_may_fail(void)
{
    int n = 1;
    for (;; n++) {
        struct error err = {0};
        fault_in(n);
        int rc = make_and_free(&err);
        if (!fault_struck()) {
            CHECK(rc == 0);
            break;
        }
        CHECK(rc == WK_ENOMEM && err.code == WK_ENOMEM && strstr(err.text, "memory"));
    }
    CHECK(n == 4); /* the device, a queue, the numbers */
}

/* A failure has a code even if there is no memory for its sentence. */
static void a_failure_needs_no_memory(void)
{
    struct device *device = NULL;
    struct error err = {0};
    CHECK(device_cpu_new(&device, NULL) == 0);
    struct queue *queue = a_queue(device);
    fault_in(1);
    queue_fail(queue, WK_EIO, "a sentence");
    CHECK(fault_struck());
    CHECK(device_failure(device, &err) == WK_EIO && strstr(err.text, "no memory for its sentence"));
    queue_free(queue);
    device_free(device);
}

static const struct check_case cases[] = {
    CHECK_CASE(each_allocation_may_fail),
    CHECK_CASE(a_failure_needs_no_memory),
    {0},
};

int main(int argc, char **argv)
{
    return check_all(cases, argc, argv);
}
