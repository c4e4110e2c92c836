#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/settings/mesh.h"
#include "coordinator/model/spec_internal.h"

static uint64_t factor(uint32_t dimension)
{
    return dimension ? dimension : 1;
}

static uint32_t mesh_size(const struct spec_input *in, const char *name)
{
    const char *text = spec_training(in, name);
    int64_t size = 0;
    if (text)
        (void)parse_i64(text, 0, UINT32_MAX, &size, NULL);
    return (uint32_t)size;
}

/* Data-parallel sizes must fit some possible world of the job. An absent strategy may be chosen by
 * the program. */
static int check_worlds(const struct spec_input *in, const struct spec *spec,
                        const struct mesh_sizes *sizes, struct error *err)
{
    const char *strategy = spec_training(in, "strategy");
    bool cut = !strategy || strcmp(strategy, "ddp") != 0;
    struct error first = {0};
    for (int nodes = spec->nodes_max; nodes >= spec->nodes_min; nodes--) {
        int world = spec_world(spec, nodes);
        if (world % spec->mesh_fixed == 0 &&
            !settings_mesh(sizes, cut, world / spec->mesh_fixed, first.code ? NULL : &first))
            return 0;
    }
    *err = first;
    error_field(err, "training.mesh");
    error_hint(err, "workers_per_node x nodes must equal the size of the mesh; or leave the size "
                    "out");
    return E_INVALID_ARGUMENT;
}

int spec_check_mesh(const struct spec_input *in, struct spec *spec, struct error *err)
{
    uint32_t cp = mesh_size(in, "mesh.cp"), tp = mesh_size(in, "mesh.tp"),
             pp = mesh_size(in, "mesh.pp"), dp = mesh_size(in, "mesh.dp"),
             replicate = mesh_size(in, "mesh.dp_replicate"), shard = mesh_size(in, "mesh.dp_shard");
    uint64_t world = (uint64_t)spec_world(spec, spec->nodes_min);
    uint64_t fixed = factor(cp);
    if (tp > world || pp > world || cp > world)
        fixed = UINT64_MAX;
    else
        fixed *= factor(tp) * factor(pp);
    if (fixed > world || world % fixed) {
        error_set(err, E_INVALID_ARGUMENT,
                  "cp x tp x pp = %u x %u x %u does not divide the %llu worker%s of nodes.min",
                  (unsigned)factor(cp), (unsigned)factor(tp), (unsigned)factor(pp),
                  (unsigned long long)world, str_plural(world));
        error_field(err, "training.mesh");
        error_hint(err, "workers_per_node x nodes.min must be a multiple of cp x tp x pp");
        return E_INVALID_ARGUMENT;
    }
    spec->mesh_fixed = (int)fixed;
    uint64_t data = dp ? dp : factor(replicate) * factor(shard);
    bool wants = dp || replicate || shard;
    uint64_t largest = (uint64_t)spec_world(spec, spec->nodes_max);
    if (wants && (data > largest || data * fixed > largest)) {
        error_set(err, E_INVALID_ARGUMENT,
                  "the mesh needs more than the %llu worker%s of nodes.max",
                  (unsigned long long)largest, str_plural(largest));
        error_field(err, "training.mesh");
        error_hint(err, "raise nodes.max or workers_per_node, or leave dp out: it is then what "
                        "remains");
        return E_INVALID_ARGUMENT;
    }
    const struct mesh_sizes sizes = {dp, replicate, shard};
    return in->stored || !wants ? 0 : check_worlds(in, spec, &sizes, err);
}

/* A program's library is unknown, but checkpoints and training settings are for libworker. */
static bool speaks_to_libworker(const struct spec_input *in)
{
    return in->training_count > 0 || spec_given(in->checkpoint_dir);
}

static bool is_beyond_libworker(const struct spec *spec)
{
    return spec_world(spec, spec->nodes_max) > SETTINGS_WORLD_MAX;
}

const char *spec_world_warning(const struct spec *spec)
{
    return is_beyond_libworker(spec) ? "libworker connects 256 workers at most: this runs with "
                                       "collectives of the program's own only"
                                     : NULL;
}

int spec_check_world(const struct spec_input *in, struct spec *spec, struct error *err)
{
    spec->world_max = speaks_to_libworker(in) ? SETTINGS_WORLD_MAX : 0;
    if (in->stored || !spec->world_max || !is_beyond_libworker(spec))
        return 0;
    error_set(err, E_INVALID_ARGUMENT, "%d workers: libworker connects %d at most",
              spec_world(spec, spec->nodes_max), SETTINGS_WORLD_MAX);
    error_field(err, "nodes.max");
    error_hint(err, "fewer workers; or none of `training` and `checkpoint`, where the program uses "
                    "collectives of its own (torch)");
    return E_INVALID_ARGUMENT;
}

/* A spec stored before this was refused has always been restarted at another size. */
int spec_check_fixed(const struct spec_input *in, struct spec *spec, struct error *err)
{
    if (spec->elastic != ELASTIC_OFF || spec->nodes_min == spec->nodes_max)
        return 0;
    if (in->stored) {
        spec->elastic = ELASTIC_RESTART;
        return 0;
    }
    error_set(err, E_INVALID_ARGUMENT, "elastic: off is a fixed size, and nodes is %d..%d",
              spec->nodes_min, spec->nodes_max);
    error_field(err, "elastic");
    error_hint(err, "set one number of nodes, or elastic: restart");
    return E_INVALID_ARGUMENT;
}
