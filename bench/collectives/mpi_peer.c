/* The peer: MPI_Allreduce in place, two ranks, the same sizes and batches as ours. Built by run.py
 * with mpicc where there is one.
 *
 * Usage: mpirun -n 2 mpi_peer BYTES...
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/collectives/values.h"

enum { BATCHES = 5, CALLS_MAX = 20000 };
#define BATCH_US 15000.0

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void reduce(float *data, size_t count)
{
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int calls_for(float *data, size_t count)
{
    int calls = 0;
    for (int i = 0; i < 3; i++) {
        double from_us = MPI_Wtime() * 1e6;
        reduce(data, count);
        double us = MPI_Wtime() * 1e6 - from_us;
        calls = us * CALLS_MAX < BATCH_US ? CALLS_MAX : (int)(BATCH_US / us) + 2;
    }
    MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return calls;
}

enum { WRITES = 1, REDUCES = 2 };

static double time_batch(int does, float *data, size_t count, int calls, const float *pattern)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double from_us = MPI_Wtime() * 1e6;
    for (int c = 0; c < calls; c++) {
        if (does & WRITES)
            values_rewrite(data, count, pattern);
        if (does & REDUCES)
            reduce(data, count);
    }
    return (MPI_Wtime() * 1e6 - from_us) / calls;
}

static void report(const char *who, size_t bytes, double *batches)
{
    qsort(batches, BATCHES, sizeof(batches[0]), by_value);
    printf("{\"who\": \"%s\", \"bytes\": %zu, \"us\": %.4f}\n", who, bytes, batches[BATCHES / 2]);
}

int main(int argc, char **argv)
{
    int rank;
    float pattern[PATTERN_COUNT];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    values_fill(pattern, PATTERN_COUNT, rank);
    for (int i = 1; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10), count = bytes / sizeof(float);
        float *data = malloc(bytes);
        double again[BATCHES], rewritten[BATCHES];
        if (!data)
            return 1;
        values_fill(data, count, rank);
        reduce(data, count);
        if (rank == 0)
            printf("{\"who\": \"openmpi\", \"bytes\": %zu, \"digest\": %llu}\n", bytes,
                   (unsigned long long)values_digest(data, count));
        int calls = calls_for(data, count);
        for (int b = 0; b < BATCHES; b++) {
            values_fill(data, count, rank);
            again[b] = time_batch(REDUCES, data, count, calls, pattern);
            rewritten[b] = time_batch(WRITES | REDUCES, data, count, calls, pattern) -
                           time_batch(WRITES, data, count, calls, pattern);
        }
        if (rank == 0)
            report("openmpi", bytes, again);
        if (rank == 0 && bytes >= REWRITTEN_BYTES_MIN)
            report("openmpi, rewritten", bytes, rewritten);
        free(data);
    }
    MPI_Finalize();
    return 0;
}
