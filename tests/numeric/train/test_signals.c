/* Signals that ask a program to stop, in processes of their own. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libworker/checkpoint/list.h"
#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/ranked.h"
#include "tests/numeric/train/toy.h"

enum { AT_STEP = 3 };

struct sender {
    int number, times;
};

static void own_handler(int number)
{
    (void)number;
}

static bool send_signals(void *arg, struct wk_context *ctx)
{
    const struct sender *sender = arg;
    for (int i = 0; wk_steps(ctx) == AT_STEP && i < sender->times; i++)
        raise(sender->number);
    return false;
}

/* The wait status of a program that gets `sender`'s signals behind its third step of ten. */
static int status_of(struct sender sender, void (*disposition)(int), const char *dir)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        static struct toy toy;
        toy.stepped = send_signals;
        toy.arg = &sender;
        toy_set(&toy, "total_steps", "10");
        if (dir)
            toy_set(&toy, "checkpoint.dir", dir);
        (void)signal(sender.number, disposition);
        toy_run(&toy);
        _exit(toy.exit_code);
    }
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

static void either_ends_at_the_next_boundary_with_a_checkpoint(void)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        struct tmpdir dir = tmpdir_make();
        int status = status_of((struct sender){numbers[i], 1}, SIG_DFL, dir.path);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == WK_EXIT_STOPPED);
        CHECK(access(tmpdir_path(&dir, "step-00000003"), F_OK) == 0);
        tmpdir_remove(&dir);
    }
}

static void the_second_interrupt_ends_the_process(void)
{
    int status = status_of((struct sender){SIGINT, 2}, SIG_DFL, NULL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static void a_signal_that_the_program_handles_or_ignores_stops_nothing(void)
{
    static const int numbers[] = {SIGTERM, SIGINT};
    for (int i = 0; i < 2; i++) {
        CHECK(status_of((struct sender){numbers[i], 2}, own_handler, NULL) == 0);
        CHECK(status_of((struct sender){numbers[i], 2}, SIG_IGN, NULL) == 0);
    }
}

static bool bring_a_handler(void *arg, struct wk_context *ctx)
{
    (void)arg;
    if (wk_steps(ctx) == 1)
        (void)signal(SIGTERM, own_handler);
    return false;
}

static void a_handler_that_the_program_brought_stays(void)
{
    struct sigaction now;
    struct toy brought = {.stepped = bring_a_handler}, plain = {0};
    (void)signal(SIGINT, SIG_DFL); /* a shell's background job inherits that it is ignored */
    toy_set(&plain, "total_steps", "1");
    toy_run(&plain);
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    toy_set(&brought, "total_steps", "2");
    toy_run(&brought);
    CHECK(brought.status == 0);
    CHECK(sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == own_handler);
}

/* Of two ranks as torchrun starts them, one gets the signal behind its third step. */
static void one_rank_of_a_gang(const char *strategy, int signalled, int number)
{
    struct tmpdir dir = tmpdir_make();
    int port = ranked_port(), status;
    int64_t *steps;
    int count;
    pid_t pids[2];
    for (int rank = 0; rank < 2; rank++) {
        pids[rank] = fork();
        CHECK(pids[rank] >= 0);
        if (pids[rank])
            continue;
        static struct toy toy;
        struct ranked ranked;
        struct sender sender = {number, rank == signalled};
        ranked_init(&ranked, rank, 2, port);
        (void)signal(number, SIG_DFL);
        toy = (struct toy){.environment = &ranked.environment, .stepped = send_signals};
        toy.arg = &sender;
        toy_set(&toy, "total_steps", "200");
        toy_set(&toy, "strategy", strategy);
        toy_set(&toy, "checkpoint.dir", dir.path);
        toy_run(&toy);
        if (toy.exit_code != WK_EXIT_STOPPED)
            fprintf(stderr, "rank %d: %d %s\n", rank, toy.exit_code, toy.error);
        _exit(toy.exit_code);
    }
    for (int rank = 0; rank < 2; rank++)
        CHECK(waitpid(pids[rank], &status, 0) == pids[rank] && WIFEXITED(status) &&
              WEXITSTATUS(status) == WK_EXIT_STOPPED);
    CHECK(checkpoint_list(dir.path, &steps, &count, NULL) == 0 && count == 1);
    printf("%s, signal %d to rank %d: saved step %lld\n", strategy, number, signalled,
           (long long)steps[0]);
    CHECK(steps[0] >= AT_STEP && steps[0] <= AT_STEP + 2);
    free(steps);
    tmpdir_remove(&dir);
}

static void a_signal_to_one_rank_outside_of_muster_stops_and_saves_all(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "fsdp"};
    for (int s = 0; s < 3; s++)
        for (int rank = 0; rank < 2; rank++)
            one_rank_of_a_gang(strategies[s], rank, s + rank == 1 ? SIGTERM : SIGINT);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(either_ends_at_the_next_boundary_with_a_checkpoint),
        CHECK_CASE(the_second_interrupt_ends_the_process),
        CHECK_CASE(a_signal_that_the_program_handles_or_ignores_stops_nothing),
        CHECK_CASE(a_handler_that_the_program_brought_stays),
        CHECK_CASE(a_signal_to_one_rank_outside_of_muster_stops_and_saves_all),
        {0},
    };
    return check_all(cases, argc, argv);
}
