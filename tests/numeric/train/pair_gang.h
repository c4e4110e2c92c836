/* Gangs of workers in one process that run the same pair program (pair.h), and what it comes to
 * beside one process: in `one`, an undisturbed run.
 */
#ifndef TRAIN_PAIR_GANG_H
#define TRAIN_PAIR_GANG_H

#include <pthread.h>
#include <stdatomic.h>

#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/pair.h"

enum { WORKERS = 4 };

extern const char *const strategies[4]; /* ddp first */

extern struct pair one;

struct gang {
    struct fake_cluster cluster;
    struct pair pairs[WORKERS];
    pthread_t threads[WORKERS];
    bool running[WORKERS];
    atomic_int signal;
};

/* A generation of `ranks`, whose workers are to be started; there is one gang. */
struct gang *gang_new(int ranks);
void gang_start(struct gang *gang, int worker, const struct pair *like);
void gang_finish(struct gang *gang);

/* Took all its steps without an error. */
void check_ended(const struct pair *pair);

/* `like` on `ranks`, which all end with the same; the first of them. */
const struct pair *run(const struct pair *like, int ranks);

/* `like` in one process into `one`, in which both models learn. */
void run_one(const struct pair *like);

/* How far the numbers of another order of sums may be apart, as with one model
 * (test_strategies.c, test_precision.c). */
struct bounds {
    double losses, norms, weights;
};
struct bounds bounds_of(const struct pair *like);

/* `pair` against `one`; `what` for people. */
void check_like_one(const struct pair *pair, const struct bounds *bounds, const char *what);

/* Every strategy on 1 to 3 ranks against one process. */
void matrix(struct pair like, const char *what);

#endif
