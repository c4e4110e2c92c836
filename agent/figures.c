#include "agent/figures.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/name.h"
#include "common/base/str.h"

enum { KEY_BYTES = JOB_ID_MAX + 32, GROWTH = 8 };

struct number {
    char name[METRIC_NAME_MAX + 1];
    double value;
    uint64_t turn; /* of its value */
};

struct figures_worker {
    struct worker_key key;
    struct pace pace;
    struct number *numbers; /* [room] */
    int count, room;
    bool changed; /* not sent yet */
    int64_t due_ms;
};

void figures_fini(struct figures *figures)
{
    for (struct map_entry *e = strmap_first(&figures->workers); e; e = map_next(e))
        free(((struct figures_worker *)e->value)->numbers);
    strmap_free_values(&figures->workers);
}

static const char *key_text(const struct worker_key *key, char ret[KEY_BYTES])
{
    (void)str_printf(ret, KEY_BYTES, "%s/%" PRIu64, key->job, key->uid);
    return ret;
}

/* NULL only without memory. */
static struct figures_worker *worker_of(struct figures *figures, const struct worker_key *key)
{
    char text[KEY_BYTES];
    struct figures_worker *worker = strmap_get(&figures->workers, key_text(key, text));
    if (worker || !(worker = calloc(1, sizeof(*worker))))
        return worker;
    worker->key = *key;
    if (strmap_set(&figures->workers, text, worker, NULL)) {
        free(worker);
        return NULL;
    }
    return worker;
}

void figures_stepped(struct figures *figures, const struct worker_key *key,
                     const struct pace_mark *mark)
{
    struct figures_worker *worker = worker_of(figures, key);
    if (worker && pace_add(&worker->pace, mark))
        worker->changed = true;
}

static bool has_room(struct figures_worker *worker)
{
    if (worker->count < worker->room)
        return true;
    int room = worker->room + GROWTH;
    struct number *numbers =
        room > FIGURES_NAMES_MAX ? NULL : realloc(worker->numbers, (size_t)room * sizeof(*numbers));
    if (!numbers)
        return false;
    worker->numbers = numbers;
    worker->room = room;
    return true;
}

/* The place of this name: its own, a new one, or that of the oldest value. NULL: no memory at all.
 */
static struct number *place_of(struct figures_worker *worker, const char *name)
{
    struct number *oldest = NULL;
    for (int i = 0; i < worker->count; i++) {
        struct number *number = &worker->numbers[i];
        if (strcmp(number->name, name) == 0)
            return number;
        if (!oldest || number->turn < oldest->turn)
            oldest = number;
    }
    return has_room(worker) ? &worker->numbers[worker->count++] : oldest;
}

void figures_number(struct figures *figures, const struct worker_key *key, const char *name,
                    double value)
{
    struct figures_worker *worker = worker_of(figures, key);
    struct number *number = worker && metric_name_valid(name) ? place_of(worker, name) : NULL;
    if (!number)
        return;
    (void)str_copy(number->name, sizeof(number->name), name);
    number->value = value;
    number->turn = ++figures->turn;
    worker->changed = true;
}

void figures_forget(struct figures *figures, const struct worker_key *key)
{
    char text[KEY_BYTES];
    struct figures_worker *worker = strmap_remove(&figures->workers, key_text(key, text));
    if (worker)
        free(worker->numbers);
    free(worker);
}

void figures_resend(struct figures *figures)
{
    for (struct map_entry *e = strmap_first(&figures->workers); e; e = map_next(e))
        ((struct figures_worker *)e->value)->changed = true;
}

/* The last figures of a worker that has ended do not wait. */
static bool is_due(const struct figures_worker *worker, const struct agent_core *core,
                   int64_t now_ms)
{
    if (!worker->changed || now_ms >= worker->due_ms)
        return worker->changed;
    const struct agent_worker *of = agent_core_find(core, &worker->key);
    return of && of->state == AGENT_WORKER_EXITED;
}

static Muster__WorkerFigures *message_of(const struct figures_worker *worker, struct arena *arena)
{
    Muster__WorkerFigures *ret = arena_alloc(arena, sizeof(*ret));
    Muster__WorkerFigures__NumbersEntry *entries =
        arena_array(arena, (size_t)worker->count + 1, sizeof(*entries));
    struct pace_medians medians;
    if (!ret || !entries)
        return NULL;
    muster__worker_figures__init(ret);
    if (!(ret->numbers = arena_pointers(arena, (size_t)worker->count + 1)))
        return NULL;
    ret->job = (char *)(uintptr_t)worker->key.job;
    ret->uid = worker->key.uid;
    pace_read(&worker->pace, &medians);
    ret->timed = (uint32_t)medians.timed;
    ret->step_ms = medians.step_ms;
    if (!isnan(medians.work_ms)) {
        ret->work_ms_known_case = MUSTER__WORKER_FIGURES__WORK_MS_KNOWN_WORK_MS;
        ret->work_ms = medians.work_ms;
    }
    for (int i = 0; i < worker->count; i++) {
        muster__worker_figures__numbers_entry__init(&entries[i]);
        entries[i].key = worker->numbers[i].name;
        entries[i].value = worker->numbers[i].value;
        ret->numbers[ret->n_numbers++] = &entries[i];
    }
    return ret;
}

void figures_fill(struct figures *figures, const struct agent_core *core, int64_t now_ms,
                  struct arena *arena, Muster__NodeReport *report)
{
    report->figures = arena_pointers(arena, FIGURES_WORKERS_PER_REPORT);
    if (!report->figures)
        return;
    for (struct map_entry *e = strmap_first(&figures->workers);
         e && report->n_figures < FIGURES_WORKERS_PER_REPORT; e = map_next(e)) {
        struct figures_worker *worker = e->value;
        Muster__WorkerFigures *message =
            is_due(worker, core, now_ms) ? message_of(worker, arena) : NULL;
        if (!message)
            continue;
        report->figures[report->n_figures++] = message;
        worker->changed = false;
        worker->due_ms = now_ms + FIGURES_EVERY_MS;
    }
}
