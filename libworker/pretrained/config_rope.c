/* The keys of rotary positions (transformers, RopeParameters). */
#include <math.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/pretrained/config_keys.h"
#include "libworker/pretrained/config_parts.h"

static const double THETA = 10000;

static const char *const types[] = {
    [WK_ROPE_DEFAULT] = "default", [WK_ROPE_LINEAR] = "linear", [WK_ROPE_DYNAMIC] = "dynamic",
    [WK_ROPE_LLAMA3] = "llama3",   [WK_ROPE_YARN] = "yarn",
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* Keys of rope types that are not computed, and of positions by kind of layer or axis. */
static const char *const others[] = {"short_factor", "long_factor", "mrope_section",
                                     "full_attention", "sliding_attention"};

static int check_keys(const struct tree *root, const struct tree *rope, struct error *err)
{
    double share = 1;
    int rc = config_number(root, "partial_rotary_factor", &share, err);
    if (!rc)
        rc = config_number(rope, "partial_rotary_factor", &share, err);
    if (!rc && fabs(share - 1) > 0)
        rc = error_set(err, WK_EUNSUPPORTED,
                       "partial_rotary_factor is %g; these models rotate whole heads", share);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]) && !rc; i++)
        if (config_get(rope, others[i]))
            rc = error_set(err, WK_EUNSUPPORTED,
                           "%s of the rotary positions is set, which these models do not compute",
                           others[i]);
    return rc;
}

static int read_type(const struct tree *rope, enum wk_rope_type *ret, struct error *err)
{
    const struct tree *node = config_get(rope, "rope_type");
    const char *type = types[WK_ROPE_DEFAULT];
    node = node ? node : config_get(rope, "type"); /* its name in older files */
    if (node && tree_read_string(node, &type, err))
        return error_recode(err, WK_EIO);
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(type, types[i]) == 0) {
            *ret = (enum wk_rope_type)i;
            return 0;
        }
    }
    return error_set(err, WK_EUNSUPPORTED,
                     "rope_type is %.80s; these models compute default, linear, dynamic, llama3 "
                     "and yarn",
                     type);
}

/* DeepSeek's two factors of the logarithm, if both are there. */
static int read_amplitude(const struct tree *rope, struct wk_rope_scaling *s, struct error *err)
{
    double scale = 0, all = 0;
    int rc = config_number(rope, "attention_factor", &s->amplitude, err);
    if (!rc)
        rc = config_number(rope, "mscale", &scale, err);
    if (!rc)
        rc = config_number(rope, "mscale_all_dim", &all, err);
    if (!rc && !config_get(rope, "attention_factor") && scale > 0 && all > 0)
        s->amplitude = (0.1 * scale * log(s->factor) + 1) / (0.1 * all * log(s->factor) + 1);
    return rc;
}

static int read_yarn(const struct tree *rope, struct wk_rope_scaling *s, struct error *err)
{
    bool rounded = true;
    s->low = 1;
    s->high = 32;
    int rc = config_number(rope, "beta_slow", &s->low, err);
    if (!rc)
        rc = config_number(rope, "beta_fast", &s->high, err);
    if (!rc)
        rc = config_bool(rope, "truncate", &rounded, err);
    if (!rc)
        rc = read_amplitude(rope, s, err);
    s->exact = !rounded;
    return rc;
}

static int read_llama3(const struct tree *rope, struct wk_rope_scaling *s, struct error *err)
{
    int rc = config_number(rope, "low_freq_factor", &s->low, err);
    if (!rc)
        rc = config_number(rope, "high_freq_factor", &s->high, err);
    if (!rc && !(s->low > 0 && s->high > 0))
        rc = error_set(err, WK_EIO, "low_freq_factor and high_freq_factor must be above 0");
    return rc;
}

/* The key beside the others has precedence, as in Phi-3. */
static int read_original(const struct tree *root, const struct tree *rope,
                         struct wk_rope_scaling *s, struct error *err)
{
    static const char key[] = "original_max_position_embeddings";
    int rc = config_number(rope, key, &s->original_context, err);
    if (!rc)
        rc = config_number(root, key, &s->original_context, err);
    return rc;
}

static int read_scaling(const struct tree *root, const struct tree *rope,
                        struct wk_llama_config *ret, struct error *err)
{
    struct wk_rope_scaling *s = &ret->rope_scaling;
    int rc = read_type(rope, &s->type, err);
    if (rc || s->type == WK_ROPE_DEFAULT)
        return rc;
    s->original_context = ret->context;
    rc = read_original(root, rope, s, err);
    if (s->type == WK_ROPE_YARN && s->original_context > 0)
        s->factor = ret->context / s->original_context;
    if (!rc)
        rc = config_number(rope, "factor", &s->factor, err);
    if (!rc && !(s->factor > 0))
        rc = error_set(err, WK_EIO, "factor of the rotary positions is missing");
    if (!rc && s->type == WK_ROPE_YARN)
        rc = read_yarn(rope, s, err);
    if (!rc && s->type == WK_ROPE_LLAMA3)
        rc = read_llama3(rope, s, err);
    return rc;
}

int config_rope_read(const struct tree *root, struct wk_llama_config *ret, struct error *err)
{
    const struct tree *rope = config_get(root, "rope_scaling");
    ret->rope_theta = THETA;
    if (!rope || !tree_first(rope))
        rope = config_get(root, "rope_parameters");
    int rc = config_number(root, "rope_theta", &ret->rope_theta, err);
    if (!rc)
        rc = config_number(rope, "rope_theta", &ret->rope_theta, err);
    if (!rc)
        rc = check_keys(root, rope, err);
    if (rc)
        return rc;
    return read_scaling(root, rope, ret, err);
}

static int write_yarn(const struct wk_rope_scaling *s, struct buf *out)
{
    if (s->amplitude > 0)
        (void)buf_printf(out, ",\n    \"attention_factor\": %.17g", s->amplitude);
    return buf_printf(out,
                      ",\n    \"beta_slow\": %.17g,\n    \"beta_fast\": %.17g,\n"
                      "    \"truncate\": %s",
                      s->low, s->high, s->exact ? "false" : "true");
}

/* Under the older names, which every version reads. */
int config_rope_write(const struct wk_llama_config *c, struct buf *out)
{
    const struct wk_rope_scaling *s = &c->rope_scaling;
    (void)buf_printf(out, "  \"rope_theta\": %.17g,\n", c->rope_theta);
    if (s->type == WK_ROPE_DEFAULT)
        return buf_str(out, "  \"rope_scaling\": null,\n");
    (void)buf_printf(out,
                     "  \"rope_scaling\": {\n    \"rope_type\": \"%s\",\n"
                     "    \"factor\": %.17g",
                     types[s->type], s->factor);
    if (s->type == WK_ROPE_LLAMA3 || s->type == WK_ROPE_YARN)
        (void)buf_printf(out, ",\n    \"original_max_position_embeddings\": %.17g",
                         s->original_context);
    if (s->type == WK_ROPE_LLAMA3)
        (void)buf_printf(out, ",\n    \"low_freq_factor\": %.17g,\n    \"high_freq_factor\": %.17g",
                         s->low, s->high);
    if (s->type == WK_ROPE_YARN)
        (void)write_yarn(s, out);
    return buf_str(out, "\n  },\n");
}
