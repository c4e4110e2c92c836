/* Each mistake of mistakes.c is found with every seed, whatever order the seed draws, and the same
 * program without it has no finding.
 *
 *     device_mistakes [NAME [SEED]]     prints the findings of one mistake
 *
 * A child runs a program with one seed after another and writes what it finds; if it dies of a
 * finding by memory protection, another child goes on with the next seed. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/rehearsal.h"
#include "tests/conformance/device/mistakes.h"
#include "tests/conformance/device/programs.h"

enum { SEEDS = 200, TEXT_MAX = 1 << 20 };

static char text[TEXT_MAX]; /* what the children of one program wrote */

static void say(int to, const char *line)
{
    CHECK(write(to, line, strlen(line)) == (ssize_t)strlen(line));
    CHECK(write(to, "\n", 1) == 1);
}

static void on_finding(void *self, const char *sentence)
{
    say(*(const int *)self, sentence);
}

static void run_one(const struct mistake *mistake, bool wrong, uint64_t seed, int to)
{
    char line[64];
    struct device *device = NULL;
    struct rehearsal_options options = {.seed = seed, .found = on_finding, .self = &to};
    snprintf(line, sizeof(line), "seed %" PRIu64, seed);
    say(to, line);
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    int order = mistake->run(device, wrong);
    device_free(device);
    snprintf(line, sizeof(line), "ran order %d", order);
    say(to, line);
}

static void child_main(const struct mistake *mistake, bool wrong, uint64_t first, int to)
{
    for (uint64_t seed = first; seed < SEEDS; seed++)
        run_one(mistake, wrong, seed, to);
    _exit(0);
}

/* Append to `text` what a child says from seed `first` on; returns its wait status. */
static int child_run(const struct mistake *mistake, bool wrong, uint64_t first, size_t *length)
{
    int pipes[2], status = 0;
    CHECK(pipe(pipes) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        child_main(mistake, wrong, first, pipes[1]);
    close(pipes[1]);
    for (;;) {
        ssize_t n = read(pipes[0], text + *length, TEXT_MAX - 1 - *length);
        CHECK(n >= 0 || errno == EINTR);
        if (n == 0)
            break;
        *length += n > 0 ? (size_t)n : 0;
    }
    text[*length] = '\0';
    close(pipes[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return status;
}

/* The text of one seed: from behind its line to the next one's. */
static const char *text_of(uint64_t seed, const char **ret_end)
{
    char line[64];
    snprintf(line, sizeof(line), "seed %" PRIu64 "\n", seed);
    const char *at = strstr(text, line);
    CHECK(at);
    at += strlen(line);
    snprintf(line, sizeof(line), "seed %" PRIu64 "\n", seed + 1);
    *ret_end = strstr(at, line);
    if (!*ret_end)
        *ret_end = at + strlen(at);
    return at;
}

static void run_all(const struct mistake *mistake, bool wrong)
{
    size_t length = 0;
    uint64_t next = 0;
    while (next < SEEDS) {
        int status = child_run(mistake, wrong, next, &length);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return;
        const char *end;
        while (next < SEEDS - 1) {
            char line[64];
            snprintf(line, sizeof(line), "seed %" PRIu64 "\n", next + 1);
            if (!strstr(text, line))
                break;
            next++;
        }
        text_of(next, &end);
        if (!wrong || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) {
            fprintf(stderr, "%s, seed %" PRIu64 ": status %x\n%s", mistake->name, next,
                    (unsigned)status, text_of(next, &end));
            exit(1);
        }
        next++;
    }
}

/* The first line has the parts that the mistake says. */
static bool is_as_said(const struct mistake *mistake, const char *at)
{
    const char *end = strchr(at, '\n');
    for (size_t i = 0; i < sizeof(mistake->says) / sizeof(*mistake->says); i++) {
        if (!mistake->says[i])
            break;
        at = strstr(at, mistake->says[i]);
        if (!at || !end || at > end)
            return false;
    }
    return true;
}

static void check_mistake(const struct mistake *mistake)
{
    int orders[2] = {0};
    run_all(mistake, true);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const char *end, *at = text_of(seed, &end);
        if (!is_as_said(mistake, at)) {
            fprintf(stderr, "%s, seed %" PRIu64 ": not found, but: %.*s\n", mistake->name, seed,
                    (int)(end - at), at);
            exit(1);
        }
        const char *order = strstr(at, "ran order ");
        if (order && order < end)
            orders[order[10] - '0']++;
    }
    CHECK(!mistake->both || (orders[0] > 0 && orders[1] > 0));
    run_all(mistake, false);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const char *end, *at = text_of(seed, &end);
        if (strncmp(at, "ran order ", 10) != 0) {
            fprintf(stderr, "%s, seed %" PRIu64 ": found without the mistake: %.*s\n",
                    mistake->name, seed, (int)(end - at), at);
            exit(1);
        }
    }
    printf("ok %s", mistake->name);
    if (mistake->both)
        printf(" (%d of %d seeds in the order that hides it)", orders[1], SEEDS);
    printf("\n");
}

/* Without a function for findings the program ends with the sentence. */
static void check_default(void)
{
    for (int fatal = 0; fatal < 2; fatal++) {
        int pipes[2], status = 0;
        char said[REHEARSAL_SENTENCE_MAX * 2] = "";
        CHECK(pipe(pipes) == 0);
        fflush(NULL);
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            struct device *device = NULL;
            CHECK(dup2(pipes[1], STDERR_FILENO) >= 0);
            CHECK(rehearsal_new(&(struct rehearsal_options){0}, &device, NULL) == 0);
            char *memory = device_buffer(device, 64);
            if (fatal)
                *(volatile char *)memory = 1;
            device_free(device);
            _exit(0);
        }
        close(pipes[1]);
        CHECK(read(pipes[0], said, sizeof(said) - 1) > 0);
        close(pipes[0]);
        CHECK(waitpid(pid, &status, 0) == pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        CHECK(strstr(said, fatal ? "host code writes byte 0 of device memory 1 (64 bytes)"
                                 : "device memory 1 (64 bytes) was not freed"));
    }
    printf("ok the_program_ends_with_the_sentence\n");
}

static void check_one_at_a_time(void)
{
    struct device *device = NULL, *second = NULL;
    struct error err = {0};
    CHECK(rehearsal_new(&(struct rehearsal_options){0}, &device, NULL) == 0);
    CHECK(rehearsal_new(&(struct rehearsal_options){0}, &second, &err) < 0 && !second);
    CHECK(strstr(err.text, "has a rehearsal device already"));
    device_free(device);
    CHECK(rehearsal_new(&(struct rehearsal_options){0}, &device, NULL) == 0);
    device_free(device);
    printf("ok one_at_a_time\n");
}

int main(int argc, char **argv)
{
    alarm(CHECK_LIMIT_S);
    int ran = 0;
    if (FIBERS) {
        printf("SKIPPED: device_mistakes: ThreadSanitizer reports mistakes itself\n");
        return 0;
    }
    for (const struct mistake *mistake = mistakes; mistake->name; mistake++) {
        if (argc > 1 && strcmp(argv[1], mistake->name) != 0)
            continue;
        ran++;
        if (argc > 2)
            run_one(mistake, true, strtoull(argv[2], NULL, 10), STDOUT_FILENO);
        else
            check_mistake(mistake);
        fflush(stdout);
    }
    if (argc == 1) {
        check_default();
        check_one_at_a_time();
    }
    return ran ? 0 : 2;
}
