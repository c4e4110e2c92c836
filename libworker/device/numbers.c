#include "libworker/device/numbers.h"

#include <stdlib.h>

#include <worker/error.h>

#include "common/base/assert.h"

struct numbers {
    struct device *device;
    size_t bytes;
    void *at;     /* device memory */
    void *values; /* pinned */
    struct event fetched;
};

int numbers_new(struct device *device, int count, struct numbers **ret_numbers, struct error *err)
{
    insist(count >= 1 && count <= NUMBERS_MAX);
    struct numbers *numbers = calloc(1, sizeof(*numbers));
    if (!numbers)
        return error_set(err, WK_ENOMEM, "no memory for a step's numbers");
    numbers->device = device;
    numbers->bytes = (size_t)count * sizeof(double);
    int rc = device_memory_new(device, numbers->bytes, &numbers->at, err);
    if (!rc)
        rc = device_pinned_new(device, numbers->bytes, &numbers->values, err);
    if (rc) {
        numbers_free(numbers);
        return rc;
    }
    *ret_numbers = numbers;
    return 0;
}

void numbers_free(struct numbers *numbers)
{
    if (!numbers)
        return;
    device_memory_free(numbers->device, numbers->at, numbers->bytes);
    device_pinned_free(numbers->device, numbers->values, numbers->bytes);
    free(numbers);
}

double *numbers_at(const struct numbers *numbers)
{
    return numbers->at;
}

void numbers_clear(struct numbers *numbers, struct queue *queue)
{
    queue_fill(queue, numbers->at, 0, numbers->bytes);
}

void numbers_fetch(struct numbers *numbers, struct queue *queue)
{
    queue_fetch(queue, numbers->values, numbers->at, numbers->bytes);
    numbers->fetched = event_record(queue);
}

int numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err)
{
    int rc = event_wait(numbers->fetched, err);
    if (!rc)
        *ret_values = numbers->values;
    return rc;
}
