/* Gathers parameters that other ranks have on this one. Collective where the models are
 * cut, else local. In a broken generation they do nothing. Owned by the program's thread. */
#ifndef STEP_GATHER_H
#define STEP_GATHER_H

struct unit;
struct wk_context;

/* unit_gather_own: a model's parameters, where the program's own passes read them; units_gather: of
 * all custom models. unit_gather_master: the master copy (strategy.h). A failure breaks the
 * generation; the code is returned if it is sticky. */
void unit_gather_own(struct unit *unit);
void units_gather(struct wk_context *ctx);
int unit_gather_master(struct unit *unit);

#endif
