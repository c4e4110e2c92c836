#include "libworker/parallel/step_numbers.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/parallel/usage.h"

int step_numbers_init(struct step_numbers *numbers, int n_params, struct queue *queue,
                      struct error *err)
{
    *numbers = (struct step_numbers){.count = STEP_NUMBERS_MAX + usage_room(n_params)};
    numbers->data = calloc(numbers->count, sizeof(*numbers->data));
    if (!numbers->data)
        return error_set(err, WK_ENOMEM, "no memory for %zu numbers of a step", numbers->count);
    return verdict_init(&numbers->verdict, queue, err);
}

void step_numbers_fini(struct step_numbers *numbers)
{
    insist(!numbers->work);
    verdict_fini(&numbers->verdict);
    free(numbers->data);
    *numbers = (struct step_numbers){0};
}

void step_numbers_say(struct step_numbers *numbers, const float *said, int count)
{
    insist(!numbers->work);
    insist(count >= 0 && count <= STEP_NUMBERS_MAX);
    memcpy(numbers->data, said, (size_t)count * sizeof(*said));
}

float *step_numbers_used(struct step_numbers *numbers)
{
    return numbers->data + STEP_NUMBERS_MAX;
}

int step_numbers_start(struct step_numbers *numbers, struct wk_comm *comm)
{
    insist(!numbers->work);
    return wk_all_reduce(comm, numbers->data, numbers->count, WK_F32, WK_SUM, &numbers->work);
}

int step_numbers_wait(struct step_numbers *numbers)
{
    int rc = wk_wait(numbers->work);
    numbers->work = NULL;
    return rc;
}

void step_numbers_clear(struct step_numbers *numbers)
{
    insist(!numbers->work);
    if (numbers->data)
        memset(numbers->data, 0, numbers->count * sizeof(*numbers->data));
    verdict_clear(&numbers->verdict);
}
