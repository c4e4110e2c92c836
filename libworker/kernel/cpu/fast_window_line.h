/* Where one element of every window is in an image. Pure. Included by fast_windows.h only. */
#ifndef KERNEL_CPU_FAST_WINDOW_LINE_H
#define KERNEL_CPU_FAST_WINDOW_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

/* One element of every window: in window (y, x) it is at (y * stride + down, x * stride + right) of
 * the channel's plane. Windows [from, to) across have it inside. */
struct window_line {
    int64_t down, right, from, to;
    int64_t windows_down, windows_across;
};

static inline int64_t windows_along(const struct kernel_windows *w, int64_t size)
{
    return (size + 2 * w->padding - w->kernel) / w->stride + 1;
}

static struct window_line window_line_of(const struct kernel_windows *w, int64_t element)
{
    struct window_line line = {
        .down = element / w->kernel % w->kernel - w->padding,
        .right = element % w->kernel - w->padding,
        .windows_down = windows_along(w, w->height),
        .windows_across = windows_along(w, w->width),
    };
    int64_t before = line.right < 0 ? -line.right : 0, inside = w->width - line.right;
    line.from = (before + w->stride - 1) / w->stride;
    line.to = inside > 0 ? (inside + w->stride - 1) / w->stride : 0;
    line.to = line.to < line.windows_across ? line.to : line.windows_across;
    line.from = line.from < line.to ? line.from : line.to;
    return line;
}

/* Elements before the plane of the line's channel. */
static inline int64_t window_plane(const struct kernel_windows *w, int64_t element)
{
    return element / (w->kernel * w->kernel) * w->height * w->width;
}

static inline bool windows_are_moved(const struct kernel_windows *w, const struct window_line *line)
{
    return w->stride == 1 && line->windows_across == w->width;
}

/* What would be beside the image is 0. */
static void window_edges_clear(const struct window_line *line, float *at)
{
    for (int64_t y = 0; y < line->windows_down; y++, at += line->windows_across) {
        for (int64_t x = 0; x < line->from; x++)
            at[x] = 0;
        for (int64_t x = line->to; x < line->windows_across; x++)
            at[x] = 0;
    }
}

/* Windows as wide as the image, one next to the other, are the plane moved. Element i of [first,
 * end) is element i + move of the plane, but for what moved in from its other side. */
struct window_move {
    int64_t move, first, end, count;
};

static struct window_move window_move_of(const struct kernel_windows *w,
                                         const struct window_line *line)
{
    int64_t count = line->windows_down * line->windows_across, size = w->height * w->width;
    int64_t move = line->down * w->width + line->right;
    int64_t first = move < 0 ? -move : 0, end = size - move < count ? size - move : count;
    first = first < count ? first : count;
    return (struct window_move){move, first, end > first ? end : first, count};
}

#endif
