/* The numbers of one step: losses, norms, flags. Launches write them into device memory; the host
 * reads all of them at once, which is the only wait of a step.
 *
 *     numbers_clear(numbers, queue);
 *     queue_launch(queue, …);               writes numbers_at(numbers)[i]
 *     numbers_fetch(numbers, queue);        enqueues the copy
 *     numbers_wait(numbers, &values, err);  waits for it
 *
 * Owned by the caller, freed before the device; the device's thread. A fetch must have been waited
 * for before the next one and before the numbers are freed.
 */
#ifndef DEVICE_NUMBERS_H
#define DEVICE_NUMBERS_H

#include "libworker/device/device.h"

enum { NUMBERS_MAX = 512 };

struct numbers;

/* `count` in 1..NUMBERS_MAX. WK_ENOMEM. */
int numbers_new(struct device *device, int count, struct numbers **ret_numbers, struct error *err);
void numbers_free(struct numbers *numbers); /* NULL is fine */

/* [count] in device memory: what a launch declares. */
double *numbers_at(const struct numbers *numbers);

/* Enqueue zeros for all of them / a copy of all of them to the host. Neither waits. */
void numbers_clear(struct numbers *numbers, struct queue *queue);
void numbers_fetch(struct numbers *numbers, struct queue *queue);

/* Wait for the latest fetch. ret_values[count] stays valid until the next fetch. Returns the
 * device's failure. */
int numbers_wait(struct numbers *numbers, const double **ret_values, struct error *err);

#endif
