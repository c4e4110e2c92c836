/* How far apart two right results may be: from the type that sums are kept in and the number of
 * roundings behind a value, on any machine, in any order of the sums.
 *
 * A number rounded to a type is off by at most u of itself, half the distance of 1 to the next
 * number: 2^-24 in float32, 2^-53 in float64, 2^-8 in bf16, 2^-11 in fp16. A chain of n roundings
 * (a sum of n terms; several sums of which each reads the one before, their lengths added) is off
 * by at most n u in the worst case, which never happens: roundings go both ways, and n of them come
 * to sqrt(n) u (Higham and Mary 2019, "A new approach to probabilistic rounding error analysis",
 * theorem 2.4: within l sqrt(n) u but for a chance of 2 exp(-l^2 / 2)). l is 6 here: a chance of
 * 3e-8 for a number, so that thousands of numbers in hundreds of tests hold on every machine. Two
 * results that are compared are each off by as much, apart from each other: a factor of sqrt(2).
 *
 * The bound is relative to what is summed. For a sum whose terms cancel that is its largest partial
 * sum. Tests compare tensors of many such sums with the largest element of the tensor, which is as
 * large as partial sums get.
 *
 * A real mistake is far outside: a term left out of n is off by 1 / n or so of the result, a wrong
 * factor by all of it, while float32's bound for 1000 roundings is 2e-5.
 */
#ifndef LIB_ROUNDING_H
#define LIB_ROUNDING_H

#include <math.h>

#define ROUNDING_F32  0x1p-24
#define ROUNDING_F64  0x1p-53
#define ROUNDING_BF16 0x1p-8
#define ROUNDING_F16  0x1p-11

/* The most that two results of `roundings` roundings each by `unit` differ, as a share of the size
 * of what is summed. */
static inline double rounding_apart(double unit, double roundings)
{
    static const double certain = 6; /* standard deviations */
    return certain * sqrt(2 * roundings) * unit;
}

/* The same in float32. */
static inline double rounding_bound(double roundings)
{
    return rounding_apart(ROUNDING_F32, roundings);
}

/* Weights after training by Adam whose updates came to `moved` at most, the sum of the steps'
 * rates. An update is the rate times a gradient by the root of its own mean square: it is off by
 * the rate times the gradient's relative error. Where a gradient is tiny beside the largest of its
 * tensor that error is as much larger; the largest is allowed a hundred times the mean. A loss is
 * off by the mean times the gradient's norm, as weights are off this way and that. */
struct rounding_weights {
    double mean, largest; /* absolute */
};
static inline struct rounding_weights rounding_adam(double roundings, double moved)
{
    double mean = moved * rounding_bound(roundings);
    return (struct rounding_weights){mean, 100 * mean};
}

#endif
