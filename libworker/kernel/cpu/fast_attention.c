/* The fast attention kernels, built once per instruction set with KERNEL_FAST_ATTENTION naming the
 * object (attention_tiles.h). Checked against reference_attention.c by test_attention.c.
 *
 * A head's keys and values are copied once, in float and as products read them. Then tiles of
 * queries pass over tiles of keys. Few queries, as in decoding, read keys and values in place.
 *
 * Order of sums
 * - A score: by element of the head.
 * - A row's sum and its output, and dq: tile by tile of ATTENTION_COLS keys from position 0. Within
 *   a tile they are in vectors of keys and in parts of DEPTH. Few queries: of DIRECT_COLS keys.
 * - dk and dv: by head of the group, by tile of queries.
 */
#include <math.h>
#include <string.h>

#include "libworker/kernel/cpu/attention_tiles.h"
#include "libworker/kernel/cpu/fast_direct.h"
#include "libworker/kernel/cpu/fast_rows.h"
#include "libworker/kernel/cpu/fast_strip.h"

enum { ROWS = ATTENTION_ROWS, COLS = ATTENTION_COLS, SCORES = ATTENTION_SCORES };
enum { STRIPS = ROWS / STRIP };
enum { DEPTH = 128 }; /* of a product at once: that part of b stays in the first-level cache */

/* Scores are in units of log 2, so that their exponentials are powers of 2. */
static const float LOG2_E = 1.44269504088896341f, LN_2 = 0.693147180559945309f;

enum { MASK_UNIT = 16 }; /* a row is computed in such parts of itself */

/* One head of one sample, and the call's memory. Copies of keys and values have rows of `padded`
 * elements; turned ones are panels [size, WIDTH] of WIDTH keys. */
struct head {
    const struct kernel_attention *a;
    const struct attention_data *data;
    int64_t sample, head, padded;
    int32_t *first, *end; /* spans of the sample */
    float *keys_turned, *values_turned, *keys, *values, *dkeys, *dvalues;
    float *q, *dout,
        *sum; /* [ROWS, padded]: q in units of scores; dout; out or dq while it is summed */
    float *scores, *dscores; /* [ROWS, SCORES]: scores become probabilities, and their gradients */
    float *max, *total;      /* [ROWS]: forward; backward `total` is rowsum(dout * out) */
};

/* Rows row0 to row0 + rows - 1 with keys key0 to key0 + cols - 1. Of these strip i sees from[i] to
 * to[i] - 1. */
struct tile {
    int64_t row0, rows, key0, cols;
    int64_t from[STRIPS], to[STRIPS];
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t rounded_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* The next `floats` of the scratch memory, from a line on. */
static float *carve(char **at, int64_t floats)
{
    uintptr_t line = 64, start = ((uintptr_t)*at + line - 1) / line * line;
    *at = (char *)start + (size_t)floats * sizeof(float);
    return (float *)start;
}

static struct head head_new(const struct kernel_attention *a, const struct attention_data *data,
                            bool backward)
{
    struct head h = {.a = a, .data = data, .padded = attention_padded(a->size)};
    int64_t copy = attention_keys_padded(a->keys) * h.padded, rows = ROWS * h.padded;
    char *at = data->scratch;
    h.first = (int32_t *)carve(&at, a->length);
    h.end = (int32_t *)carve(&at, a->length);
    h.keys_turned = carve(&at, copy);
    if (backward) {
        h.values_turned = carve(&at, copy);
        h.keys = carve(&at, copy);
        h.dkeys = carve(&at, copy);
        h.dvalues = carve(&at, copy);
        h.dout = carve(&at, rows);
        h.dscores = carve(&at, ROWS * SCORES);
    } else {
        h.values = carve(&at, copy);
    }
    h.q = carve(&at, rows);
    h.sum = carve(&at, rows);
    h.scores = carve(&at, ROWS * SCORES);
    h.max = carve(&at, ROWS);
    h.total = carve(&at, ROWS);
    return h;
}

static struct rows rows_of(const struct head *h, const void *x, const struct attention_stride *s,
                           const int64_t head, enum wk_dtype type)
{
    int64_t bytes = type == WK_F32 ? (int64_t)sizeof(float) : (int64_t)sizeof(uint16_t);
    int64_t at = h->sample * s->sample + head * h->a->size;
    return (struct rows){(char *)x + at * bytes, type, s->row * bytes, h->a->size * bytes};
}

/* to[count, padded] = factor * x from row0 on, with zeros right of it and below up to `until`. */
static void copy_rows(const struct head *h, float *to, struct rows x, const int64_t span[3],
                      float factor)
{
    const int64_t size = h->a->size, padded = h->padded;
    for (int64_t i = 0; i < span[1]; i++) {
        float *restrict row = to + i * padded;
        rows_ask(&x, span[0] + i + ROWS_AHEAD);
        row_widen(row, x.base + (span[0] + i) * x.row_bytes, x.type, size);
        for (int64_t d = 0; d < size && factor != 1; d++)
            row[d] *= factor;
        memset(row + size, 0, (size_t)(padded - size) * sizeof(*row));
    }
    memset(to + span[1] * padded, 0, (size_t)((span[2] - span[1]) * padded) * sizeof(*to));
}

/* Panels of WIDTH keys, elements by rows, from x[keys, padded]. */
static void turn_rows(const struct head *h, float *to, const float *x)
{
    const int64_t keys = rounded_up(h->a->keys, ATTENTION_PANEL), size = h->a->size;
    for (int64_t key = 0; key < keys; key += LANES) {
        float *panel = to + key / WIDTH * WIDTH * size + key % WIDTH;
        for (int64_t d = 0; d < size; d += LANES)
            vector_transpose(panel + d * WIDTH, WIDTH, x + key * h->padded + d, h->padded,
                             size - d);
    }
}

/* scores = left turned^T, of the strips that see a part of a panel. */
static void tile_scores(const struct head *h, const struct tile *t, float *scores,
                        const float *left, const float *turned)
{
    const int64_t size = h->a->size;
    for (int64_t j = 0; j < t->cols; j += WIDTH) {
        for (int64_t i = 0; i * STRIP < t->rows; i++) {
            if (t->from[i] >= j + WIDTH || t->to[i] <= j)
                continue;
            strip_product(&(struct strip){.a = left + i * STRIP * h->padded,
                                          .a_row = h->padded,
                                          .a_step = 1,
                                          .b = turned + (t->key0 + j) * size,
                                          .b_row = WIDTH,
                                          .c = scores + i * STRIP * SCORES + j,
                                          .c_row = SCORES,
                                          .depth = size,
                                          .fresh = true},
                          VECTORS);
        }
    }
}

/* sum[rows, padded] += scores right, with right[keys, padded] from the tile's first key on. */
static void tile_add_rows(const struct head *h, const struct tile *t, const float *scores,
                          const float *right)
{
    const int64_t padded = h->padded;
    for (int64_t l = 0; l < t->cols; l += DEPTH) {
        for (int64_t d = 0; d < padded; d += WIDTH) {
            for (int64_t i = 0; i * STRIP < t->rows; i++) {
                int64_t from = larger(t->from[i], l), to = smaller(t->to[i], l + DEPTH);
                if (from >= to)
                    continue;
                strip_product(&(struct strip){.a = scores + i * STRIP * SCORES + from,
                                              .a_row = SCORES,
                                              .a_step = 1,
                                              .b = right + (t->key0 + from) * padded + d,
                                              .b_row = padded,
                                              .c = h->sum + i * STRIP * padded + d,
                                              .c_row = padded,
                                              .depth = to - from},
                              smaller(padded - d, WIDTH) / LANES);
            }
        }
    }
}

/* The rows that see any of the keys key to key + STRIP - 1 of the tile are between these. */
static void rows_seeing(const struct tile *t, int64_t key, int64_t *ret_from, int64_t *ret_to)
{
    int64_t from = 0, to = (t->rows + STRIP - 1) / STRIP;
    while (from < to && (t->from[from] >= key + STRIP || t->to[from] <= key))
        from++;
    while (to > from && (t->from[to - 1] >= key + STRIP || t->to[to - 1] <= key))
        to--;
    *ret_from = from * STRIP;
    *ret_to = smaller(to * STRIP, t->rows);
}

/* keys[cols, padded] += scores^T right, with right[rows, padded]. */
static void tile_add_keys(const struct head *h, const struct tile *t, float *keys,
                          const float *scores, const float *right)
{
    const int64_t padded = h->padded;
    for (int64_t d = 0; d < padded; d += WIDTH) {
        for (int64_t j = 0; j < t->cols; j += STRIP) {
            int64_t from, to;
            rows_seeing(t, j, &from, &to);
            if (from >= to)
                continue;
            strip_product(&(struct strip){.a = scores + from * SCORES + j,
                                          .a_row = 1,
                                          .a_step = SCORES,
                                          .b = right + from * padded + d,
                                          .b_row = padded,
                                          .c = keys + (t->key0 + j) * padded + d,
                                          .c_row = padded,
                                          .depth = to - from},
                          smaller(padded - d, WIDTH) / LANES);
        }
    }
}

/* A row's part of a tile: [from, to) is seen; [begin, end) around it in whole units is computed. */
struct part {
    int64_t from, to, begin, end;
};

static struct part part_of(const struct head *h, const struct tile *t, int64_t row)
{
    int64_t from = larger(h->first[t->row0 + row] - t->key0, 0);
    int64_t to = smaller(h->end[t->row0 + row] - t->key0, t->cols);
    if (from >= to)
        return (struct part){0, 0, 0, 0};
    return (struct part){from, to, from / MASK_UNIT * MASK_UNIT, rounded_up(to, MASK_UNIT)};
}

/* What is not seen becomes `value` where it is computed, and 0 elsewhere, to a strip beyond. */
static void part_mask(float *row, const struct part *p, const struct tile *t, float value)
{
    memset(row, 0, (size_t)p->begin * sizeof(*row));
    for (int64_t i = p->begin; i < p->from; i++)
        row[i] = value;
    for (int64_t i = p->to; i < p->end; i++)
        row[i] = value;
    memset(row + p->end, 0, (size_t)(t->cols + STRIP - p->end) * sizeof(*row));
}

/* What dropout multiplies the probabilities of a row by. */
static void row_shares(const struct head *h, const struct tile *t, int64_t row,
                       const struct part *p, float *restrict shares)
{
    const struct kernel_attention *a = h->a;
    const uint64_t key =
        attention_row_key(a->key, a->first_sample + h->sample, a->first_head + h->head,
                          a->keys - a->length + t->row0 + row);
    const uint32_t limit = (uint32_t)attention_limit(a->keep); /* keep is below 1 here */
    const float grown = 1.0f / a->keep;
    for (int64_t i = p->begin; i < p->end; i++)
        shares[i] = noise_bits(key, (uint64_t)(t->key0 + i)) < limit ? grown : 0.0f;
}

static float part_max(const float *row, const struct part *p)
{
    vec most = vector_load(row + p->begin);
    for (int64_t i = p->begin + LANES; i < p->end; i += LANES)
        most = vector_larger(vector_load(row + i), most);
    return vector_largest(most);
}

/* row = 2^(row - max); returns the sum. */
static float part_powers(float *row, const struct part *p, float max)
{
    vec sum = {0};
    for (int64_t i = p->begin; i < p->end; i += LANES) {
        vec power = vector_power(vector_load(row + i) - max);
        vector_store(row + i, power);
        sum += power;
    }
    return vector_total(sum);
}

/* A row's scores become powers over its largest score up to here, and what was summed before is
 * scaled to that. */
static void row_forward(const struct head *h, const struct tile *t, int64_t row)
{
    struct part p = part_of(h, t, row);
    float *restrict scores = h->scores + row * SCORES;
    part_mask(scores, &p, t, -INFINITY);
    if (p.from >= p.to)
        return;
    float before = h->max[row], largest = part_max(scores, &p);
    float max = largest > before ? largest : before;
    float total = part_powers(scores, &p, max);
    if (max != before) {
        float scale = exp2f(before - max);
        float *sum = h->sum + row * h->padded;
        for (int64_t d = 0; d < h->padded; d += LANES)
            vector_store(sum + d, vector_load(sum + d) * scale);
        h->total[row] *= scale;
        h->max[row] = max;
    }
    h->total[row] += total;
    if (h->a->keep < 1) {
        float shares[COLS];
        row_shares(h, t, row, &p, shares);
        for (int64_t i = p.begin; i < p.end; i++)
            scores[i] *= shares[i];
    }
}

/* A row's scores become probabilities after dropout, and the gradients of the probabilities those
 * of the scores. */
static void row_backward(const struct head *h, const struct tile *t, int64_t row)
{
    struct part p = part_of(h, t, row);
    float *scores = h->scores + row * SCORES, *d = h->dscores + row * SCORES;
    const float lse = h->max[row], delta = h->total[row];
    part_mask(scores, &p, t, -INFINITY);
    part_mask(d, &p, t, 0);
    if (h->a->keep >= 1) {
        for (int64_t i = p.begin; i < p.end; i += LANES) {
            vec prob = vector_power(vector_load(scores + i) - lse);
            vector_store(scores + i, prob);
            vector_store(d + i, prob * (vector_load(d + i) - delta));
        }
        return;
    }
    float shares[COLS];
    row_shares(h, t, row, &p, shares);
    for (int64_t i = p.begin; i < p.end; i += LANES) {
        vec prob = vector_power(vector_load(scores + i) - lse), share = vector_load(shares + i);
        vector_store(scores + i, prob * share);
        vector_store(d + i, prob * (vector_load(d + i) * share - delta));
    }
}

/* The spans of the strips within the tile's keys. */
static void tile_strips(const struct head *h, struct tile *t)
{
    for (int64_t i = 0; i * STRIP < t->rows; i++) {
        t->from[i] = t->cols;
        t->to[i] = 0;
        for (int64_t row = i * STRIP; row < smaller((i + 1) * STRIP, t->rows); row++) {
            struct part p = part_of(h, t, row);
            if (p.from < p.to) {
                t->from[i] = smaller(t->from[i], p.from);
                t->to[i] = larger(t->to[i], p.to);
            }
        }
    }
}

typedef void tile_fn(const struct head *h, const struct tile *t);

/* Each tile of keys that a tile of queries sees any of, in order. */
static void each_tile(const struct head *h, int64_t row0, int64_t rows, tile_fn *visit)
{
    int64_t from = h->a->keys, to = 0;
    for (int64_t i = row0; i < row0 + rows; i++) {
        if (h->first[i] < h->end[i]) {
            from = smaller(from, h->first[i]);
            to = larger(to, h->end[i]);
        }
    }
    for (int64_t key = from / COLS * COLS; key < to; key += COLS) {
        struct tile t = {.row0 = row0, .rows = rows};
        t.key0 = larger(key, from / ATTENTION_PANEL * ATTENTION_PANEL);
        t.cols = rounded_up(smaller(key + COLS, to) - t.key0, ATTENTION_PANEL);
        tile_strips(h, &t);
        visit(h, &t);
    }
}

static void tile_forward(const struct head *h, const struct tile *t)
{
    tile_scores(h, t, h->scores, h->q, h->keys_turned);
    for (int64_t row = 0; row < t->rows; row++)
        row_forward(h, t, row);
    tile_add_rows(h, t, h->scores, h->values);
}

/* Nothing is summed yet. */
static void row_begin(const struct head *h, int64_t row)
{
    memset(h->sum + row * h->padded, 0, (size_t)h->padded * sizeof(*h->sum));
    h->max[row] = -INFINITY;
    h->total[row] = 0;
}

/* All is summed: the query's result. */
static void row_end(const struct head *h, int64_t row, int64_t query)
{
    const struct kernel_attention *a = h->a;
    struct rows out = rows_of(h, h->data->out, &a->out, h->head, a->type);
    bool any = h->first[query] < h->end[query];
    float *restrict sum = h->sum + row * h->padded, inverse = any ? 1.0f / h->total[row] : 0.0f;
    for (int64_t d = 0; d < a->size; d++)
        sum[d] *= inverse;
    row_narrow(out.base + query * out.row_bytes, a->type, sum, a->size);
    h->data->lse[(h->sample * a->heads + h->head) * a->length + query] =
        any ? (h->max[row] + log2f(h->total[row])) * LN_2 : -INFINITY;
}

static void rows_forward(const struct head *h, int64_t row0)
{
    const struct kernel_attention *a = h->a;
    int64_t rows = smaller(a->length - row0, ROWS);
    copy_rows(h, h->q, rows_of(h, h->data->q, &a->q, h->head, a->type),
              (int64_t[]){row0, rows, rounded_up(rows, STRIP)}, a->scale * LOG2_E);
    for (int64_t i = 0; i < ROWS; i++)
        row_begin(h, i);
    each_tile(h, row0, rows, tile_forward);
    for (int64_t i = 0; i < rows; i++)
        row_end(h, i, row0 + i);
}

enum { DIRECT_LENGTH = 4, DIRECT_COLS = 128 };

/* Products of one query with the tile's keys: a few keys at a time for all heads, as heads are side
 * by side in memory. */
static void tile_direct(struct head *h, const struct tile *t, int64_t to, bool values)
{
    const struct kernel_attention *a = h->a;
    const int64_t group = a->heads / a->kv_heads, padded = h->padded;
    for (int64_t j = 0; j < t->cols; j += MASK_UNIT) {
        const int64_t span[3] = {t->key0 + j, MASK_UNIT, to};
        for (h->head = 0; h->head < a->heads; h->head++) {
            float *scores = h->scores + h->head * SCORES + j;
            struct rows x = rows_of(h, values ? h->data->v : h->data->k, values ? &a->v : &a->k,
                                    h->head / group, a->type);
            if (values)
                direct_add(h->sum + h->head * padded, scores, &x, span, padded);
            else
                direct_scores(scores, h->q + h->head * padded, &x, span, padded);
        }
    }
}

/* One query of all heads without copies; row r is head r's. */
static void query_direct(struct head *h, int64_t query)
{
    const struct kernel_attention *a = h->a;
    const int64_t from = h->first[query], to = h->end[query];
    for (h->head = 0; h->head < a->heads; h->head++) {
        copy_rows(h, h->q + h->head * h->padded, rows_of(h, h->data->q, &a->q, h->head, a->type),
                  (int64_t[]){query, 1, 1}, a->scale * LOG2_E);
        row_begin(h, h->head);
    }
    for (int64_t key = from / DIRECT_COLS * DIRECT_COLS; key < to; key += DIRECT_COLS) {
        struct tile t = {.key0 = key};
        t.cols = smaller(rounded_up(to - key, MASK_UNIT), DIRECT_COLS);
        tile_direct(h, &t, to, false);
        for (h->head = 0; h->head < a->heads; h->head++) {
            t.row0 = query - h->head;
            row_forward(h, &t, h->head);
        }
        tile_direct(h, &t, to, true);
    }
    for (h->head = 0; h->head < a->heads; h->head++)
        row_end(h, h->head, query);
}

static void forward_direct(struct head *h)
{
    for (h->sample = 0; h->sample < h->a->samples; h->sample++) {
        attention_spans(h->a, h->sample, h->first, h->end);
        for (int64_t query = 0; query < h->a->length; query++)
            query_direct(h, query);
    }
}

static void forward(const struct kernel_attention *a, const struct attention_data *data)
{
    struct head h = head_new(a, data, false);
    if (a->length <= DIRECT_LENGTH && a->heads <= ROWS) {
        forward_direct(&h);
        return;
    }
    const int64_t group = a->heads / a->kv_heads, keys = rounded_up(a->keys, ATTENTION_PANEL);
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        h.sample = i / a->heads;
        h.head = i % a->heads;
        if (h.head == 0)
            attention_spans(a, h.sample, h.first, h.end);
        if (h.head % group == 0) {
            const int64_t all[3] = {0, a->keys, keys};
            copy_rows(&h, h.values, rows_of(&h, data->k, &a->k, h.head / group, a->type), all, 1);
            turn_rows(&h, h.keys_turned, h.values);
            copy_rows(&h, h.values, rows_of(&h, data->v, &a->v, h.head / group, a->type), all, 1);
        }
        for (int64_t row = 0; row < a->length; row += ROWS)
            rows_forward(&h, row);
    }
}

static void tile_backward(const struct head *h, const struct tile *t)
{
    tile_scores(h, t, h->scores, h->q, h->keys_turned);
    tile_scores(h, t, h->dscores, h->dout, h->values_turned);
    for (int64_t row = 0; row < t->rows; row++)
        row_backward(h, t, row);
    tile_add_keys(h, t, h->dvalues, h->scores, h->dout);
    tile_add_keys(h, t, h->dkeys, h->dscores, h->q);
    tile_add_rows(h, t, h->dscores, h->keys);
}

/* delta[rows] = sum over d of dout * out; `row` is room for one of out. */
static void rows_delta(const struct head *h, int64_t row0, int64_t rows, float *restrict row)
{
    const struct kernel_attention *a = h->a;
    struct rows out = rows_of(h, h->data->out, &a->out, h->head, a->type);
    for (int64_t i = 0; i < rows; i++) {
        const float *restrict dout = h->dout + i * h->padded;
        float sum = 0;
        row_widen(row, out.base + (row0 + i) * out.row_bytes, a->type, a->size);
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < a->size; d++)
            sum += dout[d] * row[d];
        h->total[i] = sum;
    }
}

static void rows_backward(const struct head *h, int64_t row0)
{
    const struct kernel_attention *a = h->a;
    int64_t rows = smaller(a->length - row0, ROWS);
    const int64_t span[3] = {row0, rows, rounded_up(rows, STRIP)};
    struct rows dq = rows_of(h, h->data->dq, &a->q, h->head, a->grad_type);
    copy_rows(h, h->q, rows_of(h, h->data->q, &a->q, h->head, a->type), span, h->a->scale * LOG2_E);
    copy_rows(h, h->dout, rows_of(h, h->data->dout, &a->out, h->head, a->grad_type), span, 1);
    rows_delta(h, row0, rows, h->sum);
    const float *lse = h->data->lse + (h->sample * a->heads + h->head) * a->length + row0;
    for (int64_t i = 0; i < rows; i++)
        h->max[i] = lse[i] * LOG2_E;
    memset(h->sum, 0, (size_t)(ROWS * h->padded) * sizeof(*h->sum));
    each_tile(h, row0, rows, tile_backward);
    for (int64_t i = 0; i < rows; i++) {
        float *restrict sum = h->sum + i * h->padded;
        for (int64_t d = 0; d < a->size; d++)
            sum[d] *= a->scale;
        row_narrow(dq.base + (row0 + i) * dq.row_bytes, dq.type, sum, a->size);
    }
}

static void group_begin(const struct head *h, int64_t kv_head)
{
    const struct kernel_attention *a = h->a;
    const int64_t keys = attention_keys_padded(a->keys);
    const int64_t all[3] = {0, a->keys, keys};
    copy_rows(h, h->keys, rows_of(h, h->data->k, &a->k, kv_head, a->type), all, 1);
    turn_rows(h, h->keys_turned, h->keys);
    copy_rows(h, h->dkeys, rows_of(h, h->data->v, &a->v, kv_head, a->type), all, 1);
    turn_rows(h, h->values_turned, h->dkeys);
    memset(h->dkeys, 0, (size_t)(keys * h->padded) * sizeof(*h->dkeys));
    memset(h->dvalues, 0, (size_t)(keys * h->padded) * sizeof(*h->dvalues));
}

static void group_end(const struct head *h, int64_t kv_head)
{
    const struct kernel_attention *a = h->a;
    struct rows dk = rows_of(h, h->data->dk, &a->k, kv_head, a->grad_type);
    struct rows dv = rows_of(h, h->data->dv, &a->v, kv_head, a->grad_type);
    for (int64_t i = 0; i < a->keys; i++) {
        for (int64_t d = 0; d < a->size; d++)
            h->dkeys[i * h->padded + d] *= LN_2;
        row_narrow(dk.base + i * dk.row_bytes, dk.type, h->dkeys + i * h->padded, a->size);
        row_narrow(dv.base + i * dv.row_bytes, dv.type, h->dvalues + i * h->padded, a->size);
    }
}

static void backward(const struct kernel_attention *a, const struct attention_data *data)
{
    struct head h = head_new(a, data, true);
    const int64_t group = a->heads / a->kv_heads;
    for (int64_t i = 0; i < a->samples * a->heads; i++) {
        h.sample = i / a->heads;
        h.head = i % a->heads;
        if (h.head == 0)
            attention_spans(a, h.sample, h.first, h.end);
        if (h.head % group == 0)
            group_begin(&h, h.head / group);
        for (int64_t row = 0; row < a->length; row += ROWS)
            rows_backward(&h, row);
        if (h.head % group == group - 1)
            group_end(&h, h.head / group);
    }
}

const struct attention_kernels KERNEL_FAST_ATTENTION = {forward, backward};
