/* A rank that failed sends its failure to one rank after the other. Those who hear first may leave
 * before the last one hears: their goodbye must tell it what failed. Rank 1 is held between its
 * first and its second message until rank 2 has returned. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/conformance/comm/ranks.h"

enum { PATIENCE_MS = 60000 };

struct shared {
    _Atomic int returned; /* rank 2 */
    int code[RANKS_MAX];
    char text[RANKS_MAX][512];
};

static struct shared *held; /* in rank 1, from its abort on */
static int sent;

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    for (int ms = 0; held && sent > 0 && !held->returned && ms < PATIENCE_MS; ms++)
        usleep(1000);
    sent += held != NULL;
    return __real_send(fd, data, bytes, flags);
}

static int abort_in_rank_1(struct wk_comm *comm, int rank, int rc, const struct ranks *ranks)
{
    struct shared *s = ranks->arg;
    float data[8] = {0};
    if (rc != 0)
        return 1;
    wk_barrier(comm, NULL);
    if (rank == 1) {
        held = s;
        wk_comm_abort(comm);
    }
    s->code[rank] = wk_all_reduce(comm, data, 8, WK_F32, WK_SUM, NULL);
    snprintf(s->text[rank], sizeof(s->text[rank]), "%s", wk_comm_error(comm));
    s->returned |= rank == 2;
    return 0;
}

int main(void)
{
    int failures = 0;
    struct shared *s = ranks_shared(sizeof(*s));
    for (enum ranks_hosts hosts = HOSTS_SHARED; hosts <= HOSTS_MIXED; hosts++) {
        struct ranks ranks = {.kind = RANKS_PROCESSES,
                              .hosts = hosts,
                              .world = 3,
                              .timeout_ms = PATIENCE_MS,
                              .generation = 5,
                              .wrong_secret_of = -1,
                              .arg = s};
        memset(s, 0, sizeof(*s));
        failures += ranks_run(&ranks, abort_in_rank_1) != 0;
        for (int r = 0; r < 3; r++) {
            if (s->code[r] == WK_EABORT && strcmp(s->text[r], "aborted by rank 1") == 0)
                continue;
            failures++;
            printf("FAILED %s: rank %d: %s\n", ranks_hosts_name(hosts), r, s->text[r]);
        }
    }
    return failures != 0;
}
