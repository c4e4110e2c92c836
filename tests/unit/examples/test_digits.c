/* The generated digits: the same in every run, other ones by set, number and epoch, and so much
 * alike within a label that they can be told apart, though not by the mean image alone. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "examples/images/digits.h"

struct image {
    float pixels[DIGITS_PIXELS];
    int32_t label;
};

static struct image read_one(struct digits digits, int64_t sample, int64_t epoch)
{
    struct image image = {.label = -1};
    void *const fields[] = {image.pixels, &image.label};
    cr_assert_eq(digits_read(&digits, sample, epoch, 1, fields), 0);
    return image;
}

static bool same_pixels(const struct image *a, const struct image *b)
{
    return memcmp(a->pixels, b->pixels, sizeof(a->pixels)) == 0;
}

Test(digits, depend_on_set_and_number_and_with_augmentation_on_the_epoch)
{
    static const struct digits plain = {.set = 0}, other = {.set = 1},
                               augmented = {.set = 0, .augment = true};
    int moved = 0;
    for (int64_t i = 0; i < 50; i++) {
        struct image a = read_one(plain, i, 0), b = read_one(plain, i, 7);
        cr_expect(same_pixels(&a, &b) && a.label == b.label);
        b = read_one(other, i, 0);
        cr_expect_not(same_pixels(&a, &b));
        b = read_one(plain, i + 1, 0);
        cr_expect_not(same_pixels(&a, &b));
        struct image c = read_one(augmented, i, 3), d = read_one(augmented, i, 4);
        b = read_one(augmented, i, 3);
        cr_expect(same_pixels(&b, &c));
        cr_expect_not(same_pixels(&c, &d));
        cr_expect(c.label == a.label && d.label == a.label);
        double apart = 0;
        for (int p = 0; p < DIGITS_PIXELS; p++)
            apart += fabs((double)(c.pixels[p] - d.pixels[p])) / DIGITS_PIXELS;
        moved += apart > 0.2; /* noise alone: 0.13 */
    }
    cr_expect(moved > 25, "%d of 50 are shifted", moved);
}

Test(digits, have_every_label_and_ink_inside_the_image)
{
    enum { N = 2000 };
    int seen[DIGITS_KINDS] = {0};
    for (int64_t i = 0; i < N; i++) {
        struct image image = read_one((struct digits){.set = 0}, i, 0);
        double sum = 0;
        cr_assert(image.label >= 0 && image.label < DIGITS_KINDS);
        seen[image.label]++;
        for (int p = 0; p < DIGITS_PIXELS; p++) {
            cr_assert(image.pixels[p] >= -0.2f && image.pixels[p] <= 1.2f);
            sum += (double)image.pixels[p];
        }
        cr_assert(sum > 5 && sum < 100, "%g of ink", sum);
    }
    for (int k = 0; k < DIGITS_KINDS; k++) /* five standard deviations */
        cr_expect(abs(seen[k] - N / DIGITS_KINDS) < 5 * 13.4, "%d of %d", seen[k], k);
}

static double ink_of(const struct image *image, int from_x, int to_x, int from_y, int to_y)
{
    double sum = 0;
    for (int y = from_y; y < to_y; y++)
        for (int x = from_x; x < to_x; x++)
            sum += (double)image->pixels[y * DIGITS_SIDE + x];
    return sum;
}

/* A seven has its bar above, a four its stem on the right. */
Test(digits, stand_upright_and_are_no_mirror_images)
{
    enum { HALF = DIGITS_SIDE / 2 };
    double above = 0, below = 0, left = 0, right = 0;
    for (int64_t i = 0; i < 1000; i++) {
        struct image image = read_one((struct digits){.set = 0}, i, 0);
        if (image.label == 7) {
            above += ink_of(&image, 0, DIGITS_SIDE, 0, HALF);
            below += ink_of(&image, 0, DIGITS_SIDE, HALF, DIGITS_SIDE);
        }
        if (image.label == 4) {
            left += ink_of(&image, 0, HALF, 0, DIGITS_SIDE);
            right += ink_of(&image, HALF, DIGITS_SIDE, 0, DIGITS_SIDE);
        }
    }
    cr_expect(above > 1.5 * below, "a seven has %g above and %g below", above, below);
    cr_expect(right > 1.3 * left, "a four has %g left and %g right", left, right);
}

/* The share of another set whose nearest mean image has their label. */
static double accuracy_of_means(void)
{
    enum { TRAIN = 2000, HELD_OUT = 500 };
    static double means[DIGITS_KINDS][DIGITS_PIXELS];
    int count[DIGITS_KINDS] = {0}, right = 0;
    for (int64_t i = 0; i < TRAIN; i++) {
        struct image image = read_one((struct digits){.set = 0}, i, 0);
        count[image.label]++;
        for (int p = 0; p < DIGITS_PIXELS; p++)
            means[image.label][p] += (double)image.pixels[p];
    }
    for (int64_t i = 0; i < HELD_OUT; i++) {
        struct image image = read_one((struct digits){.set = 1}, i, 0);
        int best = 0;
        double nearest = INFINITY;
        for (int k = 0; k < DIGITS_KINDS; k++) {
            double distance = 0;
            for (int p = 0; p < DIGITS_PIXELS; p++)
                distance += pow(means[k][p] / count[k] - (double)image.pixels[p], 2);
            best = distance < nearest ? k : best;
            nearest = fmin(distance, nearest);
        }
        right += best == image.label;
    }
    return (double)right / HELD_OUT;
}

Test(digits, can_be_told_apart_but_not_by_their_means)
{
    double accuracy = accuracy_of_means();
    cr_expect(accuracy > 0.5 && accuracy < 0.95, "%g", accuracy);
    printf("nearest mean: %g\n", accuracy);
}
