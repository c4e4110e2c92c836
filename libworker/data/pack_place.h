/* The places of a pack's documents. Pure, but for the program's function of lengths. */
#ifndef DATA_PACK_PLACE_H
#define DATA_PACK_PLACE_H

#include "libworker/data/pack.h"

/* Set pack->pieces, ends, samples and n_pieces from the documents' lengths. WK_EINVAL: a length is
 * out of bounds, or there are too few or too many. WK_ENOMEM. */
int pack_place(struct pack *pack, struct error *err);

#endif
