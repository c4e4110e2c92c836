/* What becomes of a window's summed gradients, in memory of the place that has them. Launches write
 * and read these numbers, so that nothing waits between the sums and the update; the host gets them
 * with one fetch.
 *
 *     open ──► measure ──► clip ──► judge ──► the update's launches ──► fetch, wait
 *
 * measure may be repeated, and followed by other limits; clip and judge use the latest. Owned by
 * the caller, freed before the queue; the queue's thread.
 */
#ifndef OPTIM_VERDICT_H
#define OPTIM_VERDICT_H

#include <stdbool.h>

#include "common/base/error.h"

struct queue;

/* Each is a double, so that they are numbers of device/numbers.h. */
struct verdict_values {
    double scale;   /* the update multiplies the sums with it */
    double squares; /* of the sums; a strategy's launches write it */
    double norm;    /* of the sums times scale, as last measured; 0 before */
    double finite;  /* 1: every sum was, when first measured, before any limit; else 0 */
    double pass;    /* the loss of a pass that the host was not asked for */
    double loss;    /* the sum of such losses of the window, rounded to float after each */
    double applies; /* 1: the update is done; 0: it leaves everything as it is */
};

struct verdict {
    struct queue *queue; /* borrowed */
    struct numbers *numbers;
    struct verdict_values *at; /* in the device's memory */
};

/* WK_ENOMEM; WK_EUNSUPPORTED: the device has no kernel for a launch of an update. */
int verdict_init(struct verdict *verdict, struct queue *queue, struct error *err);
void verdict_fini(struct verdict *verdict); /* zeroed memory is allowed */

/* Zeros: for the next window. Zeroed memory is allowed. */
void verdict_clear(struct verdict *verdict);

/* A pass is done, whose loss is in `pass`: add it times `share`. Take the sum back to the host, for
 * other ranks: waits; it is 0 here then. */
void verdict_add_loss(struct verdict *verdict, double share);
int verdict_take_loss(struct verdict *verdict, double *ret_loss, struct error *err);

/* The sums are complete, and the caller may know whether they are finite. */
enum verdict_sums { VERDICT_UNKNOWN, VERDICT_FINITE, VERDICT_NONFINITE };
void verdict_open(struct verdict *verdict, double scale, enum verdict_sums sums);

/* The squares are there. `first` of a window whose sums were unknown: finite is whether the squares
 * are, since those of floats do not overflow a double. */
void verdict_measure(struct verdict *verdict, bool first);

/* Multiply scale so that the norm is at most max_norm (clip_factor). */
void verdict_clip(struct verdict *verdict, double max_norm);

/* Decide: applies if the sums, the scale, and `loss` plus the loss here are finite. */
void verdict_judge(struct verdict *verdict, double loss);

/* Wait for everything above. ret_values stays valid until the next fetch. The device's failure. */
int verdict_fetch(struct verdict *verdict, const struct verdict_values **ret_values,
                  struct error *err);

#endif
