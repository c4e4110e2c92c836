#include "coordinator/model/ledger.h"

#include <string.h>

enum { MEAN_PARTS = 8 }; /* weight of a new step in the running mean is 1/MEAN_PARTS */

const char *ledger_phase_name(enum ledger_phase phase)
{
    static const char *const names[] = {
#define X(upper, lower) #lower,
        LEDGER_PHASES(X)
#undef X
    };
    return names[phase];
}

void ledger_begin(struct ledger *ledger, int64_t now_ms)
{
    *ledger = (struct ledger){.open = true, .begun_ms = now_ms, .at_ms = now_ms, .sign_ms = now_ms};
}

static bool phase_trains(enum ledger_phase phase)
{
    return phase == LEDGER_PRODUCTIVE || phase == LEDGER_REWORK;
}

static int64_t patience_ms(const struct ledger *ledger)
{
    int64_t steps_ms = ledger->typical_step_ms * LEDGER_HANG_STEPS;
    return steps_ms > LEDGER_HANG_MIN_MS ? steps_ms : LEDGER_HANG_MIN_MS;
}

/* The typical step is unknown for a program without step reports. */
int64_t ledger_hangs_at_ms(const struct ledger *ledger)
{
    if (!phase_trains(ledger->phase) || !ledger->typical_step_ms || ledger->hangs)
        return INT64_MAX;
    return ledger->sign_ms + patience_ms(ledger);
}

void ledger_charge(struct ledger *ledger, int64_t now_ms)
{
    if (!ledger->open || ledger->closed || now_ms <= ledger->at_ms)
        return;
    int64_t from_ms = ledger->hangs ? ledger->at_ms : ledger_hangs_at_ms(ledger);
    ledger->hangs = now_ms >= from_ms;
    if (from_ms < ledger->at_ms)
        from_ms = ledger->at_ms;
    int64_t hung_ms = now_ms > from_ms ? now_ms - from_ms : 0;
    ledger->ms[LEDGER_HANG] += hung_ms;
    ledger->ms[ledger->phase] += now_ms - ledger->at_ms - hung_ms;
    ledger->at_ms = now_ms;
}

void ledger_enter(struct ledger *ledger, enum ledger_phase phase, int64_t now_ms)
{
    if (phase_trains(phase) && !phase_trains(ledger->phase))
        ledger->sign_ms = now_ms;
    ledger->hangs = ledger->hangs && phase_trains(phase);
    ledger->phase = phase;
}

void ledger_step(struct ledger *ledger, uint64_t step, int64_t now_ms)
{
    if (step > ledger->step) {
        uint64_t again = step < ledger->best_step ? step : ledger->best_step;
        if (again > ledger->step)
            ledger->rework_steps += again - ledger->step;
        int64_t each_ms = (now_ms - ledger->sign_ms) / (int64_t)(step - ledger->step);
        bool known = ledger->typical_step_ms > 0;
        int64_t mean_ms = known ? ledger->typical_step_ms : each_ms;
        if (known && each_ms > patience_ms(ledger)) /* a hang is not typical for later steps */
            each_ms = patience_ms(ledger);
        if (phase_trains(ledger->phase))
            ledger->typical_step_ms = mean_ms + (each_ms - mean_ms) / MEAN_PARTS;
        if (phase_trains(ledger->phase) && ledger->typical_step_ms < 1)
            ledger->typical_step_ms = 1;
        ledger->sign_ms = now_ms;
        ledger->hangs = false;
    }
    ledger->step = step;
    if (step > ledger->best_step)
        ledger->best_step = step;
}

void ledger_busy(struct ledger *ledger, int64_t now_ms)
{
    if (!ledger->hangs && now_ms > ledger->sign_ms)
        ledger->sign_ms = now_ms;
}

void ledger_close(struct ledger *ledger)
{
    int64_t sum_ms = 0;
    for (int i = 0; i < LEDGER_COUNT; i++)
        sum_ms += ledger->ms[i];
    ledger->closed = true;
    ledger->hangs = false;
    ledger->phase = LEDGER_QUEUE;
    ledger->begun_ms = ledger->sign_ms = ledger->typical_step_ms = 0;
    ledger->at_ms = sum_ms;
    ledger->step = ledger->best_step = 0;
}

static void move_ms(int64_t *from, int64_t *to, int64_t *left)
{
    int64_t part = *left < *from ? *left : *from;
    *from -= part;
    *to += part;
    *left -= part;
}

void ledger_saved(struct ledger *ledger, int64_t ms)
{
    enum ledger_phase first = ledger->phase == LEDGER_REWORK ? LEDGER_REWORK : LEDGER_PRODUCTIVE;
    if (ms > 0 && ledger->open)
        move_ms(&ledger->ms[first], &ledger->ms[LEDGER_CHECKPOINT], &ms);
}

void ledger_started(struct ledger *ledger, int64_t ms)
{
    if (ms > 0 && ledger->open && phase_trains(ledger->phase))
        move_ms(&ledger->ms[ledger->phase], &ledger->ms[LEDGER_START], &ms);
}

void ledger_shift(struct ledger *ledger, int64_t by_ms)
{
    ledger->begun_ms += by_ms;
    ledger->at_ms += by_ms;
    ledger->sign_ms += by_ms;
}

int64_t ledger_read(const struct ledger *ledger, int64_t now_ms, int64_t *ret_ms)
{
    struct ledger copy = *ledger;
    int64_t sum = 0;
    ledger_charge(&copy, now_ms);
    memcpy(ret_ms, copy.ms, sizeof(copy.ms));
    for (int i = 0; i < LEDGER_COUNT; i++)
        sum += copy.ms[i];
    return sum;
}
