/* The largest magnitudes a tensor had in its last steps, and the scale that makes the largest of
 * them the largest number of an 8-bit format: delayed scaling. Plain data, part of a checkpoint;
 * pure. Source: Micikevicius et al. 2022, "FP8 Formats for Deep Learning", section 3.
 */
#ifndef PRECISION_AMAX_H
#define PRECISION_AMAX_H

enum { AMAX_HISTORY_MAX = 64 };

struct amax_history {
    float values[AMAX_HISTORY_MAX]; /* a ring; zero: nothing seen */
    int length;                     /* steps remembered, 1 … AMAX_HISTORY_MAX */
    int next;                       /* position of the next one */
};

/* One step's largest magnitude; one that is not finite is left out. */
void amax_note(struct amax_history *history, float amax);

/* Factor for the tensor before rounding to a format with largest number `largest`: a power of two,
 * with `margin` of them to spare; 1 before the first value. */
float amax_scale(const struct amax_history *history, float largest, int margin);

#endif
