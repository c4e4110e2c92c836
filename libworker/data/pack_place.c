#include "libworker/data/pack_place.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/array.h"
#include "libworker/data/permute.h"

struct open_sample {
    int64_t number, used; /* of the samples made so far; positions in it */
};

struct packer {
    struct pack *pack;
    int pieces_capacity;
    struct placed {
        int64_t sample;
        struct piece piece;
    } * placed; /* [n], in the order in which they were placed */
    int64_t n;
    struct open_sample open[PACK_OPEN_MAX];
    int n_open;
};

static int place(struct packer *p, int64_t sample, const struct piece *piece, struct error *err)
{
    if (p->n == PACK_PIECES_MAX)
        return error_set(err, WK_EINVAL, "more than %lld pieces of documents to pack",
                         (long long)PACK_PIECES_MAX);
    struct placed *grown =
        array_reserve_or_null(p->placed, (int)p->n, &p->pieces_capacity, sizeof(*p->placed));
    if (!grown)
        return error_set(err, WK_ENOMEM, "no memory to pack documents");
    p->placed = grown;
    p->placed[p->n++] = (struct placed){sample, *piece};
    return 0;
}

/* The first open sample with room, or a new one. The oldest is closed when too many are open. */
static struct open_sample *first_fit(struct packer *p, int64_t count)
{
    for (int i = 0; i < p->n_open; i++)
        if (p->pack->packing.length - p->open[i].used >= count)
            return &p->open[i];
    if (p->n_open == PACK_OPEN_MAX)
        memmove(p->open, p->open + 1, (size_t)--p->n_open * sizeof(*p->open));
    p->open[p->n_open] = (struct open_sample){.number = p->pack->samples++};
    return &p->open[p->n_open++];
}

/* A document longer than a sample becomes several pieces in either way. */
static int place_document(struct packer *p, int64_t document, int64_t length, struct error *err)
{
    int64_t whole = p->pack->packing.length;
    int rc = 0;
    for (int64_t first = 0, count; first < length && !rc; first += count) {
        int64_t left = length - first;
        count = left < whole ? left : whole;
        struct open_sample *open = first_fit(p, p->pack->packing.cut ? 1 : count);
        if (count > whole - open->used)
            count = whole - open->used;
        struct piece piece = {document, (int32_t)first, (int32_t)count};
        rc = place(p, open->number, &piece, err);
        open->used += count;
    }
    return rc;
}

static int place_all(struct packer *p, struct error *err)
{
    const struct rows *rows = p->pack->documents;
    struct permutation order;
    permutation_init(&order, (uint64_t)rows->given.count, p->pack->packing.seed, 0);
    int rc = 0;
    for (int64_t i = 0; i < rows->given.count && !rc; i++) {
        int64_t length, document = i;
        if (p->pack->packing.seed)
            document = (int64_t)permutation_at(&order, (uint64_t)i);
        rc = rows_length_of(rows, document, &length, err);
        if (!rc)
            rc = place_document(p, document, length, err);
    }
    if (!rc && !p->n)
        return error_set(err, WK_EINVAL, "all documents are empty: there is nothing to pack");
    return rc;
}

/* From the order of placing to that of samples, which keeps the order within each. */
static int sort_pieces(struct packer *p, struct error *err)
{
    struct pack *pack = p->pack;
    pack->ends = calloc((size_t)pack->samples + 1, sizeof(*pack->ends));
    pack->pieces = malloc((size_t)p->n * sizeof(*pack->pieces));
    if (!pack->ends || !pack->pieces)
        return error_set(err, WK_ENOMEM, "no memory to pack documents");
    pack->n_pieces = p->n;
    for (int64_t i = 0; i < p->n; i++)
        pack->ends[p->placed[i].sample + 1]++;
    for (int64_t s = 0; s < pack->samples; s++)
        pack->ends[s + 1] += pack->ends[s];
    for (int64_t i = 0; i < p->n; i++) /* ends[s] moves from the sample's begin to its end */
        pack->pieces[pack->ends[p->placed[i].sample]++] = p->placed[i].piece;
    return 0;
}

int pack_place(struct pack *pack, struct error *err)
{
    struct packer packer = {.pack = pack};
    int rc = place_all(&packer, err);
    if (!rc)
        rc = sort_pieces(&packer, err);
    free(packer.placed);
    return rc;
}
