/* Documents of different lengths in samples of one length (worker/rows.h, wk_packing).
 *
 *      documents                        aaaaa cccccccc bbb dd
 *      samples of 8, whole documents    aaaaabbb cccccccc dd……
 *                    cut                aaaaaccc cccccbbb dd……
 *
 * A piece is a part of one document in one sample, mostly all of it. The pieces are found once,
 * from the documents' lengths alone. So a sample depends on its number only, and each position of
 * each document is in exactly one.
 *
 * Owned by its source; immutable. Any number of threads may read, if the program's functions allow
 * that.
 */
#ifndef DATA_PACK_H
#define DATA_PACK_H

#include "libworker/data/rows.h"

enum { PACK_OPEN_MAX = 64 }; /* samples that may still get a document */
#define PACK_PIECES_MAX ((int64_t)1 << 28)

struct piece {
    int64_t document;
    int32_t first, count; /* positions of it */
};

struct pack {
    struct rows *documents;
    struct wk_packing packing;
    struct wk_field fields[WK_FIELDS_MAX]; /* of packed samples */
    int n_fields, targets, starts;         /* `targets`: the one that is made here, or -1 */
    int64_t *ends;                         /* [samples]: its pieces end here */
    struct piece *pieces;                  /* of sample 0, then of sample 1, … */
    int64_t samples, n_pieces;
};

/* The pack of the options' documents. `ret_options` describes its samples as rows, and has the pack
 * as its argument. WK_EINVAL with a sentence, WK_ENOMEM, or a length that is out of bounds. */
int pack_new(const struct wk_row_options *options, struct pack **ret,
             struct wk_row_options *ret_options, struct error *err);
void pack_free(struct pack *pack); /* NULL is fine */

/* Of the documents and of how they are packed. */
uint64_t pack_digest(const struct pack *pack);

#endif
