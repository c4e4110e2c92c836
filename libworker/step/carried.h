/* The models' buffers (nn/buffers.h) among the ranks: one content for all. Owned by the program's
 * thread.
 *
 * What the ranks' passes found out in a window differs. Before wk_step uses the window's sums the
 * ranks take the mean of their buffers, each rank weighted by the samples of its passes. So the
 * content is equal on all ranks at every step, and any rank's can be saved or sent.
 */
#ifndef STEP_CARRIED_H
#define STEP_CARRIED_H

#include "common/base/error.h"

struct unit;
struct wk_context;

/* The window's buffers become the ranks' mean. Collective if the unit's model has buffers. The code
 * of a collective, or the place's failure. */
int carried_mean(struct unit *unit, struct error *err);

/* Of all units: the host's copies become those of rank `source`, which has read its content into
 * them; and they become the content. send is collective. */
int carried_read(struct wk_context *ctx, struct error *err);
int carried_send(struct wk_context *ctx, int source, struct error *err);
int carried_write(struct wk_context *ctx, struct error *err);

#endif
