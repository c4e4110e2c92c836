#include "libworker/step/consensus.h"

#include <string.h>

void consensus_say(struct strategy *strategy, const struct consensus *said)
{
    strategy_say(strategy, said->numbers, CONSENSUS_NUMBERS);
}

struct consensus consensus_hear(const struct strategy *strategy)
{
    struct consensus sums;
    memcpy(sums.numbers, strategy_heard(strategy), sizeof(sums.numbers));
    return sums;
}
