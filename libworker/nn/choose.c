#include "libworker/nn/choose.h"

#include <math.h>
#include <stdlib.h>

#include "libworker/nn/outputs.h"

/* The k-th largest logit, found by counting, as vocabularies are small beside a forward pass. */
static float kth_largest(const float *logits, int64_t vocab, int k)
{
    float bound = INFINITY;
    for (int64_t taken = 0; taken < k;) {
        float next = -INFINITY;
        for (int64_t i = 0; i < vocab; i++) {
            if (logits[i] < bound && logits[i] > next)
                next = logits[i];
        }
        for (int64_t i = 0; i < vocab; i++)
            taken += logits[i] == next;
        bound = next;
        if (next == -INFINITY)
            break;
    }
    return bound;
}

static int largest_first(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* A row of logits, its largest, and the logits below which there is no candidate. */
struct row {
    const float *logits;
    int64_t vocab;
    double largest, temperature;
    float floor;
};

/* In (0, 1]: its chance beside that of the largest. */
static double weight_of(const struct row *row, float logit)
{
    return exp(((double)logit - row->largest) / row->temperature);
}

static double weight_of_all(const struct row *row)
{
    double sum = 0;
    for (int64_t i = 0; i < row->vocab; i++) {
        if (row->logits[i] >= row->floor)
            sum += weight_of(row, row->logits[i]);
    }
    return sum;
}

/* The floor of the fewest candidates, largest first, that have the share `top_p` together. */
static float nucleus_floor(const struct row *row, double top_p, float *room)
{
    double wanted = top_p * weight_of_all(row), sum = 0;
    int64_t n = 0, last = 0;
    for (int64_t i = 0; i < row->vocab; i++) {
        if (row->logits[i] >= row->floor)
            room[n++] = row->logits[i];
    }
    qsort(room, (size_t)n, sizeof(*room), largest_first);
    for (; last < n; last++) {
        sum += weight_of(row, room[last]);
        if (sum >= wanted)
            return room[last];
    }
    return row->floor;
}

int32_t choose_token(const float *logits, int64_t vocab, const struct choice *how, double chance,
                     float *room)
{
    int32_t best = likeliest_token(logits, vocab);
    if (how->temperature == 0)
        return best;
    struct row row = {logits, vocab, (double)logits[best], how->temperature, -INFINITY};
    if (how->top_k > 0 && how->top_k < vocab)
        row.floor = kth_largest(logits, vocab, how->top_k);
    if (how->top_p > 0 && how->top_p < 1)
        row.floor = nucleus_floor(&row, how->top_p, room);
    double left = chance * weight_of_all(&row);
    for (int32_t i = 0; i < vocab; i++) {
        if (logits[i] < row.floor)
            continue;
        left -= weight_of(&row, logits[i]);
        if (left < 0)
            return i;
    }
    return best;
}
