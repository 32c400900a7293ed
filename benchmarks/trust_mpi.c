/* A job as Open MPI programs are: computes, then adds up its gradients; logs the start of each iteration.
 *
 * Each rank writes $GRADWIRE_FOLDER/log.rN.json (docs/schemas.md), by the clock of the captures. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* 2 MiB: large enough that a step of a ring lasts longer on the link than in the processor. */
enum { ITERATIONS = 12, ELEMENTS = 524288, COMPUTE_NS = 50000000 };

static long long now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    float *given = calloc(ELEMENTS, sizeof *given), *sum = calloc(ELEMENTS, sizeof *sum);
    long long began[ITERATIONS], ready[ITERATIONS];
    for (int i = 0; i < ITERATIONS; i++) {
        began[i] = now_ns(CLOCK_REALTIME);
        struct timespec rest = {0, COMPUTE_NS};
        nanosleep(&rest, NULL);
        ready[i] = now_ns(CLOCK_REALTIME);
        MPI_Allreduce(given, sum, ELEMENTS, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    const char *folder = getenv("GRADWIRE_FOLDER");
    char path[4096];
    snprintf(path, sizeof path, "%s/log.r%d.json", folder ? folder : ".", rank);
    FILE *log = fopen(path, "w");
    if (!log) {
        perror(path);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fprintf(log, "{\"rank\": %d, \"events\": [", rank);
    for (int i = 0; i < ITERATIONS; i++)
        fprintf(log, "%s{\"k\": \"iter0\", \"it\": %d, \"t\": %lld}, {\"k\": \"bucket_ready\", \"it\": %d, \"t\": %lld, \"n\": %zu, \"b\": 0}",
                i ? ", " : "", i, began[i], i, ready[i], ELEMENTS * sizeof *given);
    fprintf(log, "]}\n");
    fclose(log);
    free(given);
    free(sum);
    MPI_Finalize();
}
