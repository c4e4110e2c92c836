/* Blocks of a program's own passes (wk_enter_block). Owned by the program's thread. */
#ifndef STEP_BLOCKS_H
#define STEP_BLOCKS_H

#include "common/base/error.h"

struct unit;

/* The backward pass is complete: leave block 0. A pass that entered no block makes the collectives
 * of one without samples. WK_ESTATE in the middle of a pass, or the failure of a collective. Does
 * nothing for a model without blocks. */
int unit_blocks_end(struct unit *unit, struct error *err);

/* The pass has no effect: be between passes. */
void unit_blocks_forget(struct unit *unit);

#endif
