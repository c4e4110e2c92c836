#include "libworker/device/rehearsal/declared.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/base/assert.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/memory.h"

/* Segments and the gaps before, between and after them. */
enum { PARTS_MAX = 2 * SEGMENTS_MAX + 1, GAP = 0 };

struct part {
    char *at;
    size_t bytes;
    int use; /* enum device_use, or GAP */
};

/* The pages that a launch may touch, and their bytes in order. */
struct opened {
    struct rehearsal *rehearsal;
    const struct work *work;
    struct {
        char *at, *end;
    } windows[SEGMENTS_MAX];
    int n_windows;
    struct part parts[PARTS_MAX];
    int n_parts;
    size_t bytes;
    char *saved, *first; /* content before the run, and after its first pass: [bytes] */
};

static int by_address(const void *a, const void *b)
{
    const char *x = *(const char *const *)a, *y = *(const char *const *)b;
    return (x > y) - (x < y);
}

int declared_segments(const struct device_range *ranges, int n_ranges,
                      struct segment ret[SEGMENTS_MAX])
{
    char *bounds[SEGMENTS_MAX] = {0};
    int n_bounds = 0, n = 0;
    for (int i = 0; i < n_ranges; i++) {
        bounds[n_bounds++] = (char *)(uintptr_t)ranges[i].at;
        bounds[n_bounds++] = (char *)(uintptr_t)ranges[i].at + ranges[i].bytes;
    }
    qsort(bounds, (size_t)n_bounds, sizeof(*bounds), by_address);
    for (int b = 0; b + 1 < n_bounds; b++) {
        unsigned use = 0;
        for (int i = 0; i < n_ranges; i++) {
            const char *at = ranges[i].at;
            if (at <= bounds[b] && bounds[b] < at + ranges[i].bytes)
                use |= ranges[i].use;
        }
        if (use & DEVICE_UPDATE)
            use &= DEVICE_UPDATE;
        size_t bytes = (size_t)(bounds[b + 1] - bounds[b]);
        if (use && bytes)
            ret[n++] = (struct segment){bounds[b], bytes, (enum device_use)use};
    }
    return n;
}

static void part_add(struct opened *o, char *at, const char *end, int use)
{
    if (at == end)
        return;
    insist(o->n_parts < PARTS_MAX);
    o->parts[o->n_parts++] = (struct part){at, (size_t)(end - at), use};
    o->bytes += (size_t)(end - at);
}

static void list_parts(struct opened *o)
{
    uintptr_t mask = o->rehearsal->page - 1;
    char *end = NULL; /* of the parts so far */
    for (int i = 0; i < o->work->n_segments; i++) {
        const struct segment *segment = &o->work->segments[i];
        char *low = segment->at - ((uintptr_t)segment->at & mask);
        char *high = segment->at + segment->bytes;
        high += -(uintptr_t)high & mask;
        if (o->n_windows && low <= o->windows[o->n_windows - 1].end) {
            part_add(o, end, segment->at, GAP);
        } else {
            if (o->n_windows)
                part_add(o, end, o->windows[o->n_windows - 1].end, GAP);
            o->windows[o->n_windows++].at = low;
            part_add(o, low, segment->at, GAP);
        }
        o->windows[o->n_windows - 1].end = high;
        end = segment->at + segment->bytes;
        part_add(o, segment->at, end, (int)segment->use);
    }
    part_add(o, end, o->windows[o->n_windows - 1].end, GAP);
}

static void protect(struct opened *o, int protection)
{
    for (int i = 0; i < o->n_windows; i++)
        pages_protect(o->windows[i].at, (size_t)(o->windows[i].end - o->windows[i].at), protection);
}

static void copy_out(const struct opened *o, char *to)
{
    for (int i = 0; i < o->n_parts; to += o->parts[i++].bytes)
        memcpy(to, o->parts[i].at, o->parts[i].bytes);
}

/* The launch may not depend on the content of these bytes. */
static bool is_hidden(const struct part *part)
{
    return part->use == GAP || part->use == DEVICE_WRITE || part->use == DEVICE_SCRATCH;
}

static void prepare(struct opened *o, int pass)
{
    const char *saved = o->saved;
    for (int i = 0; i < o->n_parts; saved += o->parts[i++].bytes) {
        const struct part *part = &o->parts[i];
        if (is_hidden(part))
            poison_fill(part->at, part->bytes, pass);
        else
            memcpy(part->at, saved, part->bytes);
    }
}

static size_t first_difference(const char *a, const char *b, size_t bytes)
{
    size_t i = 0;
    if (!memcmp(a, b, bytes))
        return bytes;
    while (a[i] == b[i])
        i++;
    return i;
}

static bool report(struct opened *o, const char *address, const char *what)
{
    char text[SPAN_TEXT_MAX];
    struct span *span = span_at(o->rehearsal, address);
    rehearsal_found(o->rehearsal, "launch \"%s\" %s: %s", o->work->name, what,
                    span_text(span, address, text));
    return false;
}

/* What may not be written is as it was. */
static bool check_unwritten(struct opened *o, int pass)
{
    const char *saved = o->saved;
    for (int i = 0; i < o->n_parts; saved += o->parts[i++].bytes) {
        const struct part *part = &o->parts[i];
        size_t at = part->bytes;
        if (part->use == GAP)
            at = poison_missing(part->at, part->bytes, pass);
        else if (part->use == DEVICE_READ)
            at = first_difference(part->at, saved, part->bytes);
        if (at < part->bytes)
            return report(o, part->at + at,
                          part->use == GAP ? "writes bytes that it did not declare"
                                           : "writes bytes that it declared as read");
    }
    return true;
}

/* Both passes had the same results. */
static bool check_results(struct opened *o)
{
    const char *first = o->first;
    for (int i = 0; i < o->n_parts; first += o->parts[i++].bytes) {
        const struct part *part = &o->parts[i];
        if (part->use == GAP || part->use == DEVICE_SCRATCH)
            continue;
        size_t at = first_difference(part->at, first, part->bytes);
        if (at == part->bytes)
            continue;
        size_t word = part->bytes - at < sizeof(float) ? part->bytes - at : sizeof(float);
        bool left = part->use == DEVICE_WRITE && poison_missing(part->at + at, word, 1) == word;
        return report(
            o, part->at + at,
            left ? "does not write all bytes of a range that it declared as written, or copies "
                   "undeclared bytes there"
                 : "has results that depend on bytes that it did not declare as read");
    }
    return true;
}

static void settle(struct opened *o)
{
    const char *saved = o->saved;
    for (int i = 0; i < o->n_parts; saved += o->parts[i++].bytes)
        if (o->parts[i].use == GAP)
            memcpy(o->parts[i].at, saved, o->parts[i].bytes);
        else if (o->parts[i].use == DEVICE_SCRATCH)
            poison_fill(o->parts[i].at, o->parts[i].bytes, 0);
}

/* On the queue's fiber. */
static void run_launch(void *arg)
{
    struct work *work = arg;
    fiber_acquire(work);
    work->run(work->queue, work->args);
    fiber_release(work->tag);
}

/* Both copies stay for the next launch: new memory for each takes longer than to fill it, above all
 * with a sanitizer. */
static void copies_open(struct opened *o)
{
    struct rehearsal *r = o->rehearsal;
    if (r->copies_bytes < 2 * o->bytes) {
        free(r->copies);
        r->copies_bytes = 4 * o->bytes;
        r->copies = malloc(r->copies_bytes);
        insist(r->copies);
    }
    o->saved = r->copies;
    o->first = r->copies + o->bytes;
}

void declared_run(struct rehearsal *r, struct work *work)
{
    struct fiber *fiber = line_of(work->queue)->fiber;
    if (!work->n_segments) {
        fiber_call(fiber, run_launch, work);
        return;
    }
    struct opened o = {.rehearsal = r, .work = work};
    list_parts(&o);
    copies_open(&o);
    protect(&o, PROT_READ | PROT_WRITE);
    fiber_hide_begin();
    copy_out(&o, o.saved);
    bool right = true;
    for (int pass = 0; pass < 2 && right && !r->base.code; pass++) {
        prepare(&o, pass);
        fiber_call(fiber, run_launch, work);
        right = check_unwritten(&o, pass);
        if (pass == 0)
            copy_out(&o, o.first);
        else if (right)
            right = check_results(&o);
    }
    settle(&o);
    fiber_hide_end();
    protect(&o, PROT_NONE);
}
