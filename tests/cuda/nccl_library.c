/* NCCL's library is opened beside the program (libworker/cuda/nccl_library.h). Orders are proven by
 * a library whose constructor waits until the test lets it go on (nccl_gate.c).
 *
 *     cuda_nccl_library [CASE]
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include <worker/error.h>

#include "libworker/cuda/nccl_library.h"
#include "tests/cuda/nccl_gate.h"
#include "tests/lib/check.h"

static struct cuda_device device;
static int heard[2], gate[2]; /* pipes: from the constructor, to it */
static bool is_forked;        /* the thread is of another process */

int __real_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *changed, pthread_mutex_t *lock)
{
    if (is_forked) { /* without the loader, which the thread had locked */
        (void)fprintf(stderr, "not so: only the process that made a thread waits for it\n");
        _exit(1);
    }
    return __real_pthread_cond_wait(changed, lock);
}

/* What a case does, in a process that has not opened the library. */
static void apart(void (*run)(void), bool gated)
{
    char text[32];
    int status;
    CHECK(pipe2(heard, 0) == 0 && pipe2(gate, 0) == 0);
    (void)snprintf(text, sizeof(text), "%d %d", heard[1], gate[0]);
    CHECK(gated ? setenv(GATE_VARIABLE, text, 1) == 0 : unsetenv(GATE_VARIABLE) == 0);
    CHECK(fflush(stdout) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(CHECK_LIMIT_S);
        CHECK(setenv("MUSTER_NCCL", GATED_NCCL, 1) == 0);
        run();
        exit(0); /* as programs do: with the destructors of libraries */
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(close(heard[i]) == 0 && close(gate[i]) == 0);
}

static char hear(void)
{
    char byte = 0;
    CHECK(read(heard[0], &byte, 1) == 1);
    return byte;
}

static void open_gate(void)
{
    CHECK(write(gate[1], "g", 1) == 1);
}

static void open_well(void)
{
    struct error err = {0};
    struct nccl_api api = {0};
    if (nccl_library_open(&device, &api, &err))
        (void)fprintf(stderr, "%s\n", err.text);
    CHECK(!*err.text && api.version == NCCL_VERSION_CODE && api.AllReduce);
}

static void close_device(void)
{
    if (device.nccl_close)
        device.nccl_close(&device);
    CHECK(!device.nccl);
}

/* It has begun on a thread of its own, and waits, when begin has returned. */
static void begin_and_go_on(void)
{
    nccl_library_begin(&device);
    CHECK(hear() == GATE_ASIDE);
    nccl_library_begin(&device); /* changes nothing */
    open_gate();
    open_well();
    open_well();
    close_device();
}

static void the_program_goes_on_while_it_is_opened(void)
{
    apart(begin_and_go_on, true);
}

static void open_alone(void)
{
    open_well();
    CHECK(hear() == GATE_MAIN);
    close_device();
}

static void without_a_beginning_it_is_opened_when_needed(void)
{
    apart(open_alone, true);
}

/* The environment is the program's again once begin has returned. */
static void begin_and_rename(void)
{
    nccl_library_begin(&device);
    CHECK(setenv("MUSTER_NCCL", "/nowhere.so", 1) == 0);
    open_well();
    close_device();
}

static void the_name_is_that_of_the_beginning(void)
{
    apart(begin_and_rename, false);
}

static void refused(const char *sentence)
{
    struct nccl_api api;
    struct error err = {0};
    CHECK(nccl_library_open(&device, &api, &err) == WK_EUNAVAILABLE);
    if (!strstr(err.text, sentence))
        (void)fprintf(stderr, "%s\n", err.text);
    CHECK(strstr(err.text, sentence));
    CHECK(nccl_library_open(&device, &api, NULL) == WK_EUNAVAILABLE);
}

static void find_none(void)
{
    static const char sentence[] = "no NCCL for collectives between GPUs (/nowhere.so: cannot open "
                                   "shared object file: No such file or directory): install it, or "
                                   "set MUSTER_NCCL to the path of libnccl.so.2";
    CHECK(setenv("MUSTER_NCCL", "/nowhere.so", 1) == 0);
    nccl_library_begin(&device);
    refused(sentence);
    refused(sentence);
    close_device();
    refused(sentence); /* without a thread */
    close_device();
}

static void find_old(void)
{
    CHECK(setenv("FAKE_NCCL_VERSION", "22703", 1) == 0);
    nccl_library_begin(&device);
    refused("NCCL 2.27.3 is too old for collectives between GPUs, 2.28 is the oldest");
    close_device();
}

static void an_open_has_the_error_of_the_thread(void)
{
    apart(find_none, false);
    apart(find_old, false);
}

/* Only the loader's thread is there to open the gate to: the end waits for it, and ends. */
static void end_by_close(void)
{
    nccl_library_begin(&device);
    CHECK(hear() == GATE_ASIDE);
    open_gate();
    close_device();
}

static void end_by_exit(void)
{
    nccl_library_begin(&device);
    CHECK(hear() == GATE_ASIDE);
    open_gate();
}

static void a_program_may_end_at_once(void)
{
    apart(end_by_close, true);
    apart(end_by_exit, true);
}

static void fork_meanwhile(void)
{
    int status;
    nccl_library_begin(&device);
    CHECK(hear() == GATE_ASIDE);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        is_forked = true;
        refused("no NCCL in a process that was forked while it was opened: start the process by "
                "exec");
        close_device();
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    open_gate();
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    open_well();
    close_device();
}

static void a_forked_process_does_not_wait_for_the_thread(void)
{
    apart(fork_meanwhile, true);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(the_program_goes_on_while_it_is_opened),
        CHECK_CASE(without_a_beginning_it_is_opened_when_needed),
        CHECK_CASE(the_name_is_that_of_the_beginning),
        CHECK_CASE(an_open_has_the_error_of_the_thread),
        CHECK_CASE(a_program_may_end_at_once),
        CHECK_CASE(a_forked_process_does_not_wait_for_the_thread),
        {0},
    };
    return check_all(cases, argc, argv);
}
