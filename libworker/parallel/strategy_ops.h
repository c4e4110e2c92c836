/* One way to distribute a model over data-parallel ranks: the table behind strategy.h. ddp.c and
 * sharded.c fill one each, as constants; strategy.c calls them and adds what all ways share.
 *
 * `self` is what `open` made. No slot is NULL: a table without need of a verb has a function that
 * does nothing. A pass is a backward pass of the model; begin, ready, flush and finish come in that
 * order (strategy_grads.h has the drawing), drain at any time.
 *
 * Collective slots are called by every rank in the same order and wait for the others; they return
 * 0 or the code of a collective, whose sentence `sentence` has. A table that does not cut may leave
 * them local. All other slots are local and do not wait, except that `flush`, `ready` and the
 * forward slots may start collectives. One thread; any thread may abort the communicator meanwhile,
 * after which `finish` fails and `drain` returns soon.
 */
#ifndef PARALLEL_STRATEGY_OPS_H
#define PARALLEL_STRATEGY_OPS_H

#include "libworker/nn/model.h"
#include "libworker/parallel/groups.h"
#include "libworker/parallel/hook.h"
#include "libworker/parallel/step_numbers.h"
#include "libworker/parallel/strategy_memory.h"
#include "libworker/parallel/strategy_options.h"

struct wk_optimizer;

struct strategy_ops {
    const char *name;
    bool cuts; /* the ranks hold different parts of one state */

    /* Memory for the model, bound to it, with initial values unless options->fill_later; block
     * hooks in the model if the table needs them. `numbers` is borrowed until close: flush of a
     * window's last pass starts their sum, finish and drain await it. After a failure there is
     * nothing to close, but the model may point to memory that is gone. WK_ENOMEM, and what reading
     * values returns. */
    int (*open)(struct wk_model *model, const struct strategy_options *options,
                struct step_numbers *numbers, struct strategy_memory *ret, struct error *err);
    void (*close)(void *self); /* after drain, with no pointers of the model in use */

    /* Ranks. meet: once with each communicator, whose ranks will read and write in place. regroup:
     * collective; the layout of its ranks. leave: the communicator is about to be closed. sentence:
     * of the communicator or group that failed, "" without a failure. */
    int (*meet)(void *self, struct wk_comm *comm);
    int (*regroup)(void *self, struct wk_comm *comm, const struct layout *layout,
                   struct error *err);
    void (*leave)(void *self);
    const char *(*sentence)(const void *self);

    /* Parameters. fill: initial values that open left out. refresh: the range's data changed by
     * other means than update. own: this rank's piece of a parameter, or NULL. use: the
     * communicator of the coming passes. empty_pass: the collectives of a pass of the program's own
     * that this rank has no samples for. gather: the master of everything, for reading. gather_own:
     * what passes of the program's own read. All but own and use are collective. */
    int (*fill)(void *self, struct wk_comm *comm, struct error *err);
    int (*refresh)(void *self, struct wk_comm *comm);
    const struct param *(*own)(const void *self, int index, size_t *ret_first);
    void (*use)(void *self, struct wk_comm *comm);
    int (*empty_pass)(void *self, enum model_pass pass, struct error *err);
    int (*gather)(void *self, struct wk_comm *comm);
    int (*gather_own)(void *self, struct wk_comm *comm);

    /* A pass. scaled: its gradients are multiplied with `factor` before their sum; `scale` is the
     * loss scale. rescale: multiply gradients of earlier passes that wait for their sum. begin:
     * `last` of its window. changed: the pass announced other gradients than were promised.
     * finish: collective. drain: wait for what was started and forget the pass. checked: what was
     * found out about the window's sums while summing. */
    void (*scaled)(void *self, float factor, double scale);
    void (*rescale)(void *self, float change);
    void (*begin)(void *self, struct wk_comm *comm, bool last);
    void (*ready)(void *self, int index);
    bool (*changed)(const void *self);
    void (*flush)(void *self);
    int (*finish)(void *self);
    void (*drain)(void *self);
    enum sums (*checked)(const void *self);

    /* A window's sums, worked on by launches. squares: of all elements, written to the verdict;
     * collective. first_nonfinite: the first parameter with a non-finite sum, or -1; waits, and
     * uses the verdict's squares; collective. clamp: this rank's, times the verdict's scale, to
     * [-most, most], if they are finite. update: one step of this rank's range by the verdict.
     * spread: collective; send the others what they need of it. clear: gradients are zero again. */
    int (*squares)(void *self);
    int (*first_nonfinite)(void *self, int *ret_index);
    void (*clamp)(void *self, double most);
    int (*update)(void *self, struct wk_optimizer *optimizer, struct error *err);
    int (*spread)(void *self, struct wk_comm *comm);
    void (*clear)(void *self);

    /* The program's own hook, or NULL for the setting's. WK_EUNSUPPORTED. */
    int (*set_hook)(void *self, const struct wk_gradient_hook *hook);
};

#endif
