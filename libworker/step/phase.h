/* The phase of a context: whether a training step is in progress, and whether its generation is.
 *
 *            a batch is dealt, a pass begins       every optimizer has stepped; or the loop's end
 *   BOUNDARY ───────────────────────────────► UNDER_WAY ───────────────────────────────► BOUNDARY
 *
 *      BOUNDARY, UNDER_WAY ──the generation is over──► BROKEN ──the next one has begun──► BOUNDARY
 *      BOUNDARY ──wk_join, in which a generation began──► VOID ──the next wk_join──► BOUNDARY
 *
 * In BROKEN and VOID the program's calls have no effect until it asks for the next batch. It is in
 * the middle of its loop, with data chosen for the generation before. Nothing breaks in VOID, since
 * nothing is sent in it. BOUNDARY leads to itself when windows end after the loop, or none began.
 *
 * Owned by the program's thread.
 */
#ifndef STEP_PHASE_H
#define STEP_PHASE_H

#include <stdbool.h>

enum step_phase { STEP_BOUNDARY, STEP_UNDER_WAY, STEP_BROKEN, STEP_VOID };

/* The only way to change a phase. A move that the drawing lacks is a mistake of ours. */
void phase_set(enum step_phase *phase, enum step_phase to);

/* True if the program's calls have no effect. */
static inline bool phase_rests(enum step_phase phase)
{
    return phase == STEP_BROKEN || phase == STEP_VOID;
}

#endif
