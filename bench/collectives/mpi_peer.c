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

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 1; i < argc; i++) {
        size_t bytes = strtoul(argv[i], NULL, 10), count = bytes / sizeof(float);
        float *data = malloc(bytes);
        double batches[BATCHES];
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
            MPI_Barrier(MPI_COMM_WORLD);
            double from_us = MPI_Wtime() * 1e6;
            for (int c = 0; c < calls; c++)
                reduce(data, count);
            batches[b] = (MPI_Wtime() * 1e6 - from_us) / calls;
        }
        qsort(batches, BATCHES, sizeof(batches[0]), by_value);
        if (rank == 0)
            printf("{\"who\": \"openmpi\", \"bytes\": %zu, \"us\": %.4f}\n", bytes,
                   batches[BATCHES / 2]);
        free(data);
    }
    MPI_Finalize();
    return 0;
}
