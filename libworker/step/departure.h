/* Which ranks stop, which leave, and which continue in the next generation. Owned by the program's
 * thread.
 *
 * Ranks learn at different times that they must stop, or that a newer generation exists. All
 * continue training until every rank has learned one or the other. The sums of a step inform all of
 * them at once (stop.h), so they separate after the same step:
 *
 *   all stop                     they save together, and end
 *   some stop, others leave      a stopping rank sends the parts that only it has to the others
 *   all leave                    they meet again in the next generation
 *
 * A stop after half of its grace waits no longer. If any rank then knows of a newer generation, the
 * ranks that were not asked to stop continue there; otherwise all stop. Without a session there is
 * no newer generation: a stop of one rank applies to all, after the first step that has it in its
 * sums.
 */
#ifndef STEP_DEPARTURE_H
#define STEP_DEPARTURE_H

struct wk_context;

enum departure {
    DEPARTURE_NONE,  /* continue training */
    DEPARTURE_STOP,  /* save, together with all present ranks, and end */
    DEPARTURE_LEAVE, /* end: the other ranks continue with the state */
    DEPARTURE_RENEW, /* continue in the next generation */
    DEPARTURE_AGAIN, /* the generation broke, or the error is sticky: decide again */
};

/* Call at a boundary. Collective if a step's sums announced something. */
enum departure departure_decide(struct wk_context *ctx);

#endif
