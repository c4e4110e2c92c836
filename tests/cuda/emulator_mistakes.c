/* Each class of mistake that a kernel can have is found, and its right twin is not. A mistake is
 * found by a sentence of the emulator or of a sanitizer, or because the result is wrong. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emulated/emulated.h"
#include "tests/cuda/emulated/fiber.h"
#include "tests/cuda/planted.h"

enum { SEEDS = EMULATED_TSAN ? 1 : 4, TEXT_MAX = 1 << 16 };

enum finder { BY_EMULATOR, BY_RESULT, BY_MARGIN, BY_ASAN, BY_UBSAN, BY_TSAN };

struct row {
    const char *name;
    int (*run)(int wrong);
    enum finder finder;
    const char *words; /* NULL: the result is wrong */
    bool races;        /* ThreadSanitizer reports it, too */
};

static const struct row rows[] = {
    {"missing_barrier", planted_missing_barrier, BY_RESULT, NULL, true},
    {"missing_second_barrier", planted_missing_second_barrier, BY_RESULT, NULL, true},
    {"missing_warp_barrier", planted_missing_warp_barrier, BY_RESULT, NULL, true},
    {"uninitialised_shared", planted_uninitialised_shared, BY_RESULT, NULL, false},
    {"global_past_the_end", planted_global_past_the_end, BY_ASAN, "heap-buffer-overflow", false},
    {"shared_past_the_end", planted_shared_past_the_end, BY_MARGIN,
     "tile was written 0 bytes past its end", false},
    {"dynamic_past_the_end", planted_dynamic_past_the_end, BY_MARGIN,
     "the launch's shared memory was written 0 bytes past its end", false},
    {"diverging_barrier", planted_diverging_barrier, BY_EMULATOR, "waits at __syncthreads of",
     false},
    {"early_end", planted_early_end, BY_EMULATOR, "end", false},
    {"wrong_mask", planted_wrong_mask, BY_EMULATOR, "__shfl_sync", false},
    {"reads_outside_the_mask", planted_reads_outside_the_mask, BY_EMULATOR,
     "reads lane 17, which the mask 0xffff leaves out", false},
    {"half_a_warp", planted_half_a_warp, BY_EMULATOR, "which the block does not have", false},
    {"two_operations", planted_two_operations, BY_EMULATOR, "while others of the mask", false},
    {"deadlock", planted_deadlock, BY_EMULATOR, "which waits at __syncwarp of", false},
    {"copy_not_waited_for", planted_copy_not_waited_for, BY_RESULT, NULL, false},
    {"copy_without_barrier", planted_copy_without_barrier, BY_RESULT, NULL, true},
    {"copy_forgotten", planted_copy_forgotten, BY_EMULATOR, "without waiting for", false},
    {"misaligned_vector", planted_misaligned_vector, BY_UBSAN, "misaligned address", false},
    {"empty_grid", planted_empty_grid, BY_EMULATOR, "a launch of nothing", false},
    {"large_block", planted_large_block, BY_EMULATOR, "1024 threads", false},
    {"much_shared", planted_much_shared, BY_EMULATOR, "bytes of shared memory; at most", false},
    {"much_static", planted_much_static, BY_EMULATOR, "bytes of arrays in shared memory", false},
    {"racing_blocks", planted_racing_blocks, BY_TSAN, NULL, true},
};

struct outcome {
    bool right; /* ended by itself with a right result */
    char text[TEXT_MAX];
};

/* In a child, whose words are kept. */
static void run_row(const struct row *row, int wrong, uint64_t seed, struct outcome *ret)
{
    int pipes[2], status = 0;
    if (pipe(pipes))
        abort();
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        (void)dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        emulated_set_seed(seed);
        exit(row->run(wrong));
    }
    close(pipes[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(pipes[0], ret->text + used, TEXT_MAX - 1 - used)) > 0;)
        used += (size_t)n;
    ret->text[used] = '\0';
    close(pipes[0]);
    if (waitpid(child, &status, 0) != child)
        abort();
    ret->right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether this build has what finds the mistake. */
static bool can_find(const struct row *row)
{
    switch (row->finder) {
    case BY_EMULATOR:
    case BY_RESULT:
    case BY_MARGIN:
        return true;
    case BY_ASAN:
    case BY_UBSAN:
        return EMULATED_ASAN;
    case BY_TSAN:
        return EMULATED_TSAN;
    }
    return false;
}

static bool has_words(const struct row *row, const struct outcome *outcome)
{
    if (EMULATED_TSAN && row->races)
        return strstr(outcome->text, "data race") != NULL;
    if (EMULATED_ASAN && row->finder == BY_MARGIN)
        return strstr(outcome->text, "buffer-overflow") || strstr(outcome->text, "out of bounds");
    return !row->words || strstr(outcome->text, row->words);
}

static int check_row(const struct row *row)
{
    static struct outcome outcome;
    int found = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        run_row(row, 0, seed, &outcome);
        if (!outcome.right || outcome.text[0]) {
            printf("%s: seed %d: the right program fails: %s\n", row->name, (int)seed,
                   outcome.text);
            return 1;
        }
        run_row(row, 1, seed, &outcome);
        if (!outcome.right && has_words(row, &outcome))
            found++;
    }
    if (!can_find(row)) {
        printf("SKIPPED: %s: this build has no sanitizer that finds it\n", row->name);
        return 0;
    }
    if (found == SEEDS)
        printf("ok %s\n", row->name);
    else
        printf("%s: found with %d of %d seeds; it said: %s\n", row->name, found, SEEDS,
               outcome.text);
    return found < SEEDS;
}

int main(void)
{
    int failed = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        failed |= check_row(&rows[i]);
    return failed;
}
