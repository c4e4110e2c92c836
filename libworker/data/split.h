/* Dividing things between ranks. Pure; any thread.
 */
#ifndef DATA_SPLIT_H
#define DATA_SPLIT_H

#include <stdint.h>

/* The part of 0…total-1 that belongs to `rank`: contiguous, in rank order, sizes differ by at most
 * one with the larger ones first (17 over 4: 5, 4, 4, 4). 0 ≤ rank < world. */
void split_share(int64_t total, int rank, int world, int64_t *ret_first, int64_t *ret_count);

#endif
