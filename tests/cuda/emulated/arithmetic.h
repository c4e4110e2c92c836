/* Functions of one thread: arithmetic, bits, loads, atomics on whole numbers. C++. */
#ifndef EMULATED_ARITHMETIC_H
#define EMULATED_ARITHMETIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/cuda/emulated/lane.h"

template <class T> inline T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> inline T max(T a, T b)
{
    return a < b ? b : a;
}
/* As fminf and fmaxf: the number, where one is NaN. */
inline float min(float a, float b)
{
    return fminf(a, b);
}
inline float max(float a, float b)
{
    return fmaxf(a, b);
}

inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
inline double rsqrt(double x)
{
    return 1.0 / sqrt(x);
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}

/* Rounded once each, never fused. */
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline double __dadd_rn(double a, double b)
{
    return a + b;
}
inline double __dmul_rn(double a, double b)
{
    return a * b;
}

template <class To, class From> inline To emulated_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}
inline unsigned __float_as_uint(float x)
{
    return emulated_bits<unsigned>(x);
}
inline float __uint_as_float(unsigned x)
{
    return emulated_bits<float>(x);
}
inline int __float_as_int(float x)
{
    return emulated_bits<int>(x);
}
inline float __int_as_float(int x)
{
    return emulated_bits<float>(x);
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((uint64_t)a * b >> 32);
}

/* Loads and stores that say how the caches should treat them. */
template <class T> inline T __ldg(const T *at)
{
    return *at;
}
template <class T> inline T __ldcs(const T *at)
{
    return *at;
}
template <class T> inline T __ldcg(const T *at)
{
    return *at;
}
template <class T> inline void __stcs(T *at, T value)
{
    *at = value;
}
template <class T> inline void __stcg(T *at, T value)
{
    *at = value;
}

inline void __trap()
{
    emulated_fault("__trap()");
}
inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_block()
{
    __threadfence();
}

/* They order what is before and after them, so that ThreadSanitizer, which knows no fences, sees
 * what __threadfence() orders. */
#define EMULATED_ATOMIC(name, builtin)                                                             \
    inline int name(int *at, int value)                                                            \
    {                                                                                              \
        return builtin(at, value, __ATOMIC_ACQ_REL);                                               \
    }                                                                                              \
    inline unsigned name(unsigned *at, unsigned value)                                             \
    {                                                                                              \
        return builtin(at, value, __ATOMIC_ACQ_REL);                                               \
    }                                                                                              \
    inline unsigned long long name(unsigned long long *at, unsigned long long value)               \
    {                                                                                              \
        return builtin(at, value, __ATOMIC_ACQ_REL);                                               \
    }
EMULATED_ATOMIC(atomicAdd, __atomic_fetch_add)
EMULATED_ATOMIC(atomicSub, __atomic_fetch_sub)
EMULATED_ATOMIC(atomicOr, __atomic_fetch_or)
EMULATED_ATOMIC(atomicAnd, __atomic_fetch_and)
EMULATED_ATOMIC(atomicExch, __atomic_exchange_n)
#undef EMULATED_ATOMIC

template <class T> inline T atomicCAS(T *at, T expected, T value)
{
    __atomic_compare_exchange_n(at, &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
}
template <class T> inline T atomicMax(T *at, T value)
{
    T found = *at;
    while (found < value && atomicCAS(at, found, value) != found)
        found = *at;
    return found;
}
template <class T> inline T atomicMin(T *at, T value)
{
    T found = *at;
    while (value < found && atomicCAS(at, found, value) != found)
        found = *at;
    return found;
}

#endif
