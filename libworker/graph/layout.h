/* Offsets of pieces of memory that are needed at different times. Two that are needed at one time
 * do not overlap; others may. The largest piece is placed first, each at the lowest free offset.
 * Networks' regions are then a few percent above the least possible. Source: Pisarchyk and Lee
 * 2020, "Efficient memory management for deep neural net inference", greedy by size. Pure. */
#ifndef GRAPH_LAYOUT_H
#define GRAPH_LAYOUT_H

#include <stddef.h>

enum { LAYOUT_ALIGN_BYTES = 64 };

struct storage {
    size_t bytes;
    int first, last; /* launches that touch it, inclusive; first > last: none */
    size_t offset;   /* the result; a multiple of LAYOUT_ALIGN_BYTES */
};

/* Bytes up to the next piece. */
size_t layout_rounded(size_t bytes);

/* Bytes of the pieces that the fullest of the launches needs: no region is smaller. WK_ENOMEM:
 * (size_t)-1. */
size_t layout_live(const struct storage *storages, int n, int launches);

/* Set all offsets. Returns the region's size. WK_ENOMEM if there is none to sort in: (size_t)-1. */
size_t layout_place(struct storage *storages, int n);

#endif
