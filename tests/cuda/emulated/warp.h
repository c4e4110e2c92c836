/* What the threads of a warp or a block do together: barriers, votes, shuffles, products of
 * matrices, copies into shared memory. C++.
 */
#ifndef EMULATED_WARP_H
#define EMULATED_WARP_H

#include <stdint.h>
#include <string.h>

#include "tests/cuda/emulated/lane.h"
#include "tests/cuda/emulated/types.h"

/* The caller's place, for messages. */
#define EMULATED_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(EMULATED_HERE)
{
    const struct emulated_place place = {"__syncthreads", file, line};
    (void)emulated_barrier(&place, false);
}
inline int __syncthreads_count(int vote, EMULATED_HERE)
{
    const struct emulated_place place = {"__syncthreads_count", file, line};
    return emulated_barrier(&place, vote != 0);
}
inline int __syncthreads_or(int vote, EMULATED_HERE)
{
    const struct emulated_place place = {"__syncthreads_or", file, line};
    return emulated_barrier(&place, vote != 0) > 0;
}
inline int __syncthreads_and(int vote, EMULATED_HERE)
{
    const struct emulated_place place = {"__syncthreads_and", file, line};
    return emulated_barrier(&place, vote == 0) == 0;
}

/* A meeting to which this lane brings a value of at most 32 bytes. */
class emulated_exchange
{
    struct emulated_meeting *meeting;

  public:
    template <class T>
    emulated_exchange(const struct emulated_place &place, unsigned mask, const T &value)
    {
        static_assert(sizeof(T) <= sizeof(struct emulated_words), "a lane brings 32 bytes");
        struct emulated_words words = {};
        memcpy(&words, &value, sizeof(value));
        meeting = emulated_meet(&place, mask, &words);
    }
    emulated_exchange(const emulated_exchange &) = delete;
    emulated_exchange &operator=(const emulated_exchange &) = delete;
    ~emulated_exchange()
    {
        emulated_leave(meeting);
    }
    template <class T> T of(int lane) const
    {
        T value;
        struct emulated_words words;
        emulated_brought(meeting, lane, &words);
        memcpy(&value, &words, sizeof(value));
        return value;
    }
};

inline int emulated_lane_number()
{
    return emulated_now->number % EMULATED_WARP;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATED_HERE)
{
    const struct emulated_place place = {"__syncwarp", file, line};
    emulated_exchange exchange(place, mask, 0);
}

/* One bit of each lane in the mask. */
inline unsigned emulated_votes(const struct emulated_place &place, unsigned mask, bool vote)
{
    emulated_exchange exchange(place, mask, vote);
    unsigned votes = 0;
    for (int i = 0; i < EMULATED_WARP; i++) {
        if (mask >> i & 1 && exchange.of<bool>(i))
            votes |= 1u << i;
    }
    return votes;
}
inline unsigned __ballot_sync(unsigned mask, int vote, EMULATED_HERE)
{
    return emulated_votes({"__ballot_sync", file, line}, mask, vote != 0);
}
inline int __any_sync(unsigned mask, int vote, EMULATED_HERE)
{
    return emulated_votes({"__any_sync", file, line}, mask, vote != 0) != 0;
}
inline int __all_sync(unsigned mask, int vote, EMULATED_HERE)
{
    return emulated_votes({"__all_sync", file, line}, mask, vote != 0) == mask;
}

/* The value of lane `from`, or this lane's own where `from` is in another segment. */
template <class T>
inline T emulated_shuffle(const struct emulated_place &place, unsigned mask, T value, int from)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
    emulated_exchange exchange(place, mask, value);
    return exchange.of<T>(from);
}
template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32, EMULATED_HERE)
{
    int lane = emulated_lane_number(), first = lane & ~(width - 1);
    return emulated_shuffle<T>({"__shfl_sync", file, line}, mask, value,
                               first + (from & (width - 1)));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATED_HERE)
{
    int lane = emulated_lane_number(), first = lane & ~(width - 1), from = lane - (int)by;
    return emulated_shuffle<T>({"__shfl_up_sync", file, line}, mask, value,
                               from < first ? lane : from);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32, EMULATED_HERE)
{
    int lane = emulated_lane_number(), end = (lane & ~(width - 1)) + width, from = lane + (int)by;
    return emulated_shuffle<T>({"__shfl_down_sync", file, line}, mask, value,
                               from >= end ? lane : from);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMULATED_HERE)
{
    int lane = emulated_lane_number(), end = (lane & ~(width - 1)) + width, from = lane ^ bits;
    return emulated_shuffle<T>({"__shfl_xor_sync", file, line}, mask, value,
                               from >= end ? lane : from);
}

#endif
