/* How long something takes: batches of calls, their median; one JSON line per figure.
 */
#ifndef BENCH_COLLECTIVES_TIMING_H
#define BENCH_COLLECTIVES_TIMING_H

#include <stddef.h>

enum { BATCHES = 5, CALLS_MAX = 20000 };
#define BATCH_US 15000.0

double now_us(void);

/* Sorts. */
double quantile(double *values, size_t n, double q);

/* Calls that fill a batch when one takes `us`. */
int calls_of(double us);

/* {"who", "bytes", "us"} */
void report(const char *who, size_t bytes, double us);
void report_rewritten(const char *who, size_t bytes, double us);

/* Two processes: the kth core of those we may use; nothing where there are fewer than two. */
void bind_to_core(int rank);

#endif
