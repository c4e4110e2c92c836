/* A generated data set for examples: small grey images of the ten digits. They are drawn from a
 * bitmap font of 5x7 in other sizes, places, slants and inks, with noise. Nothing is loaded: an
 * image follows from its set and number. Pure; any thread. */
#ifndef IMAGES_DIGITS_H
#define IMAGES_DIGITS_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/rows.h>

enum { DIGITS_SIDE = 16, DIGITS_PIXELS = DIGITS_SIDE * DIGITS_SIDE, DIGITS_KINDS = 10 };

/* The fields of a sample: pixels[1, 16, 16], about 0 to 1, and its label. */
enum { DIGITS_FIELDS = 2 };
extern const struct wk_field digits_fields[DIGITS_FIELDS];

struct digits {
    uint64_t set; /* samples of two sets are different images */
    bool augment; /* shift by up to two pixels and add other noise in every epoch */
};

/* wk_row_options.read, whose `arg` is a struct digits. */
int digits_read(void *digits, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields);

#endif
