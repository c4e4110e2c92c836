/* Control messages of a step: numbers that each rank sends with the last pass of a window. All
 * ranks get their sums at its end. The strategy sums them with the gradients, at no extra cost
 * (strategy_say). Ranks with parts of one state must do certain things after the same step.
 * Here they agree on those without a message of their own, and on which ranks leave when
 * (departure.h). Plain data.
 */
#ifndef STEP_CONSENSUS_H
#define STEP_CONSENSUS_H

enum {
    CONSENSUS_NUMBERS = 8,
    CONSENSUS_TICKETS = 1 << 24, /* exact in a float */
};

struct consensus {
    union {
        struct {
            float loss;
            float losses;   /* passes that have a loss */
            float stop;     /* ranks that were asked to stop */
            float pressing; /* of those, ranks that cannot wait any longer */
            float leave;    /* ranks that were not asked, but know of a newer generation */
            float save;     /* 1 from rank 0: save this step */
            float busy;     /* ranks still writing the last checkpoint */
            float ticket;   /* from rank 0: number in the name of this save's temporary folder */
        };
        float numbers[CONSENSUS_NUMBERS];
    };
};

_Static_assert(sizeof(struct consensus) == sizeof(float[CONSENSUS_NUMBERS]), "all are summed");

#endif
