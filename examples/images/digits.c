#include "examples/images/digits.h"

#include <math.h>
#include <string.h>

enum { GLYPH_WIDTH = 5, GLYPH_HEIGHT = 7, SUBPIXELS = 3, SHIFT_MAX = 2 };

static const char *const glyphs[DIGITS_KINDS] = {
    " ### "
    "#   #"
    "#  ##"
    "# # #"
    "##  #"
    "#   #"
    " ### ",
    "  #  "
    " ##  "
    "  #  "
    "  #  "
    "  #  "
    "  #  "
    " ### ",
    " ### "
    "#   #"
    "    #"
    "   # "
    "  #  "
    " #   "
    "#####",
    "#####"
    "   # "
    "  #  "
    "   # "
    "    #"
    "#   #"
    " ### ",
    "   # "
    "  ## "
    " # # "
    "#  # "
    "#####"
    "   # "
    "   # ",
    "#####"
    "#    "
    "#### "
    "    #"
    "    #"
    "#   #"
    " ### ",
    "  ## "
    " #   "
    "#    "
    "#### "
    "#   #"
    "#   #"
    " ### ",
    "#####"
    "    #"
    "   # "
    "  #  "
    " #   "
    " #   "
    " #   ",
    " ### "
    "#   #"
    "#   #"
    " ### "
    "#   #"
    "#   #"
    " ### ",
    " ### "
    "#   #"
    "#   #"
    " ####"
    "    #"
    "   # "
    " ##  ",
};

const struct wk_field digits_fields[DIGITS_FIELDS] = {
    {"pixels", WK_F32, 3, {1, DIGITS_SIDE, DIGITS_SIDE}, false, 0},
    {"label", WK_I32, 0, {0}, false, 0},
};

/* Which random number is what of an image. */
enum draw { LABEL, SCALE, TURN, ACROSS, DOWN, INK, SHIFT_ACROSS, SHIFT_DOWN, NOISE };

static double between(uint64_t key, enum draw index, double low, double high)
{
    return low + (high - low) * wk_noise(key, index);
}

struct pose {
    const char *glyph;
    double x, y; /* of the glyph's centre, in pixels */
    double cosine, sine;
    double scale; /* pixels of a glyph's dot */
};

static bool is_ink(const struct pose *pose, double x, double y)
{
    double across = x - pose->x, down = y - pose->y;
    double u = (across * pose->cosine + down * pose->sine) / pose->scale + GLYPH_WIDTH / 2.0;
    double v = (down * pose->cosine - across * pose->sine) / pose->scale + GLYPH_HEIGHT / 2.0;
    if (u < 0 || u >= GLYPH_WIDTH || v < 0 || v >= GLYPH_HEIGHT)
        return false;
    return pose->glyph[(int)v * GLYPH_WIDTH + (int)u] == '#';
}

/* The share of a pixel that is ink. */
static double coverage(const struct pose *pose, int x, int y)
{
    int inked = 0;
    for (int down = 0; down < SUBPIXELS; down++)
        for (int across = 0; across < SUBPIXELS; across++)
            if (is_ink(pose, x + (across + 0.5) / SUBPIXELS, y + (down + 0.5) / SUBPIXELS))
                inked++;
    return (double)inked / (SUBPIXELS * SUBPIXELS);
}

int digits_read(void *digits, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    const struct digits *d = digits;
    uint64_t key = wk_noise_key(d->set, 0, sample);
    uint64_t again = d->augment ? wk_noise_key(seed, epoch, sample) : key;
    double turn = between(key, TURN, -0.25, 0.25), ink = between(key, INK, 0.6, 1);
    int32_t label = (int32_t)between(key, LABEL, 0, DIGITS_KINDS);
    float *pixels = fields[0];
    struct pose pose = {.glyph = glyphs[label],
                        .x = DIGITS_SIDE / 2.0 + between(key, ACROSS, -1.5, 1.5),
                        .y = DIGITS_SIDE / 2.0 + between(key, DOWN, -1, 1),
                        .cosine = cos(turn),
                        .sine = sin(turn),
                        .scale = between(key, SCALE, 1.4, 1.9)};
    if (d->augment) {
        pose.x += floor(between(again, SHIFT_ACROSS, -SHIFT_MAX, SHIFT_MAX + 1));
        pose.y += floor(between(again, SHIFT_DOWN, -SHIFT_MAX, SHIFT_MAX + 1));
    }
    for (int i = 0; i < DIGITS_PIXELS; i++) {
        double noise = 0.4 * (wk_noise(again, (uint64_t)(NOISE + i)) - 0.5);
        pixels[i] = (float)(ink * coverage(&pose, i % DIGITS_SIDE, i / DIGITS_SIDE) + noise);
    }
    memcpy(fields[1], &label, sizeof(label));
    return 0;
}
