/* Windows of images side by side, for convolutions. Included by fast.c only. */
#ifndef KERNEL_CPU_FAST_WINDOWS_H
#define KERNEL_CPU_FAST_WINDOWS_H

#include <string.h>

#include "libworker/kernel/cpu/fast_window_line.h"

static void window_read(const struct kernel_windows *w, const struct window_line *line,
                        float *restrict to, const float *restrict plane)
{
    struct window_move m = window_move_of(w, line);
    memset(to, 0, (size_t)m.first * sizeof(*to));
    if (m.end > m.first)
        memcpy(to + m.first, plane + (m.first + m.move), (size_t)(m.end - m.first) * sizeof(*to));
    memset(to + m.end, 0, (size_t)(m.count - m.end) * sizeof(*to));
    window_edges_clear(line, to);
}

static void window_add(const struct kernel_windows *w, const struct window_line *line,
                       float *restrict plane, float *restrict from)
{
    struct window_move m = window_move_of(w, line);
    window_edges_clear(line, from);
    for (int64_t i = m.first; i < m.end; i++)
        plane[i + m.move] += from[i];
}

static void window_read_apart(const struct kernel_windows *w, const struct window_line *line,
                              float *restrict to, const float *restrict plane)
{
    const int64_t across = line->windows_across, stride = w->stride, right = line->right;
    for (int64_t y = 0; y < line->windows_down; y++) {
        int64_t row = y * stride + line->down;
        bool inside = row >= 0 && row < w->height;
        int64_t from = inside ? line->from : 0, end = inside ? line->to : 0;
        float *restrict out = to + y * across;
        const float *restrict in = plane + row * w->width;
        for (int64_t x = 0; x < from; x++)
            out[x] = 0;
        for (int64_t x = from; x < end; x++)
            out[x] = in[x * stride + right];
        for (int64_t x = end; x < across; x++)
            out[x] = 0;
    }
}

static void window_add_apart(const struct kernel_windows *w, const struct window_line *line,
                             float *restrict plane, const float *restrict from)
{
    const int64_t stride = w->stride, right = line->right;
    for (int64_t y = 0; y < line->windows_down; y++, from += line->windows_across) {
        int64_t row = y * stride + line->down;
        if (row < 0 || row >= w->height)
            continue;
        for (int64_t x = line->from; x < line->to; x++)
            plane[row * w->width + x * stride + right] += from[x];
    }
}

static void windows_forward(const struct kernel_windows *w, float *cols, const float *image)
{
    for (int64_t i = 0; i < w->channels * w->kernel * w->kernel; i++) {
        struct window_line line = window_line_of(w, i);
        const float *plane = image + window_plane(w, i);
        if (windows_are_moved(w, &line))
            window_read(w, &line, cols + i * w->ld, plane);
        else
            window_read_apart(w, &line, cols + i * w->ld, plane);
    }
}

static void windows_backward(const struct kernel_windows *w, float *image, float *cols)
{
    for (int64_t i = 0; i < w->channels * w->kernel * w->kernel; i++) {
        struct window_line line = window_line_of(w, i);
        float *plane = image + window_plane(w, i);
        if (windows_are_moved(w, &line))
            window_add(w, &line, plane, cols + i * w->ld);
        else
            window_add_apart(w, &line, plane, cols + i * w->ld);
    }
}

#endif
